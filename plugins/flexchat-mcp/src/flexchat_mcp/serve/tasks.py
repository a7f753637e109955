"""Long calls as tasks: a task is a stored turn, so any process can report its state, update and cancel it.

Source: the extension io.modelcontextprotocol/tasks (SEP-2663).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
from flexchat import JournaledTurn, UnknownTurnError
from flexchat.plugin import ToolError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError

from ..results import UNKNOWN
from .calls import Caller, Calls
from .catalog import ASK
from .questions import can_answer, names_of, request_of
from .turns import Outcome, called_result

EXTENSION = "io.modelcontextprotocol/tasks"
MODERN = frozenset({"2026-07-28"})
POLL_MS = 1_000
ASKING_S = 1.0
"""How long a call of a tool with ``asks_first`` may take to its first question."""

NAME_HEADER = "mcp-name"

OpenCaller = Callable[[ServerRequestContext[Any, Any]], Any]
"""Opens the caller of a request, as an async context manager."""


class TaskParams(types.RequestParams):
    """The parameters of a request about a task."""

    task_id: str


class UpdateParams(TaskParams):
    """The parameters of tasks/update."""

    input_responses: dict[str, Any]


class TasksExtension(Extension):
    """Answers calls of the config's long tools with tasks, if the client supports tasks."""

    identifier = EXTENSION

    def __init__(self, calls: Calls, open_caller: OpenCaller) -> None:
        self._calls, self._open_caller = calls, open_caller

    def methods(self) -> Sequence[MethodBinding]:
        """Return the requests about tasks, of the newer era only."""
        return [
            MethodBinding("tasks/get", TaskParams, self._handler(self._get), MODERN),
            MethodBinding("tasks/update", UpdateParams, self._handler(self._update), MODERN),
            MethodBinding("tasks/cancel", TaskParams, self._handler(self._cancel), MODERN),
        ]

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer a call with a task, if its tool is among the long ones; the task is on the disk by then."""
        async with self._open_caller(ctx) as caller:
            mode = caller.catalog.settings.task_mode(params.name) if caller.catalog.keeps else None
            if mode is None:
                return await call_next(ctx)
            if not (caller.is_modern and supports_tasks(caller)):
                if mode == "required":
                    raise _missing()
                return await call_next(ctx)
            try:
                return await self._as_task(caller, params)
            except ToolError as error:
                return {"resultType": "complete", "content": [{"type": "text", "text": str(error)}], "isError": True}

    async def _as_task(self, caller: Caller, params: types.CallToolRequestParams) -> dict[str, Any]:
        """Start a task, or go on with a call that had to ask first; return the task, or what it requires before."""
        calls, arguments, asks_first = self._calls, params.arguments or {}, True
        if params.request_state is not None:
            id = calls.turn_in(params.request_state)
            await calls.reply(caller, id, params.input_responses or {})
        elif params.name == ASK and ASK in caller.catalog.own():
            id, asks_first = await calls.submit_message(caller, arguments), False
        else:
            tool = await calls.tool(caller, params.name)
            id, asks_first = await calls.submit(caller, tool.name, arguments), tool.asks_first
        await calls.turns.take(caller.chat, caller.tenant, id)
        if asks_first:
            # A tool that asks before it does anything is no task until it has its replies.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ASKING_S):
                    outcome = await calls.turns.follow(caller.chat, caller.tenant, id)
                    if outcome.open:
                        return await calls.required(caller, outcome)
        return {
            "resultType": "task",
            **_metadata(await calls.turns.row(caller.chat, caller.tenant, id)),
            "status": "working",
        }

    def _handler(
        self, handle: Callable[[Caller, Any], Awaitable[dict[str, Any]]]
    ) -> Callable[[ServerRequestContext[Any, Any], Any], Awaitable[HandlerResult]]:
        async def handler(ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
            headers = getattr(ctx.request, "headers", {})
            if (name := headers.get(NAME_HEADER)) is not None and name != params.task_id:
                text = f"the header Mcp-Name names {name[:100]!r}, the request another task"
                raise MCPError(code=types.HEADER_MISMATCH, message=text)
            async with self._open_caller(ctx) as caller:
                if not supports_tasks(caller):
                    raise _missing()
                try:
                    if not caller.catalog.keeps:
                        raise UnknownTurnError(params.task_id)
                    return {"resultType": "complete", **await handle(caller, params)}
                except UnknownTurnError:
                    text = f"there is no task {params.task_id[:100]!r}"
                    raise MCPError(code=types.INVALID_PARAMS, message=text) from None

        return handler

    async def _get(self, caller: Caller, params: TaskParams) -> dict[str, Any]:
        row, outcome = await self._calls.turns.state(caller.chat, caller.tenant, params.task_id)
        metadata = _metadata(row)
        if outcome is None:
            return {**metadata, "status": "working"}
        if outcome.open:
            questions = names_of(each.question for each in outcome.open)
            fitting = {name: each for name, each in questions.items() if can_answer(each, caller.capabilities)}
            if not fitting:
                text = "; ".join(each.message for each in questions.values())
                return {**metadata, "status": "working", "statusMessage": f"waits for a person's reply: {text}"}
            requests = {name: request_of(each) for name, each in fitting.items()}
            return {**metadata, "status": "input_required", "inputRequests": requests}
        return {**metadata, **_end(caller, outcome, self._calls)}

    async def _update(self, caller: Caller, params: UpdateParams) -> dict[str, Any]:
        await self._calls.turns.row(caller.chat, caller.tenant, params.task_id)
        await self._calls.reply(caller, params.task_id, params.input_responses)
        return {}

    async def _cancel(self, caller: Caller, params: TaskParams) -> dict[str, Any]:
        await self._calls.turns.cancel(caller.chat, caller.tenant, params.task_id)
        return {}


def supports_tasks(caller: Caller) -> bool:
    """Return whether the client has declared the extension."""
    extensions = caller.capabilities.extensions if caller.capabilities is not None else None
    return extensions is not None and EXTENSION in extensions


def _end(caller: Caller, outcome: Outcome, calls: Calls) -> dict[str, Any]:
    if outcome.status == "cancelled":
        return {"status": "cancelled"}
    turn = outcome.turn
    if outcome.status != "done" or turn is None:
        return _failed(caller.chat.mask(outcome.error or "the call failed"))
    if (result := called_result(turn)) is not None and result.is_unknown:
        return _failed(result.explained(), data=UNKNOWN)
    return {"status": "completed", "result": {"resultType": "complete", **calls.outcome_result(caller, outcome)}}


def _failed(text: str, **more: Any) -> dict[str, Any]:
    return {"status": "failed", "error": {"code": types.INTERNAL_ERROR, "message": text, **more}}


def _metadata(row: JournaledTurn) -> dict[str, Any]:
    return {
        "taskId": row.id,
        "createdAt": row.began_at,
        "lastUpdatedAt": row.ended_at or row.began_at,
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }


def _missing() -> MCPError:
    return MCPError(
        code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        message=f"this needs a client that supports tasks: {EXTENSION}",
        data={"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )
