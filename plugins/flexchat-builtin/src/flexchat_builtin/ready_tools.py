"""Ready-made tools, which a config enables by name. Models read their descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flexchat.plugin import Implementation, ToolDefinition

from .implementation import KIND
from .parameters import MAX_TEXT
from .reading import MAX_FIND
from .texts import CASES, MAX_PATTERN

_TEXT = {"type": "string", "maxLength": MAX_TEXT, "description": "The text."}


def _tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    required: tuple[str, ...] = (),
    handler: str | None = None,
    repeatable: bool = False,
) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description=description,
        parameters={"type": "object", "properties": properties, "required": list(required)},
        implementation=Implementation(type=KIND, settings={"handler": handler or name}),
        repeatable=repeatable,
        effect="read",
    )


def ready_tools() -> Iterator[ToolDefinition]:
    """Yield the tool definitions."""
    yield _tool(
        "calculator",
        "Calculate an arithmetic expression exactly. Knows + - * / ^ % ! mod, percentages, comparisons, and functions "
        "such as sqrt, round, log (natural), log10, sin (radians), min, max, mean, std, gcd, factorial, combinations; "
        "constants pi and e; lists of numbers. No units, no variables, no thousands separators.",
        {
            "expression": {
                "type": "string",
                "description": "For example 0.15 * 45, 17% of 230, 200 + 10%, sqrt(2)^3, round(10 / 3, 2), "
                "mean([1, 2, 3]).",
            }
        },
        ("expression",),
        handler="math_eval",
    )
    yield _tool(
        "echo",
        "Give back the parameters unchanged, for testing.",
        {"message": {"type": "string", "description": "Any text."}},
    )
    yield _tool(
        "get_current_datetime",
        "Tell the current date, time and weekday, in UTC or in a given time zone.",
        {"timezone": {"type": "string", "description": "IANA name such as Europe/Berlin; UTC if absent."}},
        repeatable=True,
    )
    yield _tool("generate_uuid", "Make a new random UUID (version 4).", {}, repeatable=True)
    yield _tool("text_length", "Count the characters, words and lines of a text.", {"text": _TEXT}, ("text",))
    yield _tool(
        "text_case",
        "Change the case of a text.",
        {"text": _TEXT, "case": {"type": "string", "enum": list(CASES), "description": "The case wanted."}},
        ("text", "case"),
    )
    yield _tool(
        "text_replace",
        "Replace every occurrence of a piece of text by another, literally.",
        {
            "text": _TEXT,
            "find": {"type": "string", "minLength": 1, "description": "What to replace."},
            "replace": {"type": "string", "description": "What to put in its place; nothing if absent."},
        },
        ("text", "find"),
    )
    yield _tool(
        "text_split",
        "Cut a text into parts.",
        {
            "text": _TEXT,
            "separator": {"type": "string", "description": "Where to cut; at white space if absent."},
        },
        ("text",),
    )
    yield _tool(
        "text_search",
        "Find every match of a regular expression in a text, with its position.",
        {
            "text": _TEXT,
            "pattern": {
                "type": "string",
                "maxLength": MAX_PATTERN,
                "description": "Regular expression, RE2 syntax: no back-references, no look-around.",
            },
            "ignore_case": {"type": "boolean", "description": "Whether upper and lower case count as the same."},
        },
        ("text", "pattern"),
    )
    yield _tool(
        "read_result",
        "Read more of an earlier tool result that was too long to be shown whole: the marker in it says its name and "
        "where to go on. Or find something in it.",
        {
            "result": {"type": "string", "maxLength": 200, "description": "The name that the marker gives."},
            "start": {"type": "integer", "minimum": 0, "description": "Character to start at, from 0; 0 if absent."},
            "chars": {"type": "integer", "minimum": 1, "description": "How many; as many as can be shown if absent."},
            "find": {
                "type": "string",
                "maxLength": MAX_FIND,
                "description": "Return instead where, from start on, the result has this text, in any case.",
            },
        },
        ("result",),
    )
