"""What of a conversation a request sends: chosen by a plugin, kept with the answer, and chosen alike when resumed."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ..domain import ChatResult, Message, Round, ToolMessage, UserMessage
from ..errors import ContextLengthError, UnknownConversationError
from ..plugin.foreign import contained
from ..plugin.hooks import HistoryRequest, ModelRequest
from .active import ActiveTurn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..llms.llm import LLM

    Ask = Callable[..., Awaitable[ChatResult]]

Record = Mapping[str, Any]


async def fit_history(
    turn: ActiveTurn, request: ModelRequest, llm: LLM, ask: Ask | None, *, is_too_long: bool
) -> tuple[ModelRequest, Record | None]:
    """Return a request with the messages that a plugin chooses, and its record; see flexchat_fit_history.

    Raises:
        RequestRefusedError: The plugin could not choose.
    """
    assert turn.rule is not None
    place = {
        "round": len(turn.rounds) - turn.beside,
        "llm": request.llm,
        "model": request.model,
        "smaller": is_too_long,
    }
    recorded = None if turn.journal is None else turn.journal.history(place)
    has_prompt = len(turn.messages) + len(turn.correction) - len(request.messages)
    fitted = await turn.parts.hooks.fit_history(
        HistoryRequest(
            request=request,
            llm=llm,
            rule=turn.rule,
            own_from=turn.earlier_count - len(turn.begins_with) - has_prompt,
            rounds=tuple(turn.rounds),
            can_read_on=turn.can_read_on and turn.info.conversation is not None,
            recorded=recorded,
            is_too_long=is_too_long,
            ask=None if ask is None else functools.partial(ask, turn),
            earlier_rounds=functools.partial(_earlier_rounds, turn),
        )
    )
    if fitted is None:
        return request, None
    if turn.journal is not None and fitted.record is not None and recorded is None:
        turn.journal.add("history", **place, record=fitted.record)
    return attrs.evolve(request, messages=fitted.messages), fitted.record


async def _earlier_rounds(turn: ActiveTurn) -> Sequence[Round]:
    conversation, store = turn.info.conversation, turn.parts.store
    if conversation is None or store is None:
        return ()
    with contextlib.suppress(UnknownConversationError), contained():
        turns = await store.turns(conversation, tenant=turn.info.tenant, last=1)
        return turns[-1].rounds if turns else ()
    return ()


def explain_length(error: ContextLengthError, turn: ActiveTurn, request: ModelRequest) -> ContextLengthError:
    """Return the error with the sizes of what fills the window, the largest first."""
    own = turn.messages[turn.earlier_count - len(turn.begins_with) :]
    history = sum(map(_size, request.messages)) - sum(map(_size, own))
    sizes = {
        "system prompt": len(request.system.encode()),
        "tools": sum(len(str(tool)) for tool in request.options.tools),
        "history": max(history, 0),
        "this turn": sum(map(_size, own)),
    }
    parts = ", ".join(f"{name} {size:,}" for name, size in sorted(sizes.items(), key=lambda each: -each[1]))
    explained = copy.copy(error)
    explained.args = (f"{error} (bytes sent, after one smaller request: {parts}; see max_tokens in [history])",)
    return explained


def _size(message: Message) -> int:
    media = message.media if isinstance(message, UserMessage | ToolMessage) else ()
    text = message.content or ""
    calls = () if isinstance(message, UserMessage | ToolMessage) else getattr(message, "tool_calls", ())
    return len(text.encode()) + sum(len(p.data or b"") for p in media) + sum(len(c.arguments_text) for c in calls)
