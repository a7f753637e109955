"""The turn that foreign code runs in."""

from __future__ import annotations

import contextvars
from contextlib import AbstractContextManager
from typing import Protocol

import attrs

from ..domain import RetrievalHits, TurnInfo


@attrs.frozen(kw_only=True)
class EarlierResult:
    """The whole result of a tool call, of which the model may have been shown a part.

    Attributes:
        tool: Whose result it is.
        text: The whole of which the model was shown head and tail: a text unchanged, any other value as JSON; of a
            failure, the error and, on the next line, its hint.
        max_chars: How much of one result a model is shown, in characters of JSON: tools.max_result_chars.
    """

    tool: str
    text: str
    max_chars: int


@attrs.frozen
class Cited:
    """Passages found by a tool."""

    tool: str
    store: str
    hits: RetrievalHits


class RunningTurn(Protocol):
    """The running turn, as far as plugins need it.

    Attributes:
        cited: What tools cited with ToolContext.cite, so that the turn can name its sources.
        is_interrupted: Whether it is being stopped so that it goes on later.
    """

    info: TurnInfo
    cited: list[Cited]
    is_interrupted: bool

    async def earlier_result(self, call_id: str) -> EarlierResult | None:
        """Return the result of a call that the turn's model was shown; None if there is none."""


current_turn: contextvars.ContextVar[RunningTurn | None] = contextvars.ContextVar("flexchat_turn", default=None)
"""The turn this code runs in; None outside turns."""


class RunningCall(Protocol):
    """The tool call this code runs in, as far as the turns and calls that its tool starts need it."""

    turn: TurnInfo

    def waiting(self) -> AbstractContextManager[None]:
        """Pause the time of the tool, and of the tools that called it."""

    def next_place(self) -> str:
        """Return the place of the next thing the tool starts, the same when the tool runs again after a crash."""


current_call: contextvars.ContextVar[RunningCall | None] = contextvars.ContextVar("flexchat_call", default=None)
"""The tool call this code runs in; None outside of tools."""


def place_within() -> str:
    """Return a new place inside the tool call this code runs in; empty outside of the calls of a turn."""
    call, turn = current_call.get(), current_turn.get()
    if call is None or turn is None or not turn.info.id or call.turn.id != turn.info.id:
        return ""
    return call.next_place()


def current_info(tenant: str | None = None) -> TurnInfo:
    """Return which turn this code runs in; one without an id outside turns.

    Args:
        tenant: The tenant to use outside turns.
    """
    turn = current_turn.get()
    if turn is not None:
        return turn.info
    return TurnInfo() if tenant is None else TurnInfo(tenant=tenant)
