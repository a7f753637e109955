"""Converts a transport's errors into ProviderErrors with a remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx
from flexchat.errors import ProviderConnectionError, ProviderError, ProviderProtocolError, ProviderTimeoutError

NO_CONNECTION = "no_connection"
"""The code of a timeout that passed before anything was sent."""


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
    chain = list(causes(error))
    why = " ".join(str(error).split())[:200]
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
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = getattr(cause, "verify_message", why)
            text = f"the certificate of {host} is not trusted: {reason}; SSL_CERT_FILE can name others"
            return ProviderConnectionError(text, retryable=False)
    if any(isinstance(c, ssl.SSLError) for c in chain):
        text = f"no TLS connection with {host}: does base_url say https where the server speaks http?"
        return ProviderConnectionError(text, retryable=False)
    if isinstance(error, httpx.ProxyError):
        text = f"the proxy named in the environment does not lead to {host}: {why}"
    elif any(isinstance(c, socket.gaierror) for c in chain):
        text = f"the name {host} cannot be resolved: is base_url right, and is there a network?"
    elif any(isinstance(c, ConnectionRefusedError) for c in chain):
        text = f"nothing listens at {host}: is the server running, and is base_url right?"
    elif isinstance(error, httpx.ConnectError):
        text = f"no connection to {host}: {why}"
    elif received:
        text = f"{host} closed the connection in the middle of its answer"
    elif answered:
        text = f"{host} closed the connection before its answer began"
    else:
        text = f"{host} closed the connection without an answer"
    return ProviderConnectionError(text, retryable=not passed_on)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield error and its causes; aiohttp keeps the system's error outside the chain."""
    while error is not None:
        yield error
        for name in ("os_error", "certificate_error"):
            beside = getattr(error, name, None)
            if isinstance(beside, BaseException):
                yield beside
        error = error.__cause__ or error.__context__
