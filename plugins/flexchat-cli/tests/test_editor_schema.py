"""The JSON Schema of a configuration: it takes what reading takes, and marks typing errors."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import jsonschema
import pytest
import tomli
from flexchat.config.reading import read_config
from flexchat.plugin import ConfigTable, Implementation, ImplementationType, ToolDefinition, ToolHandler, hookimpl
from flexchat.plugin.host import PluginHost
from flexchat.store import ConversationStoreType, DocumentStoreType
from flexchat_builtin import plugin as builtin
from flexchat_cli import config_schema
from flexchat_sdk import ProviderType

DOCS = Path(__file__).parents[3] / "docs" / "config.md"


@attrs.frozen(kw_only=True)
class Reply:
    text: str | None = None
    weights: tuple[float, ...] = ()


@attrs.frozen(kw_only=True)
class OpenAIish:
    """A service.

    Attributes:
        base_url: Where it is, with a path
            but without a query.
        low, high: Bounds.
    """

    base_url: str = "https://example.com"
    low: int = 1
    high: int = 2
    api_key: str | None = attrs.field(default="none", metadata={"secret": True, "help": "The key."})
    timeout_s: float = attrs.field(default=60.0, metadata={"above": 0, "help": "Seconds."})
    mode: Literal["fast", "exact"] = "fast"
    reply: Reply | None = None
    stop: str | list[str] | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Scripted:
    replies: tuple[Reply, ...] = ()


@attrs.frozen(kw_only=True)
class Mock:
    mock_response: Any


@attrs.frozen(kw_only=True)
class Builtin:
    handler: str | None = None


def create(*_):
    raise NotImplementedError


class Kinds:
    """Two providers, two ways to run a tool, a store of each kind, and a tool."""

    @hookimpl
    def flexchat_register_providers(self):
        yield ProviderType(name="openai", config_class=OpenAIish, create=create, tool_formats={})
        yield ProviderType(name="scripted", config_class=Scripted, create=create, tool_formats={})

    @hookimpl
    def flexchat_register_implementation_types(self):
        yield ImplementationType(name="mock", settings_class=Mock, run=create)
        yield ImplementationType(name="builtin", settings_class=Builtin, run=create)

    @hookimpl
    def flexchat_register_document_stores(self):
        yield DocumentStoreType(name="memory", config_class=Scripted, create=create)

    @hookimpl
    def flexchat_register_conversation_stores(self):
        yield ConversationStoreType(name="sqlite", config_class=Scripted, create=create)

    @hookimpl
    def flexchat_register_tools(self):
        parameters, implementation = {"type": "object"}, Implementation(type="mock")
        yield ToolDefinition(name="calculator", description="d", parameters=parameters, implementation=implementation)


def schema_with(plugin):
    host = PluginHost()
    host.register(plugin, "kinds")
    return config_schema(host)


SCHEMA = schema_with(Kinds())

GOOD: dict[str, Any] = {
    "$schema": "./flexchat.schema.json",
    "comment": "c",
    "llms": {
        "a": {"provider": "openai", "default_model": "m", "timeout_s": 3, "stop": ["x"], "extra": {"any": [1]}},
        "b": {"provider": "scripted", "replies": [{"text": "t", "weights": [1]}], "_note": 1},
    },
    "stores": {"docs": {"provider": "memory"}},
    "topic": {"llm": "a"},
    "intent": {"detection": {"support": "help"}},
    "tools": {
        "max_iterations": 3,
        "registry": [
            {"name": "calculator", "description": "d"},
            {
                "name": "w",
                "description": "d",
                "parameters": {"type": "object"},
                "implementation": {"type": "mock", "mock_response": None},
            },
        ],
    },
    "responses": [
        {"llm": "a", "match": {"intent_regexp": "/x/", "rag_results": "any", "service": "docs"}, "temperature": 0},
        {"llm": "b", "model": "m", "tools": {"allowed_tools": ["w"]}},
    ],
}


def valid(data: Any) -> bool:
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(data)


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    assert json.loads(json.dumps(SCHEMA, allow_nan=False)) == SCHEMA


def test_a_good_configuration_is_taken_by_both():
    """By the schema and by reading."""
    assert [*jsonschema.Draft202012Validator(SCHEMA).iter_errors(GOOD)] == []
    assert read_config(GOOD).problems == []


def changed(place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    data = json.loads(json.dumps(GOOD))
    parent = data
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    return data


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("colour",), 1),
        (("llms", "a", "base_uri"), "x"),
        (("llms", "a", "replies"), []),
        (("llms", "a", "provider"), "opnai"),
        (("llms", "a", "timeout_s"), 0),
        (("llms", "a", "timeout_s"), "60"),
        (("llms", "a", "retries"), 11),
        (("llms", "a", "mode"), "slow"),
        (("llms", "a", "reply"), {"txt": "x"}),
        (("llms", "a", "headers"), {"x": 1}),
        (("llms", "b", "replies", 0, "text"), 1),
        (("tools", "max_iterations"), 0),
        (("tools", "registry", 0, "name"), "calculater"),
        (("tools", "registry", 1, "name"), "get weather"),
        (("tools", "registry", 1, "implementation"), {"type": "mock"}),
        (("tools", "registry", 1, "implementation", "handler"), "x"),
        (("tools", "registry", 1), {"name": "w", "implementation": {"type": "builtin"}}),
        (("responses", 0, "modle"), "x"),
        (("responses", 0, "match", "topc"), "x"),
        (("responses", 0, "match", "rag_results"), "all"),
        (("responses", 0, "temperature"), 3),
        (("responses", 1), {"model": "m"}),
        (("responses", 1, "tools", "allowed_tools"), "w"),
        (("topic", "lm"), "a"),
        (("stores", "docs", "provider"), "chroma"),
    ],
)
def test_a_typing_error_is_marked(place, value):
    assert not valid(changed(place, value))


def test_a_file_without_services_or_rules_is_marked():
    assert not valid({"llms": {}})


def test_keys_are_described_with_their_defaults_and_limits():
    """From the metadata "help", else from the docstring; the default of a secret is not shown."""
    branch = SCHEMA["$defs"]["LLMEntry"]["allOf"][0]["then"]["properties"]

    assert branch["base_url"] == {
        "type": "string",
        "description": "Where it is, with a path but without a query.",
        "default": "https://example.com",
    }
    assert branch["low"]["description"] == branch["high"]["description"] == "Bounds."
    assert branch["timeout_s"] == {"type": "number", "description": "Seconds.", "exclusiveMinimum": 0, "default": 60.0}
    assert branch["api_key"] == {"type": "string", "description": "The key."}
    assert SCHEMA["$defs"]["ToolsTable"]["properties"]["max_iterations"]["maximum"] == 50


def test_without_plugins_there_is_a_schema_still():
    bare = config_schema(PluginHost())

    jsonschema.Draft202012Validator.check_schema(bare)
    assert jsonschema.Draft202012Validator(bare).is_valid({"llms": {}, "responses": []})


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_of_the_documentation_are_read_without_a_problem(tmp_path):
    """TC-104: docs/config.md, the TOML one by the schema as well."""
    toml = "\n".join(block for block in blocks("toml") if "include = " not in block)
    (old,) = blocks("json")
    for name, text in (("flexchat.toml", toml), ("config.json", old)):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")

        reading = read_config(path, environ={"OPENAI_API_KEY": "sk-12345678"})

        assert [*map(str, reading.problems), *map(str, reading.notes)] == []
    assert [*jsonschema.Draft202012Validator(SCHEMA).iter_errors(tomli.loads(toml))] == []


def test_the_examples_in_yaml_and_in_several_files_are_read_without_a_problem(tmp_path):
    """As the page says where they are; the catch-all stands in the file included last."""
    alone, included = blocks("yaml")
    (main,) = [block for block in blocks("toml") if "include = " in block]
    files = {
        "flexchat.yaml": alone,
        "flexchat.toml": main,
        "rules/support.yaml": included,
        "tools.toml": "",
        "prompts/invoices.md": "Invoices.",
        "prompts/support.md": "Support.",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    several, one = (read_config(tmp_path / name, environ={}) for name in ("flexchat.toml", "flexchat.yaml"))

    assert [*map(str, (*several.problems, *several.notes, *one.problems, *one.notes))] == []
    assert [rule.prompt for rule in several.finish().responses] == ["Invoices.", "Support.", "Be brief."]
    assert len(one.finish().responses) == 2


def test_the_documentation_names_every_key():
    """A key of the model that docs/config.md does not name is one nobody will find."""
    text = DOCS.read_text(encoding="utf-8")
    core = ["LLMEntry", "ResponseRule", "RuleTools", "ToolsTable", "ToolEntry", "LimitsTable", "PluginsTable"]
    keys = {key for name in core for key in SCHEMA["$defs"][name]["properties"]} - {"type"}

    assert [key for key in sorted(keys | {*SCHEMA["properties"]}) if key not in text] == []


class Dice:
    """A plugin with a table, and a tool handler with settings."""

    @hookimpl
    def flexchat_register_config_tables(self):
        yield ConfigTable(name="glossary", load=lambda: Reply, summary="Words.")
        yield ConfigTable(name="words", load=lambda: Reply, summary="Words.", is_list=True)

    @hookimpl
    def flexchat_register_tool_handlers(self):
        yield ToolHandler(kind="builtin", name="roll", call=lambda params, context: 1, settings_class=OpenAIish)


def host():
    host = PluginHost()
    host.register(builtin, "builtin", "flexchat-builtin 0.1.0")
    host.register(Dice(), "dice", "acme-dice 1.0")
    return host


def test_a_plugins_table_is_in_the_schema():
    """With its description; the class is loaded for it."""
    schema = config_schema(host())

    one = {"$ref": "#/$defs/Reply"}
    assert schema["properties"]["glossary"] == {**one, "description": "Words."}
    assert schema["properties"]["words"] == {"type": "array", "items": one, "description": "Words."}
    assert schema["$defs"]["Reply"]["properties"]["text"] == {"type": "string"}
    assert "tables" not in schema["properties"]


def test_the_schema_includes_a_handlers_settings():
    """In the branch of the implementation type that runs it."""
    branches = config_schema(host())["$defs"]["ImplementationEntry"]["allOf"]

    (builtins,) = [b["then"]["properties"] for b in branches if b["if"]["properties"]["type"]["const"] == "builtin"]
    assert builtins["timeout_s"]["exclusiveMinimum"] == 0
