"""flexchat tools: see them, run one."""

import json


def test_tools_are_listed_as_signatures(run):
    """Without a configuration: the ready-made tools."""
    ran = run("tools", "list")

    assert ran.status == 0
    assert "calculator(expression: string)\n" in ran.out
    assert "get_current_datetime(timezone?: string)\n" in ran.out
    assert "[builtin]" in ran.out


def test_the_tools_of_a_configuration_are_listed(run, script):
    script(tools='registry = [{ name = "calculator" }]')

    assert [tool["name"] for tool in json.loads(run("tools", "list", "--json").out)] == ["calculator"]


def test_no_tools_are_told(run, script):
    script(tools="registry = []")

    ran = run("tools", "list")

    assert (ran.status, ran.out) == (0, "")
    assert "no tools" in ran.err


def test_a_tool_is_shown_as_its_definition(run):
    shown = json.loads(run("tools", "show", "calculator").out)

    assert shown["name"] == "calculator"
    assert shown["parameters"]["required"] == ["expression"]
    assert shown["implementation"] == "builtin"


def test_a_tool_is_called_with_arguments_of_its_schemas_types(run, script):
    """What is typed is text; what the tool gets is what its schema says."""
    script(
        tools="""
        [[tools.registry]]
        name = "take"
        description = "Take all kinds."
        [tools.registry.implementation]
        type = "mock"
        responses = [{ when = { n = 2, x = 0.5, yes = true, s = "3", list = [1], any = "a b" }, response = "right" }]
        [tools.registry.parameters]
        type = "object"
        [tools.registry.parameters.properties]
        n = { type = "integer" }
        x = { type = "number" }
        yes = { type = "boolean" }
        s = { type = "string" }
        list = { type = "array" }
        any = {}
        """
    )

    ran = run("tools", "call", "take", "n=2", "x=0.5", "yes=true", "--verbose", "s=3", "list=[1]", "any=a b")

    assert (ran.status, ran.out) == (0, '"right"\n')


def test_arguments_may_be_one_json_object(run):
    ran = run("tools", "call", "calculator", '{"expression": "6 * 7"}')

    assert (ran.status, json.loads(ran.out)) == (0, {"result": 42})


def test_json_prints_the_specified_envelope(run):
    envelope = json.loads(run("tools", "call", "calculator", "expression=6*7", "--json").out)

    assert envelope.keys() == {"success", "result", "tool_name", "execution_time_ms"}


def test_a_failed_call_has_status_1_and_its_error_on_standard_error(run):
    ran = run("tools", "call", "calculator", "expression=1/0")

    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("flexchat: calculator: ")


def test_arguments_that_the_schema_refuses_are_the_tools_error(run, script):
    """The check a model meets, with its text."""
    ran = run("tools", "call", "calculator")

    assert ran.status == 1
    assert "expression" in ran.err


def test_an_unknown_tool_is_a_usage_error_with_the_nearest_name(run):
    for verb in ("show", "call"):
        ran = run("tools", verb, "calcultor")

        assert ran.status == 2
        assert "did you mean 'calculator'?" in ran.err


def test_tools_that_need_a_store_are_not_offered_where_there_is_none(run):
    names = {tool["name"] for tool in json.loads(run("tools", "list", "--json").out)}

    assert "calculator" in names
    assert "search_documents" not in names
