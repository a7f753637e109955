"""The transport of a server over HTTP: the SDK's client, whose requests go through FlexChat's guard of addresses."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
from flexchat.plugin import FetchedStream, Fetcher, FetchError, FetchRequest
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from .errors import LOST, NOT_SENT, TOO_LARGE
from .settings import McpConfig

_LONGEST_S = 24 * 3_600.0
"""Until headers arrive, some servers work: how long a call may take is said elsewhere."""


def http_transport(config: McpConfig, fetcher: Fetcher) -> AbstractAsyncContextManager[TransportStreams]:
    """Return the SDK's transport for a URL."""
    assert config.url is not None
    sent = dict(config.headers)
    if config.auth is not None and config.auth.bearer:
        sent["Authorization"] = f"Bearer {config.auth.bearer}"
    guarded = GuardedTransport(fetcher, sent, config.max_bytes)

    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=guarded, timeout=None, trust_env=False)

    if config.transport == "sse":
        return sse_client(config.url, httpx_client_factory=client)
    return _streamable(config.url, client(), config.max_bytes)


@contextlib.asynccontextmanager
async def _streamable(url: str, client: httpx2.AsyncClient, max_bytes: int) -> AsyncIterator[TransportStreams]:
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=max_bytes) as streams:
        yield streams


class GuardedTransport(httpx2.AsyncBaseTransport):
    """httpx2's transport over a Fetcher. It never raises: in the SDK, that would end every other request, too.

    Args:
        headers: Sent with each request.
        max_bytes: The longest answer that is no stream of events.
    """

    def __init__(self, fetcher: Fetcher, headers: dict[str, str], max_bytes: int) -> None:
        self._fetcher, self._headers, self._max = fetcher, headers, max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; answer in the server's place with a JSON-RPC error if there is no usable answer."""
        body = await request.aread()
        headers = {name: value for name, value in request.headers.items() if name != "user-agent"} | self._headers
        sent = FetchRequest(method=request.method, url=str(request.url), headers=headers, body=body, repeatable=False)
        opening = self._fetcher.stream(sent, timeout_s=_LONGEST_S)
        try:
            answer = await opening.__aenter__()
        except FetchError as error:
            return _failed(body, LOST if error.may_have_arrived else NOT_SENT, error)
        kept = {name: value for name, value in answer.headers.items() if name not in _OF_THE_CONNECTION}
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return httpx2.Response(answer.status, headers=kept, stream=_Events(opening, answer))
        pieces, size = [], 0
        try:
            async for piece in answer.pieces:
                size += len(piece)
                if size > self._max:
                    return _failed(body, TOO_LARGE, None)
                pieces.append(piece)
        except FetchError as error:
            return _failed(body, LOST, error)
        finally:
            await opening.__aexit__(None, None, None)
        return httpx2.Response(answer.status, headers=kept, content=b"".join(pieces))


_OF_THE_CONNECTION = {"content-encoding", "content-length", "transfer-encoding", "connection"}


class _Events(httpx2.AsyncByteStream):
    """The body of a stream of events."""

    def __init__(self, opening: AbstractAsyncContextManager[FetchedStream], answer: FetchedStream) -> None:
        self._opening, self._answer = opening, answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.pieces:
                yield piece
        except FetchError as error:
            raise httpx2.ReadError(str(error)) from None

    async def aclose(self) -> None:
        await self._opening.__aexit__(None, None, None)


def _failed(body: bytes, code: int, error: FetchError | None) -> httpx2.Response:
    """Return the answer that the SDK passes on to whoever asked."""
    text = "" if error is None else f"{error} ({error.hint})" if error.hint else str(error)
    try:
        asked = json.loads(body)["id"]
    except (ValueError, TypeError, KeyError):
        asked = None
    data = {"jsonrpc": "2.0", "id": asked, "error": {"code": code, "message": text}}
    return httpx2.Response(502, json=data)
