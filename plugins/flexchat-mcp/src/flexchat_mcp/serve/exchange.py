"""One request over HTTP and its answer, which becomes a stream where that takes long; the client is watched meanwhile.

Of the older era, which the SDK's transport serves with the streams and tasks of a session, this is all; of the newer,
the SDK makes an answer that is JSON.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any

import anyio
import mcp_types as types
import pydantic_core
from flexchat import Question, Reply
from flexchat.host import wait_for_answer
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import modern_error_data, serve_one
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from pydantic import ValidationError
from starlette.requests import Request

from .questions import request_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

ASK = "flexchat.mcp.ask"
"""Where the scope of a request has the function that asks its client in the stream of the answer."""

PING_S = 15.0
"""After which an answer becomes a stream and has a comment, and so on, so that no proxy closes it."""

PING = b": ping\r\n\r\n"

_HEAD = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]


async def run_watched(
    serving: Coroutine[Any, Any, None], receive: Receive, ping: Callable[[], Awaitable[None]]
) -> None:
    """Run what answers a request: cancel it when the client has gone, and ping until it has ended."""
    work, gone = asyncio.create_task(serving), asyncio.create_task(_wait_until_gone(receive))
    try:
        while not (await asyncio.wait((work, gone), timeout=PING_S, return_when=asyncio.FIRST_COMPLETED))[0]:
            await ping()
    finally:
        work.cancel()
        gone.cancel()
        await asyncio.wait((work, gone))
    if not work.cancelled():
        work.result()


class LateStream:
    """Passes on an answer that is JSON; once it has been pinged, as the event of a stream."""

    def __init__(self, send: Send) -> None:
        self._send, self._has_answer, self._has_begun = send, False, False

    async def __call__(self, message: Message) -> None:
        """Send a message of the answer."""
        self._has_answer = True
        if not self._has_begun:
            await self._send(message)
        elif message["type"] == "http.response.body":
            await self._send({**message, "body": _event(message["body"])})

    async def ping(self) -> None:
        """Begin the stream, or keep it open."""
        if self._has_answer:
            return
        if not self._has_begun:
            self._has_begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": [*_HEAD]})
        await self._send({"type": "http.response.body", "body": PING, "more_body": True})


async def answer(
    server: Server[Any], connection: Connection, body: bytes, scope: Any, receive: Receive, send: Send
) -> None:
    """Answer a POST: a request in a stream, a notification with 202.

    Args:
        connection: What its client has declared.
        body: Of the request; what ``receive`` returns comes after it.
    """
    request = Request(scope)
    if (refusal := await TransportSecurityMiddleware(None).validate_request(request, is_post=True)) is not None:
        await refusal(scope, receive, send)
        return
    if not all(check_accept_headers(request)):
        text = "Not Acceptable: Client must accept both application/json and text/event-stream"
        await refuse(send, 406, types.INVALID_REQUEST, text)
        return
    try:
        message = types.jsonrpc_message_adapter.validate_python(pydantic_core.from_json(body), by_name=False)
    except ValidationError as error:
        await refuse(send, 400, types.INVALID_PARAMS, f"Validation error: {error}")
    except ValueError as error:
        await refuse(send, 400, types.PARSE_ERROR, f"Parse error: {error}")
    else:
        if isinstance(message, types.JSONRPCRequest):
            await Exchange(request, message, send).run(server, connection, receive)
        else:  # about what only a session would have
            await send_whole(send, 202)


class Exchange:
    """A request and the stream of its answer: the SDK's DispatchContext of one that cannot send requests.

    State: whether the stream has begun.
    """

    transport = TransportContext(kind="streamable-http", can_send_request=False)
    can_send_request = False

    def __init__(self, request: Request, message: types.JSONRPCRequest, send: Send) -> None:
        self.request_id = message.id
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self.cancel_requested = anyio.Event()  # by a message that another process may get: never set
        self._message, self._send, self._has_begun = message, send, False
        self._progress_token = progress_token_from_params(message.params)
        self._writing = asyncio.Lock()
        self._work: asyncio.Task[Any] | None = None
        request.scope[ASK] = self._ask

    async def run(self, server: Server[Any], connection: Connection, receive: Receive) -> None:
        """Serve the request."""
        await run_watched(self._serve(server, connection), receive, functools.partial(self._write, PING))

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refuse: the reply would reach another exchange."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notification in the stream."""
        await self._write_event({"method": method, **({} if params is None else {"params": params})})

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the client has asked for it."""
        if self._progress_token is not None:
            params = {"progressToken": self._progress_token, "progress": progress, "total": total, "message": message}
            await self.notify(
                "notifications/progress", {name: value for name, value in params.items() if value is not None}
            )

    async def _serve(self, server: Server[Any], connection: Connection) -> None:
        method, params = self._message.method, self._message.params
        self._work = asyncio.current_task()
        try:
            outcome: Any = {
                "result": await serve_one(server, self, method, params, connection=connection, lifespan_state={})
            }
        except Exception as error:  # noqa: BLE001  the SDK's function logs what it does not expect
            outcome = {"error": modern_error_data(error).model_dump(mode="json", by_alias=True, exclude_none=True)}
        await self._write_event({"id": self.request_id, **outcome}, is_last=True)

    async def _ask(self, what: tuple[Question, Any]) -> Reply | None:
        """Ask the client in the stream, and wait for its reply, which comes in a request of its own."""
        question, _ = what
        await self._write_event({"id": question.id, **request_of(question)})
        return await wait_for_answer(question)

    async def _write_event(self, message: Mapping[str, Any], *, is_last: bool = False) -> None:
        data = pydantic_core.to_json({"jsonrpc": "2.0", **message}, inf_nan_mode="null")
        await self._write(_event(data), is_last=is_last)

    async def _write(self, body: bytes, *, is_last: bool = False) -> None:
        async with self._writing:
            try:
                if not self._has_begun:
                    self._has_begun = True
                    await self._send({"type": "http.response.start", "status": 200, "headers": [*_HEAD]})
                await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})
            except Exception:  # the client is no longer admitted, or has gone
                if self._work is not None:
                    self._work.cancel()
                raise


async def refuse(send: Send, status: int, code: int, text: str, *, allow: str = "") -> None:
    """Send an error that belongs to no request."""
    body = pydantic_core.to_json({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}})
    await send_whole(send, status, body, *([(b"allow", allow.encode())] if allow else []))


async def send_whole(send: Send, status: int, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
    """Send an answer that is JSON or empty."""
    length = (b"content-length", str(len(body)).encode())
    head = [(b"content-type", b"application/json"), *headers, length]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def _event(data: bytes) -> bytes:
    return b"event: message\r\ndata: %b\r\n\r\n" % data


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
