"""How many examples a law with a number of its own is tried with."""

from hypothesis import settings


def examples(full: int) -> int:
    """Return the number in ./dev test --all and in CI; a tenth of it, at least ten, in the quick run.

    The profiles are those of the conftest at the top; what has no number of its own takes theirs.
    """
    return full if settings().max_examples >= 100 else min(full, max(full // 10, 10))
