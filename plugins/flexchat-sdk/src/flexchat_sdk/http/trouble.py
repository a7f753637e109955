"""Converts a transport's errors into ProviderErrors and FetchErrors with a remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping

import httpx
from flexchat.errors import (
    FetchAnswerError,
    FetchConnectionError,
    FetchError,
    FetchTimeoutError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
)

from .connections import ForbiddenAddressError
from .guard import CheckedUrl, refused

NO_CONNECTION = "no_connection"
"""The code of a timeout that passed before anything was sent."""


_BROKEN: Mapping[type[Exception], str] = {
    httpx.ProxyError: "the proxy named in the environment does not lead to {host}: {why}",
    socket.gaierror: "the name {host} cannot be resolved: is base_url right, and is there a network?",
    ConnectionRefusedError: "nothing listens at {host}: is the server running, and is base_url right?",
    httpx.ConnectError: "no connection to {host}: {why}",
}
"""The first that is in the chain of an error counts."""


def connection_trouble(
    error: httpx.TransportError, host: str, connect_s: float, *, answered: bool, received: bool, passed_on: bool
) -> ProviderError:
    """Convert a transport's error into a ProviderError. Its text may quote the system or a proxy.

    Args:
        connect_s: The deadline for connections, for the text.
        answered: Whether an answer had begun.
        received: Whether part of its body had arrived.
        passed_on: Whether the caller has received part of it, so that a retry would repeat text; False for an answer
            read as a whole.
    """
    why = reason_of(error)
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            text = f"no connection to {host} within {connect_s:g} s (connect_timeout_s)"
            return ProviderTimeoutError(text, code=NO_CONNECTION, retryable=True)
        case httpx.TimeoutException():
            return ProviderTimeoutError(f"{host} did not answer in time", retryable=not passed_on)
        case httpx.RemoteProtocolError():
            text = f"{host} does not answer in HTTP: is base_url right?"
            return ProviderProtocolError(text, retryable=answered and not passed_on)
        case httpx.UnsupportedProtocol():
            return ProviderConnectionError(f"{host} cannot be asked: {why}", retryable=False)
    chain = list(causes(error))
    if (problem := tls_problem(chain, host)) is not None:
        is_untrusted = any(isinstance(cause, ssl.SSLCertVerificationError) for cause in chain)
        help = (
            "; SSL_CERT_FILE can name others"
            if is_untrusted
            else ": does base_url say https where the server speaks http?"
        )
        return ProviderConnectionError(problem + help, retryable=False)
    for kind, sentence in _BROKEN.items():
        if any(isinstance(cause, kind) for cause in chain):
            return ProviderConnectionError(sentence.format(host=host, why=why), retryable=not passed_on)
    when = "before its answer began" if answered else "without an answer"
    text = f"{host} closed the connection {'in the middle of its answer' if received else when}"
    return ProviderConnectionError(text, retryable=not passed_on)


def reason_of(error: Exception) -> str:
    """Return the text of an error in one line of at most 200 characters."""
    return " ".join(str(error).split())[:200]


def tls_problem(chain: Iterable[BaseException], host: str) -> str | None:
    """Describe why there is no TLS connection; None if that is not the problem."""
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = getattr(cause, "verify_message", "") or reason_of(cause)
            return f"the certificate of {host} is not trusted: {reason}"
    return f"no TLS connection with {host}" if any(isinstance(cause, ssl.SSLError) for cause in chain) else None


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield error and its causes; aiohttp keeps the system's error outside the chain."""
    while error is not None:
        yield error
        for name in ("os_error", "certificate_error"):
            beside = getattr(error, name, None)
            if isinstance(beside, BaseException):
                yield beside
        error = error.__cause__ or error.__context__


def fetch_trouble(
    error: httpx.TransportError, url: CheckedUrl, mask: Callable[[str], str], *, is_connected: bool
) -> FetchError:
    """Convert a transport's error into a FetchError.

    Args:
        mask: Removes secrets from texts of the system or of a proxy.
        is_connected: Whether there was a connection, so that the service may have received the request.
    """
    # The refusal of an address first: httpx reports it as a failed connection, which would invite a retry.
    chain = list(causes(error))
    if any(isinstance(cause, ForbiddenAddressError) for cause in chain):
        return refused(url.host, url.port)
    if isinstance(error, httpx.TimeoutException):
        return FetchTimeoutError(f"no connection to {url.host} in time", may_have_arrived=is_connected)
    if isinstance(error, httpx.RemoteProtocolError):
        return FetchAnswerError(f"{url.host} does not answer in HTTP", may_have_arrived=is_connected)
    why = mask(reason_of(error))
    if isinstance(error, httpx.UnsupportedProtocol):
        text = f"{url.host} cannot be asked: {why}"
        return FetchConnectionError(text, retryable=False, may_have_arrived=is_connected)
    if (problem := tls_problem(chain, url.host)) is not None:
        return FetchConnectionError(problem, retryable=False, may_have_arrived=is_connected)
    if is_connected:
        text = f"{url.host} closed the connection before its answer was complete"
    elif isinstance(error, httpx.ProxyError):
        text = f"the proxy named in the environment does not lead to {url.host}: {why}"
    elif any(isinstance(cause, socket.gaierror) for cause in chain):
        text = f"the name {url.host} cannot be resolved"
    elif any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        text = f"nothing listens at {url.host}:{url.port}"
    else:
        text = f"no connection to {url.host}: {why}"
    return FetchConnectionError(text, may_have_arrived=is_connected)
