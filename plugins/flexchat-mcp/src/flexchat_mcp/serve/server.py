"""The server's methods, on the SDK's low-level server: the same for stdio and HTTP, and for both eras."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import tempfile
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
import mcp_types as types
from flexchat import CeilingReachedError, FlexChat, Question, Reply
from flexchat.host import DEFAULT_TENANT, current_traceparent, current_tracestate
from flexchat.plugin import CallSuspended, MediaPart, ToolError, ToolResult
from flexchat.store import data_folder
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.extension import compose_tool_call_handler
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from .calls import Caller, Calls, key_of
from .catalog import Catalog, fill
from .contents import messages_of, resource_content, text_of
from .exchange import ASK
from .questions import BY_CLIENT, can_answer, reply_of, request_of
from .settings import McpServerConfig, ServedPrompt, ServedResource
from .tasks import EXTENSION, MODERN, TasksExtension
from .turns import Ask

Context = ServerRequestContext[Any, Any]
Lend = Callable[[], AbstractAsyncContextManager[FlexChat]]
"""Lends the current chat for a request."""

MAX_STATE_S = 7 * 86_400.0
"""How long a client may take to go on with a call, at most."""

KEY_FILE = "mcp-server.key"
TOO_MANY = -32029
RETRY_AFTER = "flexchat.mcp.retry_after"
"""Where the scope of an HTTP request has the seconds after which a refused call may be repeated."""


class McpServer:
    """FlexChat as an MCP server.

    Attributes:
        calls: The calls of its clients.
        server: The SDK's server.
    """

    def __init__(self, lend: Lend, settings: McpServerConfig, *, tenant: str = DEFAULT_TENANT) -> None:
        self.calls = Calls()
        self._lend, self._tenant = lend, tenant
        self._catalogs: weakref.WeakKeyDictionary[FlexChat, Catalog] = weakref.WeakKeyDictionary()
        hints = {
            method: CacheHint(ttl_ms=settings.ttl_ms)
            for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
        }
        tasks = TasksExtension(self.calls, self.caller)
        call_tool: Any = self._call_tool
        if settings.tasks:
            call_tool = compose_tool_call_handler([tasks], call_tool)
        self.server: Server[Any] = Server(
            settings.name,
            version=version("flexchat-mcp"),
            instructions=settings.instructions,
            cache_hints=hints,  # type: ignore[arg-type]
            on_list_tools=_whole(self._list_tools),
            on_call_tool=_whole(call_tool),
            on_list_prompts=_whole(self._list_prompts),
            on_get_prompt=_whole(self._get_prompt),
            on_list_resources=_whole(self._list_resources),
            on_list_resource_templates=_whole(self._list_templates),
            on_read_resource=_whole(self._read_resource),
            on_completion=_whole(self._complete),
            on_subscribe_resource=self._subscribe,  # type: ignore[arg-type]
            on_unsubscribe_resource=self._subscribe,  # type: ignore[arg-type]
        )
        self.server.extensions[EXTENSION] = tasks.settings()
        for binding in tasks.methods():
            self.server.add_request_handler(binding.method, binding.params_type, _of_newer_era(binding.handler))
        security = RequestStateSecurity(
            keys=[signing_key(settings)], ttl=MAX_STATE_S, bind_principal=self._tenant_of, audience=settings.name
        )
        self.server.middleware.append(RequestStateBoundary(security, default_audience=settings.name))

    @contextlib.asynccontextmanager
    async def caller(self, ctx: Context) -> AsyncIterator[Caller]:
        """Lend the chat to a request."""
        async with self._lend() as chat:
            catalog = self._catalogs.get(chat)
            if catalog is None:
                catalog = self._catalogs[chat] = Catalog(chat)
                self.server.get_tool_input_schema = None
            # In a task of its own, like the variables.
            for name, variable in (("traceparent", current_traceparent), ("tracestate", current_tracestate)):
                if isinstance(value := (ctx.meta or {}).get(name), str):
                    variable.set(value)
            yield Caller(
                chat=chat,
                catalog=catalog,
                tenant=self._tenant_of(ctx),
                capabilities=ctx.session.client_capabilities,
                is_modern=ctx.protocol_version in MODERN,
                key=key_of(ctx.meta),
                ask=self._asker(ctx),
                is_remote=ctx.request is not None,
                report=ctx.session.report_progress,  # does nothing for a client that does not want it
            )

    async def aclose(self) -> None:
        """Stop the turns that run here."""
        await self.calls.turns.aclose()

    def _tenant_of(self, ctx: Context) -> str:
        return self._tenant if ctx.request is None else str(ctx.request.scope["flexchat.tenant"])

    def _asker(self, ctx: Context) -> Ask | None:
        """Return the function that asks a client of the older era while its call runs; None if it cannot be asked."""
        if ctx.protocol_version in MODERN:
            return None
        over_http: Ask | None = None if ctx.request is None else ctx.request.scope.get(ASK)
        session = ctx.session
        if over_http is None and not session.can_send_request:
            return None

        async def ask(question: Question) -> Reply | None:
            if not can_answer(question, session.client_capabilities):
                return None
            if over_http is not None:
                return await over_http((question, ctx.request_id))
            request: Any = types.ElicitRequest.model_validate(request_of(question), by_name=False)
            related = ServerMessageMetadata(related_request_id=ctx.request_id)  # on the stream of its call
            try:
                reply = reply_of(question, await session.send_request(request, types.ElicitResult, metadata=related))
            except MCPError as error:
                return Reply(action="cancel", why=f"the client could not ask: {error.message[:200]}")
            return None if reply is None else attrs.evolve(reply, by=BY_CLIENT)

        return ask

    async def _list_tools(self, ctx: Context, params: Any) -> dict[str, Any]:
        async with self.caller(ctx) as caller:
            tools = await caller.catalog.listed_tools()
            if not caller.chat.tools.sources.by_name:
                # The SDK lists the tools before each call, to compare headers with their schemas, until it has these.
                schemas = {tool["name"]: tool["inputSchema"] for tool in tools}
                self.server.get_tool_input_schema = schemas.get
            return {"tools": tools}

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> dict[str, Any]:
        async with self.caller(ctx) as caller:
            return await self.calls.call(
                caller, params.name, params.arguments or {}, params.request_state, params.input_responses or {}
            )

    async def _list_prompts(self, ctx: Context, params: Any) -> dict[str, Any]:
        async with self.caller(ctx) as caller:
            return {"prompts": caller.catalog.listed_prompts()}

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> dict[str, Any]:
        async with self.caller(ctx) as caller:
            prompt, values = caller.catalog.prompt(params.name), params.arguments or {}
            if prompt is None:
                raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown prompt: {params.name[:200]}")
            missing = [each.name for each in prompt.arguments if each.required and each.name not in values]
            if missing:
                raise MCPError(code=types.INVALID_PARAMS, message=f"missing arguments: {', '.join(missing)}")
            about = {"description": prompt.description} if prompt.description else {}
            if prompt.text is not None:
                content = {"type": "text", "text": fill(prompt.text, values)}
                return {**about, "messages": [{"role": "user", "content": content}]}
            result = await self._made_by(caller, prompt, values, params)
            return result if isinstance(result, dict) else {**about, "messages": messages_of(result)}

    async def _list_resources(self, ctx: Context, params: types.PaginatedRequestParams | None) -> dict[str, Any]:
        async with self.caller(ctx) as caller:
            try:
                listed, following = await caller.catalog.listed_resources(params.cursor if params else None)
            except ValueError as error:
                raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None
            return {"resources": listed, **({"nextCursor": following} if following else {})}

    async def _list_templates(self, ctx: Context, params: Any) -> dict[str, Any]:
        async with self.caller(ctx) as caller:
            return {"resourceTemplates": caller.catalog.listed_templates()}

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        uri = str(params.uri)
        async with self.caller(ctx) as caller:
            resource = caller.catalog.resource(uri)
            try:
                if resource is None:
                    content = await caller.catalog.document(uri)
                elif resource[0].tool is None:
                    content = caller.catalog.content(resource[0])
                else:
                    result = await self._made_by(caller, resource[0], resource[1], params)
                    if isinstance(result, dict):
                        return result
                    content = _content(uri, resource[0], result)
            except OSError as error:
                raise MCPError(code=types.INTERNAL_ERROR, message=f"it cannot be read: {error.strerror}") from None
            if content is None:
                raise MCPError(code=types.INVALID_PARAMS, message="Resource not found", data={"uri": uri})
            return {"contents": [content]}

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> dict[str, Any]:
        """Accept a subscription of the older era: without sessions, there is no stream that announces a change."""
        return {}

    async def _complete(self, ctx: Context, params: types.CompleteRequestParams) -> dict[str, Any]:
        async with self.caller(ctx) as caller:
            name = getattr(params.ref, "name", None)
            prompt = caller.catalog.prompt(name) if isinstance(name, str) else None
            argument = next(
                (each for each in (prompt.arguments if prompt else ()) if each.name == params.argument.name), None
            )
            typed = params.argument.value.casefold()
            values = [each for each in (argument.values if argument else ()) if each.casefold().startswith(typed)]
            return {"completion": {"values": values[:100], "total": len(values), "hasMore": len(values) > 100}}

    async def _made_by(
        self, caller: Caller, source: ServedPrompt | ServedResource, values: Mapping[str, str], params: Any
    ) -> ToolResult | dict[str, Any]:
        """Return the result of the tool behind a prompt or a resource, or the input that it requires."""
        assert source.tool is not None
        if params.request_state is not None:
            id = self.calls.turn_in(params.request_state)
            await self.calls.reply(caller, id, params.input_responses or {})
            return await self._followed(caller, id)
        try:
            result = await self.calls.result(caller, source.tool, values)
        except CallSuspended:
            try:
                id = await self.calls.submit(caller, source.tool, values)
            except ToolError as error:
                raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None
            return await self._followed(caller, id)
        return _succeeded(result)

    async def _followed(self, caller: Caller, id: str) -> ToolResult | dict[str, Any]:
        outcome = await self.calls.turns.follow(caller.chat, caller.tenant, id, ask=caller.ask)
        if outcome.open:
            required = await self.calls.required(caller, outcome)
            if "inputRequests" not in required:
                raise MCPError(code=types.INVALID_PARAMS, message=required["content"][0]["text"])
            return required
        if outcome.turn is None or not outcome.turn.tool_calls:
            raise MCPError(code=types.INTERNAL_ERROR, message=outcome.error or "it was cancelled")
        return _succeeded(outcome.turn.tool_calls[0].result)


def signing_key(settings: McpServerConfig) -> bytes:
    """Return the key that signs states: of the configuration or, on one machine, of a file in the data folder."""
    if settings.secret is not None:
        secret = settings.secret.encode()
    else:
        path = Path(data_folder()) / KEY_FILE
        with contextlib.suppress(FileExistsError):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                # Written whole before it has its name: of two processes that start at once, one makes the key.
                with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as new:
                    new.write(os.urandom(32))
                try:
                    os.link(new.name, path)
                finally:
                    os.unlink(new.name)
        secret = path.read_bytes()
    return hashlib.sha256(b"flexchat mcp requestState\0" + secret).digest()


def _whole(handler: Callable[[Context, Any], Awaitable[dict[str, Any]]]) -> Callable[[Context, Any], Awaitable[Any]]:
    """Mark results as complete, unless they require input; the older era's have no such field.

    A call that a limit refuses gets an error with the time to wait.
    """

    async def handle(ctx: Context, params: Any) -> dict[str, Any]:
        try:
            return {"resultType": "complete", **await handler(ctx, params)}
        except CeilingReachedError as error:
            after = None if error.retry_after_s is None else math.ceil(error.retry_after_s)
            if ctx.request is not None:
                ctx.request.scope[RETRY_AFTER] = after
            data = None if after is None else {"retryAfterMs": after * 1_000}
            raise MCPError(code=TOO_MANY, message=str(error), data=data) from None

    return handle


def _of_newer_era(
    handler: Callable[[Context, Any], Awaitable[Any]],
) -> Callable[[Context, Any], Awaitable[Any]]:
    async def gated(ctx: Context, params: Any) -> Any:
        if ctx.protocol_version not in MODERN:
            raise MCPError(code=types.METHOD_NOT_FOUND, message="Method not found", data=ctx.method)
        return await handler(ctx, params)

    return gated


def _succeeded(result: ToolResult) -> ToolResult:
    if not result.success:
        raise MCPError(code=types.INTERNAL_ERROR, message=result.explained())
    return result


def _content(uri: str, resource: ServedResource, result: ToolResult) -> dict[str, Any]:
    part: MediaPart | None = result.media[0] if result.media else None
    if part is not None:
        return resource_content(uri, resource.mime_type or part.mime_type, part.data or b"")
    is_text = isinstance(result.result, str)
    kind = resource.mime_type or ("text/plain" if is_text else "application/json")
    return resource_content(uri, kind, text_of(result))
