"""Separates thoughts that a model writes into its text: ``<think>…</think>`` at the start of its answer."""

from __future__ import annotations

from typing import Literal

_BEGIN, _END = "<think>", "</think>"


class ThinkTags:
    """Takes an answer's text piece by piece, however it is cut.

    Whitespace around the tags belongs to neither. A thought that never ends takes up the whole answer.
    """

    def __init__(self) -> None:
        self._state: Literal["before", "inside", "after", "over"] = "before"
        self._held = ""

    def feed(self, piece: str) -> list[tuple[Literal["thought", "text"], str]]:
        """Add a piece and return its non-empty thoughts and texts."""
        text, self._held = self._held + piece, ""
        found: list[tuple[Literal["thought", "text"], str]] = []
        if self._state == "before":
            start = text.lstrip()
            if _BEGIN.startswith(start):
                self._held = text
                return found
            if not start.startswith(_BEGIN):
                self._state = "over"
                return [("text", text)]
            self._state, text = "inside", start[len(_BEGIN) :]
        if self._state == "inside":
            thought, end, rest = text.partition(_END)
            if not end:
                kept = _beginning_of_end(text)
                thought, self._held = text[: len(text) - kept], text[len(text) - kept :]
                return [("thought", thought)] if thought else found
            if thought:
                found.append(("thought", thought))
            self._state, text = "after", rest
        if self._state == "after":
            text = text.lstrip()
            if not text:
                return found
            self._state = "over"
        return [*found, ("text", text)] if text else found

    def end(self) -> list[tuple[Literal["thought", "text"], str]]:
        """Return the text that was held back."""
        held, self._held = self._held, ""
        if not held:
            return []
        return [("thought" if self._state == "inside" else "text", held)]


def _beginning_of_end(text: str) -> int:
    """Count the characters at the end of a text that may be the start of the end tag."""
    for length in range(min(len(text), len(_END) - 1), 0, -1):
        if _END.startswith(text[-length:]):
            return length
    return 0
