"""Detection of tool calls that a model wrote into its text, and the server did not recognize.

JSON counts as a call only if it names an offered tool and has no other content; anything else remains text. The
supported forms are those that models are reported to use: tags (Qwen, Hermes), [TOOL_CALLS] (Mistral), <function=…>
and <|python_tag|> (Llama), a fenced block (Qwen Coder), and JSON on lines of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import attrs

MARKS = re.compile(r"[{\[<`]")
"""What every form begins with."""

_OPENING = re.compile(
    r"(?P<tag><tool_call>|<\|python_tag\|>)"
    r"|\[TOOL_CALLS\](?:\s*+(?P<mistral>[\w.:/-]++)\s*+(?:\[ARGS\]\s*+)?(?=\{))?"
    r"|<function=(?P<function>[\w.:/-]+)>"
    r"|(?P<fence>```[ \t]*\w*[ \t]*\n?)"
    r"|(?P<quoted>`[^`]{1,2000}`)"
    r"|(?P<bare>(?:^|(?<=\n)|(?<=</think>))[ \t]*+(?=[{\[]))"
)
_CLOSING = re.compile(r"\s*(?:</tool_call>|</function>)")
_FENCE_END = re.compile(r"\s*(?:```|\Z)")
_LINE_END = re.compile(r"[ \t]*(?:\n|\Z)")
_BETWEEN = re.compile(r"\s*+(?:[,;]\s*+)?(?=[{\[])")
_BLANKS = re.compile(r"\s*")
_THOUGHT, _THOUGHT_END = "<think>", "</think>"
# What may stand beside the name and the arguments of a call.
_ENVELOPE = frozenset(("name", "arguments", "parameters", "function", "type", "id"))
# A text with more openings than this is not the answer of a model that calls tools.
_MAX_OPENINGS = 64


@attrs.frozen
class TextCall:
    """A call that was found."""

    name: str
    arguments: Mapping[str, Any]


def read_text_calls(text: str, offered: Collection[str], start: int = 0) -> tuple[tuple[TextCall, ...], str]:
    """Find the calls in a text, in order. Returns them, and the text without them.

    Args:
        offered: Names of the tools that may be called.
        start: Position to begin at. Earlier text is not returned; it only determines whether a line has begun.
    """
    calls: list[TextCall] = []
    rest: list[str] = []
    at = start
    # What is thought aloud is not a call, even where the thought was cut off.
    begin = max(start, text.rfind(_THOUGHT_END) + len(_THOUGHT_END) if _THOUGHT_END in text else 0)
    thought_start = text.find(_THOUGHT, begin)
    for number, opening in enumerate(
        _OPENING.finditer(text, begin, thought_start if thought_start >= 0 else len(text))
    ):
        if number >= _MAX_OPENINGS:
            break
        # A model that writes about calls quotes them.
        if opening.start() < begin or opening["quoted"]:
            continue
        unit = _unit(text, opening, frozenset(offered))
        if unit is not None:
            calls += unit[0]
            rest.append(text[at : opening.start()])
            at = begin = unit[1]
        elif opening["fence"] is not None:
            # A block that is not a call is shown, and so is what looks like one within it.
            closing = text.find("```", opening.end())
            begin = closing + 3 if closing >= 0 else len(text)
    remainder = "".join([*rest, text[at:]])
    return tuple(calls), remainder if remainder.strip() or not calls else ""


def _unit(text: str, opening: re.Match[str], offered: frozenset[str]) -> tuple[list[TextCall], int] | None:
    """Return the calls that begin at an opening, and where they end; None if it begins no call."""
    values, end = _values(text, opening.end())
    if not values:
        return None
    name = opening["mistral"] or opening["function"]
    closing: re.Match[str] | None
    if opening["fence"] is not None:
        closing = _FENCE_END.match(text, end)
    elif opening["bare"] is not None:
        closing = _LINE_END.match(text, end)
    else:
        closing = _CLOSING.match(text, end) or _BLANKS.match(text, end)
    if closing is None:
        return None
    calls: list[TextCall] = []
    for value in values:
        entries = _calls_of(name, value, offered) if name else _calls(value, offered, in_tag=opening["tag"] is not None)
        if entries is None:
            return None
        calls += entries
    return calls, closing.end()


def _values(text: str, at: int) -> tuple[list[Any], int]:
    """Read JSON values from a place on, with at most a comma or a semicolon between them."""
    values: list[Any] = []
    end, between = at, _BLANKS.match(text, at)
    while between is not None and len(values) < _MAX_OPENINGS:
        try:
            value, end = _decoder.raw_decode(text, between.end())
        except (ValueError, RecursionError):
            break
        values.append(value)
        between = _BETWEEN.match(text, end)
    return values, end


def _calls(value: Any, offered: frozenset[str], *, in_tag: bool) -> list[TextCall] | None:
    """Return the calls that a JSON value is; None if it is anything else."""
    if isinstance(value, dict) and value.keys() == {"tool_calls"}:
        value = value["tool_calls"]
    if isinstance(value, list):
        items = [_calls(item, offered, in_tag=in_tag) for item in value if isinstance(item, dict)]
        if not items or len(items) != len(value) or None in items:
            return None
        return [call for calls in items for call in calls or ()]
    if not isinstance(value, dict) or not _ENVELOPE.issuperset(value):
        return None
    inner = value.get("function")
    if isinstance(inner, dict):
        return _calls(inner, offered, in_tag=in_tag) if "function" not in inner else None
    has_arguments = "arguments" in value or "parameters" in value
    if not has_arguments and not in_tag:
        return None
    return _calls_of(value.get("name", inner), value.get("arguments", value.get("parameters")), offered)


def _calls_of(name: Any, arguments: Any, offered: frozenset[str]) -> list[TextCall] | None:
    if not isinstance(name, str) or name not in offered:
        return None
    if isinstance(arguments, str):
        try:
            arguments = _decoder.decode(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            return None
    if arguments is None:
        arguments = {}
    return [TextCall(name, arguments)] if isinstance(arguments, dict) else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)
