"""What the rehearsal model says of the tools and their results."""

import json

import pytest
from flexchat.plugin import ToolCall
from flexchat_mock.rehearsal.plan import Step, Tool
from flexchat_mock.rehearsal.provider import from_plan, from_results
from flexchat_sdk import ToolMessage

TOOLS = tuple(Tool(name, {}, {}) for name in ("calculator", "clock", "get_weather"))
CALL = ToolCall.from_object("get_weather", {"city": "Rome"})


def envelope(result):
    return json.dumps({"success": True, "result": result, "tool_name": "x", "execution_time_ms": 1})


def told(content, is_error=False):
    message = ToolMessage(tool_call_id=CALL.id, name="get_weather", content=content, is_error=is_error)
    (line,) = from_results([(CALL, message)], ())
    return line


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (envelope({"sky": "clear", "degrees": 21}), "answered sky: clear, degrees: 21."),
        (envelope({"city": "Rome", "degrees": 21}), "answered 21."),
        (envelope({"city": "Rome"}), 'answered "Rome".'),
        (envelope([1, 2]), "answered 2 entries: 1; 2."),
        (envelope([{"a": 1, "b": [1, {"c": None}]}]), 'answered [{"a": 1, "b": [1, {"c": null}]}].'),
        (envelope([]), "answered []."),
        (envelope({}), "answered {}."),
        (envelope(None), "answered null."),
        (envelope(True), "answered true."),
        (envelope("São Paulo"), 'answered "São Paulo".'),
        ("no JSON at all", "answered: no JSON at all"),
        ('{"plain": 1}', "answered 1."),
        ('{"success": false, "error": "no such city", "hint": "try Rome"}', "failed: no such city (try Rome)"),
        ('{"success": false}', "failed: no reason given"),
        (envelope("x" * 5000), "x…"),
    ],
)
def test_results_of_every_shape_are_read(content, said):
    """Objects, lists, texts, errors, and what is not JSON; what only repeats the arguments is left out."""
    line = told(content)

    assert line.startswith("get_weather (city: Rome) ")
    assert said in line
    assert len(line) < 700


@pytest.mark.parametrize("content", ["busy", '{"code": 7}'])
def test_an_error_in_a_form_of_its_own_is_a_failure(content):
    assert told(content, is_error=True) == f"get_weather (city: Rome) failed: {content}"


def test_what_no_tool_could_do_is_said_beside_the_results():
    """A request without a tool is not silently dropped."""
    message = ToolMessage(tool_call_id="c", name="clock", content=envelope("12:30"))

    assert from_results([(None, message)], (Step("Sing a song!"),)) == [
        'clock answered "12:30".',
        'No tool fits "Sing a song!".',
    ]


def test_without_a_fitting_tool_the_tools_are_named():
    """A newcomer reads what there is to ask for."""
    many = tuple(Tool(f"t{i}", {}, {}) for i in range(20))

    assert from_plan((Step("Sing a song"),), TOOLS, may_call=True) == [
        'No tool fits "Sing a song".',
        "Tools offered: calculator, clock, get_weather.",
    ]
    assert from_plan((), many, may_call=True)[-1].endswith(", t11 and 8 more.")


def test_a_missing_argument_is_named():
    step = Step("What is the weather?", "get_weather", missing=("city", "days"))

    assert from_plan((step,), TOOLS, may_call=True) == [
        'get_weather fits "What is the weather?", but the message does not give: city, days.'
    ]


def test_without_tools_and_where_none_may_be_called_it_says_so():
    assert from_plan((), (), may_call=True) == ["No tool is offered, so there is nothing to call."]
    assert from_plan((), TOOLS, may_call=False) == ["No tool may be called now."]
