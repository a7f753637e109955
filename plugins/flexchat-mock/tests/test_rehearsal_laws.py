"""What holds for the rehearsal model whatever is said and whatever tools there are."""

import datetime as dt
import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest
from flexchat.plugin import ChatOptions, ToolMessage, UserMessage
from flexchat_mock.rehearsal.compose_answer import HONESTY
from flexchat_mock.rehearsal.fits import fits
from flexchat_mock.rehearsal.provider import answer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

_spec = importlib.util.spec_from_file_location("made_up_tools", Path(__file__).with_name("made_up_tools.py"))
made_up_tools = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made_up_tools)

TODAY = dt.date(2026, 11, 20)

SAYINGS = (
    "what is the time in Tokyo|17% of 230|and|,|?|.|book a table for 4 people|tomorrow at 7pm|weather in|Paris|lunch|"
    "send an email to bob@example.com|subject|convert|$20|to EUR|set a timer for|half an hour|in|at|from|to|:|((((|3 +|"
    "http://x.y/z|31 February|25:99|99999999999999999999|1e999|-5|twenty five thousand|'|’|\n|\0|A-1234|on|off|* 4|"
    'find|quoted|word|text|yes|no|not|a, b and c|New York|🙂|ß|İstanbul|٣|¼|"'
)
PHRASES = st.sampled_from(SAYINGS.split("|"))
MESSAGES = st.one_of(st.lists(PHRASES, max_size=12).map(" ".join), st.text(max_size=80))

PARAMETERS = "text query city date time email amount unit a b count to from in is_open items name options url when x ß"
NAMES = st.sampled_from(PARAMETERS.split())
LEAVES = st.one_of(
    st.builds(
        lambda low, up: {"type": "integer", "minimum": low, "maximum": low + up},
        st.integers(-5, 50),
        st.integers(0, 50),
    ),
    st.just({"type": "number", "multipleOf": 0.5}),
    st.builds(lambda d: {"type": "string", "description": d}, st.text(max_size=20)),
    st.builds(
        lambda n, m: {"type": "string", "minLength": n, "maxLength": n + m}, st.integers(0, 5), st.integers(0, 9)
    ),
    st.sampled_from(["date", "date-time", "time", "email", "uri", "uuid"]).map(
        lambda f: {"type": "string", "format": f}
    ),
    st.lists(st.one_of(st.text(max_size=5), st.integers(), st.none(), st.booleans()), min_size=1, max_size=4).map(
        lambda options: {"enum": options}
    ),
    st.sampled_from(["^[A-Z]{3}$", "[0-9]+", "^x", "("]).map(lambda p: {"type": "string", "pattern": p}),
    st.just({"type": "boolean"}),
    st.just({"anyOf": [{"type": "string"}, {"type": "null"}]}),
    st.just({"type": ["integer", "null"]}),
    st.just({"oneOf": [{"type": "string"}, {"minLength": 2}]}),
    st.just({"not": {"type": "string"}}),
    st.just({"$ref": "#/$defs/thing"}),
    st.just({"const": 3}),
    st.just({}),
    st.just(True),
    st.just(False),
)
PROPERTIES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda i, n: {"type": "array", "items": i, "maxItems": n, "uniqueItems": True}, inner, st.integers(0, 4)
        ),
        st.dictionaries(NAMES, inner, max_size=3).map(
            lambda p: {"type": "object", "properties": p, "required": [*p][:1], "additionalProperties": False}
        ),
    ),
    max_leaves=4,
)


@st.composite
def tools(draw):
    properties = draw(st.dictionaries(NAMES, PROPERTIES, max_size=4))
    required = draw(st.lists(st.sampled_from([*properties]), unique=True)) if properties else []
    schema = {"type": "object", "properties": properties, "required": required}
    schema["$defs"] = {"thing": draw(st.sampled_from([{"type": "string"}, {"$ref": "#/$defs/thing"}]))}
    name = draw(
        st.sampled_from(["get_time", "search", "send_email", "calculate", "book_table", "weather", "set_state"])
    )
    return {
        "type": "function",
        "function": {"name": name, "description": draw(st.text(max_size=30)), "parameters": schema},
    }


def ask(message, offered, *rest, choice="auto"):
    return answer((UserMessage(content=message), *rest), "m", ChatOptions(tools=offered, tool_choice=choice), TODAY)


def keeps(schema, arguments):
    """Ask the complete checker; a schema that is none keeps nothing."""
    try:
        return jsonschema.Draft202012Validator(schema).is_valid(arguments)
    except Exception:
        return False


def check_calls(message, offered):
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in offered}
    result = ask(message, offered)
    for call in result.tool_calls:
        assert keeps(schemas[call.name], call.arguments), (call, schemas[call.name])
        json.dumps(dict(call.arguments))
    assert bool(result.tool_calls) != bool(result.content)
    return result


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MESSAGES, st.lists(tools(), max_size=3, unique_by=lambda t: t["function"]["name"]))
def test_any_text_and_any_tools_give_an_answer_whose_calls_keep_the_schemas(message, offered):
    """Never an error, and never an argument that the tool's schema refuses."""
    check_calls(message, tuple(offered))


@settings(max_examples=40, deadline=None)
@given(MESSAGES, st.sampled_from(["everyday", "work", "texts"]))
def test_the_made_up_tools_are_called_by_their_schemas(message, kind):
    """The same for tools as people write them, where calls are frequent."""
    check_calls(message, tuple(made_up_tools.TOOLS[kind]))


@settings(max_examples=40, deadline=None)
@given(MESSAGES)
def test_the_same_input_gives_the_same_output(message):
    """Nothing is kept between requests and nothing is random but call ids."""
    offered = tuple(made_up_tools.TOOLS["everyday"])
    first, second = ask(message, offered), ask(message, offered)

    assert first.content == second.content
    assert [(c.name, c.arguments) for c in first.tool_calls] == [(c.name, c.arguments) for c in second.tool_calls]


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(JSON.map(lambda v: json.dumps({"success": True, "result": v})), st.text(max_size=40)),
        min_size=1,
        max_size=4,
    )
)
def test_every_result_is_mentioned_and_every_answer_is_honest(contents):
    """One line begins with each tool's name, and the last line says what this model is."""
    results = [ToolMessage(tool_call_id=f"c{i}", name=f"tool_{i}", content=c) for i, c in enumerate(contents)]

    said = ask("anything", (), *results).content

    assert all(f"tool_{i} " in said for i in range(len(contents)))
    assert said.endswith(HONESTY)


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(min_size=1, max_size=50)))
def test_a_single_value_is_said_as_it_is(value):
    """What the tool found stands in the answer, whole."""
    result = ToolMessage(tool_call_id="c", name="find", content=json.dumps({"success": True, "result": {"v": value}}))

    assert (value if isinstance(value, str) else json.dumps(value)) in ask("anything", (), result).content


@settings(max_examples=200, deadline=None)
@given(PROPERTIES, JSON)
def test_what_fits_is_what_the_complete_checker_accepts(schema, value):
    """The small checker may refuse too much, but never accepts what the complete one refuses."""
    root = {"properties": {"x": schema}, "$defs": {"thing": {"type": "string"}}}
    if fits(root, {"x": value}):
        assert keeps(root, {"x": value})
