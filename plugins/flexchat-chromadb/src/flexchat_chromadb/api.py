"""HTTP client of the wrapper. All requests of this package are sent here."""

from __future__ import annotations

import asyncio
import base64
import urllib.parse
from collections.abc import Mapping
from typing import Any

from flexchat.store import RetrievalError
from flexchat_sdk import HttpAnswer, HttpClient, ProviderError, Timeouts, refusal_data, refusal_text, to_bytes

from .config import Auth, WrapperConfig

_AGAIN = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may succeed. Not 500: the wrapper also returns it for invalid requests."""


class WrapperError(RetrievalError):
    """The wrapper rejected a request, or did not answer.

    Attributes:
        status: HTTP status; None if there was no response.
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class WrapperApi:
    """Client of one wrapper. Connects on the first request."""

    def __init__(self, config: WrapperConfig, name: str) -> None:
        self._config = config
        self._name = name
        self._http: HttpClient | None = None

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, patience: int = 1) -> Any:
        """Send a request and return the JSON data of the response, retrying if the request is idempotent.

        Args:
            patience: Factor by which ``timeout`` is extended.

        Raises:
            WrapperError: The request was rejected, not answered, or answered with something other than JSON.
        """
        data, retry = b"" if body is None else to_bytes(body), self._config.retry
        for attempt in range(1, retry.max_attempts + 1):
            try:
                answer = await self._client().send(method, path, data, timeout_s=patience * self._config.timeout / 1000)
                if answer.status not in _AGAIN or attempt == retry.max_attempts:
                    return self._read(answer)
            except ProviderError as error:
                if attempt == retry.max_attempts or not error.retryable:
                    raise self._failed(str(error), error.status) from None
            await asyncio.sleep(retry.delay / 1000 * 2 ** (attempt - 1))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def aclose(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    def _client(self) -> HttpClient:
        if self._http is None:
            config, timeouts = self._config, Timeouts(total_s=2 * self._config.timeout / 1000)
            sent = {"accept": "application/json", **_auth_headers(config.auth)}
            sent |= {name.lower(): value for name, value in config.headers.items()}
            secrets = [*config.headers.values(), *_secrets(config.auth)]
            self._http = HttpClient("chromadb-wrapper", config.url, sent, timeouts=timeouts, secrets=secrets)
        return self._http

    def _read(self, answer: HttpAnswer) -> Any:
        """Decode a response. An unhealthy wrapper returns status 200 with a list of [body, intended status]."""
        data, status = refusal_data(answer.body), answer.status
        if isinstance(data, list) and len(data) == 2 and isinstance(data[1], int) and data[1] >= 400:
            data, status = data
        if status >= 400:
            detail = data.get("detail", data.get("error", data)) if isinstance(data, dict) else data
            reason = refusal_text(detail if isinstance(detail, str) else str(detail), self._client().mask)
            text = f"{self._client().host} refused with status {status}: {reason or 'without a word'}"
            raise self._failed(text, status)
        if not isinstance(data, dict):
            raise self._failed(f"{self._client().host} answered without JSON data: is url that of a wrapper?", status)
        return data

    def _failed(self, text: str, status: int | None) -> WrapperError:
        # The HTTP client's errors name base_url and timeout_s; this config uses the original's names for them.
        for shared, own in (("base_url", "url"), ("timeout_s", "timeout")):
            text = text.replace(shared, own)
        return WrapperError(f"stores.{self._name}: {text}", status)


def quoted(name: str) -> str:
    """Percent-encode a name as one path segment."""
    return urllib.parse.quote(name, safe="")


def _auth_headers(auth: Auth | None) -> dict[str, str]:
    if auth is None:
        return {}
    if auth.type == "bearer":
        return {"authorization": f"Bearer {auth.token}"}
    if auth.type == "api-key":
        return {auth.header.lower(): auth.key or ""}
    return {"authorization": f"Basic {_basic(auth)}"}


def _basic(auth: Auth) -> str:
    return base64.b64encode(f"{auth.username}:{auth.password}".encode()).decode()


def _secrets(auth: Auth | None) -> list[str]:
    if auth is None:
        return []
    return list(filter(None, (auth.token, auth.password, auth.key, _basic(auth) if auth.type == "basic" else None)))
