"""Who uses a store: an id for this process's use of it, and a thread that keeps its lease alive while it is needed."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator

from ..conversations.effect_rows import seconds_since_boot

log = logging.getLogger(__name__)


class Lease:
    """Proves to other processes that this one is alive, as long as it holds something.

    A thread renews it, and not a task: an event loop that is blocked for a while must not look dead. It starts with the
    first hold, and ends on its own once there has been none for a while. The first transaction that needs the lease
    renews it itself: if it is ``due``, or else followed by ``extend``.

    Args:
        renew: Renews it once, blocking, for so many seconds; called with the owner's id and the seconds.
        seconds: How long it lasts; it is renewed three times as often.
    """

    def __init__(self, renew: Callable[[str, float], None], seconds: float) -> None:
        self.seconds = seconds
        self._renew = renew
        self._begin()

    def _begin(self) -> None:
        self._process, self._owner = os.getpid(), secrets.token_hex(16)
        self._lock = threading.Lock()
        self._holds = 0
        self._next = self._valid_until = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def owner(self) -> str:
        """The id of this process's use of the store: 32 hexadecimal digits, new after a fork."""
        # Parent and child with one id would renew each other's leases, and both own the same turns.
        if self._process != os.getpid():
            self._begin()  # a fork is a process of its own, without our thread
        return self._owner

    @property
    def is_valid(self) -> bool:
        """Whether it is certain not to have expired since it was last extended."""
        return seconds_since_boot() < self._valid_until

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the lease alive while the block runs."""
        self.take()
        try:
            yield
        finally:
            self.drop()

    def take(self) -> None:
        """Keep the lease alive until ``drop``."""
        with self._lock:
            self._holds += 1
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._keep, name="flexchat lease", daemon=True)
                self._thread.start()

    def drop(self) -> None:
        """End what ``take`` began."""
        with self._lock:
            self._holds -= 1

    def extend(self, since: float) -> None:
        """Note that the lease was renewed by a transaction that began then, by seconds_since_boot."""
        self._valid_until = max(self._valid_until, since + self.seconds)

    def due(self) -> float | None:
        """Return the seconds for which the caller's transaction is to renew the lease; None if it is fresh enough."""
        now = seconds_since_boot()
        if now < self._next:
            return None
        # Moved before the caller's transaction: if that fails, the thread renews the lease in time.
        self._next = now + self.seconds / 3
        return self.seconds

    def end(self) -> None:
        """Stop renewing it."""
        self._ended.set()

    def _keep(self) -> None:
        while True:
            self._ended.wait(self.seconds / 3)
            # Decided under the lock: a hold that begins now either is counted here or starts a new thread.
            with self._lock:
                if not self._holds or self._ended.is_set():
                    self._thread = None
                    return
            # Measured before the request, so that our idea of the lease's end is never too late.
            asked_at = seconds_since_boot()
            try:
                self._renew(self.owner, self.seconds)
                self._next = asked_at + self.seconds / 3
                self.extend(asked_at)
            except Exception as error:  # noqa: BLE001  of any store; the next try may succeed, until then the lease runs
                log.warning("a lease could not be renewed: %s", error)
