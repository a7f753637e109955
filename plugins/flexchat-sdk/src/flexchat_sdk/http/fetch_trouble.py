"""Converts a transport's errors during a guarded request into FetchErrors, with a remedy for people and models."""

from __future__ import annotations

import socket
from collections.abc import Callable

import httpx
from flexchat.errors import FetchAnswerError, FetchConnectionError, FetchError, FetchTimeoutError

from .connections import ForbiddenAddressError
from .guard import CheckedUrl, refused
from .trouble import causes, reason_of, tls_problem


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
