"""Who uses a store: an id for this process's use of it, and a thread that keeps its lease alive while it is needed."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator

_log = logging.getLogger(__name__)


class Lease:
    """Proves to other processes that this one is alive, as long as it holds something.

    A thread renews it, and not a task: an event loop that is blocked for a while must not look dead. The thread starts
    with the first hold; the first transaction that needs the lease renews it itself, if it is ``due``.

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
        self._next = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def owner(self) -> str:
        """The id of this process's use of the store: 32 hexadecimal digits, new after a fork."""
        # Parent and child with one id would renew each other's leases, and both own the same turns.
        if self._process != os.getpid():
            self._begin()  # a fork is a process of its own, without our thread
        return self._owner

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the lease alive while the block runs."""
        with self._lock:
            self._holds += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="flexchat lease", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._holds -= 1

    def due(self) -> float | None:
        """Return the seconds for which the caller's transaction is to renew the lease; None if it is fresh enough."""
        now = time.monotonic()
        if now < self._next:
            return None
        # Moved before the caller's transaction: if that fails, the thread renews the lease in time.
        self._next = now + self.seconds / 3
        return self.seconds

    def end(self) -> None:
        """Stop renewing it."""
        self._ended.set()

    def _keep(self) -> None:
        while not self._ended.wait(self.seconds / 3):
            # Without a hold the lease expires: the turns of an idle process are all ended or waiting to be resumed.
            if self._holds:
                try:
                    self._renew(self.owner, self.seconds)
                    self._next = time.monotonic() + self.seconds / 3
                except Exception as error:  # noqa: BLE001  the next try may succeed; until then the lease runs
                    _log.warning("a lease could not be renewed: %s", error)
