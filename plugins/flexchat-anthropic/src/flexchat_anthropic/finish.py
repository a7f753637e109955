"""Mapping of stop reasons to finish reasons and warnings."""

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
_LONGEST_TEXT = 500


def finish_word(raw: str | None) -> str | None:
    """Return our word for Anthropic's; None for none. A word that is not known is "unknown"."""
    return _REASONS.get(raw, "unknown") if raw else None


def why_it_ended(raw: str | None, details: object, *, has_text: bool, has_calls: bool) -> str:
    """Return a warning about every end that is not an ordinary one; an empty text for the others, and for no word.

    Args:
        raw: The reason in Anthropic's word.
        details: The answer's ``stop_details``: of a refusal category and explanation.
    """
    finish, is_empty = finish_word(raw), not has_text and not has_calls
    if finish == "refusal":
        table = details if isinstance(details, dict) else {}
        said = [text for key in ("category", "explanation") if isinstance(text := table.get(key), str) and text]
        return f"the service refused to let the model answer ({': '.join(said)[:_LONGEST_TEXT] or 'no reason given'})"
    if raw == "model_context_window_exceeded":
        return "the conversation and the answer together are longer than the model can read: the answer is cut off"
    if finish == "length" and is_empty:
        return "the token limit was reached before the first word of the answer: thinking counts too"
    if finish == "unknown" and not has_calls:
        return f"the answer ended for a reason that is not known here ({(raw or '')[:100]})"
    return "the model answered with nothing" if finish == "stop" and is_empty else ""
