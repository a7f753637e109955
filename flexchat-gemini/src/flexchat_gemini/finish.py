"""How an answer ended, in our words and in a sentence."""

from __future__ import annotations

_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "LANGUAGE": "error",
    "OTHER": "error",
    "NO_IMAGE": "error",
    "IMAGE_OTHER": "error",
    "MALFORMED_RESPONSE": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "FINISH_REASON_UNSPECIFIED": "error",
    "MALFORMED_FUNCTION_CALL": "malformed_tool_call",
    "UNEXPECTED_TOOL_CALL": "malformed_tool_call",
}
FAULTS = ("PUP_LIMITED_DISABLED", "MISSING_THOUGHT_SIGNATURE")
"""What tells of a fault, not of an answer."""
_LONGEST_TEXT = 500


def finish_reason(raw: str) -> str:
    """Return our word for Gemini's. The service's list grows: a new one is "unknown"."""
    return _REASONS.get(raw, "unknown")


def why_it_ended(finish: str | None, raw: str | None, blocked: str | None, message: str, *, is_empty: bool) -> str:
    """Return a warning about every end that is told and not an ordinary one; an empty text for the others.

    Args:
        finish, raw: The reason in our word and in Gemini's.
        blocked: Why the prompt was blocked.
        message: What the service says about it, such as the call it could not read.
        is_empty: There is no text, no call and no file.
    """
    why = f": {message[:_LONGEST_TEXT]}" if message else ""
    if blocked:
        return f"the service blocked the prompt ({blocked}){why}"
    if finish == "malformed_tool_call":
        return f"the service could not use the tool call the model wrote ({raw}){why}"
    if finish in ("content_filter", "error", "unknown"):
        return f"the service stopped the answer ({raw}){why}"
    if finish == "length" and is_empty:
        return "the token limit was reached before the first word of the answer: thoughts count too"
    return "the model answered with nothing" if finish == "stop" and is_empty else ""
