"""Separates thoughts and tool calls that a model writes into its text from the answer, however the text is cut."""

from __future__ import annotations

import re
from typing import Literal

from flexchat.domain.chat import ChatOptions

from .text_calls import MARKS, TextCall, read_text_calls

TextPiece = tuple[Literal["thought", "text"], str]
ThinkTags = bool | Literal["closing"]

_BEGIN, _END = "<think>", "</think>"
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
        text = text.lstrip()
        if text:
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
