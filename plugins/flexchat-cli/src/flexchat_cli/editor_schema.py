"""The JSON Schema of a configuration, for editors to complete and describe keys and mark typing errors.

It covers our own form and the installed plugins' tables. Source of the dialect: JSON Schema 2020-12. Tables are closed
with additionalProperties in each branch, which even old editors understand.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from flexchat.config.check import PROFILE_FIELDS, RAG_RESULTS
from flexchat.config.model import (
    Config,
    ConversationsTable,
    EffectsTable,
    ImplementationEntry,
    LLMEntry,
    ResponseRule,
    SourceEntry,
    StoreEntry,
    ToolEntry,
    ToolsTable,
    own_keys,
)
from flexchat.config.structure import is_list_type, is_names_type
from flexchat.plugin.host import PluginHost
from flexchat.plugin.records import Records
from flexchat.tools.python_function import PYTHON

Schema = dict[str, Any]

_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
}
_COMMENTS: Schema = {"^_": True, "^comment$": True}
_BOUNDS = {"min": "minimum", "max": "maximum", "above": "exclusiveMinimum"}


def config_schema(plugins: PluginHost) -> Schema:
    """Return the JSON Schema of a configuration, including the installed plugins' parts."""
    builder = _Builder(plugins)
    root = builder.table(Config)
    del root["properties"]["tables"]
    for name, table in sorted(plugins.config_tables.by_name.items()):
        description = {"description": table.summary} if table.summary else {}
        one = builder.reference(table.load())
        several = {"type": "object", "additionalProperties": one} if table.is_named else one
        root["properties"][name] = {**({"type": "array", "items": one} if table.is_list else several), **description}
    root["properties"]["$schema"] = {"type": "string", "description": "Where this schema is; for editors."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "FlexChat configuration",
        **root,
        "required": ["llms", "responses"],
        "$defs": builder.definitions,
    }


class _Builder:
    """A builder of schemas from attrs classes. Its state: the definitions made so far, one for each class."""

    def __init__(self, plugins: PluginHost) -> None:
        self.definitions: dict[str, Schema] = {}
        self._host = plugins
        implementations = (PYTHON, *plugins.implementation_types.by_name.values())
        # Of tables with further keys: the key that names a plugin, and the plugins' own classes.
        self._plugins: dict[type, tuple[str, dict[str, type]]] = {
            LLMEntry: ("provider", _config_classes(plugins.providers)),
            StoreEntry: ("provider", _config_classes(plugins.document_stores)),
            ConversationsTable: ("provider", _config_classes(plugins.conversation_stores)),
            ImplementationEntry: ("type", {kind.name: kind.settings_class for kind in implementations}),
        }

    def table(self, cls: type) -> Schema:
        """Return the closed schema of a class's table."""
        fields = [field for field in attrs.fields(cls) if field.init]
        hints, lines = typing.get_type_hints(cls), _attribute_lines(cls)
        schema: Schema = {"type": "object"}
        summary = (inspect.getdoc(cls) or "").partition("\n\n")[0]
        if summary and not summary.startswith(f"{cls.__name__}("):  # attrs and dataclasses put a signature there
            schema["description"] = " ".join(summary.split())
        schema["properties"] = {f.name: self._field(f, hints[f.name], lines.get(f.name)) for f in fields}
        required = [field.name for field in fields if field.default is attrs.NOTHING]
        if required:
            schema["required"] = required
        return {**schema, "patternProperties": _COMMENTS, "additionalProperties": False}

    def reference(self, cls: type) -> Schema:
        """Return a reference to the definition of a class's table."""
        return {"$ref": f"#/$defs/{self._define(cls)}"}

    def _field(self, field: attrs.Attribute[Any], hint: Any, line: str | None) -> Schema:
        schema = self._type(hint)
        text = field.metadata.get("help") or line
        if text:
            schema = {**schema, "description": text}
        schema |= {word: field.metadata[name] for name, word in _BOUNDS.items() if name in field.metadata}
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        if isinstance(default, (str, bool, int, float, list)) and not field.metadata.get("secret"):
            schema["default"] = default
        return schema

    def _type(self, hint: Any) -> Schema:
        """Return a new schema of a type."""
        if hint in _SCALARS:
            return dict(_SCALARS[hint])
        origin, args = get_origin(hint), get_args(hint)
        if origin is Literal:
            return {"enum": list(args)}
        if origin in (Union, types.UnionType):
            # "Not set" means leaving out the key: an editor need not offer null.
            kinds = [self._type(arg) for arg in args if arg is not type(None)]
            return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        if attrs.has(hint):
            return self.reference(hint)
        if is_list_type(hint):
            return {"type": "array", "items": self._type(args[0])} if args else {"type": "array"}
        if is_names_type(hint):
            return {"type": "object", "additionalProperties": self._type(args[1]) if args else True}
        return {}

    def _define(self, cls: type) -> str:
        name = cls.__name__
        if self.definitions.get(name, {}).get("$comment", cls.__module__) != cls.__module__:
            name = f"{cls.__module__}.{name}"
        if name not in self.definitions:
            self.definitions[name] = {"$comment": cls.__module__}  # reserves the name: a class may contain itself
            made = self._with_plugins(cls) if cls in self._plugins else self.table(cls)
            if cls is ResponseRule:
                made["properties"]["match"] = _match()
            if cls is EffectsTable:
                made["properties"]["store"]["enum"] = sorted({"memory", *self._plugins[ConversationsTable][1]})
            if cls is ToolEntry:
                made = self._tool(made)
            if cls is ToolsTable:
                del made["properties"]["sources"]
                sources = _config_classes(self._host.tool_sources)
                made["properties"] |= {name: self._source(sources[name]) for name in sorted(sources)}
            self.definitions[name] |= made
        return name

    def _with_plugins(self, cls: type) -> Schema:
        """Return the schema of a table whose further keys depend on the plugin it names."""
        key, kinds = self._plugins[cls]
        core = self.table(cls)
        core["properties"] = {name: core["properties"][name] for name in core["properties"] if name in own_keys(cls)}
        core["properties"][key] = {**core["properties"][key], "enum": sorted(kinds)}
        branches = [self._branch(core, key, name, kinds[name]) for name in sorted(kinds)]
        opened = {
            word: value for word, value in core.items() if word not in ("additionalProperties", "patternProperties")
        }
        return {**opened, **({"allOf": branches} if branches else {})}

    def _branch(self, core: Schema, key: str, name: str, cls: type) -> Schema:
        own = self.table(cls)
        # The tool's handler may be named outside this table, so the keys of all handlers are accepted here.
        of_handlers: Schema = {}
        for (kind, _), handler in self._host.handlers.by_name.items():
            if key == "type" and kind == name and handler.settings_class is not None:
                of_handlers |= self.table(handler.settings_class)["properties"]
        then = {
            "properties": {**of_handlers, **own["properties"], **core["properties"]},
            "required": own.get("required", []),
            "patternProperties": _COMMENTS,
            "additionalProperties": False,
        }
        return {"if": {"properties": {key: {"const": name}}, "required": [key]}, "then": then}

    def _source(self, cls: type) -> Schema:
        """Return the schema of the tables of one kind of tool source."""
        own, core = self.table(cls), self.table(SourceEntry)
        return {"type": "array", "items": {**own, "properties": {**own["properties"], **core["properties"]}}}

    def _tool(self, schema: Schema) -> Schema:
        """Add a tool's requirement: an implementation with description and parameters, or a ready-made tool's name.

        With sources installed, the name may be that of a source's tool.
        """
        schema["properties"]["name"]["pattern"] = "^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$"
        tools, sources = self._host.tools.by_name, self._host.tool_sources.by_name
        known: Schema = {"properties": {"name": {"enum": sorted(tools)}}}
        return {
            **schema,
            "if": {"required": ["implementation"]},
            "then": {"required": ["description", "parameters"]},
            "else": known if tools and not sources else {},
        }


def _config_classes(records: Records) -> dict[str, type]:
    return {name: kind.config_class for name, kind in records.by_name.items()}


def _match() -> Schema:
    """Return the schema of a rule's conditions."""
    properties: Schema = {}
    for field in PROFILE_FIELDS:
        properties[field] = {"type": "string", "description": f"The profile's {field} is exactly this."}
        properties[f"{field}_contains"] = {"type": "string", "description": f"The profile's {field} contains this."}
        properties[f"{field}_regexp"] = {
            "type": "string",
            "description": f"The profile's {field} fits this pattern: /body/flags, or the body alone.",
        }
    properties["rag_results"] = {
        "enum": list(RAG_RESULTS),
        "description": "How well documents fit; any: match or partial.",
    }
    properties["reasoning"] = {"type": "boolean", "description": "Whether the message asks for reasoning."}
    return {
        "type": "object",
        "description": "Conditions on the profile, all of which must hold; without any, the rule answers everything.",
        "properties": properties,
        "patternProperties": _COMMENTS,
        "additionalProperties": False,
    }


def _attribute_lines(cls: type) -> dict[str, str]:
    """Return each field's description in the docstring's Attributes section; an entry may name several."""
    section = (inspect.getdoc(cls) or "").partition("\nAttributes:\n")[2]
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        start = re.match(r"    ([a-z_]\w*(?:, [a-z_]\w*)*): (.*)", line)
        if start:
            names = start.group(1).split(", ")
            found |= dict.fromkeys(names, start.group(2).strip())
        elif line.startswith("        "):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
        elif line.strip():
            break
    return found
