"""Ready-made tools, which a config enables by name. Models read their descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flexchat.plugin import Implementation, ToolDefinition

from .handlers import CASES, MAX_PATTERN
from .implementation import KIND
from .parameters import MAX_TEXT
from .reading import MAX_FIND


def ready_tools() -> Iterator[ToolDefinition]:
    """Yield the tool definitions."""
    for name, (description, properties, required, settings) in _TOOLS.items():
        yield ToolDefinition(
            name=name,
            description=description,
            parameters={"type": "object", "properties": properties, "required": [*required]},
            implementation=Implementation(type=KIND, settings={"handler": settings.get("handler", name)}),
            repeatable=settings.get("repeatable", False),
            effect="read",
        )


def _string(description: str, **keywords: Any) -> dict[str, Any]:
    return {"type": "string", **keywords, "description": description}


_TEXT = _string("The text.", maxLength=MAX_TEXT)
_TOOLS: Mapping[str, tuple[str, Mapping[str, Any], tuple[str, ...], Mapping[str, Any]]] = {
    "calculator": (
        "Calculate an arithmetic expression exactly. Knows + - * / ^ % ! mod, percentages, comparisons, and functions "
        "such as sqrt, round, log (natural), log10, sin (radians), min, max, mean, std, gcd, factorial, combinations; "
        "constants pi and e; lists of numbers. No units, no variables, no thousands separators.",
        {
            "expression": _string(
                "For example 0.15 * 45, 17% of 230, 200 + 10%, sqrt(2)^3, round(10 / 3, 2), mean([1, 2, 3])."
            )
        },
        ("expression",),
        {"handler": "math_eval"},
    ),
    "echo": ("Give back the parameters unchanged, for testing.", {"message": _string("Any text.")}, (), {}),
    "get_current_datetime": (
        "Tell the current date, time and weekday, in UTC or in a given time zone.",
        {"timezone": _string("IANA name such as Europe/Berlin; UTC if absent.")},
        (),
        {"repeatable": True},
    ),
    "generate_uuid": ("Make a new random UUID (version 4).", {}, (), {"repeatable": True}),
    "text_length": ("Count the characters, words and lines of a text.", {"text": _TEXT}, ("text",), {}),
    "text_case": (
        "Change the case of a text.",
        {"text": _TEXT, "case": _string("The case wanted.", enum=list(CASES))},
        ("text", "case"),
        {},
    ),
    "text_replace": (
        "Replace every occurrence of a piece of text by another, literally.",
        {
            "text": _TEXT,
            "find": _string("What to replace.", minLength=1),
            "replace": _string("What to put in its place; nothing if absent."),
        },
        ("text", "find"),
        {},
    ),
    "text_split": (
        "Cut a text into parts.",
        {"text": _TEXT, "separator": _string("Where to cut; at white space if absent.")},
        ("text",),
        {},
    ),
    "text_search": (
        "Find every match of a regular expression in a text, with its position.",
        {
            "text": _TEXT,
            "pattern": _string(
                "Regular expression, RE2 syntax: no back-references, no look-around.", maxLength=MAX_PATTERN
            ),
            "ignore_case": {"type": "boolean", "description": "Whether upper and lower case count as the same."},
        },
        ("text", "pattern"),
        {},
    ),
    "read_result": (
        "Read more of an earlier tool result that was too long to be shown whole: the marker in it says its name and "
        "where to go on. Or find something in it.",
        {
            "result": _string("The name that the marker gives.", maxLength=200),
            "start": {"type": "integer", "minimum": 0, "description": "Character to start at, from 0; 0 if absent."},
            "chars": {"type": "integer", "minimum": 1, "description": "How many; as many as can be shown if absent."},
            "find": _string(
                "Return instead where, from start on, the result has this text, in any case.", maxLength=MAX_FIND
            ),
        },
        ("result",),
        {},
    ),
}
