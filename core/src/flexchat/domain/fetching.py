"""Requests to addresses that tools, documents or redirects name, and their answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # methods that change nothing (RFC 9110, section 9.2.1)


@attrs.frozen(kw_only=True)
class FetchRequest:
    """A request: plain data.

    Attributes:
        method: "GET", "POST", …, in upper case.
        url: http or https, absolute, without user name or password.
        headers: Names in any case; Host and Content-Length are set by the client.
        body: Sent with any method unless empty.
        repeatable: Whether it may be sent twice: if so, a request that hit a connection the server had already closed
            is sent again at once. None: if its method changes nothing. False also makes it use a new connection, so
            that it cannot hit a closed one.
        domains: The only hosts it may go to, redirects included: "api.example.com", "*.example.com" (one or more
            labels before it). None for no limit beyond the operator's.
        secrets: Values in it that are masked in the results of tools from now on: the service may repeat them. Tokens
            and passwords in the usual headers need not be named.
        confidential: Whether its body, and the answer's, stay out of the log: there are passwords or tokens in them.
    """

    method: str = "GET"
    url: str
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    repeatable: bool | None = None
    domains: tuple[str, ...] | None = None
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)
    confidential: bool = False

    @property
    def is_safe(self) -> bool:
        """Whether its method changes nothing."""
        return self.method in SAFE_METHODS

    @property
    def may_repeat(self) -> bool:
        """Whether the service may get it twice."""
        return self.is_safe if self.repeatable is None else self.repeatable


@attrs.frozen(kw_only=True)
class Fetched:
    """A whole answer, of any status.

    Attributes:
        headers: Names in lower case; a repeated header's values are joined with ", ".
        body: Unpacked.
        url: Where it came from, after redirects.
    """

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    url: str = ""


@attrs.frozen(kw_only=True, eq=False)
class FetchedStream:
    """An answer of any status whose body is still arriving.

    Attributes:
        headers, url: As in Fetched.
        pieces: The body, unpacked, as it arrives. Reading it raises FetchError if it breaks off.
    """

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    pieces: AsyncIterator[bytes] = attrs.field(repr=False)
    url: str = ""


class Fetcher(Protocol):
    """The guarded client for addresses from users, models and documents; ToolContext.fetcher."""

    async def fetch(
        self,
        request: FetchRequest,
        *,
        timeout_s: float = 10.0,
        max_bytes: int = 8 * 2**20,
        max_redirects: int = 5,
        is_repeat: bool = False,
    ) -> Fetched:
        """Send a request and return the whole answer, of any status.

        Only addresses of the public network are reached, and those the operator allows; so it is for each redirect.
        Redirects are followed only for methods that change nothing, and headers that may hold a key do not go along to
        another origin. Nothing is sent twice, except as the request allows.

        Args:
            timeout_s: For the whole exchange, in seconds.
            max_bytes: The longest body, unpacked.
            is_repeat: Whether the same was sent before: then it takes from the origin's retry budget.

        Raises:
            FetchError: No usable answer; ``may_have_arrived`` is true if the service may have acted.
        """

    def stream(self, request: FetchRequest, *, timeout_s: float = 10.0) -> AbstractAsyncContextManager[FetchedStream]:
        """Send a request and yield its answer as it arrives, for bodies that have no end (server-sent events).

        The same addresses are reached as by ``fetch``; redirects are not followed. Leaving the context closes the
        connection. How long the body may take and how long it may be is up to the reader.

        Args:
            timeout_s: Until the answer's headers are there, in seconds.

        Raises:
            FetchError: As fetch; entering the context does, and reading the pieces.
        """
