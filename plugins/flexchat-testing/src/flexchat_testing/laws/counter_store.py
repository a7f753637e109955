"""The laws of a store's counters: what is reserved before something happens, and settled afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

from flexchat.store import Charge, HourlySum, KeepingCounters, Refusal
from hypothesis import strategies as st

from .kept_samples import LIVES
from .law import Conformance, expect, law, opened_in, require

DAY_S = 86_400.0
_IDS = st.sampled_from(["1", "2", "3"])
_AMOUNTS = st.integers(0, 6)


class CounterConformance(Conformance):
    """The laws of every store with counters: no ceiling is ever passed, and nothing is lost.

    Define make_store and ``supports``.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "durable": "make_store with a closed store's folder opens the same counters again",
        "shared": "two stores with one folder may be open at once, as in two processes, and share their counters",
        "leases": "reservations of owners without a lease expire",
        "clock": "the class writes set_clock, which sets the store's clock forward or back",
    }

    def make_store(self, folder: Path) -> KeepingCounters:
        """Return a store with counters; an empty one for every new folder. Same folder, same counters."""
        raise NotImplementedError(f"{type(self).__name__} must write make_store")

    async def set_clock(self, store: KeepingCounters, by_s: float) -> None:
        """Set the store's clock forward, or back, by so many seconds."""
        raise NotImplementedError(f"{type(self).__name__} must write set_clock")

    def opened(self, folder: Path | None = None) -> AbstractAsyncContextManager[KeepingCounters]:
        """Open a store for the length of a law: an empty one, or that of a folder."""
        return opened_in(self.make_store, folder)

    @law()
    async def test_all_amounts_are_reserved_or_none(self, store: KeepingCounters) -> None:
        """Of two counters, the full one refuses; the other is unchanged."""
        both = (day("a", 6), day("b", 2, ceiling=1))
        refused = await reserve(store, "1", *both)
        require(refused is not None and refused.key == "b" and refused.left == 1, f"the refusal is {refused}")
        require(await reserve(store, "2", day("a", 10)) is None, "the other counter has changed")

    @law()
    async def test_a_refusal_states_when_there_may_be_room(self, store: KeepingCounters) -> None:
        """For a period, its end; for a bucket, when it has refilled; for what others hold, nothing."""
        charges = [day("day", 11), Charge(key="rate", amount=3, ceiling=2, refill_us=10**7), place("held", 11)]
        refusals = [await reserve(store, charge.key, charge) for charge in charges]
        day_refusal, rate_refusal, held_refusal = (require_refusal(each) for each in refusals)
        require(0 < (day_refusal.retry_after_s or 0) <= DAY_S, f"of a day: {day_refusal}")
        require(9 < (rate_refusal.retry_after_s or 0) <= 10, f"of a bucket: {rate_refusal}")
        expect(held_refusal.retry_after_s, None, "of what is held")

    @law()
    async def test_the_real_amount_counts_after_settling(self, store: KeepingCounters) -> None:
        """Less than was reserved, or more: the next reservation gets what is left. Settling again changes nothing."""
        await reserve(store, "1", day("a", 9))
        require(await reserve(store, "2", day("a", 2)) is not None, "an open reservation does not count")
        require(await store.counters.settle("1", {"a": 4}), "the reservation was not open")
        require(not await store.counters.settle("1", {"a": 9}), "it was settled twice")
        refused = require_refusal(await reserve(store, "2", day("a", 7)))
        expect(refused.left, 6, "what is left")
        require(await reserve(store, "2", day("a", 6)) is None, "what is left cannot be reserved")
        await store.counters.settle("2", {"a": 12})
        expect(require_refusal(await reserve(store, "3", day("a", 1))).left, 0, "what is left beyond the ceiling")

    @law()
    async def test_reserving_again_changes_nothing(self, store: KeepingCounters) -> None:
        """While the id is open: its answer may have been lost."""
        for _ in range(3):
            require(await reserve(store, "1", day("a", 4)) is None, "it was refused")
        require(await reserve(store, "2", day("a", 6)) is None, "it was counted twice")

    @law()
    async def test_spare_room_is_required_and_not_taken(self, store: KeepingCounters) -> None:
        """As for a request after which another one must be possible."""
        require(await reserve(store, "1", day("a", 6, spare=5)) is not None, "there was no room for another one")
        require(await reserve(store, "1", day("a", 5, spare=5)) is None, "there was room for another one")
        require(await reserve(store, "2", day("a", 5)) is None, "the room was taken")

    @law()
    async def test_what_is_held_comes_back_whole(self, store: KeepingCounters) -> None:
        """An amount without a period, as of a limit to how many run at a time."""
        require(await reserve(store, "1", place("a", 1, ceiling=1)) is None, "it was refused")
        require(await reserve(store, "2", place("a", 1, ceiling=1)) is not None, "two run at a time")
        await store.counters.settle("1", {})
        require(await reserve(store, "2", place("a", 1, ceiling=1)) is None, "the place was not free again")

    @law()
    async def test_a_bucket_refills_with_time(self, store: KeepingCounters) -> None:
        """It gives its ceiling at once, then one unit in each interval; settling returns nothing."""
        charge = Charge(key="a", amount=1, ceiling=3, refill_us=100_000)
        for number in range(3):
            require(await reserve(store, str(number), charge) is None, "the bucket was not full")
            await store.counters.settle(str(number), {})
        refused = require_refusal(await reserve(store, "3", charge))
        await asyncio.sleep(refused.retry_after_s or 0)
        require(await reserve(store, "3", charge) is None, "nothing had come back")

    @law()
    async def test_those_that_wait_are_served_in_order(self, store: KeepingCounters) -> None:
        """Who comes later gets nothing that an earlier one waits for; one that leaves is no longer waited for."""
        charge = place("a", 1, ceiling=1)
        await reserve(store, "1", charge)
        for id in ("2", "3"):
            require(await reserve(store, id, charge, wait_s=60) is not None, "two run at a time")
        await store.counters.settle("1", {})
        for id in ("4", "3"):
            require(await reserve(store, id, charge, wait_s=60) is not None, f"{id} has overtaken another")
        require(await reserve(store, "2", charge, wait_s=60) is None, "the first one that waits was refused")
        await store.counters.settle("2", {})
        await store.counters.settle("3", {})
        require(await reserve(store, "4", charge, wait_s=60) is None, "one that has left is waited for")

    @law()
    async def test_a_place_in_the_queue_ends_with_its_time(self, store: KeepingCounters) -> None:
        """A process that died waiting holds up the others no longer than it would have waited."""
        charge = place("a", 1, ceiling=1)
        await reserve(store, "1", charge)
        await reserve(store, "2", charge, wait_s=0.01)
        await store.counters.settle("1", {})
        await asyncio.sleep(0.02)
        require(await reserve(store, "3", charge) is None, "it is still waited for")

    @law()
    async def test_sums_are_by_hour_and_labels(self, store: KeepingCounters) -> None:
        """What is settled with the same labels adds up, exactly."""
        large = 10**17 + 1
        for number, who in enumerate(("b", "a", "b")):
            await reserve(store, str(number), day("d", 1), labels={"tenant": who, "rule": "漢"})
            await store.counters.settle(str(number), {"d": 1}, sums={"usd": large, "calls": 1})
        sums = await store.counters.sums()
        expect(totals(sums, "a"), {"usd": large, "calls": 1}, "the sums of a")
        expect(totals(sums, "b"), {"usd": 2 * large, "calls": 2}, "the sums of b")
        require(all(each.labels["rule"] == "漢" and each.hour.endswith(":00:00Z") for each in sums), f"rows: {sums}")
        expect(await store.counters.sums(since_s=2**34), [], "sums of the future")

    @law("leases")
    async def test_a_dead_owners_reservations_expire(self, store: KeepingCounters) -> None:
        """What may have been spent counts as spent, in the sums as well; what was held is free again."""
        charges = (day("a", 6), place("h", 1, ceiling=1))
        await reserve(store, "1", *charges, owner="dead", labels={"tenant": "t"}, worst={"usd": 6})
        await store.counters.reserve("2", charges[1:], owner="alive", lease_s=60)
        await asyncio.to_thread(store.counters.renew, "dead", 0.0)
        require(await reserve(store, "3", place("h", 1, ceiling=1), owner="alive") is None, "a place is lost")
        require(not await store.counters.settle("1", {"a": 0}), "an expired reservation was settled")
        expect(require_refusal(await reserve(store, "4", day("a", 5))).left, 4, "what is left")
        expect(totals(await store.counters.sums(), "t"), {"usd": 6}, "the sums")

    @law("leases")
    async def test_a_living_owners_reservations_stay(self, store: KeepingCounters) -> None:
        """While its lease is renewed."""
        await reserve(store, "1", place("h", 1, ceiling=1), owner="alive")
        await asyncio.to_thread(store.counters.renew, "alive", LIVES)
        require(await reserve(store, "2", place("h", 1, ceiling=1)) is not None, "it has expired")

    @law("clock")
    async def test_a_clock_set_forward_opens_nothing(self, store: KeepingCounters) -> None:
        """Neither a period nor a bucket: the time that was skipped has not passed."""
        bucket = Charge(key="rate", amount=2, ceiling=2, refill_us=10**8)
        require(await reserve(store, "1", day("a", 9), bucket) is None, "it was refused")
        await self.set_clock(store, 3 * DAY_S)
        for number, charge in enumerate((day("a", 2), smaller(bucket, amount=1))):
            require(await reserve(store, f"after {number}", charge) is not None, f"{charge.key} was opened")

    @law("clock")
    async def test_a_clock_set_back_blocks_nothing_for_long(self, store: KeepingCounters) -> None:
        """What is left is still there, a bucket takes no longer to fill than ever, and a period ends with its day."""
        bucket = Charge(key="rate", amount=2, ceiling=2, refill_us=10**7)
        require(await reserve(store, "1", day("a", 9), bucket) is None, "it was refused")
        await self.set_clock(store, -3 * DAY_S)
        refused = require_refusal(await reserve(store, "2", day("a", 2)))
        require((refused.retry_after_s or 0) <= DAY_S, f"the period ends in {refused.retry_after_s} s")
        require(await reserve(store, "3", day("a", 1)) is None, "what is left is gone")
        refused = require_refusal(await reserve(store, "4", smaller(bucket, amount=1)))
        require((refused.retry_after_s or 0) <= 20, f"the bucket has a unit in {refused.retry_after_s} s")

    @law("durable")
    async def test_counters_outlive_the_store(self, folder: Path) -> None:
        """With the open reservations."""
        async with self.opened(folder) as store:
            await reserve(store, "1", day("a", 4))
            await reserve(store, "2", day("a", 4))
            await store.counters.settle("1", {"a": 1})
        async with self.opened(folder) as store:
            expect(require_refusal(await reserve(store, "3", day("a", 6))).left, 5, "what is left")

    @law("shared")
    async def test_two_stores_share_their_ceilings(self, folder: Path) -> None:
        """However they mix, never is more reserved or spent than the ceiling."""
        granted: list[str] = []

        async def spend(store: KeepingCounters, name: str) -> None:
            for number in range(20):
                id = f"{name} {number}"
                if await reserve(store, id, day("a", 3, ceiling=60), place("b", 3, ceiling=9)) is None:
                    granted.append(id)
                    await store.counters.settle(id, {"a": 2}, sums={"spent": 2})

        async with self.opened(folder) as one, self.opened(folder) as two:
            await asyncio.gather(*[spend(store, f"{n} {i}") for n, store in (("1", one), ("2", two)) for i in range(3)])
            spent = sum(each.values["spent"] for each in await one.counters.sums())
        expect(spent, 2 * len(granted), "the sum")
        require(spent <= 60, f"{spent} of 60 were spent")

    @law(draw=lambda: {"steps": st.lists(st.tuples(_IDS, _AMOUNTS, _AMOUNTS), max_size=20)}, examples=30)
    async def test_no_order_of_steps_passes_a_ceiling(
        self, store: KeepingCounters, steps: list[tuple[str, int, int]]
    ) -> None:
        """Whether reserved or settled first, what is open and what is spent stay within it."""
        reserved: dict[str, int] = {}
        spent = 0
        for id, amount, real in steps:
            if id in reserved:
                real = min(real, reserved.pop(id))
                require(await store.counters.settle(id, {"a": real}), "it was not open")
                spent += real
                continue
            refused = await reserve(store, id, day("a", amount))
            fits = spent + sum(reserved.values()) + amount <= 10
            require((refused is None) == fits, f"{spent} spent, {reserved} open, {amount} more: {refused}")
            if refused is None:
                reserved[id] = amount


async def reserve(store: KeepingCounters, id: str, *charges: Charge, owner: str = "kit", **more: Any) -> Refusal | None:
    """Reserve amounts for an owner that lives."""
    return await store.counters.reserve(id, charges, owner=owner, lease_s=LIVES, **more)


def day(key: str, amount: int, *, ceiling: int = 10, spare: int = 0) -> Charge:
    """Return a charge to a counter of a day."""
    return Charge(key=key, amount=amount, ceiling=ceiling, spare=spare, period="day")


def place(key: str, amount: int, *, ceiling: int = 10) -> Charge:
    """Return a charge that is held until it is settled: a place at once."""
    return Charge(key=key, amount=amount, ceiling=ceiling)


def smaller(charge: Charge, *, amount: int) -> Charge:
    """Return a charge to the same bucket."""
    return Charge(key=charge.key, amount=amount, ceiling=charge.ceiling, refill_us=charge.refill_us)


def require_refusal(refused: Refusal | None) -> Refusal:
    """Return a refusal, which must be one."""
    require(refused is not None, "it was not refused")
    assert refused is not None
    return refused


def totals(sums: Any, tenant: str) -> dict[str, int]:
    """Return the sums of a tenant over all hours: a law may run while one ends."""
    values: dict[str, int] = {}
    rows: list[HourlySum] = [each for each in sums if each.labels["tenant"] == tenant]
    for each in rows:
        for name, value in each.values.items():
            values[name] = values.get(name, 0) + value
    return values
