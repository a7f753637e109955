"""A configured server: connected on first use, restarted within limits, closed when idle."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import datetime
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from flexchat.host import DEFAULT_TENANT, Mask, secrets_of_environment
from flexchat.plugin import CallSuspended, FlexChatError, SourceServer, ToolSourceContext, run_in_thread
from flexchat.store import data_folder
from flexchat_sdk import load_module

from .errors import AnswerLostError, ServerUnusableError, SessionGoneError
from .settings import MODERN, McpConfig

if TYPE_CHECKING:
    from mcp import Client

    from .connection import Connection
    from .oauth import Person
    from .tasks import Task
    from .tool_call import Answer

FOR_S = 7 * 24 * 3_600.0  # how long it is remembered: a server that was updated may speak both


class OldServer:
    """Whether one server is of the older era, in an empty file. Where it cannot be kept, the server is asked again.

    Args:
        folder: Where relative paths of its config start.
    """

    def __init__(self, config: McpConfig, folder: Path) -> None:
        cwd = str((folder / (config.cwd or "")).absolute())
        about = [config.argv, cwd] if config.url is None else [config.url, config.transport]
        self._name = f"{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]}.old"

    def is_known(self) -> bool:
        """Whether it was of the older era when it was last asked."""
        with contextlib.suppress(OSError, FlexChatError):
            return time.time() - self._file().stat().st_mtime < FOR_S
        return False

    def remember(self, is_old: bool) -> None:
        """Keep what it has answered now."""
        with contextlib.suppress(OSError, FlexChatError):
            file = self._file()
            # The file's time is the record: touching it is atomic, so that programs need no lock between them.
            if is_old:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file.touch()
            else:
                file.unlink(missing_ok=True)

    def _file(self) -> Path:
        return data_folder() / "mcp" / self._name


log = logging.getLogger(__name__)

Kind = TypeVar("Kind")
_BACKGROUND_S = 2.0
WINDOW_S = 60.0  # how long an end of the server counts against its restarts
_OF_OLD_SERVERS = (400, 404, 405)
"""Statuses with which servers of the older transport refuse a message. Source: MCP 2025-11-25, "Transports"."""
RESTARTED = "it was restarted"


class Server:
    """One server of a config; with per_tenant, one tenant's.

    Args:
        context: Its name, its folder and the client for addresses. ``changed`` is called when the server announces that
            its tools have changed, and when it was connected again.
        person: Can sign in if the server requires it; None if there is no one to ask.
        tenant: The owner, with per_tenant.
    """

    def __init__(
        self, config: McpConfig, context: ToolSourceContext, person: Person | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        self.config, self.name, self._tenant = config, context.name, tenant
        self._context, self._person = context, person
        self.mask = Mask([*config.secrets(), *secrets_of_environment()])
        self.connections = 0
        self._old = OldServer(config, context.folder or Path()) if config.protocol == "auto" else None
        self._stderr: tuple[str, ...] = ()
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._used_at = 0.0
        self._closing: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._dropped: set[Connection] = set()
        self._ends: collections.deque[float] = collections.deque(maxlen=1_000)
        self._version = self._since = self._trouble = ""
        self._is_broken = False
        self._total_ends = 0
        self._is_closed = False

    @property
    def state(self) -> SourceServer:
        """What is known about it."""
        connection = self._connection
        process = connection.process if connection is not None else None
        is_running = connection is not None and not connection.has_ended
        return SourceServer(
            status="running" if is_running else "broken" if self._is_broken else "stopped",
            version=self._version,
            since=self._since if is_running else "",
            trouble=self._trouble,
            ends=self._total_ends,
            last_lines=process.stderr if process is not None else self._stderr,
        )

    async def ask(
        self,
        request: Callable[[Client], Awaitable[Kind]],
        *,
        may_repeat: bool = False,
        is_call: bool = True,
        answer: Answer | None = None,
        whose: str = "",
        task: Task | None = None,
    ) -> Kind:
        """Ask something of the server, connecting it if need be.

        Args:
            request: Makes the request.
            may_repeat: Whether it may be asked again, once and of a fresh server, if its answer is lost. So is
                every request if the server only answers that the session is unknown.
            is_call: Whether it is a tool's call: while one goes on, another that takes too long casts no doubt on the
                server.
            answer, whose, task: As in Connection.ask.

        Raises:
            ServerUnusableError: It cannot be connected; nothing was asked.
            AnswerLostError: There is no answer.
            AnswerTooLargeError, MCPError, ValidationError: As Connection.ask.
        """
        is_again = False
        while True:
            connection = await self.connect()
            try:
                return await connection.ask(request, is_call=is_call, answer=answer, whose=whose, task=task)
            except AnswerLostError as lost:
                if task is None or connection.has_ended or not connection.is_called:
                    self._drop(connection, str(lost))  # otherwise it serves other calls, and the task is polled again
                # At most one repetition. A lost session permits it even for a call, which the server refused.
                if is_again or not (may_repeat or isinstance(lost, SessionGoneError)):
                    raise
                is_again = True
            except CallSuspended:
                raise
            except asyncio.CancelledError:
                # A timeout cancels the request. The probe runs in the background: it must not delay this.
                self._start_probe(connection)
                raise
            finally:
                self._schedule_retirement(connection)

    def notify(
        self, request: Callable[[Client], Awaitable[Any]], *, after: Callable[[], Awaitable[Any]] | None = None
    ) -> None:
        """Send a request in the background, once, and discard its answer.

        Args:
            after: Awaited first; if it fails, nothing is sent.
        """

        async def send() -> None:
            try:
                async with asyncio.timeout(_BACKGROUND_S):
                    if after is not None:
                        await after()
                    await self.ask(request, is_call=False)
            except Exception as error:  # noqa: BLE001  no caller waits for it
                log.info("MCP server '%s': %s", self.name, self.mask(str(error)))

        # The set holds the only strong reference: asyncio itself keeps tasks weakly, and they could be collected.
        task = asyncio.get_running_loop().create_task(send())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def connect(self) -> Connection:
        """Return the open connection, opening one if there is none.

        Raises:
            ServerUnusableError: There cannot be one.
        """
        # A connection under suspicion must not get new calls: if the probe fails, they would all be lost with it.
        if self._probing is not None:
            await asyncio.wait([self._probing])
        if self._is_closed:
            raise ServerUnusableError("it is closed")
        connection = self._connection
        if connection is not None and not connection.has_ended:
            return connection
        if connection is not None:
            self._drop(connection, connection.why)
        # One attempt for all callers: starting a command twice would leave two processes.
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
            self._opening.add_done_callback(self._finish_opening)
        opening = self._opening
        try:
            # A caller that times out must not cancel the start, for which others wait.
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # The start was cancelled by aclose or restart, not this caller: report an error in place of a cancellation.
            if opening.cancelled() and not (task and task.cancelling()):
                raise ServerUnusableError("it is closed" if self._is_closed else RESTARTED) from None
            raise

    async def restart(self) -> None:
        """End the connection, and forget why there could be none; the next request makes another.

        What is under way fails as if the server had died.
        """
        if self._old is not None:
            await run_in_thread(self._old.remember, False)  # it may speak both by now
        opening, connection = self._opening, self._connection
        # Detached before the awaits below: requests that arrive meanwhile open a new connection.
        self._connection, self._is_broken = None, False
        self._ends.clear()
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
        if connection is not None:
            await connection.aclose(RESTARTED)
            self._remember(connection)

    async def aclose(self) -> None:
        """End it permanently, with all processes it has started, once pending notifications are sent."""
        # Before the flag: cancellations of tasks at the server would otherwise be refused as "it is closed".
        if self._background:
            await asyncio.wait(self._background, timeout=_BACKGROUND_S)
        self._is_closed = True
        if self._idle is not None:
            self._idle.cancel()
        for task in (self._opening, self._probing):
            if task is not None:
                task.cancel()
        if self._opening is not None:
            await asyncio.wait([self._opening], timeout=2)
        # Detached before closing, so that a connection that ends meanwhile is not closed twice.
        connections = [*self._dropped, *([self._connection] if self._connection is not None else [])]
        self._connection, self._dropped = None, set()
        await asyncio.gather(*(connection.aclose() for connection in connections))
        if self._closing:
            await asyncio.wait(self._closing)

    async def _open(self) -> Connection:
        self._check_restarts()
        try:
            await load_module("flexchat_mcp.connection")  # the SDK takes 0.7 s to load
        except ImportError as error:
            raise ServerUnusableError(f"the MCP SDK cannot be loaded: {error}") from None
        try:
            connection = await self._try_eras()
        except ServerUnusableError as error:
            self._note_end(str(error))
            raise ServerUnusableError(self._trouble) from None
        self._version, self._is_broken = connection.version, False
        self._since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._connection = connection
        self.connections += 1
        if self.connections > 1:
            self._context.changed()  # it may be another version of itself
        self._schedule_retirement(connection)
        return connection

    async def _try_eras(self) -> Connection:
        """Connect, in the era it was of last time first; a server that refuses one era may speak the other.

        Raises:
            ServerUnusableError: It can be connected in neither.
        """
        try:
            return await self._try_streamable()
        except ServerUnusableError as error:
            if self.config.url is None or self.config.transport == "sse" or error.status not in _OF_OLD_SERVERS:
                raise
            refusal = error
        config = attrs.evolve(self.config, transport="sse")
        try:
            # As the specification asks of clients: a server that refuses the first message so may speak SSE.
            connection = await self._try("legacy", config)
        except ServerUnusableError:
            raise refusal from None
        self.config = config  # for the next connection
        return connection

    async def _try_streamable(self) -> Connection:
        if self._old is None:
            return await self._try("legacy")
        was_old = await run_in_thread(self._old.is_known)
        # The SDK tries both by itself; but some older servers end when the first thing they read is not a handshake.
        first, second = ("legacy", "auto") if was_old else ("auto", "legacy")
        try:
            connection = await self._try(first)
        except ServerUnusableError as error:
            if not error.is_refusal or (second == "legacy" and self.config.url is not None):
                raise
            connection = await self._try(second)
        is_old = connection.version < MODERN
        try:
            if is_old != was_old:
                await run_in_thread(self._old.remember, is_old)
        except asyncio.CancelledError:
            self._close(connection, RESTARTED)
            raise
        return connection

    async def _try(self, era: str, config: McpConfig | None = None) -> Connection:
        from .connection import Connection

        connection = Connection(config or self.config, self._context, self.mask, self._person, self._tenant)
        try:
            await connection.open(era)
        except BaseException:
            self._remember(connection)
            self._close(connection, connection.why)  # slow; the callers that wait are notified of the failure first
            raise
        return connection

    def _check_restarts(self) -> None:
        now = time.monotonic()
        # A sliding window: a server that fails once an hour may always restart, a crash loop is stopped.
        while self._ends and now - self._ends[0] > WINDOW_S:
            self._ends.popleft()
        if len(self._ends) > self.config.restarts:
            wait_s = self._ends[0] + WINDOW_S - now
            times = "once" if len(self._ends) == 1 else f"{len(self._ends)} times"
            text = f"it has failed {times} within a minute, and is started again in {wait_s:.0f} s: {self._trouble}"
            raise ServerUnusableError(text)

    def _drop(self, connection: Connection, why: str) -> None:
        """Forget a connection that has ended or broken; the next request makes another."""
        if self._connection is not connection:
            return
        self._connection = None
        self._remember(connection)
        self._note_end(connection.why or why)
        if connection.has_ended or not connection.busy:  # over HTTP, other requests have answers of their own
            self._close(connection, why)
        else:
            self._dropped.add(connection)

    def _remember(self, connection: Connection) -> None:
        if connection.process is not None:
            self._stderr = tuple(connection.process.stderr)

    def _note_end(self, why: str) -> None:
        if self._is_closed:
            return
        self._trouble, self._is_broken = self.mask(why), True
        self._ends.append(time.monotonic())
        self._total_ends += 1
        if self._tenant == DEFAULT_TENANT:
            log.warning("MCP server '%s': %s", self.name, self._trouble)
        else:
            log.warning("MCP server '%s' of tenant %.60r: %s", self.name, self._tenant, self._trouble)

    def _close(self, connection: Connection, why: str) -> None:
        task = asyncio.get_running_loop().create_task(connection.aclose(why))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _finish_opening(self, task: asyncio.Task[Any]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # its callers have received it

    def _start_probe(self, connection: Connection) -> None:
        """Check whether a server that did not answer in time is alive, unless it still serves another call."""
        if connection.working or connection.has_ended or self._probing is not None or self.config.url is not None:
            return
        self._probing = asyncio.get_running_loop().create_task(self._probe(connection))

    async def _probe(self, connection: Connection) -> None:
        try:
            if not await connection.is_alive():
                self._drop(connection, connection.why)
        finally:
            self._probing = None

    def _schedule_retirement(self, connection: Connection) -> None:
        """Keep an unused connection for idle_ms; close a dropped one once no caller waits for it."""
        if connection is not self._connection:
            if not connection.busy and connection in self._dropped:
                self._dropped.discard(connection)
                self._close(connection, "it was dropped")
            return
        # A shared HTTP connection is kept: it costs no process, and reconnecting takes a round trip.
        may_retire = self.config.url is None or self.config.per_tenant
        self._used_at = time.monotonic()
        # One timer for all calls, moved when it fires: each call would otherwise start one of its own.
        if self._idle is None and self.config.idle_ms and may_retire and not self._is_closed:
            self._idle = asyncio.get_running_loop().call_later(self.config.idle_ms / 1000, self._retire)

    def _retire(self) -> None:
        self._idle, connection = None, self._connection
        if connection is None or connection.busy:
            return  # the end of its last request starts the timer again
        left_s = self._used_at + self.config.idle_ms / 1000 - time.monotonic()
        if left_s > 0:
            self._idle = asyncio.get_running_loop().call_later(left_s, self._retire)
        else:
            self._connection = None
            self._close(connection, "it was not used")
