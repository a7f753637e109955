"""What is done with an answer: by what is in it, not by what the provider calls it."""

import json

import pytest
from flexchat.domain import AssistantMessage, ChatResult, TextPart, ToolCall
from flexchat.turn.rounds import NextStep, calls_to_run, next_step

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


FIRST, LAST = (ToolCall.from_text("t", f'{{"n": {n}}}') for n in range(2))


@pytest.mark.parametrize("last", [LAST, ToolCall.from_object("t", {"n": 1})])
def test_a_call_at_the_output_limit_is_not_run(last):
    """Complete as it looks: servers complete what was cut. Those before it were written to their end (RG-25)."""
    parts = (TextPart(text="I look."), FIRST, last)
    result = ChatResult(message=AssistantMessage(parts=parts), finish_reason="length")

    first, refused = calls_to_run(result)

    assert first is FIRST
    assert (refused.id, refused.arguments) == (last.id, None)
    assert "output limit was reached" in refused.error
    assert json.loads(refused.raw_arguments) == {"n": 1}


@pytest.mark.parametrize("reason", ["stop", "tool_calls", None])
def test_without_the_limit_all_calls_are_run(reason):
    result = ChatResult(message=AssistantMessage(parts=(FIRST, LAST)), finish_reason=reason)

    assert calls_to_run(result) == (FIRST, LAST)


def test_a_call_with_text_behind_it_was_complete():
    """The limit cut the text."""
    parts = (LAST, TextPart(text="And th"))
    result = ChatResult(message=AssistantMessage(parts=parts), finish_reason="length")

    assert calls_to_run(result) == (LAST,)
