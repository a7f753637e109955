"""The door for programs that stand on the whole of FlexChat: flexchat-validation, flexchat-testing, and others.

Re-exports only. What an app needs is in ``flexchat``, what a plugin needs in ``flexchat.plugin``. A name is
imported when it is asked for, so that a plugin may use this door and stay light.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .assembly import check_config, config_schema, installed_plugins, run_checks
    from .calls.manager import ToolLike, ToolManager
    from .cli.conversations_store import add_tenant_argument, conversation_store, short_id
    from .cli.conversations_store import find as find_conversation
    from .cli.log import one_note_for_each_service
    from .cli.opening import config_file, introduce, open_chat, open_tools, the_config
    from .cli.terminal import Style, Terminal, one_line
    from .cli.usage import FAILED, INTERRUPTED, OK, UNUSABLE, UsageError
    from .config.document import MAX_BYTES, document_of, read_document
    from .config.document import Document as ConfigDocument
    from .config.keys import key
    from .config.model import Config, LLMEntry, ResponseRule, RuleTools
    from .config.patterns import MISSING, PatternError, compile_pattern
    from .config.reading import ReadConfig, read_config
    from .config.structure import structure, structure_mapping
    from .config.wording import is_secret_name, spoken_path
    from .conversations.view import Conversations
    from .domain import DEFAULT_TENANT
    from .domain.copies import copied
    from .domain.masking import Mask
    from .domain.text import scrub
    from .errors import ToolDefinitionError, UnknownNameError, did_you_mean, said_of_json, with_hint
    from .llms.breaker import OPEN as CIRCUIT_OPEN
    from .plugin.foreign import named
    from .plugin.host import ENTRY_POINT_GROUP, GATES_GROUP, PluginHost
    from .schema.check import ArgumentChecker
    from .schema.engine import Engine, TooMuchWorkError
    from .schema.limits import schema_problems
    from .schema.size import not_finite, size_problems
    from .schema.wording import sentence
    from .tools.python_function import answered_by
    from .tools.results import as_json

_HOMES = {
    "assembly": ("check_config", "config_schema", "installed_plugins", "run_checks"),
    "calls.manager": ("ToolLike", "ToolManager"),
    "cli.conversations_store": ("add_tenant_argument", "conversation_store", "find_conversation=find", "short_id"),
    "cli.log": ("one_note_for_each_service",),
    "cli.opening": ("config_file", "introduce", "open_chat", "open_tools", "the_config"),
    "cli.terminal": ("Style", "Terminal", "one_line"),
    "cli.usage": ("FAILED", "INTERRUPTED", "OK", "UNUSABLE", "UsageError"),
    "config.document": ("MAX_BYTES", "ConfigDocument=Document", "document_of", "read_document"),
    "config.keys": ("key",),
    "config.model": ("Config", "LLMEntry", "ResponseRule", "RuleTools"),
    "config.patterns": ("MISSING", "PatternError", "compile_pattern"),
    "config.reading": ("ReadConfig", "read_config"),
    "config.structure": ("structure", "structure_mapping"),
    "config.wording": ("is_secret_name", "spoken_path"),
    "conversations.view": ("Conversations",),
    "domain": ("DEFAULT_TENANT",),
    "domain.copies": ("copied",),
    "domain.masking": ("Mask",),
    "domain.text": ("scrub",),
    "errors": ("ToolDefinitionError", "UnknownNameError", "did_you_mean", "said_of_json", "with_hint"),
    "llms.breaker": ("CIRCUIT_OPEN=OPEN",),
    "plugin.foreign": ("named",),
    "plugin.host": ("ENTRY_POINT_GROUP", "GATES_GROUP", "PluginHost"),
    "schema.check": ("ArgumentChecker",),
    "schema.engine": ("Engine", "TooMuchWorkError"),
    "schema.limits": ("schema_problems",),
    "schema.size": ("not_finite", "size_problems"),
    "schema.wording": ("sentence",),
    "tools.python_function": ("answered_by",),
    "tools.results": ("as_json",),
}
"""The module of each name; NAME=OTHER: it is called OTHER there."""

_PLACES = {
    name: (module, there or name)
    for module, entries in _HOMES.items()
    for name, _, there in (entry.partition("=") for entry in entries)
}

__all__ = [
    "CIRCUIT_OPEN",
    "DEFAULT_TENANT",
    "ENTRY_POINT_GROUP",
    "FAILED",
    "GATES_GROUP",
    "INTERRUPTED",
    "MAX_BYTES",
    "MISSING",
    "OK",
    "UNUSABLE",
    "ArgumentChecker",
    "Config",
    "ConfigDocument",
    "Conversations",
    "Engine",
    "LLMEntry",
    "Mask",
    "PatternError",
    "PluginHost",
    "ReadConfig",
    "ResponseRule",
    "RuleTools",
    "Style",
    "Terminal",
    "TooMuchWorkError",
    "ToolDefinitionError",
    "ToolLike",
    "ToolManager",
    "UnknownNameError",
    "UsageError",
    "add_tenant_argument",
    "answered_by",
    "as_json",
    "check_config",
    "compile_pattern",
    "config_file",
    "config_schema",
    "conversation_store",
    "copied",
    "did_you_mean",
    "document_of",
    "find_conversation",
    "installed_plugins",
    "introduce",
    "is_secret_name",
    "key",
    "named",
    "not_finite",
    "one_line",
    "one_note_for_each_service",
    "open_chat",
    "open_tools",
    "read_config",
    "read_document",
    "run_checks",
    "said_of_json",
    "schema_problems",
    "scrub",
    "sentence",
    "short_id",
    "size_problems",
    "spoken_path",
    "structure",
    "structure_mapping",
    "the_config",
    "with_hint",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module 'flexchat.host' has no attribute {name!r}")
    module, there = _PLACES[name]
    found = globals()[name] = getattr(importlib.import_module(f"flexchat.{module}"), there)
    return found
