"""The cases models are tried with by default: one for each thing a case can show."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

_CASES: tuple[Mapping[str, Any], ...] = (
    {
        "name": "a sum",
        "message": "What is 12.5 * 8?",
        "calls": [{"tool": "calculator", "check": {"expression": {"regex": r"12\.5\s*\*\s*8"}}}],
        "answer": {"contains": ["100"]},
    },
    {
        "name": "time in Tokyo",
        "message": "What time is it in Tokyo?",
        "calls": [{"tool": "get_current_datetime", "arguments": {"timezone": "Asia/Tokyo"}}],
    },
    {
        "name": "two questions at once",
        "message": "What time is it in Paris, and what is 3 + 4?",
        "calls": [
            {"tool": "get_current_datetime", "arguments": {"timezone": "Europe/Paris"}},
            {"tool": "calculator", "check": {"expression": {"regex": r"3\s*\+\s*4"}}},
        ],
    },
    {
        "name": "a word replaced",
        "message": "Replace 'cat' by 'dog' in the text 'the cat sat'",
        "calls": [{"tool": "text_replace", "arguments": {"text": "the cat sat", "find": "cat", "replace": "dog"}}],
    },
    {"name": "nothing to call for", "message": "Thanks, that was helpful.", "no_call": True},
    {"name": "no tool knows this", "message": "Who wrote Hamlet?", "no_call": True},
)


def sample_table(tools: Collection[str]) -> dict[str, Any]:
    """Return the demo's table ``validation``: the cases the available tools allow."""
    return {"cases": [case for case in _CASES if _tools_of(case) <= {*tools}]}


def _tools_of(case: Mapping[str, Any]) -> set[str]:
    return {call["tool"] for call in case.get("calls", ())}
