"""Thoughts and calls in the text of an answer are separated from it, however the network cuts the text."""

import itertools
from typing import Any

import pytest
from flexchat_sdk import ChatOptions, TextReader, offered_names
from hypothesis import given
from hypothesis import strategies as st

CALL = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
TOOLS = frozenset({"f"})


def read(*pieces: str, **settings: Any) -> dict[str, Any]:
    reader = TextReader(**settings)
    parts = [part for piece in pieces for part in reader.feed(piece)]
    rest, calls = reader.end()
    parts += rest
    assert all(text for _, text in parts)
    joined = {kind: "".join(text for k, text in parts if k == kind) for kind in ("thought", "text")}
    return {**joined, "calls": [(call.name, call.arguments) for call in calls]}


@pytest.mark.parametrize(
    ("text", "thought", "rest"),
    [
        ("<think>hm</think>ok", "hm", "ok"),
        ("\n<think>\nhm\n</think>\n\nok ", "\nhm\n", "ok "),
        ("<think></think>ok", "", "ok"),
        ("<think>hm", "hm", ""),
        ("<think>a < b </thin", "a < b </thin", ""),
        ("<think>hm</think>a <think>b</think>", "hm", "a <think>b</think>"),
        ("no tags", "", "no tags"),
        ("  no tags", "", "  no tags"),
        ("<thing>", "", "<thing>"),
        ("<thi", "", "<thi"),
        ("a <think>hm</think>", "", "a <think>hm</think>"),
        ("hm</think>ok", "", "hm</think>ok"),
        ("", "", ""),
        ("   ", "", "   "),
    ],
)
def test_only_tags_at_the_start_count(text: str, thought: str, rest: str) -> None:
    """Blanks around them belong to neither; a thought without an end is all of it; later tags are text."""
    assert read(text, think_tags=True) == {"thought": thought, "text": rest, "calls": []}


@pytest.mark.parametrize(
    ("text", "thought", "rest"),
    [
        ("Hm, twelve.\n</think>\n\nTwelve.", "Hm, twelve.\n", "Twelve."),
        ("<think>hm</think>ok", "hm", "ok"),
        ("hm</think>ok</think>", "hm", "ok</think>"),
        ("no tags", "", "no tags"),
        ("cut off </thin", "", "cut off </thin"),
        ("</think>ok", "", "ok"),
        ("  hm </think>", "  hm ", ""),
    ],
)
def test_a_lone_end_tag_counts_where_that_is_set(text: str, thought: str, rest: str) -> None:
    """An answer without the tag is text: nothing shows that it is a thought."""
    assert read(text, think_tags="closing") == {"thought": thought, "text": rest, "calls": []}


PARTS = ["<think>", "</think>", "<", "</", "think>", "a", " ", "\n", CALL, "`", "```", '{"name": "f", "arguments": {}}']
texts = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)


@given(
    texts,
    st.lists(st.integers(0, 150), max_size=8),
    st.sampled_from([False, True, "closing"]),
    st.sampled_from([None, frozenset(), TOOLS]),
)
def test_any_cut_gives_the_same(text: str, places: list[int], think_tags: Any, tools: frozenset[str] | None) -> None:
    """Law: it does not matter where a text is cut; and nothing is lost but tags and blanks around them."""
    edges = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    settings = {"think_tags": think_tags, "tools": tools}

    whole = read(text, **settings)
    assert read(*pieces, **settings) == whole == read(*text, **settings)
    if not think_tags and not whole["calls"]:
        assert whole["text"] == text


def test_text_is_passed_on_as_early_as_it_is_certain() -> None:
    reader = TextReader(think_tags=True, tools=TOOLS)

    assert reader.feed("<think>h") == [("thought", "h")]
    assert reader.feed("m</think>\nOne") == [("thought", "m"), ("text", "One")]
    assert reader.feed(" two <tool") == [("text", " two ")]
    assert reader.feed("box> three") == []
    assert reader.end() == ([("text", "<toolbox> three")], ())


def test_a_thought_is_no_call() -> None:
    """A call within a thought is a thought; the one after it is a call."""
    assert read(f"<think>{CALL}</think>{CALL}", think_tags=True, tools=TOOLS) == {
        "thought": CALL,
        "text": "",
        "calls": [("f", {"a": 1})],
    }


def test_after_a_call_of_the_server_the_text_has_none() -> None:
    """A server that reads the model's calls has read all of them."""
    reader = TextReader(tools=TOOLS)

    assert reader.feed(f"See {CALL}") == [("text", "See ")]
    assert reader.release() == [("text", CALL)]
    assert reader.feed(CALL) == [("text", CALL)]
    assert reader.end() == ([], ())


def warnings(text: str, *, has_calls: bool = False, **settings: Any) -> list[str]:
    reader = TextReader(**settings)
    reader.feed(text)
    return reader.warnings(text, reader.end()[1], has_calls=has_calls)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (CALL, "<tool_call>"),
        ("<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>", "<tool_call>"),
        ("<tool_call><function=f><parameter=a>1</parameter></function></tool_call>", "<tool_call>"),
        ('[TOOL_CALLS][{"name": "f", "arguments": {}}]', "[TOOL_CALLS]"),
        ('[TOOL_CALLS]f[ARGS]{"a": 1}', "[TOOL_CALLS]"),
        ('<function=f>{"a": 1}</function>', "<function=f>"),
        ('<|python_tag|>{"name": "f", "parameters": {}}', "<|python_tag|>"),
        ('<|python_tag|>f.call(a="1")', "<|python_tag|>"),
        ("hm</think>ok", "</think>"),
    ],
)
def test_unread_tags_give_a_warning(text: str, tag: str) -> None:
    (warning,) = warnings(text)
    assert warning.startswith(f"the answer contains {tag} as text")
    assert "set " in warning
    if tag != "</think>":
        assert warnings(text, has_calls=True) == []


@pytest.mark.parametrize("text", ["<tool_call><function=f></function></tool_call>", '<tool_call>{"name": "g"}'])
def test_a_call_that_cannot_be_read_gives_a_warning(text: str) -> None:
    assert warnings(text, tools=TOOLS) == [
        "the answer contains <tool_call> as text: only JSON calls of offered tools are read (read_text_calls)"
    ]


def test_a_call_that_was_read_gives_a_warning() -> None:
    (warning,) = warnings(CALL, tools=TOOLS)
    assert "its call of f as text" in warning


@pytest.mark.parametrize(
    "text",
    [
        "Write <tool_call> first.",
        "It begins with <think> and ends with </think>.",
        "a </b>",
        f"```\n{CALL}\n```",
        f"In `{CALL}` and `</think>` there are tags.",
        "[TOOL_CALLS] precedes it.",
        "<function=f>",
    ],
)
def test_a_text_about_tags_gives_none(text: str) -> None:
    assert warnings(text) == []


def test_only_offered_tools_can_be_called() -> None:
    tools = tuple({"type": "function", "function": {"name": name}} for name in "fg")

    assert offered_names(ChatOptions(tools=tools)) == {"f", "g"}
    assert offered_names(ChatOptions(tools=tools, allowed_tools=("g", "h"))) == {"g"}
    assert offered_names(ChatOptions(tools=tools, tool_choice="none")) == frozenset()
    assert offered_names(ChatOptions(tools=({"type": "web_search"},))) == frozenset()
