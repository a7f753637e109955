"""Ends spans in a thread, so that a processor or exporter that is slow, hangs or raises never costs a turn.

An SDK may export a span when it ends. Its BatchSpanProcessor does not; others do, in the thread that ends it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span

log = logging.getLogger(__name__)

MAX_WAITING = 10_000
"""Spans that wait for the exporter; beyond that, the newest are dropped."""

PAUSE_S = 0.05  # between two rounds: a thread that wakes for each span costs more than the spans


class Ending:
    """Ends spans at the times they are given."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Span, int]] = deque()
        self._is_needed = threading.Event()
        self._thread: threading.Thread | None = None
        self._has_warned = False

    def add(self, span: Span, at: int) -> None:
        """End a span soon, as of this time in nanoseconds."""
        if len(self._waiting) >= MAX_WAITING:
            if not self._has_warned:
                self._has_warned = True
                log.warning("the exporter does not take the spans: over %d wait, and others are dropped", MAX_WAITING)
            return
        self._waiting.append((span, at))
        if not self._is_needed.is_set():
            self._is_needed.set()
        if self._thread is None or not self._thread.is_alive():  # a fork has no threads
            self._thread = threading.Thread(target=self._run, name="flexchat-otel", daemon=True)
            self._thread.start()

    def flush(self, within_s: float) -> None:
        """Wait until the spans so far have ended, at most so long."""
        until = time.monotonic() + within_s
        while self._waiting and time.monotonic() < until:
            time.sleep(0.005)

    def _run(self) -> None:
        while True:
            self._is_needed.wait()
            time.sleep(PAUSE_S)
            self._is_needed.clear()
            while self._waiting:
                span, at = self._waiting[0]
                with contextlib.suppress(Exception):  # the SDK logs what is wrong with its exporter
                    span.end(end_time=at)
                # Only now: ``flush`` waits for what is under way as well.
                self._waiting.popleft()


ENDING = Ending()
"""Of this process."""
