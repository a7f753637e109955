"""Functions described to a model, and called with what it sends."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, NotRequired, Optional, Required, TypedDict

import attrs
import pytest
from flexchat.errors import ToolDefinitionError
from flexchat.schema.check import ArgumentChecker
from flexchat.schema.from_function import bind, describe_function
from flexchat.schema.limits import schema_problems

if TYPE_CHECKING:
    from flexchat.plugin.contracts import ToolContext


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Address:
    """Where someone lives.

    Attributes:
        street: With the number.
    """

    street: str
    zip: Optional[int] = None  # noqa: UP045  # the old spelling is common
    tags: list[str] = dataclasses.field(default_factory=list)


@attrs.frozen
class Person:
    """A person."""

    name: str
    _age: int = attrs.field(validator=attrs.validators.ge(0))
    home: Address | None = None


class Options(TypedDict, total=False):
    """Options."""

    depth: Required[int]
    names: list[str]


class Pair(TypedDict):
    """Two."""

    one: int
    two: NotRequired[int]


UserId = NewType("UserId", int)


def described(annotation, default=...):
    """Return the schema of one parameter, and what binds it."""

    def function(x): ...

    function.__doc__ = "Do it."
    function.__annotations__ = {"x": annotation}
    if default is not ...:
        function.__defaults__ = (default,)
    description = describe_function(function)
    assert schema_problems(description.parameters) == []
    return description.parameters["properties"]["x"], lambda value: bind(description, {"x": value})["x"]


def test_a_function_is_described_by_its_signature_and_docstring():
    """The model is told names, types, defaults and what the docstring says."""

    def get_weather(location: str, days: int = 1, units: Literal["celsius", "fahrenheit"] = "celsius"):
        """Get the forecast of a city.

        It is only a forecast.

        Args:
            location: City name.
            days: How many days ahead.
        """

    description = describe_function(get_weather)

    assert description.name == "get_weather"
    assert description.description == "Get the forecast of a city."
    assert description.context_parameter is None
    assert description.parameters == {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "City name."},
            "days": {"type": "integer", "description": "How many days ahead.", "default": 1},
            "units": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        },
        "required": ["location"],
    }


UUID_TEXT = "123e4567-e89b-12d3-a456-426614174000"


@pytest.mark.parametrize(
    ("annotation", "schema", "sent", "read"),
    [
        (str, {"type": "string"}, "a", "a"),
        (int, {"type": "integer"}, 5.0, 5),
        (float, {"type": "number"}, 2, 2.0),
        (bool, {"type": "boolean"}, True, True),
        (None, {"type": "null"}, None, None),
        (Any, {}, [1], [1]),
        (list, {"type": "array"}, [1], [1]),
        (list[int], {"type": "array", "items": {"type": "integer"}}, [1, 2.0], [1, 2]),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}, ["a"], ["a"]),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}, ["a"], ("a",)),
        (
            tuple[str, int],
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2},
            ["a", 1],
            ("a", 1),
        ),
        (
            set[str],
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 1000},
            ["a", "b"],
            {"a", "b"},
        ),
        (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1.0}, {"a": 1}),
        (Mapping[str, Any], {"type": "object"}, {"a": 1}, {"a": 1}),
        (Literal["a", 1], {"enum": ["a", 1]}, "a", "a"),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, 2.0, 2),
        (Color, {"type": "string", "enum": ["red", "blue"]}, "red", Color.RED),
        (str | None, {"type": ["string", "null"]}, None, None),
        (int | str, {"type": ["integer", "string"]}, "a", "a"),
        (
            Color | None,
            {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "null"}]},
            "blue",
            Color.BLUE,
        ),
        (
            str | datetime.date,
            {"anyOf": [{"type": "string"}, {"type": "string", "format": "date"}]},
            "2026-05-01",
            datetime.date(2026, 5, 1),
        ),
        (Annotated[int, "Count"], {"type": "integer", "description": "Count"}, 1, 1),
        (Annotated[int, {"minimum": 1}, "n"], {"type": "integer", "minimum": 1, "description": "n"}, 1, 1),
        (UserId, {"type": "integer"}, 1, 1),
        (
            datetime.datetime,
            {"type": "string", "format": "date-time"},
            "2026-05-01T12:00:00Z",
            datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC),
        ),
        (datetime.date, {"type": "string", "format": "date"}, "2026-05-01", datetime.date(2026, 5, 1)),
        (datetime.time, {"type": "string", "format": "time"}, "12:30:00", datetime.time(12, 30)),
        (uuid.UUID, {"type": "string", "format": "uuid"}, UUID_TEXT, uuid.UUID(UUID_TEXT)),
        (
            Options,
            {
                "type": "object",
                "properties": {"depth": {"type": "integer"}, "names": {"type": "array", "items": {"type": "string"}}},
                "required": ["depth"],
            },
            {"depth": 1.0, "more": 2},
            {"depth": 1},
        ),
        (
            Pair,
            {
                "type": "object",
                "properties": {"one": {"type": "integer"}, "two": {"type": "integer"}},
                "required": ["one"],
            },
            {"one": 1},
            {"one": 1},
        ),
        (
            Address,
            {
                "type": "object",
                "properties": {
                    "street": {"type": "string", "description": "With the number."},
                    "zip": {"type": ["integer", "null"], "default": None},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["street"],
            },
            {"street": "S", "zip": 5.0},
            Address("S", 5),
        ),
    ],
)
def test_an_annotation_is_said_in_json_schema_and_read_back(annotation, schema, sent, read):
    """Each kind of annotation has its schema, and a JSON value becomes what is annotated."""
    found, bound = described(annotation)

    assert found == schema
    assert bound(sent) == read
    assert type(bound(sent)) is type(read)


def test_an_attrs_class_is_built_with_its_own_names():
    """Private fields lose the underscore, as in the constructor; nested classes are built too."""
    schema, bound = described(Person)

    assert schema["required"] == ["name", "age"]
    assert bound({"name": "A", "age": 3, "home": {"street": "S"}}) == Person("A", 3, Address("S"))


@pytest.mark.parametrize(
    ("annotation", "sent", "text"),
    [
        (datetime.datetime, "soon", 'x must be a date and time such as 2026-05-01T12:30:00Z (got "soon")'),
        (datetime.date | None, "soon", 'x must be a date such as 2026-05-01 (got "soon")'),
        (list[uuid.UUID], ["u"], f'x[0] must be a UUID such as {UUID_TEXT} (got "u")'),
        (Person, {"name": "A", "age": -1}, "x is no Person: "),
        (Person, {"name": "A"}, "missing 'age' in x"),
        (set[Any], [[1]], "x must be an array of texts or numbers"),
        (Color, "green", 'x must be one of: red, blue (got "green")'),
        (Literal[1], True, "x must be one of: 1 (got true)"),
        (tuple[int, int], [1], "x must be an array of 2 items"),
        (int, "a", "x must be an integer"),
        (float, "a", "x must be a number"),
        (dict[str, int], [], "x must be an object"),
        (Address, [], "x must be an object"),
        (int | str, None, "x must be an integer (got null) / x must be a string (got null)"),
    ],
)
def test_what_cannot_be_read_is_a_sentence_for_the_model(annotation, sent, text):
    """A ValueError names the place, what is wanted and what was got."""
    _, bound = described(annotation)

    with pytest.raises(ValueError) as caught:
        bound(sent)

    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("default", "shown"),
    [(5, 5), ("a", "a"), (None, None), (Color.RED, "red"), ([1], [1]), ((), []), ({"a": 1}, {"a": 1})],
)
def test_a_default_is_shown_if_it_is_json(default, shown):
    """The model sees what happens if it leaves a parameter out."""
    schema, _ = described(Any, default)

    assert schema == {"default": shown}


def test_a_default_that_is_no_json_makes_the_parameter_optional_only():
    """An object as default is not shown."""
    assert described(Any, object())[0] == {}
    assert described(Any, [object()])[0] == {}


def test_a_default_of_none_allows_null():
    """``x: int = None`` is written often and means what it says."""
    schema, bound = described(int, None)

    assert schema == {"type": ["integer", "null"], "default": None}
    assert bound(None) is None


def test_the_context_is_found_by_its_name_and_hidden():
    """A parameter annotated ToolContext is no business of the model, imported or not."""

    def plain(x: int, context: ToolContext):
        """Do it."""

    def optional(context: ToolContext | None = None, x: int = 1):
        """Do it."""

    assert describe_function(plain).context_parameter == "context"
    assert describe_function(optional).context_parameter == "context"
    assert [*describe_function(optional).parameters["properties"]] == ["x"]


def test_what_the_function_does_not_know_is_left_out():
    """Extra parameters are ignored (TE-8), absent ones left to the function's defaults."""

    def function(x: int = 1, y: int = 2):
        """Do it."""

    assert bind(describe_function(function), {"y": 5, "z": 1}) == {"y": 5}


def test_a_description_can_be_given_instead_of_the_docstring():
    """The docstring's parameters are read all the same."""

    def function(x):
        """:param x: What."""

    description = describe_function(function, description="Do it.")

    assert description.description == "Do it."
    assert description.parameters["properties"] == {"x": {"description": "What."}}


def test_a_method_and_a_callable_object_can_be_tools():
    """self is bound already."""

    class Greeter:
        """Greets."""

        def greet(self, name: str):
            """Greet someone."""

        def __call__(self, name):
            """Greet."""

    assert [*describe_function(Greeter().greet).parameters["properties"]] == ["name"]
    assert describe_function(Greeter()).name == "Greeter"


@dataclasses.dataclass
class Tree:
    """A tree."""

    children: list[Tree]


def _args(*args):
    """Do it."""


def _kwargs(**kwargs):
    """Do it."""


def _positional(x, /):
    """Do it."""


def _nameless(x: int): ...


def _unknown(x: Missing):  # noqa: F821
    """Do it."""


def _bytes(x: bytes):
    """Do it."""


def _keys(x: dict[int, str]):
    """Do it."""


def _tree(x: Tree):
    """Do it."""


def _no_type(x: [int]):
    """Do it."""


def _two_contexts(a: ToolContext, b: ToolContext):
    """Do it."""


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_args, "Tool function _args: parameter '*args' takes anything; name each parameter"),
        (_kwargs, "Tool function _kwargs: parameter '**kwargs' takes anything; name each parameter"),
        (_positional, "parameter 'x' cannot be given by name; take the '/' out of the signature"),
        (_nameless, "Tool function _nameless has no docstring; its first paragraph tells the model what the tool does"),
        (_unknown, "an annotation cannot be resolved: name 'Missing' is not defined"),
        (_bytes, "Tool function _bytes: parameter 'x': bytes cannot be expressed in JSON; use str, int,"),
        (_keys, "a dict with keys of int cannot be expressed in JSON; use dict[str, …]"),
        (_tree, "Tree contains itself"),
        (_no_type, "Tool function _no_type: parameter 'x': [<class 'int'>] is not a type"),
        (_two_contexts, "only one parameter can be the ToolContext"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_fix(function, text):
    """The error names the function, the parameter and what to write."""
    with pytest.raises(ToolDefinitionError) as caught:
        describe_function(function)

    assert text in str(caught.value)


def test_the_schema_of_a_function_checks_its_calls():
    """Described, checked, bound: the three fit together."""

    def plan(when: datetime.date, people: list[Person], color: Color = Color.RED):
        """Plan a trip."""

    description = describe_function(plan)
    sent = {"when": "2026-05-01", "people": '[{"name": "A", "age": "3"}]'}

    checked = ArgumentChecker(description.parameters).check(sent)

    assert checked.problems == ()
    assert bind(description, checked.params) == {"when": datetime.date(2026, 5, 1), "people": [Person("A", 3)]}


def test_what_cannot_be_called_as_a_tool_is_refused_when_it_is_described() -> None:
    """A method without its object, and what does not return its result in one piece."""

    class Shop:
        def price(self, name: str) -> int:
            """Tell a price."""
            return len(name)

    def steps() -> Any:
        """Count."""
        yield 1

    async def more_steps() -> Any:
        """Count."""
        yield 1

    with pytest.raises(ToolDefinitionError, match=r"tool\(thing\.price\)"):
        describe_function(Shop.price)
    for function in (steps, more_steps):
        with pytest.raises(ToolDefinitionError, match="generator"):
            describe_function(function)
    assert list(describe_function(Shop().price).parameters["properties"]) == ["name"]
    assert describe_function(functools.partial(Shop().price)).name == "price"
