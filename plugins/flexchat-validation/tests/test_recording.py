"""Cases made of kept conversations."""

import json

from flexchat import (
    AssistantMessage,
    ChatResponse,
    ConversationTurn,
    ToolCall,
    ToolCallRecord,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from flexchat_sdk import TextPart
from flexchat_validation.cases import Case, ExpectedCall, ToolMock
from flexchat_validation.judging import judge
from flexchat_validation.reading import check_cases
from flexchat_validation.recording import recorded_cases


def turn(said, *rounds, id="t"):
    """A turn whose rounds are lists of (tool, arguments, result or error text)."""
    messages = [UserMessage(content=said)]
    for calls in rounds:
        written = [(ToolCall.from_object(tool, arguments), outcome) for tool, arguments, outcome in calls]
        messages.append(AssistantMessage(parts=tuple(call for call, _ in written)))
        for call, outcome in written:
            failed = isinstance(outcome, str)
            result = ToolResult(
                success=not failed, tool_name=call.name, result=outcome, error=outcome if failed else None
            )
            messages.append(ToolMessage(tool_call_id=call.id, name=call.name, content=json.dumps(result.to_dict())))
    messages.append(AssistantMessage(parts=(TextPart(text="answer"),)))
    return ConversationTurn(id=id, messages=tuple(messages))


PARIS = ("get_weather", {"location": "Paris"}, {"sky": "clear"})
ROME = ("get_weather", {"location": "Rome"}, {"sky": "rain"})


def test_a_turn_becomes_its_calls_with_their_results_as_mocks():
    found = recorded_cases([turn("Weather in Paris?", [PARIS])], tags=["x"])
    assert found.cases == (
        Case(
            name="Weather in Paris?",
            message="Weather in Paris?",
            calls=(ExpectedCall(tool="get_weather", arguments={"location": "Paris"}),),
            mocks={"get_weather": ToolMock(result={"sky": "clear"})},
            tags=("x",),
        ),
    )
    assert found.notes == ()


def test_a_turn_without_calls_becomes_no_call():
    (case,) = recorded_cases([turn("Thanks")], name="thanks").cases
    assert case == Case(name="thanks", message="Thanks", no_call=True)


def test_calls_of_one_answer_may_come_in_any_order_and_others_may_not():
    at_once = recorded_cases([turn("m", [PARIS, ROME])])
    assert at_once.cases[0].order == "any"
    assert "answered each call differently" in at_once.notes[0]
    assert recorded_cases([turn("m", [PARIS], [ROME])]).cases[0].order == "given"


def test_an_error_that_the_model_recovered_from_becomes_a_mock_that_fails_as_often():
    failing = ("get_weather", {"location": "Paris"}, "RuntimeError: busy")
    (case,) = recorded_cases([turn("m", [failing], [PARIS])]).cases
    assert case.mocks == {"get_weather": ToolMock(result={"sky": "clear"}, error="RuntimeError: busy", times=1)}
    assert len(case.calls) == 1


def test_calls_that_never_reached_their_tool_are_not_expected_of_others():
    wrong = ("get_weather", {}, "Invalid parameters: missing 'location'")
    found = recorded_cases([turn("m", [wrong], [PARIS])])
    assert [call.arguments for call in found.cases[0].calls] == [{"location": "Paris"}]
    assert found.cases[0].mocks["get_weather"].error is None
    assert "1 of 2 calls never reached" in found.notes[0]
    assert recorded_cases([turn("m", [wrong])]).cases == ()


def test_a_conversation_becomes_a_case_for_each_turn_or_one_with_turns():
    turns = [turn("Hi"), turn("Weather?", [PARIS]), turn("Hi")]
    assert [case.name for case in recorded_cases(turns).cases] == ["Hi", "Weather?", "Hi (2)"]
    assert [case.name for case in recorded_cases(turns, name="n").cases] == ["n", "n (2)", "n (3)"]
    (whole,) = recorded_cases(turns, whole=True).cases
    assert [t.message for t in whole.turns] == ["Hi", "Weather?", "Hi"]
    assert [t.no_call for t in whole.turns] == [True, False, True]


def test_what_was_recorded_is_usable_and_passes_with_the_same_calls():
    for calls in ([PARIS], [PARIS, ROME], []):
        (case,) = recorded_cases([turn("m", *([calls] if calls else []))]).cases
        records = [
            ToolCallRecord(tool=t, params=a, result=ToolResult(success=True, tool_name=t), iteration=1)
            for t, a, _ in calls
        ]
        assert judge(case, [ChatResponse(content="x", llm="", model="", tool_calls=tuple(records))]).passed
        assert all("offers no tool" in problem for problem in check_cases([case]))
