"""One connection to a server, from its start to its end: a task that owns the SDK's client.

The SDK is imported here and below, so this module is imported when a server is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import mcp_types as types
from flexchat import __version__
from flexchat.plugin import CallSuspended, ToolSourceContext
from flexchat.store import storable
from mcp import Client
from mcp.client._transport import TransportStreams
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from .errors import AnswerLostError, AnswerTooLargeError, Code, ServerUnusableError, SessionGoneError
from .oauth import Person
from .process import IS_POSIX, ServerProcess
from .settings import MODERN, TENANT_VARIABLE, McpConfig
from .streams import repair_streams
from .tasks import RELATED_TASK, Task, TasksExtension
from .tool_call import Answer

log = logging.getLogger(__name__)

Kind = TypeVar("Kind")
PROBE_S = 1.0  # seconds a server has to show that it is alive after a call was given up
_CLOSING_S = 1.0


_ERRORS: Mapping[int, Callable[[str], Exception]] = {
    Code.NOT_SENT: lambda text: AnswerLostError(text, may_have_acted=False),
    Code.LOST: AnswerLostError,
    Code.NO_SESSION: SessionGoneError,
    Code.UNUSABLE: ServerUnusableError,
}
"""By the codes with which this package's transports answer in a server's place."""


@attrs.define(eq=False)
class _CallInFlight:
    """A call of a tool that waits for its answer, and who can be asked in it; or a task that is polled.

    Attributes:
        suspension: The question for whose reply it is suspended; None if it is not.
    """

    answer: Answer | None
    whose: str
    task: Task | None
    caller: asyncio.Task[Any] | None = attrs.field(factory=asyncio.current_task)
    suspension: CallSuspended | None = None
    questions: set[asyncio.Future[types.ElicitResult]] = attrs.field(factory=set)

    def end(self) -> None:
        """Stop asking the person."""
        for question in self.questions:
            question.cancel()


class Connection:
    """A connection. ``open`` it before use; it closes itself when its server ends.

    Attributes:
        version: Of the protocol, once open.
        why: Why it has ended; empty while it has not.
        busy: How many requests are waiting for an answer.
        working: How many of them may take long: calls of tools.
    """

    def __init__(
        self,
        config: McpConfig,
        context: ToolSourceContext,
        mask: Callable[[str], str],
        person: Person | None,
        tenant: str,
    ) -> None:
        self._config, self._context, self._mask, self._person, self._tenant = config, context, mask, person, tenant
        self.version = self.why = ""
        self.busy = self.working = 0
        self._calls: list[_CallInFlight] = []
        self.process: ServerProcess | None = None
        self._client: Client | None = None
        self._ending = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is over, or about to be."""
        return self._ending.is_set()

    @property
    def is_called(self) -> bool:
        """Whether a call waits for its answer, and not only for the end of a task."""
        return any(call.task is None for call in self._calls)

    @property
    def client(self) -> Client:
        """The SDK's client.

        Raises:
            ServerUnusableError: The connection is not open.
        """
        if self._client is None or self.has_ended:
            raise ServerUnusableError(self.why or "it is not connected")
        return self._client

    async def open(self, era: str) -> None:
        """Start the server, or reach it, and agree on a version of the protocol. Close it in every case.

        Args:
            era: "auto", "legacy" or a version, as the SDK calls them.

        Raises:
            ServerUnusableError: It was not ready within start_ms.
        """
        # The SDK's client opens cancel scopes of anyio, which have to be left by the task that entered them. So one
        # task owns the client from its start to its end, and this caller only waits for a future.
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Not in the turn that happens to need it: it belongs to all of them.
        self._owner = asyncio.get_running_loop().create_task(self._run(era, opened), context=contextvars.Context())
        limit_s = self._config.start_ms / 1000
        try:
            # The shield keeps the future usable: _run must still be able to resolve it after this caller has left.
            async with asyncio.timeout(limit_s):
                await asyncio.shield(opened)
        except TimeoutError:
            opened.cancel()
            last = f"; its last words: {self.process.stderr[-1]}" if self.process and self.process.stderr else ""
            self._end(f"it did not answer within {limit_s:g} s of its start{last}")
            raise ServerUnusableError(self.why) from None
        except asyncio.CancelledError:
            opened.cancel()
            self._end("its start was cancelled")
            raise

    async def ask(
        self,
        request: Callable[[Client], Awaitable[Kind]],
        *,
        is_call: bool = True,
        answer: Answer | None = None,
        whose: str = "",
        task: Task | None = None,
    ) -> Kind:
        """Wait for the answer to a request.

        Args:
            is_call: Whether it is a tool's call, which may take long.
            answer: Asks the person behind the call the server's questions; None if there is no person.
            whose: The turn, which identifies calls with the same person behind them.
            task: The task that the request concerns.

        Raises:
            ServerUnusableError: The connection is not open; nothing was asked.
            AnswerLostError: There is no answer.
            AnswerTooLargeError: It was longer than max_bytes.
            MCPError: The server refused.
            ValidationError: Its answer violates the protocol.
            CallSuspended: The person's reply comes later.
        """
        client = self.client
        self.busy, self.working = self.busy + 1, self.working + is_call
        # Registered before the request is sent: the server's first question may arrive before its answer.
        call = _CallInFlight(answer, whose, task)
        if is_call:
            self._calls.append(call)
        try:
            return await request(client)
        except MCPError as error:
            raise self._convert_error(error) from None
        except asyncio.CancelledError:
            if call.suspension is None or call.caller is None or call.caller.uncancel():
                raise
            raise call.suspension from None
        finally:
            self.busy, self.working = self.busy - 1, self.working - is_call
            if is_call:
                self._calls.remove(call)
                call.end()

    async def is_alive(self) -> bool:
        """Ask for something small; a server that does not answer is ended."""
        try:
            async with asyncio.timeout(PROBE_S):
                # The newer era has no ping; a list is the smallest request that each of its servers answers.
                if self.version >= MODERN:
                    await self.client.session.list_tools()
                else:
                    await self.client.session.send_ping()
        except TimeoutError:
            self._end("it stopped answering")
            return False
        # A refusal and an invalid answer are signs of life: only silence ends the server.
        except (MCPError, ValidationError, ServerUnusableError):
            return not self.has_ended
        return True

    async def aclose(self, why: str = "it was closed") -> None:
        """End it, with the server's process. Returns when nothing is left of it."""
        self._end(why)
        if (owner := self._owner) is not None:
            await asyncio.wait([owner], timeout=_CLOSING_S)
            # It may be stuck in a write to a server that does not read.
            if not owner.done():
                owner.cancel()
                await asyncio.wait([owner], timeout=_CLOSING_S)
        if self.process is not None:
            await self.process.end()

    def _end(self, why: str) -> None:
        # The first reason is the cause; later ones, such as that of aclose, are its consequences.
        self.why = self.why or why
        self._ending.set()

    def _convert_error(self, error: MCPError) -> Exception:
        """Convert an error: some come from this package or the SDK itself, and mean that there is no answer."""
        if error.code in _ERRORS:
            return _ERRORS[error.code](error.message)
        if error.code == Code.TOO_LARGE:
            return AnswerTooLargeError(error.message or f"its answer is longer than {self._config.max_bytes:,} bytes")
        if error.code in (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT):
            return AnswerLostError(self.why or error.message)
        # Before it is connected, a refusal means that the server cannot be used; afterwards, that it refused a request.
        is_unusable = error.code == Code.REFUSED and self._client is None
        return ServerUnusableError(error.message) if is_unusable else error

    async def _run(self, era: str, opened: asyncio.Future[None]) -> None:
        is_refusal, status = False, None
        try:
            async with contextlib.AsyncExitStack() as stack:
                transport = repair_streams(await self._transport(stack), lambda: self.version)
                client = Client(
                    transport,
                    mode=era,
                    message_handler=self._on_message,
                    client_info=types.Implementation(name="flexchat", version=__version__),
                    elicitation_callback=self._answer_question,
                    extensions=[TasksExtension(self._task_changed)],
                    cache=None,
                )
                await stack.enter_async_context(client)
                self._client, self.version = client, client.protocol_version
                if not opened.done():
                    opened.set_result(None)
                listening = asyncio.create_task(self._listen(client))
                try:
                    await self._ending.wait()
                finally:
                    # Ended before the client is left: its subscription runs on the client's streams.
                    listening.cancel()
                    await asyncio.wait([listening])
        except BaseException as error:  # noqa: BLE001  the SDK raises groups of anything
            if self.process is not None:
                # Exit code and last words arrive a moment after the end of stdout, and belong into the reason.
                await self.process.wait_settled()
            self._end(self._describe_error(error))
            is_refusal, status = "exit code" in self.why or _is_refusal(error), _status(error)
        finally:
            self._end("it was closed")
            if not opened.done():
                opened.set_exception(ServerUnusableError(self.why, is_refusal=is_refusal, status=status))
            if self.process is not None:
                await self.process.end()

    async def _transport(self, stack: contextlib.AsyncExitStack) -> AbstractAsyncContextManager[TransportStreams]:
        config = self._config
        if config.url is not None:
            from .http import http_transport

            return http_transport(config, self._context, self._person, self._tenant, self._end)
        env, folder, name = self._variables(), self._folder(), self._context.name
        if not IS_POSIX:
            from .stdio import windows_transport

            return windows_transport(config, name=name, env=env, folder=folder, ended=self._end)
        from .stdio import stdio_transport

        self.process = await ServerProcess.start(config.argv, env=env, cwd=folder, mask=self._mask)
        return stdio_transport(self.process, name=name, max_bytes=config.max_bytes, ended=self._end)

    def _folder(self) -> Path:
        return (self._context.folder or Path()) / Path(self._config.cwd or "").expanduser()

    def _variables(self) -> Mapping[str, str]:
        if not self._config.per_tenant:
            return self._config.env
        if storable(self._tenant) != self._tenant:  # the system would take two such names for one, or none
            raise ServerUnusableError("the name of its tenant has NUL or half of a surrogate pair: use another name")
        return {**self._config.env, TENANT_VARIABLE: self._tenant}

    async def _answer_question(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer a server of the older era, which names the task of its question, but not the call."""
        related: Any = dict(params.meta or {}).get(RELATED_TASK)
        id = related.get("taskId") if isinstance(related, dict) else None
        # Without the task's id, any call in flight may be the one. If they belong to different people, none is asked:
        # the question, and the reply, could be another user's.
        calls = [call for call in self._calls if call.task is not None and call.task.id == id] or self._calls
        if len({call.whose for call in calls}) != 1 or (answer := calls[-1].answer) is None:
            return types.ElicitResult(action="decline" if len(calls) < 2 else "cancel")
        # A future of its own, so that the end of the call can stop the question without cancelling this handler, which
        # still has to reply to the server.
        asking = asyncio.ensure_future(answer(params))
        calls[-1].questions.add(asking)
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()
        try:
            reply = asking.result()
        except CallSuspended as suspension:
            # Any reply, even "cancel", would decide for the person, and go into a task that outlives this connection.
            if (caller := calls[-1].caller) is not None:
                calls[-1].suspension = suspension
                caller.cancel()
            await asyncio.get_running_loop().create_future()
            raise
        except asyncio.CancelledError:
            reply = types.ElicitResult(action="cancel")
        return reply if id is None else reply.model_copy(update={"meta": {RELATED_TASK: {"taskId": id}}})

    def _task_changed(self, id: str) -> None:
        for call in self._calls:
            if call.task is not None and call.task.id == id:
                call.task.poll_soon()

    async def _on_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._context.changed()

    async def _listen(self, client: Client) -> None:
        """Subscribe to the changes of servers without a session, which notify only subscribers."""
        tools = client.server_capabilities.tools
        if self.version < MODERN or tools is None or not tools.list_changed:
            return
        with contextlib.suppress(Exception):  # it only helps: lists expire in any case
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._context.changed()

    def _describe_error(self, error: BaseException) -> str:
        """Describe why the connection could not be opened, or broke."""
        error = _first(error)
        if isinstance(error, ServerUnusableError):
            return str(error)
        if isinstance(error, MCPError):
            return self._mask(str(self._convert_error(error)))
        if isinstance(error, ValidationError):
            return "it answered something that is not MCP"
        if self._config.url is not None:
            from .http import describe_status

            if text := describe_status(error):
                return self._mask(text)
        return self._mask(f"{type(error).__name__}: {error}")


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_refusal(error: BaseException) -> bool:
    """Whether the server itself has answered, but nothing that a client of this era can use."""
    error = _first(error)
    if isinstance(error, MCPError):
        # Codes of this package and of the SDK mean that the server did not answer, so that another era would not help.
        return error.code not in (*_ERRORS, Code.TOO_LARGE, types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT)
    return isinstance(error, ValidationError)


def _status(error: BaseException) -> int | None:
    """Return the status of HTTP with which a server refused."""
    error = _first(error)
    data = error.error.data if isinstance(error, MCPError) and error.code == Code.REFUSED else None
    return data["status"] if isinstance(data, dict) else None
