"""What a model did, held against what a case expects."""

import math

import pytest
from flexchat import AssistantMessage, ChatResponse, ToolCall, ToolCallRecord, ToolResult
from flexchat_validation.arguments import json_equal
from flexchat_validation.cases import AnswerCheck, ArgumentCheck, Case, CaseTool, ExpectedCall, ExpectedTurn, ToolMock
from flexchat_validation.judging import judge
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def call(tool, iteration=1, error=None, /, **params):
    result = ToolResult(success=error is None, tool_name=tool, result={}, error=error)
    return ToolCallRecord(tool=tool, params=params, result=result, iteration=iteration)


def response(*calls, content="done"):
    return ChatResponse(content=content, llm="s", model="m", tool_calls=calls)


def case(*calls, **more):
    return Case(name="c", message="m", calls=calls or None, **more)


PARIS = ExpectedCall(tool="get_weather", arguments={"location": "Paris"})
ROME = ExpectedCall(tool="get_weather", arguments={"location": "Rome"})


def test_the_expected_call_passes_with_both_aspects():
    judged = judge(case(PARIS), [response(call("get_weather", location="Paris", unit="C"))])
    assert judged.passed
    assert judged.aspects == {"right_tool": True, "right_arguments": True}
    assert judged.problems == ()


def test_a_wrong_argument_is_named_with_what_was_expected():
    judged = judge(case(PARIS), [response(call("get_weather", location="London"))])
    assert not judged.passed
    assert judged.aspects == {"right_tool": True, "right_arguments": False}
    assert judged.problems == ("get_weather: location is 'London', expected 'Paris'",)


def test_no_call_where_one_is_expected_is_no_success():
    judged = judge(case(PARIS), [response(content="It is sunny in Paris.")])
    assert (judged.passed, judged.problems) == (False, ("get_weather was not called",))


def test_a_call_too_many_fails_unless_the_case_allows_it():
    calls = [response(call("get_weather", location="Paris"), call("get_time"))]
    strict = judge(case(PARIS), calls)
    assert not strict.passed
    assert strict.aspects == {"right_tool": False, "right_arguments": True}
    assert "get_time() " in strict.problems[0].replace(",", " ")
    assert judge(case(PARIS, extra_calls=True), calls).passed


@pytest.mark.parametrize("answer", [response(content="Hello."), ChatResponse(content="x", llm="", model="")])
def test_abstaining_is_making_no_call_at_all(answer):
    assert judge(case(no_call=True), [answer]).aspects == {"abstains": True}


@pytest.mark.parametrize("content", ["", " \n"])
def test_who_answers_nothing_at_all_does_not_abstain_except_by_the_leaderboards_rules(content):
    """A model that thought until its tokens were used up has decided nothing."""
    judged = judge(case(no_call=True), [response(content=content)])
    assert (judged.passed, judged.aspects) == (False, {"abstains": False})
    assert judged.problems == ("the model answered nothing",)
    assert judge(case(no_call=True, judge="bfcl"), [response(content=content)]).passed


def test_a_call_where_none_is_expected_fails():
    judged = judge(case(no_call=True), [response(call("get_weather", location="Paris"))])
    assert judged.aspects == {"abstains": False}
    assert judged.problems == ("no call was expected, but it called get_weather(location='Paris')",)


def test_calls_one_by_one_pass_the_case_but_not_the_aspect_parallel():
    together = [call("get_weather", 1, location="Rome"), call("get_weather", 1, location="Paris")]
    apart = [call("get_weather", 1, location="Rome"), call("get_weather", 2, location="Paris")]
    assert judge(case(PARIS, ROME), [response(*together)]).aspects["parallel"]
    judged = judge(case(PARIS, ROME), [response(*apart)])
    assert judged.passed
    assert not judged.aspects["parallel"]


def test_an_assignment_is_found_where_taking_the_first_that_fits_leaves_none():
    any_place = ExpectedCall(tool="get_weather")
    calls = [call("get_weather", location="Paris"), call("get_weather", location="Rome")]
    assert judge(case(any_place, PARIS), [response(*calls)]).passed


def test_a_given_order_counts_and_asks_not_for_parallel():
    ordered = case(PARIS, ROME, order="given")
    right = response(call("get_weather", 1, location="Paris"), call("get_weather", 2, location="Rome"))
    wrong = response(call("get_weather", 1, location="Rome"), call("get_weather", 2, location="Paris"))
    assert judge(ordered, [right]).passed
    assert "parallel" not in judge(ordered, [right]).aspects
    assert judge(ordered, [wrong]).problems == (
        "the calls were made in another order than expected: get_weather, get_weather",
    )


def test_recovery_is_coming_to_the_expected_call_after_a_mocks_error():
    recovering = case(PARIS, mocks={"get_weather": ToolMock(error="busy", times=1, result={})})
    failed = call("get_weather", 1, "RuntimeError: busy", location="Paris")
    assert judge(recovering, [response(failed, call("get_weather", 2, location="Paris"))]).aspects["recovers"]
    gave_up = judge(recovering, [response(failed)])
    assert not gave_up.passed
    assert gave_up.aspects == {"right_tool": True, "right_arguments": True, "recovers": False}
    assert gave_up.problems == ("get_weather(location='Paris') failed, as the case intends, and was not called again",)


def test_a_call_that_the_mock_made_fail_is_judged_by_its_arguments_like_any_other():
    """What recovers is another question."""
    recovering = case(PARIS, mocks={"get_weather": ToolMock(error="busy", times=1, result={})})
    wrong = judge(recovering, [response(call("get_weather", 1, "RuntimeError: busy", location="Rome"))])
    assert wrong.aspects == {"right_tool": True, "right_arguments": False, "recovers": False}
    assert wrong.problems == ("get_weather: location is 'Rome', expected 'Paris'",)
    both = case(PARIS, ROME, order="given", mocks=recovering.mocks)
    failed, paris = (
        call("get_weather", 1, "RuntimeError: busy", location="Paris"),
        call("get_weather", location="Paris"),
    )
    assert judge(both, [response(failed, paris, call("get_weather", location="Rome"))]).passed
    assert not judge(both, [response(failed, call("get_weather", location="Rome"))]).aspects["recovers"]
    assert not judge(recovering, [response(failed, paris, paris)]).passed


def test_where_a_tool_always_fails_trying_and_answering_is_recovery():
    hopeless = case(PARIS, mocks={"get_weather": ToolMock(error="down")})
    failed = [call("get_weather", n, "RuntimeError: down", location="Paris") for n in (1, 2)]
    assert judge(hopeless, [response(*failed, content="The service is down.")]).passed
    assert judge(hopeless, [response(*failed, content=" ")]).aspects["recovers"] is False
    assert not judge(hopeless, [response(content="It is sunny.")]).passed


def test_a_call_with_wrong_arguments_did_not_fail_by_the_mock():
    recovering = case(PARIS, mocks={"get_weather": ToolMock(error="busy", times=1)})
    refused = call("get_weather", 1, "Invalid parameters: missing 'location'")
    assert not judge(recovering, [response(refused, call("get_weather", 2, location="Paris"))]).passed


def test_every_turn_counts():
    turns = Case(
        name="c", turns=(ExpectedTurn(message="a", calls=(PARIS,)), ExpectedTurn(message="thanks", no_call=True))
    )
    right = [response(call("get_weather", location="Paris")), response()]
    assert judge(turns, right).aspects == {"right_tool": True, "right_arguments": True, "abstains": True}
    assert judge(turns, [right[0], right[0]]).problems[0].startswith("message 2: no call was expected")
    assert not judge(turns, right[:1]).passed


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (ArgumentCheck(one_of=("a", 5)), 5.0, True),
        (ArgumentCheck(regex="/^par/i"), "Paris", "Lyon"),
        (ArgumentCheck(regex="^1$"), "1", 1),
        (ArgumentCheck(near=1.5, within=0.1), 1.45, 1.7),
        (ArgumentCheck(near=3), 3, "3"),
        (ArgumentCheck(near=1), 1, True),
        (ArgumentCheck(near=1), 1.0, 10**400),
        (ArgumentCheck(near=1), 1.0, math.nan),
        (ArgumentCheck(schema={"type": "integer", "minimum": 2}), 2, 1),
        (ArgumentCheck(schema={"type": "integer"}), 2, "2"),
        (ArgumentCheck(schema={"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "number"}}}),
         [1], ["1"]),
    ],
)  # fmt: skip
def test_a_check_holds_for_what_it_says_and_nothing_else(check, good, bad):
    checked = case(ExpectedCall(tool="t", check={"x": check}))
    assert judge(checked, [response(call("t", x=good))]).passed
    judged = judge(checked, [response(call("t", x=bad))])
    assert not judged.passed
    assert "x" in judged.problems[0]
    assert judge(checked, [response(call("t"))]).problems == ("t: x is missing",)


def test_what_is_optional_may_be_missing_and_what_is_not_named_may_be_forbidden():
    expected = ExpectedCall(tool="t", check={"x": ArgumentCheck(one_of=(1,), optional=True)}, other_arguments=False)
    assert judge(case(expected), [response(call("t"))]).passed
    assert judge(case(expected), [response(call("t", y=1))]).problems == ("t: y was given, and is not expected",)


def test_the_answer_must_say_what_the_case_asks_for():
    asked = case(PARIS, answer=AnswerCheck(contains=("SUNNY",), regex=r"\d+"))
    paris = call("get_weather", location="Paris")
    assert judge(asked, [response(paris, content="Sunny, 20 degrees")]).passed
    assert len(judge(asked, [response(paris, content="rain")]).problems) == 2


def test_arguments_that_could_not_be_read_are_not_empty_arguments():
    written = ToolCall.from_text("t", "{not json")
    record = ToolCallRecord(
        tool="t", params={}, iteration=1, call_id=written.id, result=ToolResult.failed("t", "Invalid tool arguments: x")
    )
    answer = ChatResponse(
        content="", llm="s", model="m", tool_calls=(record,), messages=(AssistantMessage(parts=(written,)),)
    )
    assert judge(case(ExpectedCall(tool="t")), [answer]).problems == ("t: its arguments are not a JSON object",)


def _deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "params",
    [{"location": _deep()}, {"location": math.nan}, {"location": "x" * 1_000_000}, {"location": 10**5000}, {1: 2}],
)
@pytest.mark.parametrize("judge_by", ["flexchat", "bfcl"])
def test_whatever_a_model_writes_nothing_is_raised(params, judge_by):
    record = attrs_record(params)
    schema = {"type": "object", "properties": {"location": {"type": "string"}}}
    checks = {"location": ArgumentCheck(regex="a", schema={"type": "string"}, one_of=("a",), near=1)}
    ours = case(ExpectedCall(tool="t", check=checks))
    theirs = Case(
        name="c", message="m", judge="bfcl", possible_answers=({"t": {"location": ["a"]}},),
        own_tools=(CaseTool(name="t", description="t", parameters=schema),),
    )  # fmt: skip
    judged = judge(ours if judge_by == "flexchat" else theirs, [response(record)])
    assert not judged.passed
    assert all(len(problem) < 1000 for problem in judged.problems)


@pytest.mark.parametrize("params", [None, [], "text", 5])
def test_arguments_that_are_no_object_fail(params):
    assert not judge(case(ExpectedCall(tool="t")), [response(attrs_record(params))]).passed


def attrs_record(params):
    return ToolCallRecord(tool="t", params=params, result=ToolResult(success=True, tool_name="t"), iteration=1)


@given(JSON)
def test_json_is_equal_to_itself_read_again(value):
    import json

    assert json_equal(value, json.loads(json.dumps(value)))


def test_json_equality_is_that_of_json():
    assert json_equal({"a": 5, "b": [1]}, {"b": [1.0], "a": 5.0})
    for a, b in [(1, True), (0, False), (None, False), ("1", 1), (math.nan, math.nan), ([], {}), ([1], [1, 2])]:
        assert not json_equal(a, b)


@pytest.mark.parametrize("error", ["Invalid parameters: missing 'location'", "Invalid tool arguments: a list"])
def test_a_call_whose_arguments_its_tool_refuses_is_not_the_expected_one(error):
    """A case that names the tool alone is not passed by calling it with nothing in hand."""
    any_place = ExpectedCall(tool="get_weather")
    judged = judge(case(any_place), [response(call("get_weather", 1, error))])
    assert not judged.passed
    assert judged.aspects == {"right_tool": True, "right_arguments": False}
    assert judged.problems == (f"get_weather: {error}",)
    mended = [response(call("get_weather", 1, error), call("get_weather", 2, location="Rome"))]
    assert judge(case(any_place, extra_calls=True), mended).passed
    assert not judge(case(any_place), mended).passed
