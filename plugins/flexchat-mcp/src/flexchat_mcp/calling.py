"""The implementation type "mcp": a call of a server's tool.

This needs the SDK, which takes 0.7 s to load: the module is imported with the first call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from flexchat.host import UncheckedError, value_problem
from flexchat.plugin import (
    MAX_HANDLE_CHARS,
    CallSuspended,
    EffectUnknownError,
    ToolContext,
    ToolError,
    ToolSourceError,
    WithMedia,
)
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from .errors import AnswerLostError, AnswerTooLargeError, Code, ServerUnusableError, TaskGoneError
from .results import error_of, marks_unknown, value_of
from .settings import McpToolSettings
from .source import McpSource, describe_invalid
from .tasks import Task, cancel, outcome, task_of
from .tool_call import call_tool, schema_of

_MAX_ERROR_CHARS = 8_000
_REQUESTS = "inputRequests"


async def run(settings: McpToolSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    """Call a tool and return its value, or poll the task with which an earlier call was answered.

    Raises:
        ToolError: The server or the tool refused or failed, or the definition is no longer the accepted one.
        EffectUnknownError: The tool changes something, and its answer was lost.
    """
    call = _Call(settings, params, context)
    try:
        return await call.outcome()
    except ToolError as error:
        if not call.is_repeated or context.tool.effect != "write" or isinstance(error, EffectUnknownError):
            raise
        text = f"{error}. It was called again with the same key, because the server had forgotten its task"
        raise EffectUnknownError(text, hint=error.hint or "") from None


class _Call:
    """A call, and the task the server has made of it.

    Attributes:
        is_repeated: Whether it was made once more, because its task was gone.
    """

    def __init__(self, settings: McpToolSettings, params: Mapping[str, Any], context: ToolContext) -> None:
        self._settings, self._params, self._context, self._person = settings, params, context, _PersonBehind(context)
        self._whose = context.turn_id or context.call_id
        self._was_asked, self._is_task = False, context.handle is not None
        self.is_repeated = False

    async def outcome(self) -> Any:
        """Return the tool's value. Raises the same as run."""
        context = self._context
        is_write, handle = context.tool.effect == "write", context.handle
        # A server that waits for the replies to its questions has not run the tool yet.
        is_again = handle is not None and not (isinstance(handle, dict) and handle.get("sent") is False)
        if context.source is None:
            text = "this tool belongs to an MCP server that the configuration no longer has"
            raise EffectUnknownError(text) if is_again else ToolError(text)
        name = context.source.name
        try:
            opened = cast(McpSource, await context.source.opened())
            async with opened.of(context.tenant) as source:
                try:
                    result = await self._fetch_result(source)
                except TaskGoneError as error:
                    # Without an idempotency key, a repeated write could take effect twice: its outcome stays unknown.
                    may_repeat = not is_write or (context.tool.honours_key and error.is_forgotten)
                    if error.is_left or not may_repeat:
                        raise
                    self.is_repeated = True
                    result = await self._call_anew(source)  # once: it changes nothing, or acts once per key
        except (ToolSourceError, ServerUnusableError) as error:
            text = f"the MCP server '{name}' cannot be used: {error}"
            raise EffectUnknownError(text) if is_again else ToolError(text, nothing_done=True) from None
        except asyncio.CancelledError:
            # Cancelled after the request was sent: the tool may have acted, so it is not reported as unstarted.
            if self._was_asked or is_again:
                raise
            text = f"the MCP server '{name}' was not ready in time"
            raise ToolError(text, nothing_done=True) from None  # a turn that was cancelled ignores it
        except AnswerTooLargeError as error:
            text = f"the answer of the MCP server '{name}' cannot be read: {error}"
            if is_write:
                raise EffectUnknownError(text, hint="it was called, but its answer is too long") from None
            raise ToolError(text, hint="ask for less at once") from None
        except AnswerLostError as error:
            text = f"the MCP server '{name}' did not answer: {error}"
            if is_write and error.may_have_acted:
                raise EffectUnknownError(text, retryable=True) from None
            raise ToolError(text, retryable=True, nothing_done=not error.may_have_acted) from None
        except TaskGoneError as error:
            text = f"the MCP server '{name}': {error}"
            raise EffectUnknownError(text) if is_write else ToolError(text) from None
        except (ToolError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  the SDK's, pydantic's
            raise _refused(name, error, is_write=is_write, is_task=self._is_task) from None
        try:
            return self._person.annotate(_value(result, self._settings, is_write=is_write))
        except ToolError as error:
            raise self._person.annotate_error(error) from None

    async def _fetch_result(self, source: McpSource) -> dict[str, Any]:
        """Return its result.

        Raises:
            TaskGoneError: Its task has none.
            EffectUnknownError: The id of its task cannot be kept.
        """
        if (handle := self._context.handle) is None:
            return await self._call_anew(source)
        if (task := Task.of_handle(handle)) is not None:
            return await self._poll(source, task)
        if not isinstance(handle, dict) or _REQUESTS not in handle:
            raise TaskGoneError("what an earlier call remembered is not a server's task or question")
        # The server may have got the replies and acted upon them: sent again, they would act twice without a key.
        if handle.get("sent") is not False and not (handle.get("has_key") and self._key_meta(source)):
            raise EffectUnknownError("it was sent the replies to its questions, and its answer is lost")
        return await self._call_anew(source, handle)

    async def _call_anew(self, source: McpSource, required: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of a new call, or of one that goes on with the replies to the questions in ``required``.

        Raises:
            TaskGoneError, EffectUnknownError: As _fetch_result.
        """
        answer = await self._call(source, required)
        if (task := task_of(answer)) is None:
            return answer
        self._is_task = True
        return await self._poll(source, task, is_new=True)

    def _key_meta(self, source: McpSource) -> dict[str, str] | None:
        name, key = source.config.idempotency_meta, self._context.key
        return {name: key} if name is not None and key is not None else None

    def _meta(self, source: McpSource) -> dict[str, str] | None:
        return {**self._context.trace_context, **(self._key_meta(source) or {})} or None

    async def _call(self, source: McpSource, required: Mapping[str, Any] | None) -> dict[str, Any]:
        tool, context = self._settings.tool, self._context
        definition: Mapping[str, Any] = {}
        if not self._settings.resources:
            definition = await source.check(tool, self._settings.hash)
        elif not source.config.resources:
            text = f"the MCP server '{source.name}' is configured without resources = true"
            raise ToolError(text, nothing_done=True)
        meta, is_write, latest = self._meta(source), context.tool.effect == "write", required
        has_key = self._key_meta(source) is not None

        async def keep(required: Mapping[str, Any], is_sent: bool) -> None:
            nonlocal latest
            latest = required  # where a request that has to be repeated goes on
            open_request = {_REQUESTS: required.get(_REQUESTS), "requestState": required.get("requestState")}
            handle = {**open_request, "resultType": "input_required", "sent": is_sent, "has_key": has_key}
            # One that is too long cannot be kept: then the call cannot be suspended, and its questions are asked now.
            if len(json.dumps(handle)) <= MAX_HANDLE_CHARS:
                await context.remember(handle)

        async def request(client: Client) -> dict[str, Any]:
            # Set before the request is sent: from here on, a cancellation leaves the outcome unknown.
            self._was_asked = True
            if self._settings.resources:
                return await source.resources.answer(client, tool, self._params)
            return await call_tool(
                client,
                tool,
                self._params,
                meta,
                self._person.answer,
                self._report,
                required=latest,
                keep=keep,
                definition=definition,
                is_write=is_write,
            )

        # A write is never repeated here: the lost answer may belong to a call that took effect.
        return await source.server.ask(request, may_repeat=not is_write, answer=self._person.answer, whose=self._whose)

    async def _poll(self, source: McpSource, task: Task, *, is_new: bool = False) -> dict[str, Any]:
        """Poll a task until it has ended; keep its id first."""
        context = self._context

        def give_up() -> None:
            """Cancel it at the server, unless another process has taken the call over: the task is that one's."""
            source.server.notify(lambda client: cancel(client, task), after=lambda: context.remember(task.handle))

        try:
            # The handle is stored before the first poll: after a kill, the task is found, and not called again.
            if is_new:
                await context.remember(task.handle)
            return await outcome(
                source.server.ask, task, answer=self._person.answer, whose=self._whose, report=self._report
            )
        except CallSuspended:
            raise  # the task waits for the reply, and is polled again once there is one
        except asyncio.CancelledError:
            # An interrupted turn is resumed later and polls the task of its write: it must not be cancelled.
            if not (context.is_interrupted and context.tool.effect == "write"):  # else the next call polls it
                give_up()
            raise
        except TaskGoneError as error:
            if error.is_left:
                give_up()
            raise

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        await self._context.report_progress(progress, total, message or "")


class _PersonBehind:
    """Answers the questions of one call, and remembers which had no answer, for the model to read."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._unanswered = ""

    async def answer(self, question: types.ElicitRequestParams) -> types.ElicitResult:
        """Return the person's answer; see tool_call.Answer."""
        url = question.url if isinstance(question, types.ElicitRequestURLParams) else ""
        reply = await self._context.ask(question.message, schema_of(question), url=url)
        if reply.why:
            self._unanswered = f"the tool asked: {question.message[:500]} It got no answer: {reply.why}"
        is_filled_in = reply.action == "accept" and not url
        return types.ElicitResult(action=reply.action, content=dict(reply.content) if is_filled_in else None)

    def annotate(self, value: Any) -> Any:
        """Return a result, with the question that had no answer: the model would take it for the user's decision."""
        if not self._unanswered:
            return value
        if isinstance(value, WithMedia):
            return WithMedia(self.annotate(value.value), value.media)
        return {"result": value, "note": self._unanswered}

    def annotate_error(self, error: ToolError) -> ToolError:
        """Return an error, with the question that had no answer as its hint."""
        return type(error)(str(error), hint=self._unanswered) if self._unanswered else error


def _value(result: Mapping[str, Any], settings: McpToolSettings, *, is_write: bool) -> Any:
    """Convert a result to the tool's value.

    Raises:
        ToolError: The tool failed, or its structured content does not fit its outputSchema.
        EffectUnknownError: The server does not know whether the tool took effect.
    """
    if result.get("isError"):
        kind = EffectUnknownError if marks_unknown(result.get("_meta")) else ToolError
        raise kind(error_of(result)[:_MAX_ERROR_CHARS] or "the tool failed and does not say why")
    # What has changed something is not turned into a failure; a text alone is an answer as well.
    if settings.output is not None and not is_write and "structuredContent" in result:
        try:
            problem = value_problem(result["structuredContent"], settings.output)
        except UncheckedError as error:
            problem = f"it holds {error}"
        if problem is not None:
            raise ToolError(f"the tool's answer is not what it promises: {problem}")
    return value_of(result, settings.output)


def _refused(name: str, error: Exception, *, is_write: bool, is_task: bool) -> ToolError:
    """Convert a protocol error, or an invalid answer, to a ToolError."""
    is_no_answer = isinstance(error, ValidationError) or (
        isinstance(error, MCPError)
        and error.code in (Code.UNCLEAR, types.PARSE_ERROR)  # the SDK's, of what it cannot read
    )
    if is_write and (is_task or is_no_answer):
        return EffectUnknownError(f"the MCP server '{name}': {describe_invalid(error)}")
    return ToolError(f"the MCP server '{name}' refused the call: {describe_invalid(error)}")
