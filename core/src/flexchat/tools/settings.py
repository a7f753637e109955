"""The implementation tables of the config's tools, structured for their implementation types."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from ..config.model import ImplementationEntry, own_keys
from ..domain import Implementation, ToolDefinition
from ..errors import FlexChatError, ToolDefinitionError, did_you_mean
from ..plugin.contracts import ImplementationType, ToolHandler
from ..plugin.foreign import error_name
from ..plugin.host import PluginHost
from .python_function import PYTHON
from .registry import ToolRegistry

if TYPE_CHECKING:
    from ..config.positions import KeyPath
    from ..config.reading import ReadConfig  # loads cattrs, needed only when a configuration is read

log = logging.getLogger(__name__)

Handlers = Mapping[tuple[str, str], ToolHandler]

_TEXTS = ("name", "description", "handler")
_EFFECT_KEYS = {"effect": str, "honours_key": bool, "verify": str}


@attrs.frozen
class ToolSettings:
    """The tools read from tools.registry.

    Attributes:
        structured: Each tool's implementation with structured settings, by index.
        left_out: Names of the unusable tools that are left out (tools.on_error), by index.
    """

    structured: dict[int, Implementation] = attrs.field(factory=dict)
    left_out: dict[int, str] = attrs.field(factory=dict)


def read_tool_settings(
    reading: ReadConfig, host: PluginHost, *, has_sources: bool = False, given: Collection[str] = ()
) -> ToolSettings:
    """Return the implementations of the entries of tools.registry.

    An unusable tool (a bad definition, an implementation type or handler that is not installed, a name that no plugin
    offers) is a problem of the reading or, with tools.on_error = "leave out", a note.

    Args:
        has_sources: A name that no plugin offers may be that of a source's tool, which is known only later.
        given: Names of the tools given in code, which an entry with a name alone changes.
    """
    tools = reading.document.data.get("tools")
    leave_out = isinstance(tools, Mapping) and tools.get("on_error") == "leave out"
    read = ToolSettings()
    for path, table in reading.tables("tools", "registry"):
        trouble = _entry_trouble(reading, host, path, table, read.structured)
        if trouble is None or ((has_sources or table["name"] in given) and _is_of_no_plugin(table, host)):
            continue
        where, text = trouble
        name = table["name"]
        text = text.removeprefix(f"Tool {name}: ")
        if leave_out:
            read.left_out[int(path[-1])] = name
            log.warning("tool %s is left out: %s", name, text)
            reading.note(path, f"tool '{name}' is left out: {text}")
        else:
            reading.problem(where, f"tool '{name}': {text}" if where == path and f"'{name}'" not in text else text)
    for place, allowed in allowed_tools(reading):
        if allowed in read.left_out.values():
            reading.note(place, f"tool '{allowed}' is left out, so it is not offered")
    return read


def allowed_tools(reading: ReadConfig) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the entries of all rules' lists of allowed tools, each behind its place."""
    for path, rule in reading.tables("responses"):
        tools = rule.get("tools")
        allowed = tools.get("allowed_tools") if isinstance(tools, Mapping) else None
        for index, name in enumerate(allowed if isinstance(allowed, list) else ()):
            yield (*path, "tools", "allowed_tools", index), name


def tool_trouble(tool: ToolDefinition, host: PluginHost) -> str | None:
    """Return the reason a tool made in code or by a plugin cannot run, in one sentence; None if it can."""
    kind = _type(tool.implementation.type, host)
    if kind is None:
        return host.implementation_types.missing(tool.implementation.type)
    settings = tool.implementation.settings
    if isinstance(settings, Mapping):
        (settings, _), problems = structured_settings(settings, kind, tool, host.handlers.by_name)
        if problems:
            return f"implementation: {'; '.join(problems)}"
    return _refusal(kind, settings, tool, host)


def handler_with_settings(
    kind: ImplementationType, table: Mapping[str, Any], handler: str | None, name: str, handlers: Handlers
) -> ToolHandler | None:
    """Return the handler that runs a tool if it has settings; None if it has none or does not exist.

    Args:
        table: The implementation table; its "handler" overrides the tool's, which overrides the tool's name (C9).
        handler: The tool's handler.
        name: The tool's name.
    """
    name_given = table.get("handler") or handler or name
    match = handlers.get((kind.name, name_given)) if isinstance(name_given, str) else None
    return match if match is not None and match.settings_class is not None else None


def keys_of(handler: ToolHandler | None, kind: ImplementationType) -> frozenset[str]:
    """Return the handler's keys."""
    if handler is None or handler.settings_class is None:
        return frozenset()
    theirs = {field.name for field in attrs.fields(handler.settings_class) if field.init}
    own = {field.name for field in attrs.fields(kind.settings_class) if field.init}
    return frozenset(theirs) - own - own_keys(ImplementationEntry)


def structured_settings(
    table: Mapping[str, Any], kind: ImplementationType, tool: ToolDefinition, handlers: Handlers
) -> tuple[tuple[Any, Any], list[str]]:
    """Return the settings of a tool made in code, its type's and its handler's, and their problems."""
    from ..config.structure import structure_mapping  # imports cattrs: only when needed

    handler = handler_with_settings(kind, table, tool.handler, tool.name, handlers)
    own = keys_of(handler, kind)
    settings, problems = structure_mapping({k: v for k, v in table.items() if k not in own}, kind.settings_class)
    of_handler: Any = None
    if handler is not None and handler.settings_class is not None:
        of_handler, more = structure_mapping({k: v for k, v in table.items() if k in own}, handler.settings_class)
        problems += more
    return (settings, of_handler), problems


def _entry_trouble(
    reading: ReadConfig,
    host: PluginHost,
    path: KeyPath,
    table: Mapping[str, Any],
    structured: dict[int, Implementation],
) -> tuple[KeyPath, str] | None:
    """Return where and why an entry is unusable; None if it is usable, or if core's or the type's keys are wrong."""
    implementation, name = table.get("implementation"), table.get("name")
    if any(not isinstance(table.get(key) or "", str) for key in _TEXTS):
        return None  # reported when core's own keys are structured, like the others below
    if not isinstance(table.get("parameters") or {}, Mapping) or not name:
        return None
    if implementation is None:
        return _offered_trouble(host, path, table)
    if not isinstance(implementation, dict) or not isinstance(implementation.get("type"), str):
        return None
    inside = (*path, "implementation")
    if name in host.tools.by_name and not (table.get("description") and table.get("parameters")):
        text = "an entry with an implementation defines a new tool: give it description and parameters, too, or leave"
        return path, f"{text} the implementation out to have the plugin's tool"
    kind = _type(implementation["type"], host)
    if kind is None:
        return (*inside, "type"), host.implementation_types.missing(implementation["type"])
    handler = handler_with_settings(kind, implementation, table.get("handler"), str(name), host.handlers.by_name)
    own = keys_of(handler, kind)
    settings = reading.settings(inside, own_keys(ImplementationEntry) | own, kind.settings_class)
    of_handler: Any = None
    if handler is not None and handler.settings_class is not None:
        of_handler = reading.settings(inside, implementation.keys() - own, handler.settings_class)
    if settings is None or (handler is not None and of_handler is None):
        return None
    ready = structured[int(path[-1])] = Implementation(type=kind.name, settings=settings, handler_settings=of_handler)
    try:
        tool = ToolDefinition(
            name=str(name),
            description=table.get("description") or "",
            parameters=table.get("parameters") or {},
            implementation=ready,
            handler=table.get("handler"),
            **{key: table[key] for key, kind in _EFFECT_KEYS.items() if isinstance(table.get(key), kind)},
        )
        ToolRegistry().register(tool)
    except FlexChatError as error:
        return path, str(error)
    refusal = _refusal(kind, settings, tool, host) or _missing_store(kind, settings, reading)
    return None if refusal is None else (inside, refusal)


def _is_of_no_plugin(table: Mapping[str, Any], host: PluginHost) -> bool:
    """Return whether an entry can only mean a tool of a source, or one given in code."""
    name = table["name"]
    return table.get("implementation") is None and name not in host.tools.by_name and name not in host.tools.conflicts


def _offered_trouble(host: PluginHost, path: KeyPath, table: Mapping[str, Any]) -> tuple[KeyPath, str] | None:
    name = table["name"]
    if name not in host.tools.by_name:
        own = "" if name in host.tools.conflicts else "; your own tool needs an 'implementation'"
        return path, f"{host.tools.missing(name)}{own}"
    changed = {key: table[key] for key in ("description", "parameters") if table.get(key) is not None}
    try:
        tool = attrs.evolve(host.tools.by_name[name], **changed)
        ToolRegistry().register(tool)
    except ToolDefinitionError as error:
        return path, str(error)
    trouble = tool_trouble(tool, host)
    return None if trouble is None else (path, trouble)


def _type(name: str, host: PluginHost) -> ImplementationType | None:
    return PYTHON if name == PYTHON.name else host.implementation_types.by_name.get(name)


def _refusal(kind: ImplementationType, settings: Any, tool: ToolDefinition, host: PluginHost) -> str | None:
    """Return the problem an implementation type finds with a tool; None if there is none."""
    try:
        refusal = kind.check(settings, tool, host.handlers.by_name) if kind.check is not None else None
    except Exception as error:  # noqa: BLE001  a plugin's code may raise anything, and then the tool is unusable
        return f"its check failed: {error_name(error)}"
    if refusal:
        # C9 decides which name counts; neither plugin has a handler that two offer, so its type found none.
        handler = (kind.name, getattr(settings, "handler", None) or tool.handler or tool.name)
        if handler in host.handlers.conflicts:
            return host.handlers.missing(handler)
    return refusal


def _missing_store(kind: ImplementationType, settings: Any, reading: ReadConfig) -> str | None:
    """Return a problem if a tool searches a document store that is not configured; otherwise None."""
    configured = reading.document.data.get("stores", {})
    if kind.stores is None or not isinstance(configured, Mapping):
        return None
    for name in kind.stores(settings):
        if name not in configured:
            listing = ", ".join(sorted(configured)) or "none"
            return f"no document store is called '{name}'{did_you_mean(name, configured)} (stores: {listing})"
    return None
