"""Matches the calls that were made with the expected ones."""

from __future__ import annotations

from collections.abc import Callable


def assigned(expected: int, made: int, fits: Callable[[int, int], bool]) -> dict[int, int]:
    """Return a largest assignment of expected to made calls, each used once, in any order.

    Taking the first call that fits may leave none for another: {a: x or y, b: x} needs a to take y. So assigned calls
    move on if they can (augmenting paths).
    """
    taken: dict[int, int] = {}  # made to expected

    def place(i: int, seen: set[int]) -> bool:
        for j in range(made):
            if j not in seen and fits(i, j):
                seen.add(j)
                if j not in taken or place(taken[j], seen):
                    taken[j] = i
                    return True
        return False

    for i in range(expected):
        place(i, set())
    return {i: j for j, i in sorted(taken.items(), key=lambda pair: pair[1])}


def in_order(expected: int, made: int, fits: Callable[[int, int], bool]) -> dict[int, int]:
    """Return an assignment that keeps the order of expected and made calls, as far as possible.

    Each takes the first fitting call after the previous one's: if all can be placed, this places all.
    """
    pairs: dict[int, int] = {}
    start = 0
    for i in range(expected):
        j = next((j for j in range(start, made) if fits(i, j)), None)
        if j is not None:
            pairs[i] = j
            start = j + 1
    return pairs
