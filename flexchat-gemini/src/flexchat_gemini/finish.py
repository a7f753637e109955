"""Mapping of Gemini's finish reasons to FlexChat's, and to warnings."""

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
"""Finish reasons that report a failure rather than an answer."""
_LONGEST_TEXT = 500


def finish_reason(raw: str) -> str:
    """Return our word for Gemini's. The service's list grows: a new one is "unknown"."""
    return _REASONS.get(raw, "unknown")


def why_it_ended(finish: str | None, raw: str | None, blocked: str | None, message: str, *, is_empty: bool) -> str:
    """Build a warning for an unusual finish reason; empty for the usual ones.

    Args:
        finish, raw: The finish reason as FlexChat's and as Gemini's.
        blocked: The reason why the prompt was blocked.
        message: The service's message, such as a malformed call.
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
