"""Calculator, echo, date and time, ids: as a tool call reaches them."""

import datetime
import re
import threading
import uuid

import pytest
from flexchat.plugin import Implementation, ToolContext, ToolDefinition
from flexchat_builtin import engine
from flexchat_builtin.handlers import echo, generate_uuid, get_current_datetime, math_eval
from flexchat_builtin.parameters import MathError, ParameterError

CONTEXT = ToolContext(
    tool=ToolDefinition(
        name="any", description="Any.", parameters={"type": "object"}, implementation=Implementation(type="builtin")
    )
)


async def test_two_plus_two_is_four():
    """Scenario: Math evaluation handler (TC-63, TE-12)."""
    assert await math_eval({"expression": "2+2"}, CONTEXT) == {"result": 4}


async def test_an_invalid_expression_raises_a_descriptive_error():
    """Invalid expressions throw errors with descriptive messages (TC-64)."""
    with pytest.raises(MathError, match=r"^Math evaluation failed: division by zero in 1 / 0$"):
        await math_eval({"expression": "1/0"}, CONTEXT)


@pytest.mark.parametrize(
    "params", [{}, {"expression": ""}, {"expression": "  "}, {"expression": None}, {"expression": 4}]
)
async def test_an_expression_must_be_there(params):
    """Without an expression the handler says what it needs."""
    with pytest.raises(ParameterError) as caught:
        await math_eval(params, CONTEXT)

    assert str(caught.value) == 'math_eval requires a non-empty string "expression" parameter'


async def test_numexpr_is_loaded_beside_the_event_loop(monkeypatch):
    """The first list does not hold up the loop for numexpr's import; numbers need none of it."""
    threads = []
    load = engine.load

    def noted():
        threads.append(threading.current_thread() is threading.main_thread())
        return load()

    monkeypatch.setattr(engine, "load", noted)
    monkeypatch.setattr(engine, "is_loaded", lambda: False)

    assert await math_eval({"expression": "7"}, CONTEXT) == {"result": 7}
    assert threads == []
    assert await math_eval({"expression": "[7]"}, CONTEXT) == {"result": [7]}
    assert threads == [False]


async def test_echo_mirrors_its_parameters():
    """Scenario: Echo handler (TC-65, TE-13)."""
    params = {"text": "ü", "nested": {"list": [1, None]}}

    assert await echo(params, CONTEXT) == {"echo": params}


@pytest.mark.parametrize("params", [{}, {"timezone": None}, {"timezone": ""}, {"timezone": "UTC"}])
async def test_the_time_is_utc_unless_a_zone_is_asked_for(params):
    """Every field tells the same moment (TC-101)."""
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    answer = await get_current_datetime(params, CONTEXT)
    after = datetime.datetime.now(datetime.UTC)

    moment = datetime.datetime.fromisoformat(answer["iso"])
    assert before <= moment <= after
    assert (answer["timezone"], answer["utc_offset"]) == ("UTC", "+00:00")
    assert answer["iso"] == f"{answer['date']}T{answer['time']}+00:00"
    weekdays = ["", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    assert answer["weekday"] == weekdays[moment.isoweekday()]


async def test_a_zone_gives_its_own_clock_and_offset():
    """An IANA name is followed, half hours included."""
    answer = await get_current_datetime({"timezone": "Asia/Kolkata"}, CONTEXT)

    moment = datetime.datetime.fromisoformat(answer["iso"])
    assert moment.utcoffset() == datetime.timedelta(hours=5, minutes=30)
    assert (answer["timezone"], answer["utc_offset"]) == ("Asia/Kolkata", "+05:30")
    assert abs(moment - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(seconds=60)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Asia/Tokio", "Asia/Tokyo"),
    ],
)
async def test_an_unknown_zone_is_refused_with_the_nearest_names(name, near):
    """A zone that is not known is not silently UTC."""
    with pytest.raises(ParameterError, match=f"unknown timezone '{name}'.*{near}"):
        await get_current_datetime({"timezone": name}, CONTEXT)


@pytest.mark.parametrize("name", ["Europe", "../../etc/passwd", "/etc/localtime", "\x00", "x" * 101, 5, "\ud800", "."])
async def test_a_zone_name_reaches_no_other_file(name):
    """Folders, paths and what is no text are refused in a sentence."""
    with pytest.raises(ParameterError, match="timezone"):
        await get_current_datetime({"timezone": name}, CONTEXT)


async def test_ids_are_random_uuids():
    """Version 4, in the usual form, never the same (TC-101)."""
    made = {(await generate_uuid({}, CONTEXT))["uuid"] for _ in range(50)}

    assert len(made) == 50
    assert {uuid.UUID(text).version for text in made} == {4}
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) for text in made)
