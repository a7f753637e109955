"""A turn as its conversation keeps it, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import attrs

from ..domain import ChatRequest, ChatResponse, ConversationTurn, Profile, ToolCallRecord, Turn
from ..schema.answer_format import answer_format


def conversation_turn(turn: Turn) -> ConversationTurn:
    """Return a turn as its conversation keeps it."""
    response = turn.response
    kept = ConversationTurn(
        id=turn.id,
        messages=response.messages,
        topic=turn.profile.topic,
        llm=response.llm,
        model=response.model,
        usage=response.usage,
        citations=turn.citations,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        status=turn.status,
        error=turn.error,
        replay=turn.replay,
        intent=turn.profile.intent,
        rule=turn.rule,
        rule_name=turn.rule_name,
        phases=turn.phases,
        rounds=response.rounds,
        tool_calls=response.tool_calls,
        max_iterations_reached=response.max_iterations_reached,
        finish_reason=response.finish_reason,
        warnings=response.warnings,
        elapsed_ms=turn.elapsed_ms,
        parsed=response.data,
        unknown_effects=_unknown_effects(response.tool_calls or ()),
    )
    return kept if kept.last_said == response.content else attrs.evolve(kept, shown=response.content)


def _unknown_effects(records: Sequence[ToolCallRecord]) -> Mapping[str, str]:
    """Return the keys of unknown effects by call id."""
    effects = {record.call_id: record.facts["effect"] for record in records if "effect" in record.facts}
    return {
        id: effect["key"]
        for id, effect in effects.items()
        if isinstance(effect, Mapping) and effect.get("state") == "unknown"
    }


def as_it_was(kept: ConversationTurn, request: ChatRequest) -> Turn:
    """Return a kept turn as its caller got it; what its profile knew of documents is not kept.

    Args:
        request: The same request again.
    """
    parsed = kept.parsed
    if parsed is not None and request.response_format is not None:
        parsed = answer_format(request.response_format).read(json.dumps(parsed))
    response = ChatResponse(
        content=kept.answer,
        llm=kept.llm,
        model=kept.model,
        tool_calls=kept.tool_calls,
        max_iterations_reached=kept.max_iterations_reached,
        finish_reason=kept.finish_reason,
        messages=kept.messages,
        usage=kept.usage,
        rounds=kept.rounds,
        warnings=kept.warnings,
        parsed=parsed,
        data=kept.parsed,
    )
    return Turn(
        id=kept.id,
        profile=Profile(topic=kept.topic, intent=kept.intent, user_message=request.user_message),
        rule=kept.rule,
        rule_name=kept.rule_name,
        response=response,
        phases=kept.phases,
        elapsed_ms=kept.elapsed_ms,
        citations=kept.citations,
        conversation=request.conversation,
        status=kept.status,
        error=kept.error,
        replay=kept.replay,
    )
