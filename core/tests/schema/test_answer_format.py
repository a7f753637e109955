"""What a caller may ask an answer to be, and how an answer is read."""

import dataclasses
import enum
import json
from typing import Any

import attrs
import pytest
from flexchat.domain import ResponseFormat
from flexchat.errors import ChatRequestError
from flexchat.schema.answer_format import answer_format
from hypothesis import given
from hypothesis import strategies as st


class Sky(enum.Enum):
    CLEAR = "clear"
    GREY = "grey"


@attrs.frozen
class Weather:
    city: str
    celsius: float
    sky: Sky = Sky.GREY


@dataclasses.dataclass
class Trip:
    days: list[Weather]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_a_class_goes_in_and_an_instance_comes_out():
    """attrs class in, instance out; defaults and enums included."""
    form = answer_format(Weather)

    assert form.format.name == "Weather"
    assert form.format.schema["required"] == ["city", "celsius"]
    assert form.read('{"city": "Rome", "celsius": 18}') == Weather("Rome", 18.0)
    assert form.read('{"city": "Rome", "celsius": 18, "sky": "clear"}').sky is Sky.CLEAR


def test_classes_within_classes_are_read():
    """A dataclass of attrs classes."""
    text = '{"days": [{"city": "Rome", "celsius": 18.5}]}'

    assert answer_format(Trip).read(text) == Trip(days=[Weather("Rome", 18.5)])


def test_what_is_no_object_travels_inside_one():
    """Services take only objects at the root."""
    form = answer_format(list[int])

    assert form.format.schema["type"] == "object"
    assert form.read('{"result": [1, 2]}') == form.read("[1, 2]") == [1, 2]


def test_a_schema_gives_plain_data():
    """A JSON Schema as it is; a text that is a number is read as one, as with tools."""
    form = answer_format(SCHEMA)

    assert form.read('{"n": 3}') == {"n": 3}
    assert form.read('{"n": "3"}') == {"n": 3}


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
        ResponseFormat(name="n", schema=SCHEMA, strict=True),
    ],
)
def test_openai_s_own_form_is_understood(wanted):
    """Who comes from there brings it along."""
    assert answer_format(wanted).format == ResponseFormat(name="n", schema=SCHEMA, strict=True)


def test_any_object_may_be_asked_for():
    """json_object has no schema."""
    form = answer_format({"type": "json_object"})

    assert form.format.type == "json_object"
    assert form.read('{"a": [1]}') == {"a": [1]}


def test_a_pydantic_model_is_asked_for_its_own_schema():
    """No pydantic in core: a model says and reads itself."""
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("City", name=(str, ...), people=(int, pydantic.Field(gt=0)))
    form = answer_format(model)

    assert form.read('{"name": "Rome", "people": 3}') == model(name="Rome", people=3)
    with pytest.raises(ValueError, match="greater than"):
        form.read('{"name": "Rome", "people": 0}')


def test_a_code_fence_around_the_answer_is_seen_through():
    """Small models cannot leave it out."""
    assert answer_format(SCHEMA).read('```json\n{"n": 1}\n```\n') == {"n": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("It is 3.", "not valid JSON"),
        ("[1]", "one JSON object"),
        ("{}", "'n'"),
        ('{"n": "three"}', "n"),
        ('{"n": NaN}', "NaN"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_what_is_wrong_is_said_in_words_for_the_model(text, words):
    """The model reads the sentence and can act on it."""
    with pytest.raises(ValueError, match=words):
        answer_format(SCHEMA).read(text)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"type": "array"}, "object"),
        ({}, "object"),
        ({"type": "object", "properties": 3}, "schema"),
        ({"type": "json_schema", "json_schema": {"name": "a b", "schema": SCHEMA}}, "name"),
        (lambda: 3, "JSON"),
        (dict[int, str], "keys"),
    ],
)
def test_what_can_be_no_form_is_refused(wanted, words):
    """Before anything is sent, with the reason."""
    with pytest.raises(ChatRequestError, match=words):
        answer_format(wanted)


@given(st.text(max_size=50))
def test_no_text_breaks_the_reader(text):
    """A value, or a ValueError."""
    form = answer_format({"type": "json_object"})
    try:
        value: Any = form.read(text)
    except ValueError:
        return
    assert isinstance(value, dict)


@given(st.builds(Weather, st.text(max_size=20), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(Sky)))
def test_what_is_written_is_read_back(weather):
    """From the instance to JSON and back."""
    text = json.dumps({"city": weather.city, "celsius": weather.celsius, "sky": weather.sky.value})

    assert answer_format(Weather).read(text) == weather


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ADA = '{"name": "Ada", "age": 36}'
BOB = '{"name": "Bob", "age": 40}'


@pytest.mark.parametrize(
    "text",
    [
        f'<think>Perhaps {{"name": "x"}} or {BOB}?</think>\n\n{ADA}',
        f"<thinking>{BOB}</thinking>{ADA}",
        f"I could say {BOB}.\n</think>\n{ADA}",
        f"Here it is:\n\n```json\n{ADA}\n```\nLet me know if you need more!",
        f"Here it is:\n  ~ \n```\n{ADA}\n```",
        f"{ADA}\n\nHope this helps!",
        f"Sure. {ADA} Done.",
        f"\ufeff{ADA}",
        f"\u200b\n{ADA}\n",
        f"\ufeff```json\n{ADA}\n```",
        f"The form is {{name, age}}: {ADA}",
        f"See [1] and {{}}: {ADA}",
        f"{ADA}\n\nAgain:\n```json\n{ADA}\n```",
        'Here: {"name": "A{d}a [x] ```", "age": 36}'.replace("A{d}a [x] ```", "Ada"),
        f"I will use { {'a': 1} }.\n```json\n{ADA}\n```",
        "```json\n" + ADA + "\n```\n```json\n" + '{"note": 1}' + "\n```",
        f"{ADA};",
        f"json\n{ADA}",
        f"**Answer:** `{ADA}`",
    ],
)
def test_the_one_value_that_fits_is_read_from_what_is_around_it(text):
    found = answer_format(PERSON).find(text)

    assert found.parsed == {"name": "Ada", "age": 36}
    assert json.loads(found.text) == found.data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{ADA}\n{BOB}", "2 different JSON values"),
        (f"{ADA}{BOB}", "2 different JSON values"),
        (f"```json\n{ADA}\n```\nor\n```json\n{BOB}\n```", "2 different JSON values"),
        (f'First {ADA}, then {{"name": "Bo', "not valid JSON"),
        (f'{{"people": [{ADA}]', "not valid JSON"),
        (f'{{"person": {ADA}, }}', "not valid JSON"),
        (f"[{ADA}, NaN]", "not a JSON number"),
        (f"It is [{ADA}, oops].", "not valid JSON"),
        (f"<think>maybe {ADA}", "not valid JSON"),
        (f"{ADA}<think>no, that is wrong", "not valid JSON"),
        ("I cannot say.", "not valid JSON"),
        ("Here: {'name': 'Ada', 'age': 36}", "not valid JSON"),
        ('Here: {"name": "Ada"}', "age"),
        (f'{{"person": {ADA}}}', "person"),
        (f"[{ADA}]", "one JSON object"),
        (f"It is [{ADA}].", "one JSON object"),
    ],
)
def test_nothing_is_chosen_and_no_part_of_a_value_is_read(text, words):
    with pytest.raises(ValueError, match=words):
        answer_format(PERSON).read(text)


def test_of_an_answer_that_was_cut_off_only_the_whole_is_read():
    """What is whole in it may be a draft."""
    form = answer_format(PERSON)

    assert form.find(ADA, is_complete=False).data == {"name": "Ada", "age": 36}
    with pytest.raises(ValueError, match="not valid JSON"):
        form.find(f"A draft: {ADA}. The answer", is_complete=False)


def test_a_fenced_value_of_any_type_is_read():
    assert answer_format(int).read("The answer:\n```json\n42\n```\nThat is all.") == 42
    assert answer_format(list[int]).read("The list is [1, 2].") == [1, 2]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{" * 100_000, "[" * 50_000 + "]" * 50_000, "```\n" * 20_000, '{"a":' * 30_000]
)
def test_hostile_text_is_refused_at_once(text):
    with pytest.raises(ValueError, match="JSON"):
        answer_format(PERSON).read("x " + text)


@given(st.text(alphabet='{}[]",:ab1 \n`<think/>', max_size=60))
def test_what_is_read_is_a_value_of_the_text(text):
    """Whatever is around it, nothing is made up."""
    form = answer_format({"type": "object"})
    try:
        found = form.find(text)
    except ValueError:
        return
    assert found.text in text.lstrip("\ufeff")
    assert json.loads(found.text) == found.data
