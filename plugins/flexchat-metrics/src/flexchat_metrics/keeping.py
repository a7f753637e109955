"""Sums that are kept up to date while a chat is open, and objectives that are watched."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Mapping, Sequence

from flexchat import FlexChat, StorageError
from flexchat.host import PluginHost
from flexchat.plugin import AppInfo, hookimpl
from flexchat.store import AddTurn, TurnSums

from .adding import TurnAdder
from .objectives import Verdict, judge
from .settings import Objective, Stats

log = logging.getLogger(__name__)

PERIOD_S = 15.0


async def bring_up_to_date(sums: TurnSums, add: AddTurn) -> None:
    """Add all turns that have ended and are in no sum yet. Raises StorageError."""
    while await sums.add(add):
        pass


def sums_of(journal: object) -> TurnSums | None:
    """Return the sums of a journal; None if it keeps none."""
    sums: TurnSums | None = getattr(journal, "sums", None)
    return sums


def adder_of(chat: FlexChat) -> TurnAdder:
    """Make the adder that a chat's table [stats] requires."""
    stats: Stats = chat.config.tables.get("stats") or Stats()
    return TurnAdder(stats.argument_values, chat.mask)


async def report_violations(plugins: PluginHost, verdicts: Sequence[Verdict]) -> None:
    """Call flexchat_slo_violated; an implementation that fails is logged."""
    for verdict in verdicts:
        for plugin, answer in plugins.ask("flexchat_slo_violated", verdict=verdict):
            try:
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                log.exception("plugin %s: flexchat_slo_violated failed", plugin)


class Keeper:
    """Adds turns to the sums as they end, for one chat.

    Turns are added before any is forgotten: those that an earlier process left when the chat is opened, others within
    PERIOD_S.
    """

    def __init__(self, objectives: Mapping[str, Objective], plugins: PluginHost) -> None:
        self._objectives, self._plugins = objectives, plugins
        self._task: asyncio.Task[None] | None = None
        self._reported: set[tuple[str, str, str]] = set()

    @hookimpl
    async def flexchat_app_opened(self, app: AppInfo) -> None:
        """Begin, if there are sums."""
        sums, add = sums_of(app.chat.journal), adder_of(app.chat)
        if sums is not None:
            with contextlib.suppress(StorageError):  # logged by the first look
                await sums.add(add)
            self._task = asyncio.create_task(self._keep(sums, add))

    @hookimpl
    async def flexchat_app_closed(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _keep(self, sums: TurnSums, add: AddTurn) -> None:
        while True:
            try:
                await self.look(sums, add)
            except StorageError as error:
                log.warning("the sums of turns are not up to date: %s", error)
            await asyncio.sleep(PERIOD_S)

    async def look(self, sums: TurnSums, add: AddTurn) -> None:
        """Add the turns that have ended, and report objectives that are violated since. Raises StorageError."""
        await bring_up_to_date(sums, add)
        if self._objectives:
            violated = [each for each in await judge(self._objectives, sums) if each.state == "violated"]
            new = [each for each in violated if (each.target, each.objective, each.began) not in self._reported]
            self._reported = {(each.target, each.objective, each.began) for each in violated}
            await report_violations(self._plugins, new)
