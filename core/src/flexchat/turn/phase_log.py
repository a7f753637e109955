"""How the phases of a turn went."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import attrs

from ..domain import PhaseFinished, PhaseRecord, PhaseStarted, Round, Usage
from ..events.sink import Sink


@attrs.define
class PhaseNotes:
    """What a phase reports in addition to its outcome; see PhaseRecord.

    Attributes:
        mask: Removes secrets from warnings.
        remaining_s: Returns how many seconds the turn may still take.
    """

    input: object = None
    skipped: str = ""
    warnings: list[str] = attrs.field(factory=list)
    usage: Usage | None = None
    rounds: list[Round] = attrs.field(factory=list)
    mask: Callable[[str], str] = str
    remaining_s: Callable[[], float] = lambda: math.inf

    def seconds(self, most: float) -> float:
        """Return the seconds that a request may take: ``most``, or the rest of the turn's time if that is less."""
        return min(most, self.remaining_s())

    def warn(self, text: str) -> None:
        """Add a warning."""
        self.warnings.append(self.mask(text))


@attrs.define
class PhaseLog:
    """Times the phases of a turn and records them."""

    records: list[PhaseRecord] = attrs.field(factory=list)
    _since: float = attrs.field(init=False, factory=time.perf_counter)

    def restart(self) -> None:
        """Count from now on, as the turn's clock does."""
        self._since = time.perf_counter()

    async def begin(self, sink: Sink, phase: str) -> None:
        """Report that a phase with something to do begins."""
        if sink.has_receiver(PhaseStarted):
            await sink.emit(PhaseStarted(info=sink.info, phase=phase))

    async def end(
        self,
        sink: Sink,
        phase: str,
        outcome: Any,
        printable: Any,
        notes: PhaseNotes | None = None,
        *,
        usage: Usage | None = None,
    ) -> None:
        """Report that it is done.

        Args:
            outcome: What is passed to the plugins.
            printable: The same as JSON data.
            notes, usage: What it reports in addition.
        """
        notes = notes or _NOTHING
        now = time.perf_counter()
        # Each phase is timed from the end of the one before, so that their times add up to the turn's.
        since, self._since = self._since, now
        record = PhaseRecord(
            phase=phase,
            outcome=printable,
            elapsed_ms=(now - since) * 1000,
            input=notes.input,
            skipped=notes.skipped,
            warnings=tuple(notes.warnings),
            usage=notes.usage or usage,
            rounds=tuple(notes.rounds),
        )
        self.records.append(record)
        if sink.has_receiver(PhaseFinished):
            await sink.emit(PhaseFinished(info=sink.info, record=record, outcome=outcome))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the phases so far."""
        return tuple(warning for record in self.records for warning in record.warnings)


_NOTHING = PhaseNotes()
