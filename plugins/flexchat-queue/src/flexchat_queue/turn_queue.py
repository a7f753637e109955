"""The contract of a queue of turns. Its rows are ids of turns: the journal is what decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import attrs


@attrs.frozen(kw_only=True)
class QueuedTurn:
    """A turn that is to be run.

    Attributes:
        priority: Turns with a higher one come first: -31 to 31, others count as the nearest of these.
        is_first: Whether no turn of its conversation has to end before it.
        has_begun: Whether it was interrupted: it has waited for its turn before.
    """

    id: str
    tenant: str
    conversation: str
    priority: int = 0
    is_first: bool = False
    has_begun: bool = False


@attrs.frozen(kw_only=True)
class Lease:
    """A turn that a worker has leased.

    Attributes:
        entry: What identifies the row in the queue; a row that is enqueued again has another.
    """

    turn: str
    tenant: str
    entry: Any = None


class TurnQueue(Protocol):
    """A queue of turns, as one worker or one producer uses it.

    It may lose rows, or have one twice: workers enqueue what is missing, and acquire a turn in the journal before they
    run it. Every method may raise StorageError.
    """

    async def enqueue(self, turns: Sequence[QueuedTurn]) -> int:
        """Add turns that are not in the queue, neither waiting nor leased; return how many were added.

        The k-th waiting turn of a tenant comes after the first k-1 of any other tenant with the same priority. No turn
        comes before an earlier one of its conversation; one that ``is_first`` comes before all others of it.
        """

    async def lease(self) -> Lease | None:
        """Lease the next turn to this worker, until it is completed or released; None if there is none.

        No turn is leased while another one of its conversation is.
        """

    async def renew(self) -> None:
        """Keep this worker's leases, and release those of workers that have not renewed theirs in time."""

    async def complete(self, lease: Lease) -> None:
        """Remove a leased turn from the queue. If the lease was lost meanwhile, nothing happens."""

    async def release(self, lease: Lease, *, delay_s: float = 0.0) -> None:
        """Give a leased turn to the next worker, after a delay. If the lease was lost meanwhile, nothing happens."""

    async def wait(self, timeout_s: float) -> None:
        """Wait until a turn may have been enqueued, or the time is over."""

    async def count_waiting(self) -> int:
        """Count the turns that wait: those that are due, and those whose delay is not over."""

    async def aclose(self) -> None:
        """Release this worker's leases, and close the connections. Idempotent."""
