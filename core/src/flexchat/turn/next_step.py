"""What to do with a model's answer: decided here, from data, and nowhere else."""

from __future__ import annotations

import enum
import json

import attrs

from ..domain import ChatResult, ToolCall
from ..domain.messages import CUT_OFF


class NextStep(enum.Enum):
    """What the loop does next."""

    RUN_TOOLS = "run the tools it asks for"
    ASK_AGAIN = "send the same request once more"
    CONTINUE = "let the model continue where it paused"
    FINISH = "answer the user with its text"
    GIVE_UP = "answer the user with what there is, or with an apology"


def next_step(result: ChatResult) -> NextStep:
    """Decide by what the answer contains, not by what the provider calls it.

    Calls win over the finish reason: Gemini sends STOP alongside a call, Ollama "stop". Two reasons win over calls:
    nothing runs from an answer that was filtered or refused. No reason at all counts as "stop" if there is text.

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
    return NextStep.CONTINUE if result.is_paused else NextStep.GIVE_UP


def calls_to_run(result: ChatResult) -> tuple[ToolCall, ...]:
    """Return the calls of an answer; one the output limit may have cut off is marked as not runnable.

    If an answer ends with "length" inside a call, it is uncertain whether the model meant that call, even if its
    arguments can be parsed: servers complete what was cut. A tool that must not run twice must not run on a guess; the
    model gets an error, so it may ask again. Calls followed by anything else are complete.

    Source: requirement RG-25; the same for every provider.
    """
    calls = result.tool_calls
    if result.finish_reason != "length" or not calls or result.message.parts[-1] is not calls[-1]:
        return calls
    last = calls[-1]
    if last.error is not None:
        return calls
    text = last.raw_arguments if last.raw_arguments is not None else json.dumps(dict(last.arguments or {}))
    return (*calls[:-1], attrs.evolve(last, arguments=None, raw_arguments=text, error=CUT_OFF))


def no_answer_reason(finish_reason: str | None) -> str:
    """Return the reason for a missing or partial answer."""
    return _REASONS.get(finish_reason or "", f"the model ended with finish reason {finish_reason!r}")


_REASONS = {
    "length": "the answer was cut off at the token limit (max_tokens of the rule, or the model's own)",
    "content_filter": "the provider's content filter stopped the answer",
    "refusal": "the model refused to answer",
    "malformed_tool_call": "the model ended with a tool call that could not be read",
    "pause": "the model paused and was not asked to continue (tools.max_iterations)",
}
