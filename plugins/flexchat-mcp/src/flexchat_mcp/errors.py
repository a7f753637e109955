"""What may go wrong with a server."""

from __future__ import annotations

import enum

from flexchat.plugin import FlexChatError

MAX_ERRORS = 1_000  # errors of pydantic in one answer: it takes seconds to list more of them


class Code(enum.IntEnum):
    """Codes of JSON-RPC errors with which our transports answer in a server's place; none that the protocol uses."""

    NOT_SENT = 7_801  # the request did not reach the server
    LOST = 7_802  # the request may have reached the server, and there is no answer
    TOO_LARGE = 7_803  # the answer was longer than max_bytes, in which case the message is empty, or has too many parts
    UNUSABLE = 7_804  # the server lets no client in, and has not done what it was asked
    UNCLEAR = 7_805  # a call's answer is no answer of MCP: the server may have done what it was asked
    NO_SESSION = 7_806  # the server no longer knows the session, and has not done what it was asked
    REFUSED = 7_807  # it refused with a status of HTTP, which the data has, and no error of the protocol


class ServerError(FlexChatError):
    """A server gave no answer that can be used."""


class ServerUnusableError(ServerError):
    """The server cannot be started or reached, or its answers are unusable; no request was sent to it.

    Attributes:
        is_refusal: Whether it ended or refused because of the first message, so that another era may do.
        status: Of HTTP, with which it refused the first message; None if it did not.
    """

    def __init__(self, text: str, *, is_refusal: bool = False, status: int | None = None) -> None:
        self.is_refusal, self.status = is_refusal, status
        super().__init__(text)


class AnswerLostError(ServerError):
    """A request has no answer, and will not get one.

    Attributes:
        may_have_acted: Whether the server may have done what it was asked.
    """

    def __init__(self, text: str, *, may_have_acted: bool = True) -> None:
        self.may_have_acted = may_have_acted
        super().__init__(text)


class SessionGoneError(AnswerLostError):
    """The server no longer knows the session: it was started anew. Nothing was done, and another one can be had."""

    def __init__(self, text: str) -> None:
        super().__init__(text, may_have_acted=False)


class TaskGoneError(FlexChatError):
    """A task of the server has no result here, and will not get one; it may have done what it was asked.

    Attributes:
        is_left: Whether it may still run, and waits for something it will not get: then it should be cancelled.
        is_forgotten: Whether the server no longer knows it.
    """

    def __init__(self, text: str, *, is_left: bool = False, is_forgotten: bool = False) -> None:
        self.is_left, self.is_forgotten = is_left, is_forgotten
        super().__init__(text)


class AnswerTooLargeError(ServerError):
    """The server answered with more than can be read; it has done what it was asked, or refused."""
