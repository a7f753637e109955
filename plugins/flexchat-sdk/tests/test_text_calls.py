"""Calls that models write as text: every form in use, and nothing that only looks like one."""

import json

import pytest
from flexchat_sdk import read_text_calls
from hypothesis import given
from hypothesis import strategies as st

OFFERED = {"f", "g"}
F = ("f", {"a": 1})


def found(text: str, offered: set[str] = OFFERED) -> tuple[list[tuple[str, object]], str]:
    calls, rest = read_text_calls(text, offered)
    return [(call.name, call.arguments) for call in calls], rest


@pytest.mark.parametrize(
    ("text", "calls", "rest"),
    [
        ('{"name": "f", "arguments": {"a": 1}}', [F], ""),
        ('{"name": "f", "parameters": {"a": 1}}', [F], ""),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', [F], ""),
        ('{"name": "f", "arguments": null}', [("f", {})], ""),
        ('{"function": "f", "arguments": {"a": 1}}', [F], ""),
        ('{"function": {"name": "f", "arguments": {"a": 1}}}', [F], ""),
        ('{"type": "function", "id": "x", "function": {"name": "f", "parameters": {"a": 1}}}', [F], ""),
        ('{"tool_calls": [{"name": "f", "arguments": {"a": 1}}]}', [F], ""),
        ('[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]', [F, ("g", {})], ""),
        ('{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}', [F, ("g", {})], ""),
        ('{"name": "f", "parameters": {"a": 1}}\n{"name": "g", "parameters": {}}', [F, ("g", {})], ""),
        ('```json\n{"name": "f", "arguments": {"a": 1}}\n```', [F], ""),
        ('```\n{"name": "f", "arguments": {"a": 1}}\n```\nDone.', [F], "\nDone."),
        ('```json\n{"name": "f", "arguments": {"a": 1}}', [F], ""),
        ('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', [F], ""),
        ('<tool_call>{"name": "f", "arguments": {"a": 1}}', [F], ""),
        ('<tool_call>{"name": "f"}</tool_call>', [("f", {})], ""),
        ('[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]', [F], ""),
        ('[TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g[ARGS]{}', [F, ("g", {})], ""),
        ('<function=f>{"a": 1}</function>', [F], ""),
        ('<|python_tag|>{"name": "f", "parameters": {"a": 1}}', [F], ""),
        ('I will look.\n{"name": "f", "arguments": {"a": 1}}\nWait.', [F], "I will look.\nWait."),
        ('<think>{"name": "g", "arguments": {}}</think>\n{"name": "f", "arguments": {"a": 1}}', [F], None),
    ],
)
def test_every_known_form_is_read(text: str, calls: list[tuple[str, object]], rest: str | None) -> None:
    """Name and arguments, in order; what is around the calls is left."""
    assert found(text)[0] == calls
    assert rest is None or found(text)[1] == rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello.",
        '{"name": "unknown", "arguments": {}}',
        '{"name": "f"}',
        '{"name": "f", "arguments": {}, "age": 3}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "no JSON"}',
        '{"name": ["f"], "arguments": {}}',
        '{"name": "f", "arguments": {}} is what I would write',
        'For example {"name": "f", "arguments": {}}',
        '[{"name": "f", "arguments": {}}, {"name": "unknown", "arguments": {}}]',
        "[]",
        "[1, 2]",
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"name": "f", "arguments": {"a": 1}',
        '```json\n{"name": "f", "arguments": {}}\nand more\n```',
        "```python\nf(a=1)\n```",
        "<tool_call>f(a=1)</tool_call>",
        "[TOOL_CALLS] none",
        '<think>{"name": "f", "arguments": {}}',
        '<think>\n{"name": "f", "arguments": {}}\n</think>\nNo.',
        "<function=unknown>{}</function>",
        'It writes `<tool_call>{"name": "f", "arguments": {}}</tool_call>` then.',
        '```xml\n<tool_call>{"name": "f", "arguments": {}}</tool_call>\n```',
        "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
        'It writes `\n{"name": "f", "arguments": {}}\n` then.',
        '<tool_call>{"name": "F", "arguments": {}}</tool_call>',
    ],
)
def test_what_is_not_such_a_call_stays_text(text: str) -> None:
    """The name must be an offered tool, and the JSON must say nothing else; thinking aloud is not calling."""
    assert found(text) == ([], text)


def test_without_tools_nothing_is_a_call() -> None:
    """What was not offered cannot be called."""
    assert found('{"name": "f", "arguments": {}}', set()) == ([], '{"name": "f", "arguments": {}}')


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 100_000,
        "```" * 100_000,
        "\n{" * 100_000,
        " " * 1_000_000 + "{",
        "{}" + " " * 500_000,
        "<tool_call>" * 50_000,
        "[TOOL_CALLS]" + " " * 500_000,
        "[TOOL_CALLS]" + "a" * 500_000,
        "9" * 10_000,
        "`" + "a" * 1_000_000,
        "`a" * 200_000,
    ],
)
def test_hostile_text_is_read_in_time(text: str) -> None:
    """Nested too deeply, opened too often, blank for ever: it stays text."""
    assert found(text) == ([], text)


@given(st.text(), st.dictionaries(st.text(), st.integers() | st.text()), st.text())
def test_a_call_in_a_tag_is_found_in_any_text(before: str, arguments: dict[str, object], after: str) -> None:
    """Law: what is before and after stays as it is, unless it is itself a form of call or a thought."""
    if any(mark in before + after for mark in "<[{`"):
        return
    written = json.dumps({"name": "f", "arguments": arguments})
    calls, rest = found(f"{before}<tool_call>{written}</tool_call>{after}")

    assert calls == [("f", arguments)]
    assert rest == (before + after if (before + after).strip() else "")


@given(st.text(alphabet='{}[]"`<>/: \nfTOL_CAnamergu,tsjo'), st.text())
def test_any_text_is_read(text: str, more: str) -> None:
    """Law: never an exception, and without calls the text is what it was."""
    calls, rest = found(text + more)

    assert calls or rest == text + more
