"""One configured tool source: opened when it is needed, read again when it has changed, closed with its last chat."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import operator
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
from flexchat.domain import DEFAULT_TENANT
from flexchat.domain.sourced import SourcedTool
from flexchat.errors import ToolSourceError
from flexchat.plugin.contracts import ClosableFetcher
from flexchat.plugin.foreign import contained, error_name
from flexchat.plugin.tool_sources import OpenSource, SourceServer, ToolSource, ToolSourceContext

log = logging.getLogger(__name__)

RETRY_S = 30.0  # seconds before a source that could not be opened is tried again

AGAIN_S = 1.0  # seconds between two lists, however often a source reports a change

CLOSING_S = 3.0  # seconds a source may take to close


T = TypeVar("T")


@attrs.frozen(kw_only=True)
class SourceSetup:
    """A source as configured.

    Attributes:
        type: Name of its ToolSourceType, or "python" if it was given in code.
        place: Path of its tables in the configuration.
        prefix: Put before the names of its tools.
        timeout_s: Seconds in which it must have been opened and have returned its tools.
        open: Opens it.
        settings: Those of its type.
        configured: As in ToolSourceType.
    """

    name: str
    type: str
    place: tuple[str, ...] = ("tools",)
    prefix: str = ""
    timeout_s: float = 10.0
    open: OpenSource
    settings: Any = None
    folder: Path | None = None
    configured: Callable[[Any, SourcedTool, SourcedTool | None], SourcedTool] | None = None


@attrs.frozen(kw_only=True)
class ConfiguredOpening:
    """A callable that opens a source of a type with its settings; equal for tables of equal content."""

    open: Callable[[Any, ToolSourceContext], Awaitable[ToolSource]]
    settings: Any = attrs.field(repr=False)

    async def __call__(self, context: ToolSourceContext) -> ToolSource:
        """Open it."""
        return await self.open(self.settings, context)


@attrs.define(eq=False)
class _Opened:
    """An open source. After a reload several chats share it, and the last of them closes it.

    Attributes:
        fetcher: Its own client, because it may outlive the chat that opened it.
        users: The live sources that use it.
        reading: Held while its tools are read: several of its users may start that.
    """

    fetcher: ClosableFetcher | None
    users: set[LiveSource]
    source: ToolSource | None = None
    reading: asyncio.Lock = attrs.field(factory=asyncio.Lock)

    def changed(self) -> None:
        for user in [*self.users]:
            user.changed()

    async def aclose(self) -> None:
        for each in (self.source, self.fetcher):
            if each is not None:
                with contextlib.suppress(Exception):  # nothing can be done about a source that breaks now
                    async with asyncio.timeout(CLOSING_S):
                        with contained():
                            await each.aclose()


class LiveSource:
    """A source while the chat runs; a call's ``ToolContext.source``.

    Attributes:
        name: Its name in the config.
        settings: An instance of its type's config_class.
        folder: Where its relative paths start.
        timeout_s: Seconds in which it must have been opened and have returned its tools.
        now: Its tools by name, if they may differ from the accepted ones; None before they were read, and
            if the fingerprint shows that they are the accepted ones.
        fingerprint: As of ``now``.
        trouble: Why it could not be opened or read at the last attempt; empty if it could.
        is_known: Whether it has been opened and read.
        left_out: Why the source itself left tools out when it was last read, by their names.
    """

    def __init__(
        self,
        setup: SourceSetup,
        accepted_fingerprint: Callable[[str], str],
        when_read: Callable[[LiveSource, list[SourcedTool] | None], Awaitable[None]],
        create_fetcher: Callable[[], ClosableFetcher | None] = lambda: None,
        others: Callable[[], Mapping[str, LiveSource]] = dict,
    ) -> None:
        self.setup, self.name, self.settings = setup, setup.name, setup.settings
        self.folder, self.timeout_s = setup.folder, setup.timeout_s
        self.now: Mapping[str, SourcedTool] | None = None
        self.fingerprint = ""
        self.trouble = ""
        self.is_known = False
        self.left_out: Mapping[str, str] = {}
        self._accepted_fingerprint = accepted_fingerprint
        self._when_read = when_read
        self._create_fetcher, self._others = create_fetcher, others
        self._opened: _Opened | None = None
        self._opening = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._restarting: dict[str, asyncio.Task[str]] = {}
        self._is_stale = True
        self._not_before = 0.0
        self._changed_at = -AGAIN_S
        self._next_look: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def _source(self) -> ToolSource | None:
        return self._opened.source if self._opened is not None else None

    async def opened(self) -> ToolSource:
        """Open the source if necessary and return it.

        Raises:
            ToolSourceError: It cannot be opened.
        """
        if self._source is not None:
            return self._source
        try:
            async with asyncio.timeout(self.setup.timeout_s):
                return await self._open()
        except TimeoutError:
            raise ToolSourceError(f"{self._label()} did not open within {self.setup.timeout_s:g} s") from None

    def take_over(self, old: LiveSource) -> None:
        """Share another chat's open source, if its table is the same and a server runs behind it.

        A document is read again instead, and a broken server gets a new start.
        """
        if self._opened is not None or self._opening.locked() or not _is_same(old.setup, self.setup):
            return
        server = old.server_state(DEFAULT_TENANT)
        if old._opened is None or server is None or server.status == "broken":
            return
        self._opened = old._opened
        self._opened.users.add(self)
        if server.status == "running":
            self.look()

    def look(self, *, at_once: bool = False) -> asyncio.Task[None] | None:
        """Return the task that opens it and reads its tools; None if there is nothing to do, or not yet again.

        Args:
            at_once: Even if it was read before, or has just failed.
        """
        if self._looking is not None:
            return self._looking
        if at_once:
            self._is_stale, self._not_before = True, 0.0
        if self._is_closed or not self._is_stale or time.monotonic() < self._not_before:
            return None
        if self._next_look is not None and not at_once:
            return None  # a list is due soon
        # Not in the turn that happens to need it first: it belongs to all of them.
        self._looking = asyncio.get_running_loop().create_task(self._look(), context=contextvars.Context())
        self._looking.add_done_callback(self._finish_look)
        return self._looking

    def restart(self, tenant: str) -> asyncio.Task[str]:
        """Return the task that restarts its server and reads its tools: one for all concurrent callers.

        Its result is the reason it failed; an empty text if it did not.
        """
        if tenant not in self._restarting:
            task = asyncio.get_running_loop().create_task(self._restart(tenant), context=contextvars.Context())
            self._restarting[tenant] = task
            task.add_done_callback(lambda _: self._restarting.pop(tenant))
        return self._restarting[tenant]

    def server_state(self, tenant: str) -> SourceServer | None:
        """Return the state of the server behind it; None if there is none, or it is not open."""
        try:
            with contained():
                get_state = getattr(self._source, "server_state", None)
                state = get_state(tenant) if get_state is not None else None
                if state is None or isinstance(state, SourceServer):
                    return state
            trouble = f"it is of type {type(state).__name__}"
        except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
            trouble = error_name(error)
        return SourceServer(status="broken", trouble=f"its state cannot be read: {trouble}")

    def warnings(self, tools: Sequence[SourcedTool], others: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
        """Return the warnings for the person who accepts these tools, by name. Blocks.

        Args:
            others: The names of other tools, by their owner.
        """
        if (inspect := getattr(self._source, "warnings", None)) is None:
            return {}
        warnings, trouble = self._run(
            "warnings", lambda: {str(name): tuple(map(str, texts)) for name, texts in inspect(tools, others).items()}
        )
        if trouble:
            return {tool.name: (f"whether it is suspicious cannot be checked: {trouble}",) for tool in tools}
        return warnings

    def changed(self) -> None:
        """Read its tools again soon, after the source's notice of a change. At most once in AGAIN_S."""
        self._is_stale = True
        if self.trouble:
            self._not_before = 0.0
        if self._looking is not None or self._next_look is not None or not self.is_known or self._is_closed:
            return
        wait_s = self._changed_at + AGAIN_S - time.monotonic()
        if wait_s <= 0:
            self._look_when_due()
        else:  # a source that reports a change with every list would be listed without pause
            self._next_look = asyncio.get_running_loop().call_later(wait_s, self._look_when_due)

    def forget(self) -> None:
        """Read its tools again when they are needed next."""
        self._is_stale = True

    def configured(self, accepted: SourcedTool) -> SourcedTool:
        """Return an accepted tool with the configuration's settings for it."""
        if (configured := self.setup.configured) is None:
            return accepted
        now = self.now.get(accepted.name) if self.now is not None else None
        changed, trouble = self._run("configured", lambda: configured(self.settings, accepted, now))
        return accepted if trouble else changed

    def still_callable(self, accepted: SourcedTool, now: SourcedTool | None) -> bool:
        """Return whether calls by the accepted definition still work."""
        if (check := getattr(self._source, "still_callable", None)) is not None:
            is_callable, trouble = self._run("still_callable", lambda: bool(check(accepted, now)))
            if not trouble:
                return is_callable
        return now is not None and now.implementation == accepted.implementation

    async def aclose(self) -> None:
        """Close it."""
        self._is_closed = True
        if self._next_look is not None:
            self._next_look.cancel()
        # Detached before the awaits: a call that arrives meanwhile must not use a source that is being closed.
        opened, self._opened = self._opened, None
        tasks = [*self._restarting.values(), *([self._looking] if self._looking is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSING_S)
        if opened is not None:
            opened.users.discard(self)
            if not opened.users:
                await opened.aclose()

    def _run(self, name: str, call: Callable[[], T]) -> tuple[T, str]:
        """Call the plugin; return its result, and why there is none: empty if there is one."""
        try:
            with contained():
                return call(), ""
        except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
            log.warning("%s: %s failed: %s", self._label(), name, error_name(error))
            return None, error_name(error)  # type: ignore[return-value]

    async def _open(self) -> ToolSource:
        # Calls and readings may open the source at the same time: later ones wait for the first, and share its result.
        async with self._opening:
            if self._is_closed:
                raise ToolSourceError(f"{self._label()} is closed")
            if (source := self._source) is None:
                opened = _Opened(None, {self})
                try:
                    source = await self._open_new(opened)
                finally:
                    # aclose does not wait for this lock: a source closed meanwhile must not leave a server running.
                    if opened.source is None or self._is_closed:
                        await opened.aclose()
                    else:
                        self._opened = opened
            return source

    async def _open_new(self, opened: _Opened) -> ToolSource:
        setup = self.setup
        try:
            with contained():
                opened.fetcher = self._create_fetcher()
                context = ToolSourceContext(
                    name=setup.name,
                    folder=setup.folder,
                    fetcher=opened.fetcher,
                    changed=opened.changed,
                    sources=self._others(),
                )
                opened.source = source = await setup.open(context)
        except (ToolSourceError, TimeoutError):
            raise
        except Exception as error:
            raise ToolSourceError(f"{self._label()} cannot be opened: {error_name(error)}") from error
        return source

    async def _restart(self, tenant: str) -> str:
        limit_s = self.setup.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                if (restart := getattr(await self._open(), "restart", None)) is not None:
                    with contained():
                        await restart(tenant)
        except TimeoutError:
            trouble = f"it was not restarted within {limit_s:g} s"
        except ToolSourceError as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
            trouble = f"it cannot be restarted: {error_name(error)}"
        else:
            if self._looking is not None:  # it may be reading from the server that was ended
                await asyncio.wait([self._looking])
            if (task := self.look(at_once=True)) is not None:
                await asyncio.wait([task])
            return self.trouble
        if tenant == DEFAULT_TENANT:  # its server lists the tools; another tenant's concerns that tenant alone
            self._failed(trouble)
        return trouble

    async def _look(self) -> None:
        # Cleared before the reading, not after: a change reported while it runs needs another one (see _finish_look).
        self._is_stale = False
        try:
            async with asyncio.timeout(self.setup.timeout_s):
                source = await self._open()
                async with self._reading():
                    with contained():
                        fingerprint = source.fingerprint
                        same = bool(fingerprint) and fingerprint == self._accepted_fingerprint(self.name)
                        tools = None if same else [*await source.tools()]
                        left_out = getattr(source, "left_out", None) or {}
                        self.left_out = {str(name): str(reason) for name, reason in left_out.items()}
            self.trouble, self.is_known = "", True
            await self._when_read(self, tools)
            self.fingerprint = fingerprint
        except TimeoutError:
            self._failed(f"it was not read within {self.setup.timeout_s:g} s")
        except ToolSourceError as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
            self._failed(f"its tools cannot be read: {error_name(error)}")

    def _reading(self) -> contextlib.AbstractAsyncContextManager[Any]:
        return self._opened.reading if self._opened is not None else contextlib.nullcontext()

    def _failed(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("%s: %s", self._label(), trouble)
        # Tried again by a later turn, but not by each: a broken source would delay all of them.
        self.trouble, self._is_stale, self._not_before = trouble, True, time.monotonic() + RETRY_S

    def _finish_look(self, task: asyncio.Task[None]) -> None:
        self._looking = None
        if self._is_stale and not self.trouble and not task.cancelled():
            self.changed()

    def _look_when_due(self) -> None:
        self._next_look, self._changed_at = None, time.monotonic()
        self.look()

    def _label(self) -> str:
        return f"tool source '{self.name}'"


_IDENTITY = operator.attrgetter("name", "type", "folder", "open")


def _is_same(one: SourceSetup, other: SourceSetup) -> bool:
    """Return whether two configurations have the same source, as far as its open connection depends on them."""
    try:
        with contained():
            return bool(_IDENTITY(one) == _IDENTITY(other))
    except Exception:  # noqa: BLE001  a plugin's settings may raise anything
        return False
