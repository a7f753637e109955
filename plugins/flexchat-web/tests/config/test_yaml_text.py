"""YAML texts: changed in place, and written so that they are read as they were meant."""

import pytest
from flexchat.config.document import parse_document
from flexchat_sdk import dumped_yaml
from flexchat_web.config.editing import edit
from flexchat_web.problems import ApiError
from hypothesis import given
from hypothesis import strategies as st

YAML = """\
# The head.
title: x # behind

llms:
    a: # the first
        provider: openai
        base_url: 'http://a'
    # Before b.
    b: {provider: ollama, list: [1, 2]}

responses:
    -   llm: a
        prompt: |
            Two
            lines
    -   llm: b # second
"""


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ({"path": ["llms", "a", "base_url"], "value": "http://b"}, "http://a", "http://b"),
        ({"path": ["llms", "b", "list"], "insert": 3}, "[1, 2]", "[1, 2, 3]"),
        ({"path": ["responses", 1, "llm"], "value": "on"}, "llm: b #", "llm: on #"),
        ({"path": ["title"], "value": None}, "title: x #", "title:   #"),
        ({"path": ["tools"], "value": {"max_iterations": 3}}, "second\n", "second\ntools:\n    max_iterations: 3\n"),
    ],
)
def test_yaml_is_changed_in_place_and_the_rest_stays_to_the_letter(change, old, new):
    """Comments, quotes, indentation and blocks."""
    assert edit(YAML, "flexchat.yaml", [change]) == YAML.replace(old, new)


@pytest.mark.parametrize("wide", [1, 2, 3, 4, 8])
def test_tables_keep_their_indentation_whatever_stands_first(wide):
    """The first line that is indented may belong to a list, a block of text or a comment."""
    lines = ["responses:", "  - llm: a", "    model: m  # its", "    prompt: |"]
    lines += [f"    {' ' * wide}x:", f"    {' ' * wide} y", "llms:", "# b"]
    lines += [f"{' ' * wide}b:   # the second", "", f"{' ' * wide * 2}provider: p   # kept", ""]
    text = "\n".join(lines)

    assert edit(text, "a.yaml", [{"path": ["responses", 0, "model"], "value": "n"}]) == text.replace("m  #", "n  #")


def test_what_an_alias_stands_for_is_not_changed_behind_its_back():
    """The other place would change, too; written anew the file would lose its anchors."""
    text = "a: &x {k: 1}\nb: *x\n"

    with pytest.raises(ApiError, match=r"alias \(\*\) stands there: edit the file by hand"):
        edit(text, "flexchat.yaml", [{"path": ["b", "k"], "value": 2}])
    assert edit(text, "flexchat.yaml", [{"path": ["c"], "value": 2}]) == text + "c: 2\n"


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(TEXTS, TEXTS | st.floats(allow_nan=False, allow_infinity=False) | st.integers(), max_size=4))
def test_what_is_written_is_read_back(data):
    """Line breaks that YAML folds, numbers to their last digit, texts that look like something else."""
    data = {key: value for key, value in data.items() if key not in ("<<", "")}

    assert parse_document(dumped_yaml(data), "a.yaml").data == data
