"""Arguments for a tool, from a text."""

import pytest
from flexchat_mock.rehearsal.plan import fill_arguments
from flexchat_mock.rehearsal.values import values_of

TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
OPTIONAL = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}


def filled(said, required="", about=(), /, **properties):
    schema = {"type": "object", "properties": properties, "required": required.split()}
    found, missing = fill_arguments(schema, said, values_of(said), about)
    return {name: argument.value for name, argument in found.items()}, missing


@pytest.mark.parametrize(
    ("text", "required", "properties", "expected"),
    [
        ("news, limit 10", "", {"limit": INTEGER}, {"limit": 10}),
        ("in 3 days", "", {"days": OPTIONAL, "hours": OPTIONAL}, {"days": 3}),
        ("7 of them", "", {"limit": INTEGER, "days": INTEGER}, {}),
        ("convert 2.5", "value", {"value": NUMBER, "unit": TEXT}, {"value": 2.5}),
        ("roll 2.5", "count", {"count": INTEGER, "sides": INTEGER}, {}),
        ("turn it OFF", "state", {"state": {"enum": ["on", "off"]}}, {"state": "off"}),
        ("mail bob@example.com the note 'hi'", "to", {"to": {"format": "email"}, "note": TEXT},
         {"to": "bob@example.com", "note": "hi"}),
        ("read https://a.example/x?y=1.", "url", {"url": TEXT}, {"url": "https://a.example/x?y=1"}),
        ("on 2026-05-03", "day", {"day": {"type": "string", "format": "date"}}, {"day": "2026-05-03"}),
        ("where is A-1234", "order_id", {"order_id": TEXT}, {"order_id": "A-1234"}),
        ("Split 'a,b' at ','", "text", {"text": TEXT, "separator": TEXT}, {"text": "a,b", "separator": ","}),
        ("fly from Rome to Oslo", "from to", {"to": TEXT, "from": TEXT}, {"to": "Oslo", "from": "Rome"}),
        ("echo hello world", "text", {"text": TEXT}, {"text": "hello world"}),
        ("what is it", "text", {"text": TEXT}, {}),
        ("in Paris", "", {"city": TEXT, "days": INTEGER}, {}),
    ],
)  # fmt: skip
def test_parameters_take_what_the_text_says_for_them(text, required, properties, expected):
    arguments, missing = filled(text, required, {"echo"}, **properties)

    assert arguments == expected
    assert missing == tuple(name for name in required.split() if name not in expected)


def test_no_value_is_used_twice_and_arguments_stand_in_the_order_of_the_schema():
    arguments, missing = filled("Replace 'a' by 'b' in the text 'abc'", "text find", text=TEXT, find=TEXT, replace=TEXT)

    assert [*arguments.items()] == [("text", "abc"), ("find", "a"), ("replace", "b")]
    assert missing == ()


@pytest.mark.parametrize("schema", [{}, {"properties": None, "required": 3}, {"properties": {"x": True, "y": 5}}])
def test_what_is_not_a_schema_is_read_as_far_as_it_goes(schema):
    assert fill_arguments(schema, "5", values_of("5"), ())[1] == ()
