"""Mock tools: what they answer, and what is refused at load."""

import asyncio
import re

import pytest
from flexchat.calls.calls import ToolExecutor, ToolParts
from flexchat.config.structure import structure_mapping
from flexchat.plugin import Implementation, ToolContext, ToolDefinition
from flexchat.tools.registry import ToolRegistry
from flexchat_mock.implementation import MOCK, MockError, MockSettings, check, run

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def settings_of(**table):
    settings, problems = structure_mapping(table, MockSettings)
    assert not problems, problems
    return settings


def tool_of(**table):
    return ToolDefinition(
        name="get_weather",
        description="Get the weather",
        parameters=PARAMETERS,
        implementation=Implementation(type="mock", settings=table),
    )


async def answer(settings, **params):
    return await run(settings, params, ToolContext(tool=tool_of()))


def executor_of(**table):
    registry = ToolRegistry()
    registry.register(tool_of(**table))
    return ToolExecutor(registry, ToolParts(implementation_types={"mock": MOCK}))


@pytest.mark.parametrize("value", [{"sky": "clear"}, [1, 2], "text", 0, False, None, 1.5, {}])
async def test_a_mock_response_comes_back_as_it_is(value):
    """Scenario: Execute mock tool (TC-20, TC-44, TE-9): any JSON value, whatever the parameters."""
    assert await answer(settings_of(mock_response=value), city="Rome") == value


@pytest.mark.timed
async def test_a_mock_answers_through_the_executor_in_no_time():
    """Scenario: Execute mock tool (TE-9): under 10 ms, and the parameters are not used."""
    executor = executor_of(mock_response={"sky": "clear"})
    await executor.execute("get_weather", {"city": "Rome"})

    result = await executor.execute("get_weather", {"city": "Oslo"})

    assert result.result == {"sky": "clear"}
    assert result.execution_time_ms < 10


async def test_bad_arguments_never_reach_a_mock():
    """Mocks sit below validation: a call without a required parameter fails as it would with the real tool."""
    result = await executor_of(mock_response="ok").execute("get_weather", {"days": 2})

    assert not result.success
    assert result.error == "Invalid parameters: missing 'city'"


async def test_what_a_caller_does_to_a_response_stays_with_him():
    """A response is never shared: changing it changes no later one."""
    settings = settings_of(mock_response={"list": [1]})

    (await answer(settings))["list"].append(2)

    assert await answer(settings) == {"list": [1]}


CASES = [
    {"when": {"city": "Rome", "days": 1}, "response": "one"},
    {"when": {"city": "Rome"}, "response": "rome"},
    {"when": {"city": "Atlantis"}, "error": "no such city"},
]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"city": "Rome", "days": 1}, "one"),
        ({"city": "Rome", "days": 1.0}, "one"),
        ({"city": "Rome", "days": True}, "rome"),
        ({"city": "Rome"}, "rome"),
        ({"city": "Oslo"}, "other"),
    ],
)
async def test_the_first_case_that_fits_answers_and_else_the_default(params, expected):
    """Arguments are compared as JSON: 1 is 1.0, but true is not 1."""
    assert await answer(settings_of(responses=CASES, mock_response="other"), **params) == expected


async def test_a_case_may_be_an_error():
    """By argument a tool can fail too."""
    with pytest.raises(MockError, match="no such city"):
        await answer(settings_of(responses=CASES), city="Atlantis")


async def test_without_a_case_that_fits_and_a_default_the_error_tells_the_cases():
    """The person who wrote the table reads what was asked and what there is."""
    with pytest.raises(MockError, match=r'no response for \{"city": "Oslo"\}.*"Atlantis"'):
        await answer(settings_of(responses=CASES), city="Oslo")


async def test_a_sequence_answers_one_after_another_and_the_last_repeats():
    """An answer of a sequence may be an error: it fails once, then works."""
    settings = settings_of(sequence=[{"error": "busy"}, {"response": 1}, {"response": None}])

    with pytest.raises(MockError, match="busy"):
        await answer(settings)
    assert [await answer(settings) for _ in range(4)] == [1, None, None, None]


async def test_calls_side_by_side_get_one_answer_each():
    """No two of them are given the same place in the sequence, delays or not."""
    settings = settings_of(sequence=[{"response": i, "delay_ms": (5 - i) % 3} for i in range(5)])

    assert await asyncio.gather(*(answer(settings) for _ in range(5))) == [0, 1, 2, 3, 4]


async def test_each_tool_counts_for_itself():
    """Two tools with the same table are two sequences."""
    first, second = (settings_of(sequence=[{"response": 1}, {"response": 2}]) for _ in range(2))

    assert [await answer(first), await answer(second), await answer(first)] == [1, 1, 2]


async def test_an_error_is_raised_with_its_text():
    """Scenario: Tool execution error (TE-4): the text reaches the model through the executor."""
    result = await executor_of(error="the service is down").execute("get_weather", {"city": "Rome"})

    assert (result.success, result.error) == (False, "the service is down")


async def test_a_delay_is_waited_for_and_a_timeout_ends_it(monkeypatch):
    """delay_ms of a case goes before that of the tool."""
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    settings = settings_of(
        mock_response=1, delay_ms=50, responses=[{"when": {"city": "A"}, "response": 2, "delay_ms": 0}]
    )

    await answer(settings, city="B")
    await answer(settings, city="A")

    assert waited == [0.05]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "needs one of mock_response"),
        ({"mock_response": 1, "error": "x"}, "mock_response and error are mutually exclusive"),
        ({"mock_response": None, "sequence": [{"response": 1}]}, "mock_response and sequence are mutually exclusive"),
        ({"mock_response": 1, "delay_ms": -1}, "delay_ms must be 0 or more"),
        ({"responses": [{"when": {}, "response": 1, "error": "x"}]}, r"responses\[0\] needs either .* not both"),
        ({"sequence": [{}]}, r"sequence\[0\] needs either response or error"),
        ({"sequence": [{"response": 1, "delay_ms": -5}]}, r"sequence\[0\].delay_ms"),
        ({"responses": [{"when": {"town": "A"}, "response": 1}]}, r"names 'town', .*parameters: city, days"),
        (
            {"responses": [{"when": {}, "response": 1}, {"when": {"city": "A"}, "response": 2}]},
            r"responses\[1\] is never used",
        ),
    ],
)
def test_contradictory_settings_are_told_at_load(table, said):
    """What cannot be meant is refused before the first call."""
    problem = check(settings_of(**table), tool_of(), {})

    assert problem is not None
    assert re.search(said, problem)


@pytest.mark.parametrize(
    "table",
    [
        {"mock_response": None},
        {"error": "x"},
        {"sequence": [{"response": None}]},
        {"responses": CASES},
        {"responses": CASES, "error": "none of these"},
    ],
)
def test_every_clear_table_is_accepted(table):
    """One way to answer, with cases beside it or not."""
    assert check(settings_of(**table), tool_of(), {}) is None
