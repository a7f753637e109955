"""The laws of a journal that keeps hourly sums of its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

from flexchat.store import JournaledTurn, JournalEntry, JournalingStore, TurnSums

from .law import Conformance, expect, law, opened_in, require
from .turn_journal import ending, entries, turn, turn_of


class TurnSumsConformance(Conformance):
    """The laws of every journal with sums: each turn that has ended is in them once, also after it is deleted.

    Define make_store and ``supports``.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "durable": "make_store with a closed store's folder opens the same sums again",
        "shared": "two stores with one folder may be open at once, as in two processes, and share their sums",
    }

    def make_store(self, folder: Path) -> JournalingStore:
        """Return a store whose journal has sums; an empty one for every new folder. Same folder, same sums."""
        raise NotImplementedError(f"{type(self).__name__} must write make_store")

    def opened(self, folder: Path | None = None) -> AbstractAsyncContextManager[JournalingStore]:
        """Open a store for the length of a law: an empty one, or that of a folder."""
        return opened_in(self.make_store, folder)

    @law()
    async def test_turns_that_have_ended_are_added_once(self, store: JournalingStore) -> None:
        """In portions; those that run are left out until they end."""
        await _end(store, "a1", "a2", "a3")
        await store.journal.write(turn("b1"), entries(1), lease_s=60)
        added = [await sums_of(store).add(count, limit=2) for _ in range(3)]
        expect(added, [2, 1, 0], "turns that were added")
        expect(await _total(store), {"turns": 3, "steps": 3}, "the sums")
        await store.append("c", turn_of("b1"), tenant="t", end=ending(turn("b1"), "failed", 2))
        expect(await sums_of(store).add(count), 1, "turns that were added once the last has ended")
        expect(await _total(store), {"turns": 4, "failed": 1, "steps": 4}, "the sums")

    @law()
    async def test_sums_outlive_their_turns(self, store: JournalingStore) -> None:
        """Forgotten ones, and those of deleted conversations."""
        await _end(store, "a1", "a2")
        await sums_of(store).add(count)
        await store.delete("c", tenant="t")
        await _end(store, "a3")
        await sums_of(store).add(count)
        await asyncio.sleep(0.005)  # rows hold milliseconds
        await store.journal.forget(older_than_s=0, events_older_than_s=0)
        expect([*await store.journal.list(tenant="t")], [], "the turns that are left")
        expect((await _total(store))["turns"], 3, "turns in the sums")

    @law()
    async def test_an_addition_that_fails_adds_nothing(self, store: JournalingStore) -> None:
        """All its turns are added later."""
        await _end(store, "a1", "a2")

        def fail_second(values: dict[str, int], its: JournaledTurn, steps: Sequence[JournalEntry]) -> None:
            count(values, its, steps)
            if its.id == "a2":
                raise LookupError("the second")

        try:
            await sums_of(store).add(fail_second)
        except LookupError:
            pass
        else:
            require(False, "what the function raised was not raised")
        expect(await _total(store), {}, "the sums after a failure")
        expect(await sums_of(store).add(count), 2, "turns that were added afterwards")

    @law()
    async def test_each_tenant_has_its_own_sums(self, store: JournalingStore) -> None:
        """By the hour in which the turns ended; reading is for one tenant, or for all, from a time on."""
        await _end(store, "a1", "a2")
        await _end(store, "b1", tenant="u")
        await sums_of(store).add(count)
        for tenant, turns in (("t", 2), ("u", 1), ("nobody", 0), (None, 3)):
            expect((await _total(store, tenant)).get("turns", 0), turns, f"turns of {tenant}")
        rows = await sums_of(store).read()
        require(all(row.hour.endswith(":00:00Z") for row in rows), f"the hours are {[row.hour for row in rows]}")
        expect([*await sums_of(store).read(since_s=4e9)], [], "sums of the future")

    @law("shared")
    async def test_two_processes_add_each_turn_once(self, folder: Path) -> None:
        """Whoever comes first."""
        async with self.opened(folder) as one, self.opened(folder) as two:
            ids = [f"a{n}" for n in range(12)]
            for id in ids:
                await _end(one, id)
            await asyncio.gather(*map(_add_all, (one, two) * 3))
            expect(await _total(two), {"turns": 12, "steps": 12}, "the sums of both")

    @law("durable")
    async def test_they_are_there_when_it_is_opened_again(self, folder: Path) -> None:
        """And none of their turns is added again."""
        async with self.opened(folder) as store:
            await _end(store, "a1")
            await sums_of(store).add(count)
        async with self.opened(folder) as store:
            expect(await sums_of(store).add(count), 0, "turns that were added again")
            expect((await _total(store))["turns"], 1, "turns in the sums")


def sums_of(store: JournalingStore) -> TurnSums:
    """Return the sums of a store's journal."""
    sums: TurnSums = store.journal.sums  # type: ignore[attr-defined]
    return sums


def count(values: dict[str, int], its: JournaledTurn, steps: Sequence[JournalEntry]) -> None:
    """Count a turn, its state, and its steps."""
    names = ["turns", *(["failed"] if its.state == "failed" else []), *["steps" for _ in steps]]
    for name in names:
        values[name] = values.get(name, 0) + 1


async def _end(store: JournalingStore, *ids: str, tenant: str = "t") -> None:
    for id in ids:
        began: Any = turn(id, tenant=tenant)
        await store.journal.write(began, entries(1), lease_s=60)
        await store.append("c", turn_of(id), tenant=tenant, end=ending(began, "done", 2))


async def _add_all(store: JournalingStore) -> None:
    while await sums_of(store).add(count, limit=3):
        pass


async def _total(store: JournalingStore, tenant: str | None = "t") -> dict[str, int]:
    total: dict[str, int] = {}
    for row in await sums_of(store).read(tenant=tenant):
        for name, value in row.values.items():
            total[name] = total.get(name, 0) + value
    return total
