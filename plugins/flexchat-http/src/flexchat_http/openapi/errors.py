"""Errors in a document, or in a part of it."""

from __future__ import annotations

from typing import ClassVar

from flexchat.plugin import FlexChatError


class DocumentError(FlexChatError):
    """A document is unusable.

    Attributes:
        document: Its path or URL; empty if the caller adds it.
        place: Position: ``line 3``, or a path such as ``paths./pets.get``; empty for the whole document.
        text: The problem and its remedy, in one sentence.
    """

    exit_status: ClassVar[int] = 2

    def __init__(self, document: str, place: str, text: str) -> None:
        self.document, self.place, self.text = document, place, text
        super().__init__(": ".join(part for part in (document, place, text) if part))


class Unusable(Exception):
    """A part of a document is unusable; operations that need it are skipped. The text is the reason."""


class NoServer(Unusable):
    """An operation's server is not named by the document: the config has to."""
