"""How far the reading of files is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from ..ingest.pipeline import IngestReport

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Shows how far it is, on standard error.

    Args:
        total: How many files there are.

    Attributes:
        report: The newest one; None before the first file.
    """

    def __init__(self, terminal: Any, total: int) -> None:
        self.report: IngestReport | None = None
        self._terminal, self._total = terminal, total
        self._told = time.monotonic()
        self._bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit=" files", file=sys.stderr, dynamic_ncols=True, leave=False)

    def show(self, report: IngestReport, failure: str) -> None:
        """Show the report so far, and what went wrong with a file."""
        self.report = report
        if failure:
            self._say(f"failed: {failure}")
        if self._bar is not None:
            self._bar.n = min(report.files, self._total)
            self._bar.set_postfix_str(f"{report.passages:,} passages", refresh=False)
            self._bar.update(0)
        elif time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            self._say(f"{report.files:,} of {self._total:,} files, {report.passages:,} passages")

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.clear()
        self._terminal.say(line)
