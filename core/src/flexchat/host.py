"""The door for programs built on all of FlexChat: flexchat-validation, flexchat-testing, and others.

Re-exports only. What an app needs is in ``flexchat``, what a plugin needs in ``flexchat.plugin``. A name is
imported on first access, so that a plugin may use this door and stay light.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .assembly import as_configured, check_config, config_schema, found_by_checks, installed_plugins, run_checks
    from .calls.claim import STORED_RESULT
    from .calls.manager import ToolLike, ToolManager
    from .calls.questions import reply_problem
    from .calls.rule_cost import rule_cost
    from .cli.context import CommandContext
    from .cli.conversations_store import complete_conversation, conversation_store, short_id, tenant_option
    from .cli.conversations_store import find as find_conversation
    from .cli.log import one_note_for_each_service
    from .cli.opening import introduce
    from .cli.parameters import FILE_NAME, SPOKEN, argument
    from .cli.questions import Questions, fields_of
    from .cli.terminal import Style, Terminal, one_line
    from .cli.tool_arguments import read_arguments
    from .cli.tools import named_tool, tool_name, tool_words
    from .cli.usage import FAILED, INTERRUPTED, OK, UNUSABLE, UsageError
    from .config.document import MAX_BYTES, ConfigDocument, document_of, parse_document, read_document, walk
    from .config.finding import find_config
    from .config.including import with_included
    from .config.keys import variable_value
    from .config.model import (
        Config,
        ConversationsTable,
        LimitsTable,
        LLMEntry,
        ReasoningTable,
        ResponseRule,
        RuleTools,
        StoreEntry,
        ToolsTable,
        own_keys,
    )
    from .config.normalise import normalise
    from .config.patterns import PatternError, compile_pattern
    from .config.positions import KeyPath
    from .config.reading import ReadConfig, digest_of, read_config
    from .config.structure import structure, structure_mapping
    from .config.variables import expand_variables
    from .config.wording import is_secret_name, is_secret_place, shortened, spoken_path
    from .config.yaml_writing import changed_yaml, dumped_yaml
    from .conversations.export import cost_by_rule
    from .conversations.view import Conversations
    from .domain import DEFAULT_TENANT, Happening, new_call_id
    from .domain.copies import copied
    from .domain.hidden import clean_schema, cleaned, hidden, visible
    from .domain.history import repair_history
    from .domain.journal_cost import cost_of_steps, rounds_of
    from .domain.keys import key
    from .domain.masking import Mask, secrets_of_environment
    from .domain.media import checked_media, in_brief, in_words
    from .domain.message_json import message_from_dict, message_to_dict
    from .domain.text import scrub, scrub_json
    from .errors import (
        ForgottenEventsError,
        ToolDefinitionError,
        UnknownLLMError,
        UnknownNameError,
        UnknownToolFormatError,
        did_you_mean,
        said_of_json,
        with_hint,
    )
    from .events.feed import Feed
    from .events.log import EventLog
    from .files import is_there, read_file, refuse_other
    from .http.trouble import NO_CONNECTION
    from .llms.llm import Llms
    from .plugin.current import current_info
    from .plugin.foreign import contained, error_name
    from .plugin.host import ENTRY_POINT_GROUP, GATES_GROUP, PluginHost
    from .request import LONGEST_KEY, is_key
    from .schema.check import ArgumentChecker
    from .schema.engine import SchemaEngine, limited_work
    from .schema.limits import UncheckedError, schema_problems
    from .schema.patterns import NOT_BLANK
    from .schema.size import not_finite, size_problems
    from .schema.value_problem import value_problem
    from .schema.wording import label, sentence
    from .services.breaker import OPEN as CIRCUIT_OPEN
    from .tools.cost import BYTES_PER_TOKEN, tokens_of
    from .tools.differences import differences
    from .tools.lint import lint_tools
    from .tools.python_function import answered_by
    from .tools.results import as_json, for_the_model
    from .turn.active import ActiveTurn
    from .turn.answer import TOO_MANY_CALLS
    from .turn.engine import TurnEngine
    from .turn.next_step import NextStep, next_step, why_no_answer
    from .turn.rounds import rounds
    from .turn.run import in_turn
    from .turn.run import read as read_turn
    from .turn.template import substitute_variables

_HOMES = {
    "assembly": (
        "as_configured",
        "check_config",
        "config_schema",
        "found_by_checks",
        "installed_plugins",
        "run_checks",
    ),
    "calls.manager": (
        "ToolLike",
        "ToolManager",
    ),
    "cli.context": ("CommandContext",),
    "cli.conversations_store": (
        "complete_conversation",
        "conversation_store",
        "find_conversation=find",
        "short_id",
        "tenant_option",
    ),
    "cli.log": ("one_note_for_each_service",),
    "cli.opening": ("introduce",),
    "cli.parameters": (
        "FILE_NAME",
        "SPOKEN",
        "argument",
    ),
    "cli.questions": (
        "Questions",
        "fields_of",
    ),
    "cli.terminal": (
        "Style",
        "Terminal",
        "one_line",
    ),
    "cli.tool_arguments": ("read_arguments",),
    "cli.tools": (
        "named_tool",
        "tool_name",
        "tool_words",
    ),
    "cli.usage": (
        "FAILED",
        "INTERRUPTED",
        "OK",
        "UNUSABLE",
        "UsageError",
    ),
    "config.document": (
        "ConfigDocument",
        "MAX_BYTES",
        "document_of",
        "parse_document",
        "read_document",
        "walk",
    ),
    "config.finding": ("find_config",),
    "config.including": ("with_included",),
    "config.model": (
        "Config",
        "ConversationsTable",
        "LLMEntry",
        "LimitsTable",
        "ReasoningTable",
        "ResponseRule",
        "RuleTools",
        "StoreEntry",
        "ToolsTable",
        "own_keys",
    ),
    "config.normalise": ("normalise",),
    "config.patterns": (
        "NoEngineError",
        "PatternError",
        "compile_pattern",
    ),
    "config.positions": ("KeyPath",),
    "config.reading": (
        "ReadConfig",
        "digest_of",
        "read_config",
    ),
    "config.structure": (
        "structure",
        "structure_mapping",
    ),
    "config.keys": ("variable_value",),
    "config.variables": ("expand_variables",),
    "config.yaml_writing": (
        "changed_yaml",
        "dumped_yaml",
    ),
    "config.wording": (
        "is_secret_name",
        "is_secret_place",
        "shortened",
        "spoken_path",
    ),
    "conversations.export": ("cost_by_rule",),
    "conversations.view": ("Conversations",),
    "domain": (
        "DEFAULT_TENANT",
        "Happening",
        "new_call_id",
    ),
    "domain.copies": ("copied",),
    "domain.history": ("repair_history",),
    "domain.journal_cost": (
        "cost_of_steps",
        "rounds_of",
    ),
    "domain.keys": ("key",),
    "domain.masking": (
        "Mask",
        "secrets_of_environment",
    ),
    "domain.media": (
        "checked_media",
        "in_brief",
        "in_words",
    ),
    "domain.message_json": (
        "message_from_dict",
        "message_to_dict",
    ),
    "domain.hidden": ("clean_schema", "cleaned", "hidden", "visible"),
    "domain.text": ("scrub", "scrub_json"),
    "errors": (
        "ForgottenEventsError",
        "ToolDefinitionError",
        "UnknownLLMError",
        "UnknownNameError",
        "UnknownToolFormatError",
        "did_you_mean",
        "said_of_json",
        "with_hint",
    ),
    "events.feed": ("Feed",),
    "events.log": ("EventLog",),
    "files": (
        "is_there",
        "read_file",
        "refuse_other",
    ),
    "http.trouble": ("NO_CONNECTION",),
    "services.breaker": ("CIRCUIT_OPEN=OPEN",),
    "llms.llm": ("Llms",),
    "plugin.current": ("current_info",),
    "plugin.foreign": (
        "contained",
        "error_name",
    ),
    "plugin.host": (
        "ENTRY_POINT_GROUP",
        "GATES_GROUP",
        "PluginHost",
    ),
    "schema.check": ("ArgumentChecker",),
    "schema.engine": (
        "SchemaEngine",
        "limited_work",
    ),
    "schema.limits": (
        "UncheckedError",
        "schema_problems",
    ),
    "schema.patterns": ("NOT_BLANK",),
    "schema.size": (
        "not_finite",
        "size_problems",
    ),
    "schema.value_problem": ("value_problem",),
    "schema.wording": (
        "label",
        "sentence",
    ),
    "calls.claim": ("STORED_RESULT",),
    "calls.questions": ("reply_problem",),
    "calls.rule_cost": ("rule_cost",),
    "request": ("LONGEST_KEY", "is_key"),
    "tools.cost": ("BYTES_PER_TOKEN", "tokens_of"),
    "tools.differences": ("differences",),
    "tools.lint": ("lint_tools",),
    "tools.python_function": ("answered_by",),
    "tools.results": (
        "as_json",
        "for_the_model",
    ),
    "turn.active": ("ActiveTurn",),
    "turn.answer": ("TOO_MANY_CALLS",),
    "turn.engine": ("TurnEngine",),
    "turn.next_step": (
        "NextStep",
        "next_step",
        "why_no_answer",
    ),
    "turn.rounds": ("rounds",),
    "turn.run": (
        "in_turn",
        "read_turn=read",
    ),
    "turn.template": ("substitute_variables",),
}
"""The module of each name; NAME=OTHER means its name there is OTHER."""

_PLACES = {
    name: (module, there or name)
    for module, entries in _HOMES.items()
    for name, _, there in (entry.partition("=") for entry in entries)
}
__all__ = [
    "BYTES_PER_TOKEN",
    "CIRCUIT_OPEN",
    "DEFAULT_TENANT",
    "ENTRY_POINT_GROUP",
    "FAILED",
    "FILE_NAME",
    "GATES_GROUP",
    "INTERRUPTED",
    "LONGEST_KEY",
    "MAX_BYTES",
    "NOT_BLANK",
    "NO_CONNECTION",
    "OK",
    "SPOKEN",
    "STORED_RESULT",
    "TOO_MANY_CALLS",
    "UNUSABLE",
    "ActiveTurn",
    "ArgumentChecker",
    "CommandContext",
    "Config",
    "ConfigDocument",
    "Conversations",
    "ConversationsTable",
    "EventLog",
    "Feed",
    "ForgottenEventsError",
    "Happening",
    "KeyPath",
    "LLMEntry",
    "LimitsTable",
    "Llms",
    "Mask",
    "NextStep",
    "PatternError",
    "PluginHost",
    "Questions",
    "ReadConfig",
    "ReasoningTable",
    "ResponseRule",
    "RuleTools",
    "SchemaEngine",
    "StoreEntry",
    "Style",
    "Terminal",
    "ToolDefinitionError",
    "ToolLike",
    "ToolManager",
    "ToolsTable",
    "TurnEngine",
    "UncheckedError",
    "UnknownLLMError",
    "UnknownNameError",
    "UnknownToolFormatError",
    "UsageError",
    "answered_by",
    "argument",
    "as_configured",
    "as_json",
    "changed_yaml",
    "check_config",
    "checked_media",
    "clean_schema",
    "cleaned",
    "compile_pattern",
    "complete_conversation",
    "config_schema",
    "contained",
    "conversation_store",
    "copied",
    "cost_by_rule",
    "cost_of_steps",
    "current_info",
    "did_you_mean",
    "differences",
    "digest_of",
    "document_of",
    "dumped_yaml",
    "error_name",
    "expand_variables",
    "fields_of",
    "find_config",
    "find_conversation",
    "for_the_model",
    "found_by_checks",
    "hidden",
    "in_brief",
    "in_turn",
    "in_words",
    "installed_plugins",
    "introduce",
    "is_key",
    "is_secret_name",
    "is_secret_place",
    "is_there",
    "key",
    "label",
    "limited_work",
    "lint_tools",
    "message_from_dict",
    "message_to_dict",
    "named_tool",
    "new_call_id",
    "next_step",
    "normalise",
    "not_finite",
    "one_line",
    "one_note_for_each_service",
    "own_keys",
    "parse_document",
    "read_arguments",
    "read_config",
    "read_document",
    "read_file",
    "read_turn",
    "refuse_other",
    "repair_history",
    "reply_problem",
    "rounds",
    "rounds_of",
    "rule_cost",
    "run_checks",
    "said_of_json",
    "schema_problems",
    "scrub",
    "scrub_json",
    "secrets_of_environment",
    "sentence",
    "short_id",
    "shortened",
    "size_problems",
    "spoken_path",
    "structure",
    "structure_mapping",
    "substitute_variables",
    "tenant_option",
    "tokens_of",
    "tool_name",
    "tool_words",
    "value_problem",
    "variable_value",
    "visible",
    "walk",
    "why_no_answer",
    "with_hint",
    "with_included",
]


def __getattr__(name: str) -> Any:
    """Import a name on first access."""
    if name not in _PLACES:
        raise AttributeError(f"module 'flexchat.host' has no attribute {name!r}")
    module, there = _PLACES[name]
    found = globals()[name] = getattr(importlib.import_module(f"flexchat.{module}"), there)
    return found
