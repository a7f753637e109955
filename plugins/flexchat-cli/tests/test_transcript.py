"""A turn as a person sees it: where the answer comes from."""

import pytest
from flexchat.domain import Citation, MediaPart, ToolCallRecord, ToolFinished, ToolResult, TurnInfo
from flexchat_cli.terminal import Terminal
from flexchat_cli.transcript import Transcript, format_result, format_sources

CONFIG = """
[stores.notes]
provider = "memory"
documents = [{{ text = "Cats fear water", title = "Cats", source = "animals/cats.md", collection = "all" }}]

[llms.script]
provider = "scripted"
replies = [{{ text = "Cats do, says Cats." }}, {{ text = "Again." }}]

[[responses]]
llm = "script"
model = "script"
prompt = "{prompt}"
"""


def cited(title, source=None, *, named=False, collection="all"):
    return Citation(title=title, source=source, collection=collection, named=named)


@pytest.fixture
def config(tmp_path):
    def write(prompt="{{rag_context}}"):
        (tmp_path / "flexchat.toml").write_text(CONFIG.format(prompt=prompt))

    return write


def test_the_sources_of_an_answer_stand_under_it_on_standard_error(run, config):
    config()

    ran = run("ask", "cats fear water")

    assert ran.out == "Cats do, says Cats.\n"
    assert ran.err == "sources: Cats (animals/cats.md)\n"


def test_a_conversation_shows_sources_too(run, config):
    config()

    assert "sources: Cats (animals/cats.md)" in run("chat", stdin="cats fear water\n").err


def test_an_answer_without_documents_has_no_sources(run, config):
    config(prompt="Answer.")

    assert "sources" not in run("ask", "cats fear water").err


def test_sources_are_those_the_answer_names_else_all():
    tea, roses = cited("Tea", "tea.md", named=True), cited("Roses", "roses.md")

    assert format_sources([roses, tea]) == "Tea (tea.md)"
    assert format_sources([roses, cited("Tea", "tea.md")]) == "Roses (roses.md), Tea (tea.md)"


@pytest.mark.parametrize(
    ("title", "source", "spoken"),
    [
        ("Tea", None, "Tea"),
        ("tea.md", "notes/tea.md", "notes/tea.md"),
        ("", "notes/tea.md", "notes/tea.md"),
        ("a\nb", "c\nd", "a b (c d)"),
        ("x" * 500, None, "x" * 78 + " …"),
    ],
)
def test_a_source_is_one_short_line(title, source, spoken):
    assert format_sources([cited(title, source)]) == spoken


def test_a_source_is_told_once_and_of_many_the_first_five():
    many = [cited(f"T{n}", "f.md", collection=c) for n in range(7) for c in ("a", "b")]

    assert format_sources(many) == ", ".join(f"T{n} (f.md)" for n in range(5)) + " and 2 more"


PICTURE = MediaPart(kind="image", mime_type="image/png", data=b"x" * 12_345, name="a.png")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"result": {"a": 1}}, '{"a": 1}'),
        ({"result": {"a": 1}, "media": (PICTURE,)}, '{"a": 1} [image/png, 12 kB]'),
        ({"media": (PICTURE, PICTURE)}, "[image/png, 12 kB] [image/png, 12 kB]"),
        ({"result": "", "left_out": ("b.svg: left out",)}, "[b.svg: left out]"),
    ],
)
def test_a_result_is_told_with_what_came_beside_it(result, said):
    """In a few words: a terminal shows no images."""
    made = ToolResult(success=True, tool_name="t", **result)

    assert format_result(ToolCallRecord(tool="t", params={}, result=made, iteration=1)) == said


def test_a_long_note_leaves_room_for_the_result():
    lines = []
    transcript = Transcript(Terminal(), lambda line, style: lines.append(line))
    result = ToolResult(success=True, tool_name="t", result="paid 250 to Ann", notes=("x" * 200,))

    transcript.show(
        ToolFinished(info=TurnInfo(), record=ToolCallRecord(tool="t", params={}, result=result, iteration=1))
    )

    assert '"paid 250 to Ann"' in lines[0]
    assert lines[0].endswith(f"{'x' * 200})")
