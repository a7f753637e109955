"""What is done with an answer: by what is in it, not by what the provider calls it."""

import pytest
from flexchat.domain import AssistantMessage, ChatResult, TextPart, ToolCall
from flexchat.phases.next_step import NextStep, next_step

REASONS = ("stop", "end_turn", "tool_calls", "length", "malformed_tool_call", "pause", "error", "other", None, "")
RUN, AGAIN, ON, END, UP = (
    NextStep.RUN_TOOLS,
    NextStep.ASK_AGAIN,
    NextStep.CONTINUE,
    NextStep.FINISH,
    NextStep.GIVE_UP,
)


def answer(reason, text="", called=False):
    parts = [TextPart(text=text)] if text else []
    parts += [ToolCall(name="t", arguments={})] if called else []
    return ChatResult(message=AssistantMessage(parts=tuple(parts)), finish_reason=reason)


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("text", ["", "Let me see."])
def test_calls_are_run_whatever_the_reason(reason, text):
    """Servers say "stop" beside calls (RG-17, C22)."""
    assert next_step(answer(reason, text, called=True)) is RUN


@pytest.mark.parametrize("reason", ["content_filter", "refusal"])
@pytest.mark.parametrize("called", [False, True])
def test_of_a_filtered_answer_nothing_runs(reason, called):
    """The two reasons that win over calls."""
    assert next_step(answer(reason, "x", called)) is UP


@pytest.mark.parametrize(
    ("reason", "with_text", "without"),
    [
        ("stop", END, END),
        ("end_turn", END, END),
        (None, END, UP),
        ("", END, UP),
        ("tool_calls", UP, UP),
        ("length", UP, UP),
        ("error", UP, UP),
        ("other", UP, UP),
        ("malformed_tool_call", AGAIN, AGAIN),
        ("pause", ON, ON),
    ],
)
def test_without_calls_the_reason_decides(reason, with_text, without):
    """No reason counts as stop if there is text (RG-16, RG-25, TC-75, C27)."""
    assert next_step(answer(reason, "x")) is with_text
    assert next_step(answer(reason)) is without
