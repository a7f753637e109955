"""What a broken connection means, kind by kind."""

import socket

import httpx
import pytest
from flexchat.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
)
from flexchat_sdk.http.trouble import connection_trouble


def caused(error: httpx.TransportError, cause: Exception) -> httpx.TransportError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "text", "retryable"),
    [
        (httpx.ConnectTimeout("x"), ProviderTimeoutError, "within 5 s (connect_timeout_s)", True),
        (httpx.PoolTimeout("x"), ProviderTimeoutError, "within 5 s", True),
        (httpx.ReadTimeout("x"), ProviderTimeoutError, "did not answer in time", True),
        (httpx.RemoteProtocolError("x"), ProviderProtocolError, "does not answer in HTTP", False),
        (httpx.UnsupportedProtocol("odd"), ProviderConnectionError, "odd", False),
        (httpx.ProxyError("407"), ProviderConnectionError, "proxy named in the environment", True),
        (caused(httpx.ConnectError("x"), socket.gaierror()), ProviderConnectionError, "cannot be resolved", True),
        (caused(httpx.ConnectError("x"), ConnectionRefusedError()), ProviderConnectionError, "nothing listens", True),
        (httpx.ConnectError("no route"), ProviderConnectionError, "no route", True),
        (httpx.WriteError("x"), ProviderConnectionError, "without an answer", True),
    ],
)
def test_each_kind_has_its_class_and_sentence(
    error: httpx.TransportError, kind: type[ProviderError], text: str, retryable: bool
) -> None:
    """The sentence names the host; only what may pass is repeated."""
    found = connection_trouble(error, "h.example", 5.0, answered=False, received=False, passed_on=False)

    assert type(found) is kind
    assert "h.example" in str(found)
    assert text in str(found)
    assert found.retryable is retryable


def test_what_was_passed_on_is_not_asked_for_again() -> None:
    """Once some of the body has arrived, repeating would say it twice."""
    found = connection_trouble(httpx.ReadError("x"), "h.example", 5.0, answered=True, received=True, passed_on=True)

    assert not found.retryable
    assert "in the middle" in str(found)
