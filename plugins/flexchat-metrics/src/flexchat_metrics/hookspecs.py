"""The hook that this package defines for other plugins."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from flexchat.plugin import hookspec

if TYPE_CHECKING:
    from .objectives import Verdict


@hookspec
def flexchat_slo_violated(verdict: Verdict) -> Awaitable[None] | None:
    """An objective is violated: its window's calls or turns prove it.

    Called once per window and objective in each process that keeps the sums, and by each ``flexchat slo``.

    Args:
        verdict: Target, objective, counts, and what spent the error budget.
    """
