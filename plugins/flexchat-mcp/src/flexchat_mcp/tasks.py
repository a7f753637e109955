"""Long calls: a server answers a call with a task, which is polled by its id to its end. In both eras.

Like the connection, this needs the SDK, and is imported when a server is needed.

Source: the extension io.modelcontextprotocol/tasks (SEP-2663) for 2026-07-28; MCP 2025-11-25, "Tasks".
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeGuard

import mcp_types as types
from flexchat.plugin import EffectUnknownError, ToolError
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, NotificationBinding, ResultClaim
from mcp.shared.exceptions import MCPError
from pydantic import Field, TypeAdapter, ValidationError

from .errors import AnswerLostError, ServerUnusableError, TaskGoneError
from .results import marks_unknown
from .settings import MODERN
from .streams import repair_call
from .tool_call import MAX_ROUNDS, Answer, answer_questions

Report = Callable[[float, float | None, str | None], Awaitable[None]]

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED_TASK = "io.modelcontextprotocol/related-task"
MAX_ID_CHARS = 1_000  # a longer id is refused
DEFAULT_PAUSE_S, MIN_PAUSE_S, MAX_PAUSE_S = 1.0, 0.1, 30.0
"""Between two polls: if the server says nothing, and whatever it says."""
POLL_S = 10.0  # how long the answer to a poll may take
PATIENCE_S = 30.0  # how long a server that runs a task may be away
MAX_TROUBLES = 50  # how often asking about one task may fail
_MAX_TROUBLE_S = 5.0
_MAX_ERROR_CHARS = 2_000
_UNANSWERABLE = "its task asks something that cannot be answered here"
_RAW: Any = TypeAdapter(dict[str, Any])


class Task:
    """A task of a server, as far as it is known here.

    Attributes:
        id: The server's.
        status: The last reported one; empty before the first, and while it is requested.
    """

    def __init__(self, id: str, state: Mapping[str, Any] | None = None) -> None:
        self.id, self.status = id, ""
        self._seen = state
        self._pause_s = DEFAULT_PAUSE_S
        self._answered_at = time.monotonic()
        self._is_due = asyncio.Event()
        self._last_message, self._reports = "", 0
        self._replies: dict[str, Any] = {}
        self._sent: set[str] = set()
        self._rounds = 0
        self._troubles = 0

    @property
    def handle(self) -> dict[str, str]:
        """The data with which any process can poll it."""
        return {"task": self.id}

    @classmethod
    def of_handle(cls, handle: Any) -> Task | None:
        """Return the task that was remembered; None if it is not a task."""
        id = handle.get("task") if isinstance(handle, dict) else None
        return cls(id) if _is_id(id) else None

    def poll_soon(self) -> None:
        """Poll it soon: the server has announced a change."""
        self._is_due.set()

    async def result(self, client: Client, answer: Answer | None, report: Report | None) -> dict[str, Any]:
        """Poll it to its end, and return the call's result.

        Raises:
            TaskGoneError: It has no result, and will not get one.
            ToolError: It failed; an EffectUnknownError if the server does not know whether it took effect.
            MCPError: The server refused the poll.
            ValidationError: It has ended with something that is not a result.
        """
        # The state that came with the call's answer counts as the first poll.
        if self._seen is not None:
            await self._note(self._seen, report)
            self._seen = None
            await self._pause()
        while True:
            # Cleared before each poll: outcome distinguishes an unknown task from a failure that its result reports.
            self.status = ""
            state = await self._state(client)
            await self._note(state, report)
            self.status = status = state.get("status") or ""
            is_modern = client.protocol_version >= MODERN
            match status:
                case "working":
                    await self._pause()
                case "input_required" if is_modern:
                    await self._reply(client, state, answer)
                    await self._pause()
                case "completed" if is_modern:
                    return _result(state.get("result"), client.protocol_version)
                case "failed" if is_modern:
                    raise _failure(state)
                case "input_required" | "completed" | "failed":  # what it asks comes while its result is waited for
                    return _result(await _ask(client, "tasks/result", self.id), client.protocol_version)
                case "cancelled":
                    raise TaskGoneError(f"it says that the task was cancelled{_why(state)}")
                case _:
                    raise TaskGoneError(f"its task has a status that does not exist: {status!r:.50}", is_left=True)

    async def _state(self, client: Client) -> dict[str, Any]:
        try:
            async with asyncio.timeout(POLL_S):
                return await _ask(client, "tasks/get", self.id)
        except TimeoutError:
            raise AnswerLostError(f"it did not say within {POLL_S:g} s how its task is doing") from None

    async def back_off(self, error: Exception) -> None:
        """Wait a while before the next poll.

        Raises:
            TaskGoneError: It was polled for long enough.
        """
        self._troubles += 1
        # Limited by time and number: a server that accepts connections but never answers would be polled for ever.
        if time.monotonic() - self._answered_at > PATIENCE_S or self._troubles > MAX_TROUBLES:
            raise TaskGoneError(f"it cannot be asked about its task: {error}")
        # Exponential, so that a server that restarts is not flooded by the polls of all its tasks.
        await asyncio.sleep(min(MIN_PAUSE_S * 2.0**self._troubles, _MAX_TROUBLE_S))

    async def _note(self, state: Mapping[str, Any], report: Report | None) -> None:
        self._answered_at = time.monotonic()
        wish_ms = state.get("pollIntervalMs", state.get("pollInterval"))
        if isinstance(wish_ms, int | float) and not isinstance(wish_ms, bool) and math.isfinite(wish_ms):
            self._pause_s = min(max(wish_ms / 1000, MIN_PAUSE_S), MAX_PAUSE_S)
        text = state.get("statusMessage")
        # Only changes are reported: servers repeat their message in every poll.
        if report is not None and isinstance(text, str) and text and text != self._last_message:
            self._last_message, self._reports = text, self._reports + 1
            await report(self._reports, None, text)

    async def _pause(self) -> None:
        await asyncio.sleep(MIN_PAUSE_S)  # however often it announces changes
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s - MIN_PAUSE_S):
                await self._is_due.wait()
        # After the wait: an announcement that arrives during a poll ends the next pause at once, instead of being lost.
        self._is_due.clear()

    async def _reply(self, client: Client, state: Mapping[str, Any], answer: Answer | None) -> None:
        """Ask a person what the task asks, each question once, and send the replies."""
        wishes = state.get("inputRequests") or {}
        if not isinstance(wishes, Mapping):
            raise TaskGoneError(_UNANSWERABLE, is_left=True)
        open = {name: question for name, question in wishes.items() if name not in self._sent}
        if new := {name: question for name, question in open.items() if name not in self._replies}:
            self._rounds += 1
            if self._rounds > MAX_ROUNDS:
                raise TaskGoneError(f"its task asked {MAX_ROUNDS} times without coming to a result", is_left=True)
            try:
                replies, _ = await answer_questions({"resultType": "input_required", "inputRequests": new}, answer)
            except (ToolError, ValidationError):
                raise TaskGoneError(_UNANSWERABLE, is_left=True) from None
            for name, reply in (replies or {}).items():
                # Kept until the server has them: if the connection breaks while they are sent, the person is not asked
                # again.
                self._replies[name] = reply.model_dump(mode="json", by_alias=True, exclude_none=True)
        if open:
            await _ask(client, "tasks/update", self.id, inputResponses={name: self._replies[name] for name in open})
            self._sent |= open.keys()


def task_of(answer: Mapping[str, Any]) -> Task | None:
    """Return the task that a call was answered with; None if the answer is a result.

    Raises:
        TaskGoneError: It has no id that can be used.
    """
    state: Any = answer
    if answer.get("resultType") != "task":
        if "task" not in answer or "content" in answer:
            return None
        state = answer["task"]
    id = state.get("taskId") if isinstance(state, Mapping) else None
    if not _is_id(id):
        raise TaskGoneError("it has started a task without an id that can be used")
    return Task(id, state)


async def outcome(
    ask: Callable[..., Awaitable[dict[str, Any]]],
    task: Task,
    *,
    answer: Answer | None = None,
    whose: str = "",
    report: Report | None = None,
) -> dict[str, Any]:
    """Poll a task to its end, however often the connection breaks meanwhile; return the call's result.

    Args:
        ask: The ask of its Server.
        answer, whose: As there.
        report: Called with the task's own progress messages.

    Raises:
        TaskGoneError, ToolError, ValidationError: As Task.result.
        AnswerTooLargeError: Its result is longer than max_bytes.
    """
    while True:
        trouble: Exception
        try:
            return await ask(lambda client: task.result(client, answer, report), answer=answer, whose=whose, task=task)
        except (AnswerLostError, ServerUnusableError) as error:
            trouble = error
        except MCPError as error:
            # Which request was refused decides: tasks/result of a failed task reports the tool's own error.
            if task.status == "failed":
                raise ToolError(f"the tool failed: {error.message[:_MAX_ERROR_CHARS]} ({error.code})") from None
            if task.status == "completed" or (not task.status and error.code == types.INVALID_PARAMS):
                text = f"it no longer has the task's result: {error.message} ({error.code})"
                raise TaskGoneError(text, is_forgotten=True) from None
            trouble = error
        await task.back_off(trouble)


async def cancel(client: Client, task: Task) -> None:
    """Cancel the task at the server: its result is not needed any more."""
    await _ask(client, "tasks/cancel", task.id)


class _TaskAnswer(types.Result):
    """An answer that is a task."""

    result_type: Literal["task"] = Field(alias="resultType")


class _TaskNotification(types.NotificationParams):
    """A server's notification about a task."""

    task_id: str = ""


class TasksExtension(ClientExtension):
    """Declares to servers of the newer era that tasks are supported, and receives notifications of the older one.

    Args:
        changed: Called with the id of a task that has changed.
    """

    identifier = EXTENSION

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed

    def claims(self) -> list[ResultClaim[Any]]:
        """Return one claim: without it, the extension would be declared to servers of the older era as well."""

        async def resolve(claimed: _TaskAnswer, context: ClaimContext) -> types.CallToolResult:
            raise NotImplementedError("calls are made without the SDK's call_tool")

        return [ResultClaim(result_type="task", model=_TaskAnswer, resolve=resolve)]

    def notifications(self) -> list[NotificationBinding[Any]]:
        """Return the notifications of changed tasks."""

        async def on_status(notification: _TaskNotification) -> None:
            self._changed(notification.task_id)

        bind = functools.partial(NotificationBinding, params_type=_TaskNotification, handler=on_status)
        return [bind(method=method) for method in ("notifications/tasks", "notifications/tasks/status")]


class _TaskRequest(types.Request[dict[str, Any], str]):
    """A request about a task; over HTTP, the id is a header, so that it reaches the right server."""

    name_param = "taskId"


async def _ask(client: Client, method: str, id: str, **rest: Any) -> dict[str, Any]:
    request = _TaskRequest(method=method, params={"taskId": id, **rest})
    answer: dict[str, Any] = await client.session.send_request(request, _RAW)
    return answer


def _is_id(id: object) -> TypeGuard[str]:
    return isinstance(id, str) and 0 < len(id) <= MAX_ID_CHARS


def _result(result: Any, version: str) -> dict[str, Any]:
    """Return a result; a task is not one.

    Raises:
        ValidationError: It is something else.
    """
    if isinstance(result, dict):
        result = repair_call(result, version)
    types.CallToolResult.model_validate(result, by_name=False)
    checked: dict[str, Any] = result
    return checked


def _failure(state: Mapping[str, Any]) -> ToolError:
    error = state.get("error")
    if not isinstance(error, Mapping) or not isinstance(error.get("message"), str):
        return ToolError(f"the tool failed{_why(state)}")
    text = f"the tool failed: {error['message'][:_MAX_ERROR_CHARS]} ({error.get('code')!s:.20})"
    return EffectUnknownError(text) if marks_unknown(error.get("data")) else ToolError(text)


def _why(state: Mapping[str, Any]) -> str:
    text = state.get("statusMessage")
    return f": {text[:_MAX_ERROR_CHARS]}" if isinstance(text, str) and text else ""
