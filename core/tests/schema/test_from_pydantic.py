"""Tools of functions that take what pydantic defines."""

import dataclasses
import datetime
import decimal
import json
import subprocess
import sys
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar

import attrs
import jsonschema
import pytest

pydantic = pytest.importorskip("pydantic")

from flexchat import FlexChat, SyncFlexChat, ToolContext, ToolDefinitionError, tool  # noqa: E402
from flexchat.assembly import installed_plugins  # noqa: E402
from flexchat.schema.answer_format import answer_format  # noqa: E402
from flexchat.schema.from_function import bind, describe_function  # noqa: E402
from flexchat.schema.limits import schema_problems  # noqa: E402
from flexchat_sdk.dialects.rewrite import rewrite  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pydantic import BaseModel, ConfigDict, Field, model_validator  # noqa: E402

T = TypeVar("T")


class Guest(BaseModel):
    """Somebody who comes."""

    name: str = Field(min_length=1, alias="fullName")
    age: int = Field(ge=0, description="In years.")
    born: datetime.date | None = None
    tags: set[str] = Field(default_factory=set, max_length=3)

    @model_validator(mode="after")
    def _old_enough(self) -> "Guest":
        if self.age == 99:
            raise ValueError("nobody of that age comes")
        return self


class Room(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int
    guests: list[Guest]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Tree(BaseModel):
    value: int
    branches: list["Tree"] = []


class Page(BaseModel, Generic[T]):
    items: list[T]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: datetime.date


@pydantic.dataclasses.dataclass
class Point:
    x: int = Field(ge=0)


@attrs.frozen
class Party:
    host: Guest
    others: list[Guest]


@dataclasses.dataclass
class Trip:
    guest: Guest
    days: Annotated[int, Field(ge=1)] = 1


class Options(TypedDict):
    point: Point


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
AL = {"fullName": "Al", "age": 3}


def described(annotation, default=...):
    """The description of a function whose only parameter is x."""

    def function(x): ...

    function.__doc__ = "Do it."
    function.__annotations__ = {"x": annotation}
    if default is not ...:
        function.__defaults__ = (default,)
    description = describe_function(function)
    assert schema_problems(description.parameters) == []
    jsonschema.Draft202012Validator.check_schema(description.parameters)
    json.dumps(description.parameters)
    return description


def read(annotation, value):
    """What the function gets for what a model sends; the schema accepts it, too."""
    description = described(annotation)
    jsonschema.validate({"x": value}, description.parameters)
    return bind(description, {"x": value})["x"]


GUEST = Guest(fullName="Al", age=3)


@pytest.mark.parametrize(
    ("annotation", "value", "found"),
    [
        (Guest, AL, GUEST),
        (list[Guest], [AL, AL], [GUEST, GUEST]),
        (dict[str, Guest], {"a": AL}, {"a": GUEST}),
        (Guest | None, None, None),
        (Guest | None, AL, GUEST),
        (Room, {"number": 1, "guests": [AL]}, Room(number=1, guests=[GUEST])),
        (Pet, {"kind": "dog", "name": "Rex"}, Dog(kind="dog", name="Rex")),
        (list[Pet], [{"kind": "cat", "lives": 9}], [Cat(kind="cat", lives=9)]),
        (Cat | Dog, {"kind": "dog", "name": "Rex"}, Dog(kind="dog", name="Rex")),
        (Tree, {"value": 1, "branches": [{"value": 2}]}, Tree(value=1, branches=[Tree(value=2)])),
        (Page[Guest], {"items": [AL]}, Page[Guest](items=[GUEST])),
        (Point, {"x": 1}, Point(x=1)),
        (Strict, {"day": "2026-05-01"}, Strict(day=datetime.date(2026, 5, 1))),
        (Annotated[int, Field(ge=1)], 1, 1),
        (pydantic.PositiveInt, 1, 1),
        (pydantic.conint(ge=1), 1, 1),
        (Annotated[decimal.Decimal, Field(gt=0)], 0.1, decimal.Decimal("0.1")),
        (set[pydantic.PositiveInt], [1, 2], {1, 2}),
        (tuple[pydantic.PositiveInt, Guest], [1, AL], (1, GUEST)),
        # Together with what pydantic does not know
        (Party, {"host": AL, "others": [AL]}, Party(GUEST, [GUEST])),
        (list[Party | Guest], [AL, {"host": AL, "others": []}], [GUEST, Party(GUEST, [])]),
        (Trip, {"guest": AL}, Trip(GUEST)),
        (Options, {"point": {"x": 2}}, {"point": Point(x=2)}),
        (Annotated[Party, Field(description="The party.")], {"host": AL, "others": []}, Party(GUEST, [])),
    ],
)
def test_the_function_gets_what_it_declares(annotation, value, found):
    """Instances of its classes, whatever they are part of."""
    made = read(annotation, value)

    assert made == found
    assert type(made) is type(found)


def test_secrets_and_addresses_are_types_like_others():
    """Whatever pydantic can describe."""
    assert read(pydantic.SecretStr, "hidden").get_secret_value() == "hidden"
    assert str(read(pydantic.HttpUrl, "https://example.com/x")) == "https://example.com/x"


def test_the_schema_is_pydantics_own():
    """With descriptions and constraints, and without titles that only repeat a name."""
    schema = described(list[Guest]).parameters

    assert schema["properties"]["x"] == {"type": "array", "items": {"$ref": "#/$defs/Guest"}}
    guest = schema["$defs"]["Guest"]
    assert guest["description"] == "Somebody who comes."
    assert guest["properties"]["fullName"] == {"type": "string", "minLength": 1}
    assert guest["properties"]["age"] == {"type": "integer", "minimum": 0, "description": "In years."}
    assert guest["required"] == ["fullName", "age"]
    assert "title" not in json.dumps(schema)


def test_two_classes_of_one_name_stay_two():
    """Each reference leads to its own, also from within."""

    def of(kind):
        inner = pydantic.create_model("Inner", value=(kind, ...))
        return pydantic.create_model("Outer", inner=(list[inner], ...))

    def both(a: list[of(int)], b: list[of(str)], c: list[Guest]) -> None: ...

    both.__doc__ = "Do it."
    both.__annotations__ = {"a": list[of(int)], "b": list[of(str)], "c": list[Guest]}
    schema = describe_function(both).parameters

    assert sorted(schema["$defs"]) == ["Guest", "Inner", "Inner_2", "Outer", "Outer_2"]
    good = {"a": [{"inner": [{"value": 1}]}], "b": [{"inner": [{"value": "x"}]}], "c": []}
    jsonschema.validate(good, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, "b": [{"inner": [{"value": 1}]}]}, schema)


def test_a_field_may_be_called_defs():
    """Names of a model's fields are no keywords."""
    model = pydantic.create_model("Odd", **{"title": (str, ...), "discriminator": (int, ...)})
    odd = pydantic.create_model("Outer", odd=(model, Field(alias="$defs")), ref=(str, Field(alias="$ref")))

    found = read(list[odd], [{"$defs": {"title": "x", "discriminator": 1}, "$ref": "y"}])

    assert (found[0].odd.title, found[0].ref) == ("x", "y")


# Fields of parameters


def test_a_field_as_a_default_describes_its_parameter():
    """Description, constraint, alias and default, as in FastAPI; a default made anew for each call."""

    @tool
    def book(
        number: int = Field(ge=1, description="Which room."),
        nights: int = Field(default=2, le=30, alias="how_long"),
        guests: list[Guest] = Field(default_factory=list),  # noqa: B008
        note: Annotated[str, Field(max_length=5)] = "",
        extra: Annotated[list[int], Field(default_factory=list)] = [],  # noqa: B006
        context: ToolContext | None = None,
    ) -> str:
        """Book a room.

        Args:
            number: Not shown: the field says it.
            guests: Who comes.
        """
        guests.append(GUEST)
        return f"{number} {nights} {len(guests)} {note!r}"

    schema = book.definition.parameters
    assert schema["required"] == ["number"]
    assert schema["properties"]["number"] == {"type": "integer", "minimum": 1, "description": "Which room."}
    assert schema["properties"]["how_long"] == {"type": "integer", "maximum": 30, "default": 2}
    assert schema["properties"]["guests"]["description"] == "Who comes."
    assert schema["properties"]["note"] == {"type": "string", "maxLength": 5, "default": ""}
    assert list(schema["properties"]) == ["number", "how_long", "guests", "note", "extra"]
    with SyncFlexChat.from_model("rehearsal/any", tools=[book]) as chat:
        for _ in range(2):
            assert chat.call_tool("book", {"number": 7}).result == "7 2 1 ''"
        assert chat.call_tool("book", {"number": 7, "how_long": 3, "guests": [AL]}).result == "7 3 2 ''"
        wrong = chat.call_tool("book", {"number": 0, "how_long": 31, "note": "too long"})
    assert wrong.error.startswith("Invalid parameters: ")
    assert all(f"{name} must" in wrong.error for name in ("number", "how_long", "note"))


def test_a_default_in_annotated_is_one():
    description = described(Annotated[int, Field(default=3, ge=1)])

    assert "required" not in description.parameters
    assert bind(description, {}) == {"x": 3}


def test_a_model_as_a_default_is_shown_as_data():
    assert described(Point, Point(x=1)).parameters["properties"]["x"]["type"] == "object"
    assert described(Guest, GUEST).parameters["properties"]["x"]["default"]["fullName"] == "Al"


@pytest.mark.parametrize(
    ("annotation", "default", "words"),
    [
        (Annotated[int, Field(validation_alias=pydantic.AliasChoices("a", "b"))], ..., "its alias must be one name"),
        (Annotated[Party, Field(min_length=1)], ..., "pydantic cannot describe it"),
        (Annotated[Any, pydantic.SkipValidation], ..., None),
        (pydantic.InstanceOf[Party], ..., "pydantic cannot describe it"),
    ],
)
def test_what_pydantic_cannot_describe_is_refused_when_the_tool_is_made(annotation, default, words):
    """With the parameter, the annotation and the reason; not at the first call."""
    if words is None:
        described(annotation, default)
        return
    with pytest.raises(ToolDefinitionError, match="Tool function function: parameter 'x': ") as caught:
        described(annotation, default)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_parameters_of_one_name_are_refused():
    def book(a: int, b: Annotated[int, Field(alias="a")]) -> None:
        """Book."""

    with pytest.raises(ToolDefinitionError, match="two parameters are called 'a'"):
        describe_function(book)


# What is wrong with a call


@tool(effect="read")
def check_in(room: Room, pet: Pet | None = None, url: pydantic.HttpUrl | None = None) -> int:
    """Check in."""
    return len(room.guests)


def room(**changes):
    return {"room": {"number": 1, "guests": [{**AL, **changes}]}}


@pytest.mark.parametrize(
    ("params", "error"),
    [
        (room(age=-1), "room.guests[0].age must be at least 0 (got -1)"),
        (room(age=99), "room.guests[0]: nobody of that age comes"),
        (room(fullName=""), "room.guests[0].fullName must have at least 1 character (got 0)"),
        (room(born="later"), 'room.guests[0].born must be a valid date or datetime, input is too short (got "later")'),
        ({"room": {"number": 1, "guests": [{"age": 1}]}}, "missing 'fullName' in room.guests[0]"),
        ({"room": {"number": 1, "guests": [], "sea": 1}}, "unknown parameter 'room.sea'"),
        ({**room(), "pet": {"kind": "dog"}}, "missing 'name' in pet"),
        ({**room(), "url": "nowhere"}, 'url must be a valid URL, relative URL without a base (got "nowhere")'),
        ({}, "missing 'room'"),
    ],
)
@pytest.mark.parametrize("detail", ["message", "incident"])
def test_what_is_wrong_is_said_in_a_sentence(params, error, detail):
    """Which value and what it must be; never pydantic's own report, and also where errors of tools are numbers."""
    config = {
        "llms": {"m": {"provider": "rehearsal"}},
        "tools": {"error_detail": detail},
        "responses": [{"llm": "m", "model": "m", "tools": {}}],
    }
    with SyncFlexChat.from_config(config, tools=[check_in]) as chat:
        result = chat.call_tool("check_in", params)

    assert result.explained().startswith("Invalid parameters: ")
    if "unknown" not in error:
        assert result.explained() == f"Invalid parameters: {error}"
    assert "pydantic" not in result.explained()
    assert "\n" not in result.explained()


def test_several_problems_are_told_together_and_not_without_end():
    guests = [{**AL, "age": 99}] * 20

    with pytest.raises(ValueError, match=r"x\[0\]: nobody .*; x\[4\]: nobody of that age comes; and 15 more problems"):
        bind(described(list[Guest]), {"x": guests})


async def test_what_a_validator_raises_otherwise_is_an_error_of_the_tool():
    """Nothing gets through to the turn."""

    class Odd(BaseModel):
        value: int

        @pydantic.field_validator("value")
        @classmethod
        def _broken(cls, value: int) -> int:
            raise LookupError("no table")

    @tool
    def use(odd: Odd) -> None:
        """Use it."""

    async with FlexChat.from_model("rehearsal/any", tools=[use]) as chat:
        result = await chat.call_tool("use", {"odd": {"value": 1}})

    assert not result.success
    assert "no table" in result.error


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["number", "guests", "fullName", "age", "kind", "x", "born"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)
MANY = describe_function(check_in.function)


@given(values, values)
def test_any_data_is_taken_or_refused_in_one_line(first, second):
    """A ValueError with a short text, whatever a model sends."""
    told = ""
    try:
        bind(MANY, {"room": first, "pet": second})
    except ValueError as error:
        told = str(error)
    assert "\n" not in told
    assert len(told) < 3000


# Whom it is sent to


@tool
def plan(
    guests: list[Guest],
    pet: Pet,
    party: Party,
    nights: Annotated[int, Field(ge=1, le=30)] = 1,
    tree: Tree | None = None,
) -> None:
    """Plan a stay."""


DIALECTS = {
    name: dialect
    for kind in installed_plugins().providers.by_name.values()
    for name, dialect in kind.schema_dialects.items()
}


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_can_say_it(name):
    """Or says why not; what it says accepts what the tool accepts."""
    whole = rewrite(plan.definition.parameters, DIALECTS[name])
    if whole.schema is None:
        assert any("write out as many levels as needed" in note.message for note in whole.notes)
    flat = {**plan.definition.parameters, "$defs": dict(plan.definition.parameters["$defs"])}
    flat["properties"] = {key: each for key, each in flat["properties"].items() if key != "tree"}
    del flat["$defs"]["Tree"]
    made = rewrite(flat, DIALECTS[name])

    assert made.schema is not None, made.notes
    if name not in ("gemini.parameters", "openai.strict", "anthropic.strict"):  # types in capitals; nothing optional
        jsonschema.validate(
            {
                "guests": [AL],
                "pet": {"kind": "dog", "name": "Rex"},
                "party": {"host": AL, "others": []},
                "nights": 2,
            },
            made.schema,
        )


# Answers


@pytest.mark.parametrize(
    ("form", "text", "found"),
    [
        (Guest, '{"fullName": "Al", "age": 3}', GUEST),
        (list[Guest], '[{"fullName": "Al", "age": 3}]', [GUEST]),
        (Tree, '{"value": 1, "branches": [{"value": 2}]}', Tree(value=1, branches=[Tree(value=2)])),
        (Cat | Dog, '{"kind": "cat", "lives": 9}', Cat(kind="cat", lives=9)),
        (Trip, '{"guest": {"fullName": "Al", "age": 3}}', Trip(GUEST)),
    ],
)
def test_an_answer_may_be_a_model_or_hold_one(form, text, found):
    """As response_format."""
    made = answer_format(form)

    assert made.format.schema["type"] == "object"
    assert schema_problems(made.format.schema) == []
    assert made.read(text) == found


def test_an_answer_that_a_model_refuses_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"^the answer: nobody of that age comes$"):
        answer_format(Guest).read('{"fullName": "Al", "age": 99}')


# Without pydantic


@pytest.mark.slow
def test_pydantic_is_not_imported_by_what_does_not_need_it():
    """Not even where it is installed."""
    code = (
        "import sys, attrs\nfrom flexchat import tool, SyncFlexChat\n"
        "@attrs.frozen\nclass A:\n    x: int\n"
        "@tool\ndef f(a: A, b: list[int] | None = None) -> int:\n    'Do it.'\n    return a.x\n"
        "chat = SyncFlexChat.from_model('rehearsal/any', tools=[f])\n"
        "assert chat.call_tool('f', {'a': {'x': 1}}).result == 1\nchat.close()\n"
        "print('pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.slow
def test_constraints_of_annotated_types_need_no_pydantic():
    """They are a package of their own, and were silently lost."""
    code = (
        "import sys, annotated_types as at\nfrom typing import Annotated\nfrom flexchat import tool\n"
        "@tool\ndef f(a: Annotated[int, at.Ge(1), at.Lt(9)], b: Annotated[list[str], at.Len(1, 3)]):\n    'Do.'\n"
        "print(f.definition.parameters['properties'], 'pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout == (
        "{'a': {'type': 'integer', 'minimum': 1, 'exclusiveMaximum': 9}, "
        "'b': {'type': 'array', 'items': {'type': 'string'}, 'minItems': 1, 'maxItems': 3}} False\n"
    )
