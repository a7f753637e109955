"""The server over streamable HTTP, without sessions: any process can answer any request, in both eras.

Where the older era needs a session, its id holds what the client has declared, signed. A question to such a client
travels in the stream of the call's answer; the reply comes in a request of its own, which may reach another process,
and is a reply to the kept question.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from flexchat import ClosedQuestionError, FlexChat, InvalidReplyError, Question, Reply, UnknownQuestionError
from flexchat.host import wait_for_answer
from flexchat.plugin import FlexChatError
from mcp.server.connection import Connection
from mcp.server.runner import serve_connection
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp_types import DEFAULT_NEGOTIATED_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from .questions import BY_CLIENT, reply_of, request_of
from .server import RETRY_AFTER, McpServer, signing_key
from .settings import McpServerConfig

if TYPE_CHECKING:
    from flexchat_web.typing import Serving

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = logging.getLogger(__name__)

ASK, DECLARED = "flexchat.mcp.ask", "flexchat.mcp.declared"
SESSION, VERSION = b"mcp-session-id", b"mcp-protocol-version"
MAX_SESSION_CHARS = 4_000
MAX_DEPTH = 100


class McpApp:
    """The app at /mcp. It follows the current configuration; what its clients have under way goes on."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._served: dict[tuple[str, str | None], _Served] = {}
        self._newest: tuple[McpServerConfig | None, _Served | None] = (None, None)
        self._lock = asyncio.Lock()

    async def __call__(
        self, settings: McpServerConfig, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Answer a request."""
        served = await self._current(settings)
        headers = dict(scope["headers"])
        if scope["method"] == "POST":
            body = await _read(receive, settings.max_bytes)
            if body is None:
                await _refuse(send, 413, types.INVALID_REQUEST, f"a message may have {settings.max_bytes:,} bytes")
                return
            if nesting(body) > MAX_DEPTH:
                await _refuse(send, 400, types.PARSE_ERROR, f"the message is nested more than {MAX_DEPTH} deep")
                return
            if b'"method"' not in body and await self._take_reply(body, scope["flexchat.tenant"]):
                await _send(send, 202)
                return
            if b'"initialize"' in body:
                scope[DECLARED] = _declared(body)
            receive = _replay(body, receive)
        elif scope["method"] != "GET" or headers.get(VERSION, b"").decode("latin-1") in (
            "",
            *HANDSHAKE_PROTOCOL_VERSIONS,
        ):
            # No stream outlives a request, and no session has to be ended.
            await _refuse(send, 405, types.INVALID_REQUEST, "only POST is supported", allow="POST")
            return
        await served.manager.handle_request(scope, receive, served.with_session(scope, send))

    async def aclose(self) -> None:
        """Stop what runs here."""
        for served in self._served.values():
            await served.aclose()

    async def _current(self, settings: McpServerConfig) -> _Served:
        newest_settings, newest = self._newest
        if newest_settings is settings and newest is not None:
            return newest
        key = repr(settings), settings.secret  # which its repr leaves out
        served = self._served.get(key)
        if served is None:
            async with self._lock:
                served = self._served.get(key)
                if served is None:
                    served = _Served(self._serving.chat, settings)
                    await served.start()
                    self._served[key] = served
        self._newest = settings, served
        return served

    async def _take_reply(self, body: bytes, tenant: str) -> bool:
        """Record the reply of a client to a question; return whether the message was a reply."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return False
        is_reply = isinstance(message, dict) and ("result" in message or "error" in message)
        if not is_reply or not isinstance(id := message.get("id"), str):
            return False
        async with self._serving.chat() as chat:
            await _answer(chat, tenant, id, message.get("result"))
        return True


async def _answer(chat: FlexChat, tenant: str, id: str, result: Any) -> None:
    reply: Reply | None = None
    with contextlib.suppress(UnknownQuestionError, FlexChatError):
        reply = reply_of((await chat.question(id, tenant=tenant)).question, result)
    if reply is None and isinstance(result, Mapping):
        reply = reply_of(Question(message="", schema={}), result)
    try:
        await chat.answer(id, reply or Reply(action="cancel"), tenant=tenant, by=BY_CLIENT)
    except (UnknownQuestionError, ClosedQuestionError, InvalidReplyError) as error:
        log.info("a client's reply is ignored: %s", error)


class _Served:
    """One server with its settings, and the task that owns the SDK's manager."""

    def __init__(
        self, lend: Callable[[], contextlib.AbstractAsyncContextManager[FlexChat]], settings: McpServerConfig
    ) -> None:
        self.server = McpServer(lend, settings)
        self.manager = _Manager(self, settings)
        self._key = hashlib.sha256(b"session\0" + signing_key(settings)).digest()
        self._ended = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the manager in a task of its own: its cancel scopes must be left where they were entered."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def own() -> None:
            async with self.manager.run():
                started.set_result(None)
                await self._ended.wait()

        self._owner = asyncio.create_task(own())
        await started

    async def aclose(self) -> None:
        """End it."""
        await self.server.aclose()
        self._ended.set()
        if self._owner is not None:
            await asyncio.wait([self._owner])

    def with_session(self, scope: Mapping[str, Any], send: Send) -> Send:
        """Return a send that adds the session's id to the answer to a handshake, and 429 to a call that has to wait."""

        async def send_with_id(message: Message) -> None:
            declared = scope.get(DECLARED)
            if message["type"] == "http.response.start" and RETRY_AFTER in scope and not _is_stream(message):
                after = scope[RETRY_AFTER]
                headers = [] if after is None else [(b"retry-after", str(after).encode())]
                message = {**message, "status": 429, "headers": [*message.get("headers", ()), *headers]}
            if message["type"] == "http.response.start" and declared is not None and message["status"] == 200:
                id = self.session_id(declared, scope["flexchat.tenant"])
                message = {**message, "headers": [*message.get("headers", ()), (SESSION, id.encode())]}
            await send(message)

        return send_with_id

    def session_id(self, declared: Mapping[str, Any], tenant: str) -> str:
        """Return the id of a session: what the client has declared, signed for its tenant."""
        data = base64.urlsafe_b64encode(json.dumps(declared, separators=(",", ":")).encode()).decode()
        return f"{data}.{self._sign(data, tenant)}"

    def declared_in(self, id: str, tenant: str) -> Mapping[str, Any] | None:
        """Verify a session's id, and return the declaration in it; None if it is not ours for this tenant."""
        data, _, signature = id.partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(data, tenant).encode()):
            return None
        declared: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(data))
        return declared

    def _sign(self, data: str, tenant: str) -> str:
        return hmac.new(self._key, f"{tenant}\0{data}".encode(), "sha256").hexdigest()


class _Manager(StreamableHTTPSessionManager):
    """The SDK's manager. Of the older era, each request is served by itself, with what its session's id declares."""

    def __init__(self, served: _Served, settings: McpServerConfig) -> None:
        super().__init__(served.server.server, stateless=True, max_request_body_size=settings.max_bytes)
        self._served = served

    async def _handle_stateless_request(
        self, protocol_version_hint: str | None, scope: Any, receive: Any, send: Any
    ) -> None:
        headers, declared = dict(scope["headers"]), {}
        if (id := headers.get(SESSION, b"").decode("latin-1")) != "":
            client = self._served.declared_in(id[:MAX_SESSION_CHARS], scope["flexchat.tenant"])
            if client is None:
                await _refuse(send, 404, types.INVALID_REQUEST, "there is no such session: initialize again")
                return
            declared = dict(client)
        transport = StreamableHTTPServerTransport(mcp_session_id=None)

        async def serve(*, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
            async with transport.connect() as (reading, writing):
                task_status.started()
                scope[ASK] = _asker(writing)
                dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
                    reading,
                    writing,
                    inline_methods=frozenset({"initialize"}),
                    transport_builder=lambda _: TransportContext(kind="streamable-http", can_send_request=False),
                )
                version = protocol_version_hint or declared.get("version") or DEFAULT_NEGOTIATED_VERSION
                connection = Connection.from_envelope(version, None, declared.get("capabilities"))
                try:
                    await serve_connection(
                        self.app, dispatcher, connection=connection, lifespan_state=self._lifespan_state
                    )
                except Exception:
                    log.exception("a request of the older era failed")

        assert self._task_group is not None
        try:
            await self._task_group.start(serve)
            await transport.handle_request(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await transport.terminate()


def _asker(writing: Any) -> Callable[[tuple[Question, Any]], Awaitable[Reply | None]]:
    """Return the function that asks a client in the stream of a call's answer, and waits for the reply."""

    async def ask(what: tuple[Question, Any]) -> Reply | None:
        question, request = what
        message = types.JSONRPCRequest(jsonrpc="2.0", id=question.id, **request_of(question))
        await writing.send(SessionMessage(message, metadata=ServerMessageMetadata(related_request_id=request)))
        return await wait_for_answer(question)

    return ask


def _is_stream(start: Message) -> bool:
    return any(value.startswith(b"text/event-stream") for name, value in start["headers"] if name == b"content-type")


def _declared(body: bytes) -> dict[str, Any] | None:
    """Read a client's handshake: its version, and whether it can be asked; None for other messages."""
    try:
        message = json.loads(body)
        params = message["params"]
        if message["method"] != "initialize":
            return None
        version, elicitation = params["protocolVersion"], params["capabilities"].get("elicitation")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None
    kinds = [
        kind for kind in ("form", "url") if isinstance(elicitation, dict) and isinstance(elicitation.get(kind), dict)
    ]
    capabilities: dict[str, Any] = (
        {"elicitation": {kind: {} for kind in kinds}} if isinstance(elicitation, dict) else {}
    )
    return {"version": str(version)[:20], "capabilities": capabilities}


def nesting(body: bytes) -> int:
    """Compute the depth of a JSON text, from above: brackets in its strings count as well."""
    depth = most = 0
    for char in body.translate(None, delete=_FLAT):
        depth += 1 if char in b"[{" else -1
        most = max(most, depth)
    return most


_FLAT = bytes(set(range(256)) - set(b"[]{}"))


async def _read(receive: Receive, most: int) -> bytes | None:
    """Read a body; None if it is too long."""
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replayed() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _refuse(send: Send, status: int, code: int, text: str, *, allow: str = "") -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}).encode()
    await _send(send, status, body, *([(b"allow", allow.encode())] if allow else []))


async def _send(send: Send, status: int, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
    kind = [(b"content-type", b"application/json")] if body else []
    start = {"type": "http.response.start", "status": status, "headers": [*kind, *headers]}
    await send({**start, "headers": [*start["headers"], (b"content-length", str(len(body)).encode())]})  # type: ignore[misc]
    await send({"type": "http.response.body", "body": body})
