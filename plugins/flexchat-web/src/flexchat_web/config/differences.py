"""How two texts differ, line by line, in linear time."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

MAX_COMPARED = 400
"""Changed lines, first to last, that are compared one by one; more are shown as one change."""

CONTEXT = 3


def unified_diff(before: Sequence[str], after: Sequence[str], name: str) -> list[str]:
    """Return a unified diff, as patch reads it.

    The common start and end are found first. difflib, which may take cubic time, only handles the rest, and only if
    that is short.
    """
    shortest = min(len(before), len(after))
    head = next((i for i in range(shortest) if before[i] != after[i]), shortest)
    tail = next((i for i in range(shortest - head) if before[-1 - i] != after[-1 - i]), shortest - head)
    start, ends = max(0, head - CONTEXT), (len(before) - tail, len(after) - tail)
    if max(ends) - head <= MAX_COMPARED:
        lines = difflib.unified_diff(
            before[start : ends[0] + CONTEXT], after[start : ends[1] + CONTEXT], name, name, lineterm="", n=CONTEXT
        )
        return [_moved(line, start) if line.startswith("@@ -") else line for line in lines]
    lead, trail = before[start:head], before[ends[0] : ends[0] + CONTEXT]
    removed, come = before[head : ends[0]], after[head : ends[1]]
    around = len(lead) + len(trail)
    return [
        f"--- {name}",
        f"+++ {name}",
        f"@@ -{_range(start, len(removed) + around)} +{_range(start, len(come) + around)} @@",
        *(f" {line}" for line in lead),
        *(f"-{line}" for line in removed),
        *(f"+{line}" for line in come),
        *(f" {line}" for line in trail),
    ]


def _range(start: int, length: int) -> str:
    """Return a range as a unified diff writes it: from 1; of nothing, the line before it."""
    return f"{start + 1 if length else start},{length}"


def _moved(line: str, by: int) -> str:
    """Return the head of a hunk of a part as that of the whole."""
    words = line.split()
    for at in (1, 2):
        first, comma, length = words[at][1:].partition(",")
        words[at] = f"{words[at][0]}{int(first) + by}{comma}{length}"
    return " ".join(words)
