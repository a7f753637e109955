"""A request to the world, as a tool, a document or a redirect names it, and its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import attrs

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, section 9.2.1)."""


@attrs.frozen(kw_only=True)
class FetchRequest:
    """A request: plain data.

    Attributes:
        method: "GET", "POST", …, in upper case.
        url: http or https, absolute, without user name or password.
        headers: Names in any case; Host and Content-Length are set by the client.
        body: Sent with any method unless empty.
        repeatable: Whether the service may get it twice: then a request that met a connection the server had closed
            is sent again at once. None: if its method changes nothing. False also makes it use a new connection, so
            that it does not meet a closed one.
        domains: The only hosts it may go to, also when redirected: "api.example.com", "*.example.com" (one or more
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
    """A whole answer, whatever its status.

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
    """An answer whose body is still arriving, whatever its status.

    Attributes:
        headers, url: As in Fetched.
        pieces: The body, unpacked, as it arrives. Reading it raises FetchError if it breaks off.
    """

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    pieces: AsyncIterator[bytes] = attrs.field(repr=False)
    url: str = ""
