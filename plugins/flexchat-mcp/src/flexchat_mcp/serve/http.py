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
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import mcp_types as types
from flexchat import ClosedQuestionError, FlexChat, InvalidReplyError, Question, Reply, UnknownQuestionError
from flexchat.plugin import FlexChatError
from mcp.server.connection import Connection
from mcp.server.streamable_http import check_accept_headers
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import DEFAULT_NEGOTIATED_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request

from .exchange import LateStream, Message, Receive, Send, answer, refuse, run_watched, send_whole
from .questions import BY_CLIENT, reply_of
from .server import RETRY_AFTER, McpServer, signing_key
from .settings import McpServerConfig

if TYPE_CHECKING:
    from flexchat_web.typing import Serving

log = logging.getLogger(__name__)

DECLARED = "flexchat.mcp.declared"
SESSION, VERSION = b"mcp-session-id", b"mcp-protocol-version"
MAX_SESSION_CHARS = 4_000
MAX_DEPTH = 100
_STREAMED = (b"progressToken", b"subscriptions/listen")


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
        version = _header(scope, VERSION)
        is_older = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        if scope["method"] != "POST" and (scope["method"] != "GET" or is_older or not version):
            # No stream outlives a request, and no session has to be ended.
            await refuse(send, 405, types.INVALID_REQUEST, "only POST is supported", allow="POST")
            return
        send = served.with_session(scope, send)
        if scope["method"] == "GET":
            await served.manager.handle_request(scope, receive, send)
            return
        body = await _read(receive, settings.max_bytes)
        if body is None:
            await refuse(send, 413, types.INVALID_REQUEST, f"a message may have {settings.max_bytes:,} bytes")
        elif nesting(body) > MAX_DEPTH:
            await refuse(send, 400, types.PARSE_ERROR, f"the message is nested more than {MAX_DEPTH} deep")
        elif b'"method"' not in body and await self._take_reply(body, scope["flexchat.tenant"]):
            await send_whole(send, 202)
        elif not is_older:
            await served.answer_newer(body, scope, receive, send)
        elif (client := served.client_of(scope)) is None:
            await refuse(send, 404, types.INVALID_REQUEST, "there is no such session: initialize again")
        else:
            if b'"initialize"' in body:
                scope[DECLARED] = _declared(body)
            known = version or client.get("version") or DEFAULT_NEGOTIATED_VERSION
            connection = Connection.from_envelope(known, None, client.get("capabilities"))
            await answer(served.server.server, connection, body, scope, receive, send)

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
        self.manager, self.whole_manager = (
            StreamableHTTPSessionManager(
                self.server.server, stateless=True, json_response=is_whole, max_request_body_size=settings.max_bytes
            )
            for is_whole in (False, True)
        )
        self._key = hashlib.sha256(b"session\0" + signing_key(settings)).digest()
        self._ended = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the manager in a task of its own: its cancel scopes must be left where they were entered."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def own() -> None:
            async with self.manager.run(), self.whole_manager.run():
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

    async def answer_newer(self, body: bytes, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request of the newer era: with JSON, unless its client asks for what only a stream can bring."""
        if any(word in body for word in _STREAMED) or not all(check_accept_headers(Request(scope))):
            await self.manager.handle_request(scope, _replay(body, receive), send)
            return
        late = LateStream(send)
        await run_watched(self.whole_manager.handle_request(scope, _whole(body), late), receive, late.ping)

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

    def client_of(self, scope: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Verify the id of a request's session, and return the declaration in it.

        Empty without an id; None if it is not ours for this tenant.
        """
        id = (_header(scope, SESSION) or "")[:MAX_SESSION_CHARS]
        data, _, signature = id.partition(".")
        if not id:
            return {}
        if not hmac.compare_digest(signature.encode(), self._sign(data, scope["flexchat.tenant"]).encode()):
            return None
        declared: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(data))
        return declared

    def _sign(self, data: str, tenant: str) -> str:
        return hmac.new(self._key, f"{tenant}\0{data}".encode(), "sha256").hexdigest()


def _header(scope: Mapping[str, Any], name: bytes) -> str | None:
    return next((value.decode("latin-1") for each, value in scope["headers"] if each == name), None)


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


def _whole(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replayed() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
