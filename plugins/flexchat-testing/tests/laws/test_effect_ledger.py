"""The laws of a ledger hold for one in memory, and each ledger that breaks one is caught."""

import unittest

import attrs
import pytest
from flexchat.conversations.memory_ledger import MemoryLedger
from flexchat.store import Claim
from flexchat_testing import LedgerConformance
from flexchat_testing.laws.law import laws_of

KEPT = {}
"""What a folder holds: stands for files."""


def opened(folder, kind):
    return KEPT.setdefault((str(folder), kind), kind())


class TestMemory(LedgerConformance):
    """The reference."""

    supports = frozenset({"durable", "shared"})

    def make_ledger(self, folder):
        return opened(folder, MemoryLedger)


class Forgetful(MemoryLedger):
    """Forgets what it was told when it is closed."""

    async def aclose(self):
        self._rows.clear()


class Generous(MemoryLedger):
    """Gives a claim to its own owner again."""

    async def claim(self, call, *, owner, lease_s, take_over=False):
        claim = await super().claim(call, owner=owner, lease_s=lease_s, take_over=take_over)
        same = claim.outcome == "running" and claim.effect.owner == owner
        return Claim("yours", claim.effect) if same else claim


class Careless(MemoryLedger):
    """Lets anybody take over, whether or not the owner lives."""

    def _lives(self, owner):
        return False


class Immortal(MemoryLedger):
    """Never sees that an owner is dead."""

    def _lives(self, owner):
        return True


class Unfenced(MemoryLedger):
    """Lets an older claim say how a newer one ended."""

    def _change(self, key, fence, change):
        row = self._rows.get(key)
        return super()._change(key, row.fence if row is not None else fence, change)


class Stubborn(MemoryLedger):
    """Lets a late answer overwrite anything."""

    async def finish(self, key, fence, *, state, result, note=""):
        written = await super().finish(key, fence, state=state, result=result, note=note)
        row = self._rows[key]
        if not written and row.fence == fence:
            self._rows[key] = attrs.evolve(row, state=state)
        return True


class Amnesiac(MemoryLedger):
    """Drops a claim that is given back, and with it the fence."""

    async def release(self, key, fence, *, note):
        released = await super().release(key, fence, note=note)
        if released:
            del self._rows[key]
        return released


class Indiscreet(MemoryLedger):
    """Shows everybody's effects."""

    def _find(self, key, tenant):
        row = self._rows.get(key)
        return row if row is not None else super()._find(key, tenant)


class Silent(MemoryLedger):
    """Leaves a dead owner's claim as it is, so that nobody looks for it."""

    def _mark_if_dead(self, row):
        return row


class Blind(MemoryLedger):
    """Does not look at what a key was used for."""

    async def claim(self, call, **rest):
        row = self._rows.get(call.key)
        return await super().claim(
            call if row is None else attrs.evolve(call, tool=row.tool, digest=row.digest), **rest
        )


class Thrifty(MemoryLedger):
    """Forgets what is unknown, too."""

    async def forget(self, *, older_than_s):
        for key, row in self._rows.items():
            if older_than_s == 0:
                self._rows[key] = attrs.evolve(row, arguments="", result=None, note="")


class Scatterbrained(MemoryLedger):
    """Loses the handle when a claim is taken over."""

    async def claim(self, call, **rest):
        claim = await super().claim(call, **rest)
        if claim.outcome != "yours":
            return claim
        row = self._rows[call.key] = attrs.evolve(claim.effect, handle=None)
        return Claim("yours", row)


class Hasty(MemoryLedger):
    """Says that a handle is kept, whoever asks, and keeps it."""

    async def remember(self, key, fence, *, handle):
        if key in self._rows:
            self._rows[key] = attrs.evolve(self._rows[key], handle=handle)
        return True


class Lenient(MemoryLedger):
    """Takes back what has started a job."""

    async def release(self, key, fence, *, note):
        row = self._rows[key]
        self._rows[key] = attrs.evolve(row, handle=None)
        return await super().release(key, fence, note=note)


BROKEN = (
    Scatterbrained,
    Hasty,
    Lenient,
    Forgetful,
    Generous,
    Careless,
    Immortal,
    Unfenced,
    Stubborn,
    Amnesiac,
    Indiscreet,
    Silent,
    Blind,
    Thrifty,
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_ledger_that_breaks_a_law_is_caught(kind):
    class Laws(LedgerConformance):
        supports = frozenset({"durable", "shared"})

        def make_ledger(self, folder):
            return opened(folder, kind)

    broken = []
    for name, law in laws_of(Laws):
        try:
            law(Laws())
        except unittest.SkipTest:
            pass
        except Exception:
            broken.append(name)
    assert broken


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Hasty, Generous, Careless, Immortal, Unfenced, Stubborn, Amnesiac, Silent, Blind])
def test_the_machine_alone_catches_what_lets_an_effect_happen_twice(kind):
    class Laws(LedgerConformance):
        def make_ledger(self, folder):
            return kind()

    with pytest.raises(Exception):  # noqa: B017  hypothesis may wrap it
        Laws().test_whatever_happens_each_effect_happens_once()
