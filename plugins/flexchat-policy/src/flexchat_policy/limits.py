"""Limits, ``[[rate_limits]]``: how often, and how many at a time, tools may run and turns begin."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import attrs
from flexchat.host import did_you_mean
from flexchat.plugin import key
from flexchat.store import Charge

from .subjects import Scope, Subject

_RATE = re.compile(r"([0-9]{1,9}) *(?:/|per ) *([a-z]+)")
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3_600),
    **dict.fromkeys(("d", "day"), 86_400),
}
_US = 1_000_000


def read_rate(text: str) -> tuple[int, int]:
    """Return the number and the seconds of a rate, "10/min". Raises ValueError."""
    match = _RATE.fullmatch(text)
    number, unit = (int(match[1]), match[2]) if match else (0, "")
    if match and unit not in _SECONDS:
        raise ValueError(
            f"rate {text!r:.80}: there is no unit '{unit:.40}'{did_you_mean(unit, _SECONDS)}; write {_FORM}"
        )
    if not 0 < number <= _SECONDS.get(unit, 0) * _US:
        raise ValueError(f"rate {text!r:.80} is none: write {_FORM}")
    return number, _SECONDS[unit]


_FORM = '"10/min": a number above 0, with /s, /min, /h or /day'


def _is_rate(instance: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None:
        read_rate(value)


def _is_finite(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if math.isfinite(value) and not 0 <= value <= 3_600:
        raise ValueError(f"{attribute.name} must be 0 to 3,600 seconds; got {value!r}")


@attrs.frozen(kw_only=True)
class RateLimit:
    """One [[rate_limits]] table: of some tools, or of turns if it names none."""

    tools: tuple[str, ...] | None = key(
        "Names of tools, with * for any characters: send_*; billing/* for all tools of a source. Default: it limits "
        "turns, before anything is sent.",
        default=None,
    )
    scope: Scope = key(  # noqa: RUF009  an attrs field, as all others
        "What has a limit of its own: all, tenant, principal, role, rule, tool or conversation.", default="all"
    )
    rate: str | None = key(
        'How many in a time: "10/min". So many may come at once; from then on each has to wait until its time has '
        "come.",
        default=None,
        validator=_is_rate,
    )
    concurrency: int | None = key("How many at a time.", min=1, max=1_000_000, default=None)
    max_wait_s: float = key(
        "Seconds to wait for a place, in order, before it fails.", default=0.0, validator=_is_finite
    )

    def __attrs_post_init__(self) -> None:
        if self.rate is None and self.concurrency is None:
            raise ValueError("a limit needs a rate or a concurrency")
        if self.tools is not None and not self.tools:
            raise ValueError("tools is empty, so that it limits nothing; leave it out to limit turns")
        if self.tools is None and self.scope in ("rule", "tool"):
            raise ValueError(
                f"a limit of turns cannot have the scope {self.scope}: it is decided before a rule is chosen"
            )

    def fits(self, subject: Subject) -> bool:
        """Return whether it is about a subject: a turn has no tool."""
        if self.tools is None or not subject.tool:
            return self.tools is None and not subject.tool
        return any(fnmatchcase(name, pattern) for name in subject.names for pattern in self.tools)

    def charges(self, subject: Subject) -> Iterator[Charge]:
        """Yield what one call, or turn, takes from the limit's counters."""
        about = [self.tools and [*self.tools], self.scope]
        for names in subject.in_scope(self.scope, None) if self.fits(subject) else ():
            if self.rate is not None:
                number, seconds = read_rate(self.rate)
                counter = json.dumps(["rate", *about, self.rate, *names])
                # Rounded up: never a moment too early.
                yield Charge(key=counter, amount=1, ceiling=number, refill_us=-(-seconds * _US // number))
            if self.concurrency is not None:
                counter = json.dumps(["concurrency", *about, *names])
                yield Charge(key=counter, amount=1, ceiling=self.concurrency)

    def explained(self, charge: Charge) -> str:
        """Return the sentence that refuses a charge."""
        what = "the calls of this tool" if self.tools is not None else "turns"
        each = "" if self.scope == "all" else f" for each {self.scope}"
        if charge.refill_us:
            return f"{what} are limited to {self.rate}{each}"
        return f"{what} are limited to {self.concurrency} at a time{each}"
