"""flexchat tools lint: what each service makes of each tool."""

import json
from pathlib import Path

import attrs
import pytest
from flexchat.app import installed_plugins
from flexchat_sdk import SchemaDialect

FREE = SchemaDialect(name="free")
HARD = SchemaDialect(name="free.hard", keywords={"pattern": "refuse", "minLength": "note", "title": "drop"})
FLAT = SchemaDialect(name="flat", keywords={"$ref": "write out", "pattern": "note"})


@pytest.fixture(autouse=True)
def _dialects(monkeypatch):
    """Two providers that say what they take, in place of what is installed."""

    def plugins(*args):
        host = installed_plugins(*args)
        kinds = host.providers.by_name
        any_kind = kinds["scripted"]
        for name in [name for name in kinds if kinds[name].schema_dialects]:
            del kinds[name]
        kinds["free"] = attrs.evolve(any_kind, name="free", schema_dialects={"free": FREE, "free.hard": HARD})
        kinds["flat"] = attrs.evolve(any_kind, name="flat", schema_dialects={"flat": FLAT})
        return host

    monkeypatch.setattr("flexchat.assembly.installed_plugins", plugins)


@pytest.fixture
def file(tmp_path):
    """Write a file of tools: the parameters of each by name."""

    def write(**tools):
        path = tmp_path / "tools.json"
        entries = [
            {"name": name, "description": "d", "parameters": {"type": "object", "properties": {"p": form}}}
            for name, form in tools.items()
        ]
        path.write_text(json.dumps(entries))
        return str(path)

    return write


def test_each_tool_says_what_becomes_of_it_in_each_mode(run, file):
    """Accepted, rewritten (what is lost), refused (why, and what to do); modes that agree stand together."""
    ran = run("tools", "lint", "--tools", file(plain={"type": "string"}, hard={"type": "string", "pattern": "x"}))

    assert ran.status == 0  # free takes it in one of its modes
    assert ran.out == (
        "plain\n"
        "  accepted   free, free.hard, flat\n"
        "hard\n"
        "  accepted   free\n"
        "  refused    free.hard\n"
        "      /properties/p: the service does not accept pattern; remove it, and put it into the description\n"
        "  rewritten  flat\n"
        "      /properties/p: the service does not accept pattern: it is mentioned in the description\n"
        "2 tools: 4 accepted, 1 rewritten, 1 refused\n"
    )


def test_what_is_rewritten_without_loss_is_named_in_short(run, file):
    """With -v in full."""
    tools = file(t={"type": "string", "title": "T"})

    assert "      without loss: title\n" in run("tools", "lint", "--tools", tools).out
    assert "/properties/p: title is left out\n" in run("tools", "lint", "-v", "--tools", tools).out


@pytest.mark.parametrize(("provider", "status"), [("free", 0), ("free.hard", 1), ("flat", 1), ("all", 1)])
def test_the_status_is_1_when_a_selected_provider_refuses_a_tool(run, file, provider, status):
    """A provider refuses what it takes in none of the selected modes."""
    tools = file(hard={"type": "string", "pattern": "x"}, loop={"$ref": "#"})

    assert run("tools", "lint", "--tools", tools, "--provider", provider).status == status


def test_json_has_a_stable_shape(run, file):
    """findings (tool, provider, dialect, outcome, notes) and refused (tool, provider)."""
    ran = run("tools", "lint", "--json", "--provider", "flat", "--tools", file(loop={"$ref": "#"}, ok={}))

    report = json.loads(ran.out)
    [loop, ok] = report["findings"]
    assert ran.status == 1
    assert report["refused"] == [{"tool": "loop", "provider": "flat"}]
    assert ok == {"tool": "ok", "provider": "flat", "dialect": "flat", "outcome": "accepted", "notes": []}
    assert loop["outcome"] == "refused"
    assert loop["notes"][-1].keys() == {"severity", "pointer", "keyword", "message"}


def test_without_a_file_the_tools_of_the_configuration_are_linted(run, script):
    """And where its services say nothing of schemas, for every installed provider."""
    script()

    ran = run("tools", "lint")

    assert ran.status == 0
    assert ran.out.startswith("calculator\n")
    assert "free.hard" in ran.out
    assert "flat" in ran.out


def test_no_tools_are_told(run, script):
    script(tools="registry = []")

    ran = run("tools", "lint")

    assert (ran.status, ran.out) == (0, "")
    assert "no tools" in ran.err


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "function", "function": {"name": "t", "description": "d", "parameters": {"type": "object"}}},
        {"name": "t", "description": "d", "parameters": {"type": "object"}},
        {"name": "t", "description": "d", "inputSchema": {"type": "object"}},
        {"name": "t", "description": "d", "input_schema": {"type": "object"}},
        {"name": "t", "description": "d"},
    ],
)
def test_a_file_may_have_tools_in_any_of_the_usual_shapes(run, tmp_path, entry):
    """OpenAI's two, MCP's and Anthropic's; a list, or an object with tools."""
    path = tmp_path / "t.json"
    for data in ([entry], {"tools": [entry]}):
        path.write_text(json.dumps(data))

        assert run("tools", "lint", "--tools", str(path), "--provider", "free").out.startswith("t\n  accepted   free")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (5, "a tool must be an object with name, description and parameters"),
        ({"name": "t"}, "Tool must have name and description"),
        ({"name": "a b", "description": "d"}, "must be 1 to 128"),
        ({"name": "t", "description": "d", "parameters": {"type": "string"}}, "must be an object schema"),
        (
            {"name": "t", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "float"}}}},
            "did you mean 'number'?",
        ),
    ],
)
def test_what_is_no_tool_is_refused_by_all_with_the_reason(run, tmp_path, entry, words):
    """The other tools of the file are linted all the same."""
    (tmp_path / "t.json").write_text(json.dumps([entry, {"name": "good", "description": "d"}]))

    ran = run("tools", "lint", "--tools", "t.json")

    assert ran.status == 1
    assert words in " ".join(ran.out.split())
    assert ran.out.startswith("good\n  accepted   free, free.hard, flat\n")
    assert ran.out.count(" refused ") == 1  # said once, and not for each mode


def test_two_tools_of_one_name_cannot_both_be_sent(run, tmp_path):
    """Nor are two that cannot be used taken for one."""
    (tmp_path / "t.json").write_text(json.dumps([{"name": "t", "description": "d"}, {"name": "t"}, {"name": "u"}] * 2))

    ran = run("tools", "lint", "--tools", "t.json")

    assert ran.status == 1
    assert "t (tool 4)\n  refused    free, free.hard, flat\n      an earlier tool already has this name" in ran.out
    assert "6 tools: 3 accepted, 0 rewritten, 15 refused" in ran.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff", "is not UTF-8: see line 1"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"5", "must contain a list of tools"),
        (None, "--tools t.json: there is no such file"),
    ],
)
def test_a_file_that_holds_no_tools_is_a_usage_error(run, tmp_path, content, words):
    if content is not None:
        (tmp_path / "t.json").write_bytes(content)

    ran = run("tools", "lint", "--tools", "t.json")

    assert ran.status == 2
    assert words in ran.err


def test_a_file_with_an_empty_list_is_named(run, tmp_path):
    """The configuration has nothing to do with it."""
    (tmp_path / "t.json").write_text("[]")

    assert run("tools", "lint", "--tools", "t.json").err == "no tools: t.json has none\n"


def test_an_unknown_provider_is_a_usage_error_with_the_nearest_name(run, file):
    tools = file(t={})

    assert "did you mean 'flat'?" in run("tools", "lint", "--tools", tools, "--provider", "flaat").err
    assert "does not declare which schemas it accepts" in run("tools", "lint", "--provider", "rehearsal").err
    assert run("tools", "lint", "--provider", "flaat").status == 2


def test_fix_prints_what_a_better_spelling_helps_and_touches_no_file(run, file):
    """Definitions to paste on standard output, what is left to do on standard error."""
    form = {"allOf": [{"type": "string", "title": "T"}], "pattern": "x"}
    path = file(better={**form}, same={"type": "string"})
    before = Path(path).read_bytes()

    ran = run("tools", "lint", "--fix", "--tools", path, "--provider", "free.hard")

    [fixed] = json.loads(ran.out)
    assert fixed == {
        "name": "better",
        "description": "d",
        "parameters": {"type": "object", "properties": {"p": {"type": "string", "pattern": "x"}}},
    }
    assert "the service does not accept pattern" in ran.err
    assert ran.status == 1
    assert Path(path).read_bytes() == before


def test_lines_are_broken_for_a_narrow_terminal(run, file, monkeypatch):
    """No line is longer than the terminal, but for single words."""
    monkeypatch.setenv("COLUMNS", "40")

    ran = run("tools", "lint", "--tools", file(hard={"type": "string", "pattern": "x"}), terminal=True)

    assert all(len(line) <= 52 for line in ran.out.splitlines())
    assert any(len(line) <= 40 and "remove it" in line for line in ran.out.splitlines())
