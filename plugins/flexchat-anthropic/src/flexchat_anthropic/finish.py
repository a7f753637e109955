"""How an answer ended, in our words and in a sentence."""

from __future__ import annotations

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "compaction": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}
# These say more than "there are calls".
_STRONGER = ("length", "refusal")
_LONGEST_TEXT = 500


def finish_reason(raw: str | None, *, has_calls: bool) -> str | None:
    """Return our word for Anthropic's; None for none. A word that is not known is "unknown"."""
    reason = _REASONS.get(raw, "unknown") if raw else None
    return "tool_calls" if has_calls and reason not in _STRONGER else reason


def cuts_off(raw: str | None) -> bool:
    """Say whether the answer ended where there was no more room, so that its last call may be half of one."""
    return _REASONS.get(raw or "") == "length"


def why_it_ended(finish: str | None, raw: str | None, details: object, *, is_empty: bool) -> str:
    """Return a warning about every end that is not an ordinary one; an empty text for the others.

    Args:
        finish, raw: The reason in our word and in Anthropic's.
        details: The answer's ``stop_details``: of a refusal category and explanation.
        is_empty: There is no text and no call.
    """
    if finish is None:
        return "the answer ended without a stop reason; it may be incomplete"
    if finish == "refusal":
        table = details if isinstance(details, dict) else {}
        said = [text for key in ("category", "explanation") if isinstance(text := table.get(key), str) and text]
        return f"the service refused to let the model answer ({': '.join(said)[:_LONGEST_TEXT] or 'no reason given'})"
    if raw == "model_context_window_exceeded":
        return "the conversation and the answer together are longer than the model can read: the answer is cut off"
    if finish == "length" and is_empty:
        return "the token limit was reached before the first word of the answer: thinking counts too"
    if finish == "unknown":
        return f"the answer ended for a reason that is not known here ({(raw or '')[:100]})"
    return "the model answered with nothing" if finish == "stop" and is_empty else ""
