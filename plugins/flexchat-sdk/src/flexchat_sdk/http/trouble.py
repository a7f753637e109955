"""Converts a transport's errors into ProviderErrors and FetchErrors with a remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator

import httpx
from flexchat import errors

from .connections import ForbiddenAddressError
from .guard import CheckedUrl, refused

NO_CONNECTION = "no_connection"
"""The code of a timeout that passed before anything was sent."""


# The first that is in the chain of an error counts: its sentence, the remedy of a provider, and whether to try again.
_CAUSES: tuple[tuple[type[Exception], str, str, bool], ...] = (
    (
        ssl.SSLCertVerificationError,
        "the certificate of {host} is not trusted: {why}",
        "; SSL_CERT_FILE can name others",
        False,
    ),
    (ssl.SSLError, "no TLS connection with {host}", ": does base_url say https where the server speaks http?", False),
    (httpx.ProxyError, "the proxy named in the environment does not lead to {host}: {why}", "", True),
    (socket.gaierror, "the name {host} cannot be resolved", ": is base_url right, and is there a network?", True),
    (ConnectionRefusedError, "nothing listens at {place}", ": is the server running, and is base_url right?", True),
    (httpx.ConnectError, "no connection to {host}: {why}", "", True),
)


def connection_trouble(
    error: httpx.TransportError, host: str, connect_s: float, *, answered: bool, received: bool, passed_on: bool
) -> errors.ProviderError:
    """Convert a transport's error into a errors.ProviderError. Its text may quote the system or a proxy.

    Args:
        connect_s: The deadline for connections, for the text.
        answered: Whether an answer had begun.
        received: Whether part of its body had arrived.
        passed_on: Whether the caller has received part of it, so that a retry would repeat text; False for an answer
            read as a whole.
    """
    why = _reason_of(error)
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            text = f"no connection to {host} within {connect_s:g} s (connect_timeout_s)"
            return errors.ProviderTimeoutError(text, code=NO_CONNECTION, retryable=True)
        case httpx.TimeoutException():
            return errors.ProviderTimeoutError(f"{host} did not answer in time", retryable=not passed_on)
        case httpx.RemoteProtocolError():
            text = f"{host} does not answer in HTTP: is base_url right?"
            return errors.ProviderProtocolError(text, retryable=answered and not passed_on)
        case httpx.UnsupportedProtocol():
            return errors.ProviderConnectionError(f"{host} cannot be asked: {why}", retryable=False)
    if (cause := _describe_cause(error, host, host, why)) is not None:
        sentence, remedy, may_pass = cause
        # All of these causes come before a request is sent.
        code = None if answered else NO_CONNECTION
        return errors.ProviderConnectionError(sentence + remedy, code=code, retryable=may_pass and not passed_on)
    when = "before its answer began" if answered else "without an answer"
    text = f"{host} closed the connection {'in the middle of its answer' if received else when}"
    return errors.ProviderConnectionError(text, retryable=not passed_on)


def _describe_cause(error: Exception, host: str, place: str, why: str) -> tuple[str, str, bool] | None:
    chain = list(_causes(error))
    for kind, sentence, remedy, may_pass in _CAUSES:
        for cause in chain:
            if isinstance(cause, kind):
                if kind is ssl.SSLCertVerificationError:
                    why = getattr(cause, "verify_message", "") or _reason_of(cause)
                return sentence.format(host=host, place=place, why=why), remedy, may_pass
    return None


def _reason_of(error: BaseException) -> str:
    """Return the text of an error in one line of at most 200 characters."""
    return " ".join(str(error).split())[:200]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
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
) -> errors.FetchError:
    """Convert a transport's error into a errors.FetchError.

    Args:
        mask: Removes secrets from texts of the system or of a proxy.
        is_connected: Whether there was a connection, so that the service may have received the request.
    """
    # The refusal of an address first: httpx reports it as a failed connection, which would invite a retry.
    if any(isinstance(cause, ForbiddenAddressError) for cause in _causes(error)):
        return refused(url.host, url.port)
    if isinstance(error, httpx.TimeoutException):
        return errors.FetchTimeoutError(f"no connection to {url.host} in time", may_have_arrived=is_connected)
    if isinstance(error, httpx.RemoteProtocolError):
        return errors.FetchAnswerError(f"{url.host} does not answer in HTTP", may_have_arrived=is_connected)
    why = mask(_reason_of(error))
    if isinstance(error, httpx.UnsupportedProtocol):
        text = f"{url.host} cannot be asked: {why}"
        return errors.FetchConnectionError(text, retryable=False, may_have_arrived=is_connected)
    cause = _describe_cause(error, url.host, f"{url.host}:{url.port}", why)
    text, _, may_pass = cause or (f"no connection to {url.host}: {why}", "", True)
    if is_connected and may_pass:
        text = f"{url.host} closed the connection before its answer was complete"
    return errors.FetchConnectionError(text, retryable=may_pass, may_have_arrived=is_connected)
