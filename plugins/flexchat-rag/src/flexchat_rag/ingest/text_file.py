"""Plain text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .encoding import lines_of
from .sections import Piece, Reading, SectionBuilder, Trouble


def read_text(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield a text in parts of bounded size, split at empty lines where possible."""
    builder, number = SectionBuilder(), 1
    for line in lines_of(path, reading):
        if isinstance(line, Trouble):
            yield line
            continue
        builder.add(line, line=number)
        number += line.endswith("\n")
        if builder.overfull or (builder.full and not line.strip()):
            yield from builder.flush()
    yield from builder.end()
