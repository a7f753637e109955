"""Progress of reading files: a bar on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

from flexchat.store import DocumentStore, run_in_thread

from ..ingest.files import Walk
from ..ingest.pipeline import IngestOptions, IngestReport, add_files
from .opening import format_count, format_seconds

SECONDS_BEFORE_THE_FIRST_LINE = 2.0
SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_BEATS = 0.5
MAX_NOTES = 20
"""Shown of one run; the others are counted."""


class Progress:
    """Fills a store and shows the progress on standard error.

    Attributes:
        report: The latest report; None before the first passage is stored.
    """

    def __init__(self, terminal: Any) -> None:
        self.report: IngestReport | None = None
        self._terminal, self._total, self._notes = terminal, 0, 0
        self._bar: Any = None
        self._is_told = False  # that it may take long
        self._begun = time.monotonic()
        self._due = time.monotonic() + min(SECONDS_BEFORE_THE_FIRST_LINE, SECONDS_BETWEEN_LINES)

    async def ingest(
        self, store: DocumentStore, paths: Sequence[str], *, collection: str, options: IngestOptions | None = None
    ) -> IngestReport:
        """Bring a collection up to date with files; see ingest."""
        options = options or IngestOptions()
        self._total = await run_in_thread(_count, paths, options)
        if sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=self._total, unit=" files", file=sys.stderr, dynamic_ncols=True, leave=False)
        beating = asyncio.ensure_future(self._beat())
        try:
            return await add_files(store, paths, collection=collection, options=options, watch=self.show)
        finally:
            beating.cancel()
            if self._bar is not None:
                self._bar.close()

    def show(self, report: IngestReport, message: str) -> None:
        """Show the report so far, and a message about a file."""
        self.report = report
        is_note = message.startswith("note: ")
        self._notes += is_note
        if is_note and self._notes == MAX_NOTES + 1:
            self._say("note: there are messages about more files: --json lists them")
        elif message and not (is_note and self._notes > MAX_NOTES):
            self._say(message)
        if self._bar is not None:
            self._bar.n = min(report.files, self._total)
            self._bar.set_postfix_str(format_count(report.passages, "passage"), refresh=False)
            self._bar.update(0)
        else:
            self._tell_if_due()

    async def _beat(self) -> None:
        """Refresh the display regularly, also while a model loads or one large file is read."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_BEATS)
            if self._bar is not None:
                self._bar.refresh()
            else:
                self._tell_if_due()

    def _tell_if_due(self) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + SECONDS_BETWEEN_LINES
        if self.report is None or not (self.report.files or self.report.passages or self._is_told):
            self._is_told = True
            self._say(
                f"none of {format_count(self._total, 'file')} yet; the first passages take longest where an embedding "
                "model has to be loaded"
            )
        else:
            passages = format_count(self.report.passages, "passage")
            waiting = f" and {self.report.under_way:,} under way" if self.report.under_way else ""
            seconds = format_seconds(time.monotonic() - self._begun)
            files = f"{self.report.files:,} of {format_count(self._total, 'file')}"
            self._say(f"{files}, {passages}{waiting} after {seconds}")

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.clear()
        self._terminal.say(line)


def _count(paths: Sequence[str], options: IngestOptions) -> int:
    walk = Walk(paths, include=options.include, exclude=options.exclude, follow_links=options.follow_links)
    return sum(1 for _ in walk.files())
