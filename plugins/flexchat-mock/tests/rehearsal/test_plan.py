"""A message is cut into requests, and a tool is chosen for each."""

import time

import pytest
from flexchat_mock.rehearsal.plan import plan, read_tools

TEXT = {"type": "string"}


def tool(name, description, required="", **properties):
    return {
        "name": name,
        "description": description,
        "parameters": {"properties": properties, "required": required.split()},
    }


TOOLS = read_tools(
    [
        tool("calculator", "Evaluate arithmetic", "expression", expression=TEXT),
        tool("get_weather", "Get the weather", "city", city=TEXT),
        tool("set_timer", "Start a countdown", "minutes", minutes={"type": "number"}),
        tool("echo", "Give back a text", "text", text=TEXT),
    ]
)


def steps(message):
    return [(step.tool, step.arguments) for step in plan(message, TOOLS)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Set a timer for 5 minutes. Weather in Oslo?",
         [("set_timer", {"minutes": 5}), ("get_weather", {"city": "Oslo"})]),
        ("the weather in Oslo, Rome and New York",
         [("get_weather", {"city": city}) for city in ("Oslo", "Rome", "New York")]),
        ("2 + 2 and 3 * 3", [("calculator", {"expression": "2 + 2"}), ("calculator", {"expression": "3 * 3"})]),
        ("echo 'one, two and three'", [("echo", {"text": "one, two and three"})]),
        ("max(1, 2)", [("calculator", {"expression": "max(1, 2)"})]),
        ("the weather in Oslo and thank you", [("get_weather", {"city": "Oslo"})]),
        ("Sing a song\nand dance", [(None, {}), (None, {})]),
        ("?!", []),
    ],
)  # fmt: skip
def test_each_request_becomes_a_step_in_order(message, expected):
    """Cut at sentences, and at "and" or a comma where both sides are requests; never inside quotes or arithmetic."""
    assert steps(message) == expected


def test_a_tool_that_lacks_an_argument_is_not_called():
    (step,) = plan("What is the weather?", TOOLS)

    assert (step.tool, step.missing, step.is_call) == ("get_weather", ("city",), False)


def test_a_tool_whose_arguments_are_said_goes_before_one_whose_are_not():
    tools = read_tools(
        [tool("send", "Send a text", "text to", text=TEXT, to=TEXT), tool("send_now", "Send it", "text", text=TEXT)]
    )

    assert plan("send 'hi'", tools)[0].tool == "send_now"


def test_what_is_not_a_schema_is_a_tool_without_parameters():
    """What a tool format leaves out or another writes."""
    tools = read_tools(
        [{"function": {"name": "stop", "parameters": None}}, {"name": "go", "parameters": {"properties": 3}}]
    )

    assert [step.tool for step in plan("stop. go", tools)] == ["stop", None]


@pytest.mark.timed
@pytest.mark.parametrize(
    "message",
    [
        "and ".join(["weather in Oslo "] * 300),
        "'" * 5000,
        "a, " * 3000,
        pytest.param("(1+" * 2000, marks=pytest.mark.slow),
        "Oslo and " * 500,
    ],
)
def test_hostile_messages_take_no_time(message):
    begun = time.thread_time()

    plan(message, TOOLS * 5)

    assert time.thread_time() - begun < 5
