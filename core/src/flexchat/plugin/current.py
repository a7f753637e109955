"""The turn that code of others runs in."""

from __future__ import annotations

import contextvars
from typing import Protocol

import attrs

from ..domain import RetrievalHits, TurnInfo


@attrs.frozen
class Cited:
    """Passages that a tool has found."""

    tool: str
    store: str
    hits: RetrievalHits


class RunningTurn(Protocol):
    """What is known of it here.

    Attributes:
        found: What tools have told with ToolContext.cite, so that the turn can name its sources.
    """

    info: TurnInfo
    found: list[Cited]


current_turn: contextvars.ContextVar[RunningTurn | None] = contextvars.ContextVar("flexchat_turn", default=None)
"""The turn this code runs in; None outside of turns."""


def current_info(tenant: str | None = None) -> TurnInfo:
    """Return which turn this code runs in; one without an id outside of turns.

    Args:
        tenant: For whom, outside of turns.
    """
    turn = current_turn.get()
    if turn is not None:
        return turn.info
    return TurnInfo() if tenant is None else TurnInfo(tenant=tenant)
