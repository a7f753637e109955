"""What to do with a model's answer: decided here, from data, and nowhere else."""

from __future__ import annotations

import enum

from ..domain import ChatResult


class NextStep(enum.Enum):
    """What the loop does next."""

    RUN_TOOLS = "run the tools it asks for"
    ASK_AGAIN = "send the same request once more"
    CONTINUE = "let the model go on where it paused"
    FINISH = "answer the user with its text"
    GIVE_UP = "answer the user with what there is, or with an apology"


def next_step(result: ChatResult) -> NextStep:
    """Decide by what is there, not by what the provider calls it.

    Calls win over the finish reason: Gemini says STOP beside a call, Ollama "stop". Two reasons win over calls: of
    an answer that was filtered or refused nothing runs. No reason at all counts as "stop" if there is text.

    Source: requirements RG-16, RG-17, RG-25, TC-75, C22, C27; the neutral model, "Finish reasons".
    """
    reason = result.finish_reason
    if reason in ("content_filter", "refusal"):
        return NextStep.GIVE_UP
    if result.tool_calls:
        return NextStep.RUN_TOOLS
    if reason in ("stop", "end_turn") or (not reason and result.content):
        return NextStep.FINISH
    if reason == "malformed_tool_call":
        return NextStep.ASK_AGAIN
    return NextStep.CONTINUE if reason == "pause" else NextStep.GIVE_UP


def why_no_answer(finish_reason: str | None) -> str:
    """Say why an answer is none, or no whole one."""
    return _REASONS.get(finish_reason or "", f"the model ended with finish reason {finish_reason!r}")


_REASONS = {
    "length": "the answer was cut off at the token limit (max_tokens of the rule, or the model's own)",
    "content_filter": "the provider's content filter stopped the answer",
    "refusal": "the model refused to answer",
    "malformed_tool_call": "the model ended with a tool call that could not be read",
}
