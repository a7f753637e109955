"""Calls and leases that the laws of ledgers are tried with."""

from flexchat.store import EffectCall

LIVES, DEAD = 600.0, 0.0
"""Seconds of a lease that outlasts a test, and of one that has expired."""
TEXTS = ("", 'It\'s 5 % of \\ "x"', "漢字 😀", "a\0b", "half \ud83d of a pair", "x" * 100_000)
"""Texts that a database may reject in part."""


def effect(name: str) -> EffectCall:
    """Return a call with a key of its own for each name."""
    return EffectCall(
        key=name.encode("utf-8", "replace").hex().ljust(64, "0"),
        tenant="t",
        conversation="c",
        turn="turn",
        place="1.0",
        tool="pay",
        digest="d",
    )
