"""@tool: a typed function becomes a tool and stays a function."""

import enum
from typing import Annotated, Literal

import pytest
from flexchat import FlexChat, FunctionTool, ToolContext, tool
from flexchat.calls.manager import ToolManager
from flexchat.domain import Implementation, ToolDefinition
from flexchat.errors import ToolDefinitionError
from flexchat.plugin.host import PluginHost
from flexchat.tools.python_function import PYTHON, PythonSettings


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


@tool
def forecast(city: str, days: int = 1, unit: Unit = Unit.C, mode: Literal["short", "long"] = "short") -> str:
    """Get the forecast of a city.

    Args:
        city: Its name.
        days: How many days ahead.
    """
    assert isinstance(unit, Unit)
    return f"{city} {days} {unit.name} {mode}"


async def run(name, params, *tools):
    manager = ToolManager()
    manager.add(tools)
    return await manager.get_executor().execute(name, params)


def test_the_definition_comes_from_signature_and_docstring():
    """Name, description, types, defaults, what is required."""
    definition = forecast.definition

    assert (definition.name, definition.description) == ("forecast", "Get the forecast of a city.")
    properties = definition.parameters["properties"]
    assert properties["city"] == {"type": "string", "description": "Its name."}
    assert properties["days"] == {"type": "integer", "description": "How many days ahead.", "default": 1}
    assert properties["unit"]["enum"] == ["celsius", "fahrenheit"]
    assert properties["mode"]["enum"] == ["short", "long"]
    assert definition.parameters["required"] == ["city"]


async def test_it_runs_with_python_values_and_is_still_a_function():
    """Enums arrive as enums; defaults are the function's own."""
    assert (await run("forecast", {"city": "Rome", "unit": "fahrenheit"}, forecast)).result == "Rome 1 F short"
    assert forecast("Oslo", 2) == "Oslo 2 C short"


def test_options_go_into_the_definition():
    """name, timeout_ms, exclusive, repeatable, description."""

    @tool(name="poll_job", description="Ask.", timeout_ms=50, exclusive=True, repeatable=True)
    def poll() -> str:
        return ""

    d = poll.definition
    assert (d.name, d.description, d.timeout_ms, d.exclusive, d.repeatable) == ("poll_job", "Ask.", 50, True, True)
    assert isinstance(poll, FunctionTool)
    assert tool(poll) is poll


async def test_annotated_parameters_carry_a_description():
    """Annotated[type, "what it is"]."""

    @tool
    async def area(width: Annotated[float, "in metres"], height: Annotated[float, "in metres"]) -> float:
        """Compute an area."""
        return width * height

    assert area.definition.parameters["properties"]["width"] == {"type": "number", "description": "in metres"}
    assert (await run("area", {"width": 2, "height": 2.5}, area)).result == 5.0


def test_a_function_that_cannot_be_described_says_why():
    """No docstring, *args, a type JSON does not have."""

    def silent(x: int) -> int:
        return x

    def many(*names: str) -> str:
        """Take many."""

    def odd(thing: complex) -> str:
        """Take one."""

    for function, word in ((silent, "docstring"), (many, "names"), (odd, "thing")):
        with pytest.raises(ToolDefinitionError, match=word):
            tool(function)


async def test_a_plain_function_may_be_given_as_a_tool():
    """@tool is not needed."""

    def double(number: int, context: ToolContext) -> int:
        """Double it."""
        assert context.tool.name == "double"
        return 2 * number

    assert (await run("double", {"number": 4}, double)).result == 8


async def test_a_config_may_name_a_function():
    """implementation = {type = "python", function = "module:name"}; what cannot be imported is said at load."""
    definition = ToolDefinition(
        name="join",
        description="Join.",
        parameters={"type": "object", "properties": {"name": {"type": "string"}}},
        implementation=Implementation(type="python", settings=PythonSettings(function="textwrap:dedent")),
    )
    for reference, words in (("nowhere:x", "nowhere"), ("textwrap:nothing", "nothing"), ("textwrap", "module:name")):
        problem = PYTHON.check(PythonSettings(function=reference), definition, PluginHost().handlers.by_name)
        assert words in problem


def test_a_module_that_fails_without_a_word_is_told_by_its_exceptions_class(tmp_path, monkeypatch):
    (tmp_path / "wordless_module.py").write_text("raise ValueError\n")
    monkeypatch.syspath_prepend(tmp_path)

    settings = PythonSettings(function="wordless_module:f")
    described = ToolDefinition(
        name="f",
        description="-",
        parameters={"type": "object"},
        implementation=Implementation(type="python", settings=settings),
    )
    trouble = PYTHON.check(settings, described, {})

    assert trouble == "function 'wordless_module:f' cannot be used: ValueError"


def unannotated(amount, context):
    """Pay."""


def test_a_context_without_annotation_is_told_how_to_get_one():
    """In a config, a bare `context` looks like a parameter that the definition forgot."""
    settings = PythonSettings(function=f"{__name__}:unannotated")
    parameters = {"type": "object", "properties": {"amount": {}}, "required": ["amount"]}
    implementation = Implementation(type="python", settings=settings)
    definition = ToolDefinition(name="pay", description="Pay.", parameters=parameters, implementation=implementation)

    problem = PYTHON.check(settings, definition, {})

    assert problem is not None
    assert problem.endswith("the tool's parameters do not have (annotate it: context: ToolContext)")


def post(to, *rest, context: ToolContext, **more):
    """Post."""
    return {"to": to, "rest": rest, **more}


async def test_arguments_that_only_the_schema_names_reach_the_keywords_of_a_function():
    """**kwargs needs no names where the configuration has the schema; other names of a model's stay out."""
    names = {"to": {"type": "string"}, "subject": {"type": "string"}}
    entry = {
        "name": "post",
        "description": "Post.",
        "parameters": {"type": "object", "properties": names, "required": ["to"]},
        "implementation": {"type": "python", "function": f"{__name__}:post"},
    }
    config = {"llms": {"r": {"provider": "rehearsal"}}, "responses": [{"llm": "r", "model": "m"}]}
    async with FlexChat.from_config({**config, "tools": {"registry": [entry]}}) as chat:
        result = await chat.call_tool("post", {"to": "Ada", "subject": "Hi", "color": "red", "context": 5})

    assert result.result == {"to": "Ada", "rest": [], "subject": "Hi"}


def _defined(function, **properties):
    parameters = {"type": "object", "properties": properties, "required": [*properties][:1]}
    settings = PythonSettings(function=f"{__name__}:{function}")
    implementation = Implementation(type="python", settings=settings)
    return ToolDefinition(name=function, description="Send.", parameters=parameters, implementation=implementation)


TEXT = {"type": "string"}


@pytest.mark.parametrize("given", [{"to": "ada", "subject": "hi", "$top": "1"}, {"to": "ada"}])
async def test_kwargs_take_any_name_of_the_schema(given):
    definition = _defined("post", **dict.fromkeys(given, TEXT))
    assert PYTHON.check(definition.implementation.settings, definition, {}) is None

    assert (await run("post", given, definition)).result == {**given, "rest": []}


def test_kwargs_take_neither_the_context_nor_less_than_the_function_needs():
    context = _defined("post", to=TEXT, context=TEXT)
    without = _defined("post", subject=TEXT)

    assert "has no parameter 'context'" in PYTHON.check(context.implementation.settings, context, {})
    assert "needs 'to'" in PYTHON.check(without.implementation.settings, without, {})
