"""Sums that are kept while a chat is open, and the hook on violations."""

import pytest
from flexchat import StorageError
from flexchat.host import installed_plugins
from flexchat.plugin import hookimpl
from flexchat_metrics.adding import TurnAdder
from flexchat_metrics.keeping import Keeper, report_violations
from flexchat_metrics.objectives import judge
from flexchat_metrics.report import report_of
from flexchat_metrics.settings import Objective
from flexchat_testing import calls
from generated_turns import fill


class Watcher:
    """A plugin that notes violations, or fails."""

    def __init__(self):
        self.seen, self.is_broken = [], False

    @hookimpl
    async def flexchat_slo_violated(self, verdict):
        self.seen.append(f"{verdict.target} {verdict.objective}")
        if self.is_broken:
            raise RuntimeError("broken")


@pytest.fixture
def plugins():
    return installed_plugins()


async def test_turns_are_in_the_sums_before_any_is_forgotten(open_chat):
    """Also those that an earlier process left."""
    async with open_chat() as chat:
        await chat.respond("hello", conversation="c")
    async with open_chat() as chat:
        await chat.journal.forget(older_than_s=-60, events_older_than_s=-60)
        report = report_of(await chat.journal.sums.read())

    assert report.find("rule", "all").of("n") == 1


async def test_a_violation_calls_the_hook_once_per_window(store, plugins, monkeypatch):
    """However often the sums are brought up to date; an implementation that fails disturbs nothing."""
    watcher = Watcher()
    plugins.register(watcher, "watcher")
    keeper = Keeper({"rule.support": Objective(done=0.9999, window="5200w")}, plugins)
    await fill(store, 150, monkeypatch)

    for is_broken in (True, False, False):
        watcher.is_broken = is_broken
        await keeper.look(store.journal.sums, TurnAdder())

    assert watcher.seen == ["rule.support done"]


async def test_a_store_that_fails_does_not_end_a_chat(open_chat, monkeypatch, caplog):
    """It is logged, and tried again later."""

    async def fail(*_, **__):
        raise StorageError("the disk is full")

    monkeypatch.setattr("flexchat_sqlite.sums.SqliteTurnSums.add", fail)
    async with open_chat(calls(("look", {"at": "sea"}))) as chat:
        turn = await chat.respond("hello", conversation="c")

    assert turn.content == "Done."
    assert "the sums of turns are not up to date: the disk is full" in caplog.text


async def test_verdicts_are_reported_to_each_plugin(store, plugins, monkeypatch):
    """Through the plugins of a chat, as commands do."""
    watchers = Watcher(), Watcher()
    for number, watcher in enumerate(watchers):
        watcher.is_broken = number == 0
        plugins.register(watcher, f"watcher{number}")
    await fill(store, 60, monkeypatch)
    await store.journal.sums.add(TurnAdder())
    verdicts = await judge({"tool.pay": Objective(p95_ms=1, window="5200w")}, store.journal.sums)

    await report_violations(plugins, verdicts)

    assert [watcher.seen for watcher in watchers] == [["tool.pay p95_ms"]] * 2
