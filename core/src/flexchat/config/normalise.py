"""Conversion of the Node original's configurations into our form.

Every other module handles only one form. Keys written in the other form are moved where they belong
(ConfigDocument.moved keeps their place in the file), and a note marks a changed meaning. A configuration in our own
form gets no notes.

Source: the original's configuration reader; requirements C7, C8, C9, C23, C25.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import attrs

from ..domain.copies import copied
from ..errors import Problem, did_you_mean
from .document import ConfigDocument, Report
from .model import ToolEntry, own_keys
from .positions import KeyPath
from .structure import structure_mapping
from .wording import describe_value, format_path, quoted

Table = dict[str, Any]

NODE_PROVIDERS = ("openai", "ollama", "gemini")

_TOOLS: KeyPath = ("tools", "registry", "*")

# Tables whose keys are core's. Everything else is free-form or a plugin's, and is left alone.
_CORE_TABLES = (
    (),
    ("llms",),
    ("llms", "*"),
    ("stores",),
    ("stores", "*"),
    ("topic",),
    ("intent",),
    ("embedding",),
    ("prompts", "*"),
    ("tools",),
    ("tools", "*", "*"),
    ("tools", "registry", "*", "implementation"),
    ("responses", "*"),
    ("responses", "*", "match"),
    ("responses", "*", "tools"),
    ("plugins",),
    ("limits",),
    ("network",),
    ("questions",),
)
_NAMES = (("llms",), ("stores",))
_LLM_KEYS = {
    "baseUrl": "base_url",
    "apiKey": "api_key",
    "defaultModel": "default_model",
    "retryDelay": "retry_delay_ms",
    "timeout": "timeout_s",
}
_UNUSED_LLM_KEYS = {
    "maxTokens": "the rules' max_tokens counted; set it there",
    "embeddingModel": "it was never used there either",
}
_FLAT_KEYS = ("mock_response", "service", "url", "method", "headers", "params_mapping", "response_path", "retry")


def normalise(document: ConfigDocument) -> tuple[ConfigDocument, list[Problem]]:
    """Return the document in our form, and notes on changed meanings."""
    work = _Work(document)
    if "rag_services" in work.data and "stores" in work.data:
        work.note((), "both 'rag_services' and 'stores' are given; 'stores' counts", ("rag_services",))
        del work.data["rag_services"]
    elif "rag_services" in work.data:
        work.rename(work.data, (), "rag_services", "stores")
    for pattern in _CORE_TABLES:
        for path, table in work.tables(*pattern):
            _drop_comments(work, pattern, path, table)
    for name in ("topic", "intent"):
        for path, table in work.tables(name):
            _phase(work, path, table)
    old = _is_old(work)
    tools = work.data.get("tools")
    if isinstance(tools, dict) and (old or any(_is_flat(table) for _, table in work.tables(*_TOOLS))):
        tools.setdefault("on_error", "leave out")  # as there (TC-69); each tool left out is noted by name
    _usable_entries(work)
    rules: dict[str, list[tuple[KeyPath, Table]]] = {}
    for path, rule in work.tables("responses", "*"):
        if isinstance(rule.get("llm"), str):
            rules.setdefault(rule["llm"], []).append((path, rule))
    for path, table in work.tables("llms", "*"):
        _llm(work, path, table, rules, old=old)
    for path, table in work.tables(*_TOOLS):
        if _is_flat(table):
            _tool(work, path, table)
    for path, table in work.tables("responses", "*"):
        reasoning = table.get("reasoning")
        if isinstance(reasoning, bool) or (
            isinstance(reasoning, dict) and {"model", "prompt", "max_tokens"} & reasoning.keys()
        ):
            work.drop(table, path, "reasoning", "never did anything, and is ignored")
    if old:
        _changed_meanings(work)
    return work.document, work.notes


class _Work(Report):
    """The data being changed, the moves, and the notes on them."""

    def __init__(self, document: ConfigDocument) -> None:
        self.data: Table = copied(document.data)
        self.moved: dict[KeyPath, KeyPath] = {}
        super().__init__(attrs.evolve(document, data=self.data, moved=self.moved))
        self.tables = self.document.tables

    def drop(self, table: Table, path: KeyPath, key: str, text: str) -> None:
        del table[key]
        self.note(path, f"'{key}' of the Node original {text}", (*path, key))

    def rename(self, table: Table, path: KeyPath, old: str, new: str) -> None:
        table[new] = table.pop(old)
        self.came_from((*path, new), (*path, old))

    def came_from(self, path: KeyPath, origin: KeyPath) -> None:
        self.moved[path] = self.document.original_path(origin)


def _phase(work: _Work, path: KeyPath, table: Table) -> None:
    """Move the keys of the table ``provider`` up to the other keys of topic or intent, as in rules."""
    if not isinstance(table.get("provider"), dict):
        return
    provider = table.pop("provider")
    for key, value in provider.items():
        if key in table:
            work.note(path, f"both 'provider.{key}' and '{key}' are given; '{key}' counts", (*path, "provider", key))
        elif value is not None and key != "comment" and not key.startswith("_"):
            table[key] = value
            work.came_from((*path, key), (*path, "provider", key))


def _drop_comments(work: _Work, pattern: KeyPath, path: KeyPath, table: Table) -> None:
    """Remove ``comment``, ``_anything`` and null, which stands for "not set"."""
    for key in [*table]:
        a_name = pattern in _NAMES
        comment = key.startswith("_") or (key == "comment" and not (a_name and isinstance(table[key], dict)))
        unset = table[key] is None and not a_name and pattern[-1:] != ("implementation",)
        if comment or unset or (key == "$schema" and not pattern and isinstance(table[key], str)):
            del table[key]


def _is_old(work: _Work) -> bool:
    """Return whether the file contains anything that only the Node original understood."""
    for _, llm in work.tables("llms", "*"):
        provider = llm.get("provider")
        if isinstance(provider, str) and provider != provider.lower() and provider.lower() in NODE_PROVIDERS:
            return True
        if provider in NODE_PROVIDERS and not (_LLM_KEYS | _UNUSED_LLM_KEYS).keys().isdisjoint(llm):
            return True
    stores = work.tables("stores", "*")
    return any(store.get("provider") in ("chromadb-wrapper", "chromadb") for _, store in stores)


def _llm(work: _Work, path: KeyPath, table: Table, rules: dict[str, list[tuple[KeyPath, Table]]], *, old: bool) -> None:
    provider = table.get("provider")
    if not isinstance(provider, str) or provider.lower() not in NODE_PROVIDERS:
        return
    table["provider"] = provider.lower()
    for key, new in _LLM_KEYS.items():
        if key in table and new in table:
            work.note(path, f"both '{key}' and '{new}' are given; '{new}' counts", (*path, key))
            del table[key]
        elif key in table:
            work.rename(table, path, key, new)
            if key == "timeout" and type(table[new]) in (int, float):
                table[new] /= 1000  # milliseconds there
    for key, reason in _UNUSED_LLM_KEYS.items():
        if key in table:
            work.drop(table, path, key, f"is ignored: {reason}")
    if old:
        for key in ("max_tokens", "temperature"):
            _to_rules(work, path, table, rules.get(str(path[-1]), ()), key)
        if table.get("retries") == 0:
            work.note((*path, "retries"), "0 meant 3 in the Node original; here it means no retries")


def _to_rules(work: _Work, path: KeyPath, table: Table, rules: Iterable[tuple[KeyPath, Table]], key: str) -> None:
    """Move a setting of an LLM to the rules that use it. The original read temperature there, max_tokens never."""
    if key == "max_tokens" and key in table:
        work.drop(table, path, key, f"is ignored: {_UNUSED_LLM_KEYS['maxTokens']}")
    elif key in table:
        value = table.pop(key)
        for rule_path, rule in rules:
            if key in rule:
                text = f"this counts; the Node original took {format_path((*path, key))}"
                work.note((*rule_path, key), text)
            else:
                rule[key] = value
                work.came_from((*rule_path, key), (*path, key))


def _is_flat(table: Table) -> bool:
    """Return whether a tool is defined as in the Node original, where its type is the implementation's (C9)."""
    kind = table.get("type")
    if not isinstance(kind, str) or kind == "function" or "implementation" in table:
        return False
    return not did_you_mean(kind, ("function",))  # a typing error, which structuring will explain


def _tool(work: _Work, path: KeyPath, table: Table) -> None:
    """Convert a flat definition to the canonical form."""
    if table["type"] == "builtin" and "parameters" not in table:
        dropped = [key for key in ("type", "handler") if key in table]
        for unused in dropped:
            del table[unused]
        work.note(path, f"{' and '.join(dropped)} ignored: a name alone switches on a tool that a plugin offers")
        return
    core = own_keys(ToolEntry)
    implementation: Table = {"type": table.pop("type")}
    work.came_from((*path, "implementation", "type"), (*path, "type"))
    for key in [*table]:
        if key in _FLAT_KEYS or (key not in core and not did_you_mean(key, core)):
            implementation[key] = table.pop(key)
            work.came_from((*path, "implementation", key), (*path, key))
    table["implementation"] = implementation


def _usable_entries(work: _Work) -> None:
    """Keep the first of two tools with the same name (C25) and, with on_error = "leave out", what is a tool (TC-69)."""
    tools = work.data.get("tools")
    registry = tools.get("registry") if isinstance(tools, dict) else None
    if not isinstance(tools, dict) or not isinstance(registry, list):
        return
    usable: list[Any] = []
    origins: dict[KeyPath, KeyPath] = {}
    names: set[str] = set()
    for index, entry in enumerate(registry):
        name, path = entry.get("name") if isinstance(entry, dict) else None, ("tools", "registry", index)
        if isinstance(name, str) and name in names:
            work.note(path, f"a second tool is called {quoted(name)}; the first is kept")
            continue
        if tools.get("on_error") == "leave out" and (trouble := _entry_trouble(entry)):
            work.note(path, f"this tool is left out: {trouble}")
            continue
        if isinstance(name, str):
            names.add(name)
        origins[("tools", "registry", len(usable))] = path
        usable.append(entry)
    if len(usable) < len(registry):
        tools["registry"] = usable
        work.moved.update(origins)


def _entry_trouble(entry: Any) -> str | None:
    if not isinstance(entry, dict):
        return f"expected a table, got {describe_value(entry)}"
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        return "it has no name"
    # A flat entry's type is that of its implementation.
    own = {key: value for key, value in entry.items() if key in own_keys(ToolEntry) and key != "type"}
    _, issues = structure_mapping(own, ToolEntry)
    return "; ".join(issues) or None


def _changed_meanings(work: _Work) -> None:
    """Note, once for each kind, where a rule of the original means something else here."""
    rules = [
        (path, rule, rule["tools"] if isinstance(rule.get("tools"), dict) else None)
        for path, rule in work.tables("responses", "*")
    ]

    def note_first(paths: Iterable[KeyPath], text: str) -> None:
        for path in itertools.islice(paths, 1):
            work.note(path, text)

    note_first(
        (path for path, rule, _ in rules if "max_tokens" not in rule),
        "no max_tokens meant 500 in the Node original; here the model's own limit counts",
    )
    temperatures = ((*path, "temperature") for path, rule, _ in rules if "temperature" in rule)
    note_first(
        (path for path in temperatures if path not in work.moved),
        "a rule's temperature was ignored by the Node original; here it counts",
    )
    note_first(
        ((*path, "tools") for path, _, table in rules if table is not None and "enabled" not in table),
        "without 'enabled' a rule used no tools in the Node original; here it does",
    )
    tools = work.data.get("tools")
    if isinstance(tools, dict) and tools.get("enabled") is False:
        work.note(("tools", "enabled"), "the Node original ignored this; here it switches all tools off")
    if isinstance(tools, dict) and tools.get("apply_globally") is True:
        note_first(
            ((*path, "tools", "enabled") for path, _, table in rules if table and table.get("enabled") is False),
            "the Node original ignored this if apply_globally was set",
        )
