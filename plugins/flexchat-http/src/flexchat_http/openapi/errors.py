"""What may be wrong with a document, or with a part of it."""

from __future__ import annotations

from typing import ClassVar

from flexchat.plugin import FlexChatError


class DocumentError(FlexChatError):
    """A document cannot be used.

    Attributes:
        document: Its path or URL; empty if whoever catches this knows it.
        place: Where in it: ``line 3``, or a path such as ``paths./pets.get``; empty for all of it.
        text: What is wrong and what to do about it, one sentence.
    """

    exit_status: ClassVar[int] = 2

    def __init__(self, document: str, place: str, text: str) -> None:
        self.document, self.place, self.text = document, place, text
        super().__init__(": ".join(part for part in (document, place, text) if part))


class Unusable(Exception):
    """A part of a document cannot be used; the operation that needs it is left out. The text says why."""


class NoServer(Unusable):
    """An operation's server is not named by the document: the config has to."""
