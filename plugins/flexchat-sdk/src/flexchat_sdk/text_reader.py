"""Separates thoughts and tool calls that a model writes into its text from the answer, however the text is cut.

JSON counts as a call only if it names an offered tool and has no other content; anything else remains text. The
supported forms are those that models are reported to use: tags (Qwen, Hermes), [TOOL_CALLS] (Mistral), <function=…>
and <|python_tag|> (Llama), a fenced block (Qwen Coder), and JSON on lines of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Literal

import attrs
from flexchat.domain.chat import ChatOptions

MARKS = re.compile(r"[{\[<`]")  # what every form begins with

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
_BEGIN, _END = "<think>", "</think>"
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
    begin = max(start, text.rfind(_END) + len(_END) if _END in text else 0)
    thought_start = text.find(_BEGIN, begin)
    for number, opening in enumerate(
        _OPENING.finditer(text, begin, thought_start if thought_start >= 0 else len(text))
    ):
        if number >= _MAX_OPENINGS:
            break
        # A model that writes about calls quotes them.
        if opening.start() < begin or opening["quoted"]:
            continue
        if (unit := _unit(text, opening, frozenset(offered))) is not None:
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


TextPiece = tuple[Literal["thought", "text"], str]
ThinkTags = bool | Literal["closing"]

_CALL = re.compile(
    r"<tool_call>\s*(?:[{<]|\w+\s*[{<(])|\[TOOL_CALLS\]\s*+(?:\[|[\w.:/-]++\s*+(?:\[ARGS\]\s*+)?\{)"
    r"|<function=[\w.:/-]+>\s*[{<]|<\|python_tag\|>\s*[{\w]"
)
_QUOTED = re.compile(r"```.*?(?:```|\Z)|`[^`]{1,500}`", re.DOTALL)


class TextReader:
    """Reads the text of one answer piece by piece.

    Args:
        think_tags: True: text between <think> and </think> at the start is a thought; whitespace around the tags
            belongs to neither, and a thought without an end is the whole answer. "closing": so is the text before a
            lone </think>, which is held back until the tag or the end arrives.
        tools: Names of the tools whose calls are read from the text, which is held back from where one may begin; None
            to read none.
    """

    def __init__(self, *, think_tags: ThinkTags = False, tools: frozenset[str] | None = None) -> None:
        self._think_tags, self._tools = think_tags, tools
        self._state: Literal["before", "unopened", "inside", "after", "over"] = "before" if think_tags else "over"
        self._start = ""  # of the answer or of an end tag, while it may still become a tag
        self._unopened: list[str] = []
        self._reads_calls = tools is not None
        self._held: list[str] = []
        self._is_holding = False
        self._last = ""  # the last character that was passed on: a call may begin a line

    @property
    def is_plain(self) -> bool:
        """Whether the text passes unchanged."""
        return not self._think_tags and self._tools is None

    def feed(self, piece: str) -> list[TextPiece]:
        """Add a piece; return the non-empty thoughts and texts that are certain now."""
        return self._hold_back(self._split(piece))

    def release(self) -> list[TextPiece]:
        """Return the text held back as text and read no calls from here on.

        For the first call that the server itself reports: a server that reads the model's calls has read all of them.
        """
        pieces = [] if self._state == "inside" else self._end_thought()
        pieces = self._hold_back(pieces) + self._flush()
        self._reads_calls = False
        return pieces

    def end(self) -> tuple[list[TextPiece], tuple[TextCall, ...]]:
        """Return the rest of the thoughts and texts, and the calls in the text that was held back."""
        pieces = self._hold_back(self._end_thought())
        calls: tuple[TextCall, ...] = ()
        if self._held and self._tools:
            calls, rest = read_text_calls(self._last + "".join(self._held), self._tools, len(self._last))
            self._held = [rest] if rest else []
        return pieces + self._flush(), calls

    def warnings(self, text: str, calls: tuple[TextCall, ...], *, has_calls: bool) -> list[str]:
        """Return a warning for each call that was read from the text, and for what its tags show to be unread.

        Args:
            text: The text of the whole answer.
            has_calls: Whether the server reported calls.
        """
        warnings = [
            f"the model wrote its call of {call.name} as text; it was read as a call (read_text_calls)"
            for call in calls
        ]
        tag_match = None if has_calls or calls else _CALL.search(text)
        if tag_match or _END in text:
            text = _QUOTED.sub("", text)  # an answer about these tags
        if tag_match and (tag_match := _CALL.search(text)):
            tag = re.split(r"(?<=[\]>])", tag_match[0], maxsplit=1)[0]
            advice = "start the server with the parser for its model, or set read_text_calls"
            if self._tools is not None:
                advice = "only JSON calls of offered tools are read (read_text_calls)"
            warnings.append(f"the answer contains {tag} as text: {advice}")
        if _BEGIN not in text and text.rpartition(_END)[1]:
            warnings.append(
                f"the answer contains {_END} as text: what precedes it is the model's thought; start the server with "
                'the parser for its model, or set think_tags = "closing"'
            )
        return warnings

    def _split(self, piece: str) -> list[TextPiece]:
        """Separate thoughts from text."""
        if self._state == "over":
            return [("text", piece)] if piece else []
        text, self._start = self._start + piece, ""
        if self._state == "before":
            start = text.lstrip()
            if _BEGIN.startswith(start):
                self._start = text
                return []
            if start.startswith(_BEGIN):
                self._state, text = "inside", start[len(_BEGIN) :]
            elif self._think_tags == "closing":
                self._state = "unopened"
            else:
                self._state = "over"
                return [("text", text)]
        pieces: list[TextPiece] = []
        if self._state in ("inside", "unopened"):
            thought, end, text = text.partition(_END)
            if not end:
                # The end of the piece may be the start of the tag.
                sizes = range(min(len(thought), len(_END) - 1), 0, -1)
                if size := next((size for size in sizes if _END.startswith(thought[-size:])), 0):
                    thought, self._start = thought[:-size], thought[-size:]
            if self._state == "unopened":
                self._unopened.append(thought)
                thought = "".join(self._unopened) if end else ""
            if thought:
                pieces.append(("thought", thought))
            if not end:
                return pieces
            self._state, self._unopened = "after", []
        if text := text.lstrip():
            self._state = "over"
            pieces.append(("text", text))
        return pieces

    def _end_thought(self) -> list[TextPiece]:
        rest = "".join(self._unopened) + self._start
        kind: Literal["thought", "text"] = "thought" if self._state == "inside" else "text"
        self._state, self._start, self._unopened = "over", "", []
        return [(kind, rest)] if rest else []

    def _hold_back(self, pieces: list[TextPiece]) -> list[TextPiece]:
        """Hold back the text from where a call may begin."""
        if not self._reads_calls or not self._tools:
            return pieces
        passed: list[TextPiece] = []
        for kind, text in pieces:
            if kind == "thought":
                passed.append((kind, text))
                continue
            mark = None if self._is_holding else MARKS.search(text)
            before = "" if self._is_holding else text[: mark.start()] if mark else text
            if before.strip() or (before and self._last):
                passed += [*self._flush(), ("text", before)]
                self._last = before[-1]
            elif before:
                self._held.append(before)  # blanks before what may be a call are not part of the answer
            if mark or self._is_holding:
                self._is_holding = True
                self._held.append(text[mark.start() :] if mark else text)
        return passed

    def _flush(self) -> list[TextPiece]:
        text, self._held = "".join(self._held), []
        return [("text", text)] if text else []


def offered_names(options: ChatOptions) -> frozenset[str]:
    """Return the names of the tools that a request in OpenAI's tool format offers."""
    functions = [tool.get("function") for tool in options.tools if options.tool_choice != "none"]
    names = frozenset([str(function.get("name", "")) for function in functions if isinstance(function, dict)])
    return names & {*options.allowed_tools} if options.allowed_tools else names
