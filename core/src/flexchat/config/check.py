"""Checks across parts of a configuration: names that must exist, rules that can never answer.

It reads the tables as written, so that it finds its problems even if structuring found others. Values of the wrong type
are reported by structuring and skipped here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from typing import Any

import attrs

from ..domain import Profile
from ..errors import Problem, did_you_mean
from .document import MAX_PROBLEMS, ConfigDocument, Report, walk
from .model import Config, ToolsTable, own_keys
from .own_variables import variable_problem
from .patterns import FLAGS, MAX_PATTERN_MS, NoEngineError, PatternError, compile_pattern
from .positions import KeyPath
from .reach import EarlierRules, contradiction, field_of, impossible_intent
from .wording import describe_value, format_path, is_secret_name, is_secret_path, shortened

PROFILE_FIELDS = tuple(field.name for field in attrs.fields(Profile) if field.name != "documents")
"""The fields a rule's match may use."""

MATCH_KEYS = tuple(name + suffix for name in PROFILE_FIELDS for suffix in ("", "_contains", "_regexp"))

RAG_RESULTS = ("match", "partial", "none", "any")

_FLAGS_ELSEWHERE = "adgimnsuvxy"  # flags used after a pattern in JavaScript, Perl, PHP or Python

_MAX_LISTED = 20
_MAX_INTENTS = 300_000  # most comparisons of intent conditions with names, in all rules together; half a second

MIN_WRITTEN_KEY_CHARS = 12
"""Characters; a shorter "key" is a dummy for local servers, such as "none" or "ollama"."""


def check(document: ConfigDocument, tools: Collection[str] = ()) -> tuple[list[Problem], list[Problem]]:
    """Return the problems and the notes.

    Args:
        tools: Names of tools given in code, which rules may name in addition to those of the registry; SOURCE/* for a
            tool source given in code.
    """
    checker = _Checker(document, tools)
    checker.services()
    checker.rules()
    checker.fallback()
    checker.stores()
    checker.plugins()
    checker.variables()
    return checker.problems, checker.notes


def written_secrets(document: ConfigDocument) -> Iterator[tuple[KeyPath, str]]:
    """Yield the texts of llms, stores, plugins' tables, and tools' auth and headers whose key marks them as secret."""
    of_plugins = document.data.keys() - own_keys(Config)
    for section in ("llms", "stores", *sorted(of_plugins)):
        names = 1 if section in of_plugins else 2  # of the table and, in llms and stores, of the entry
        for path, value in walk(document.data.get(section), (section,)):
            if _is_written(value) and is_secret_path(path[names:]):
                yield path, value
    yield from ((path, value) for path, value in _credentials_of_tools(document) if _is_written(value))


def _is_written(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= MIN_WRITTEN_KEY_CHARS and "${" not in value


def _credentials_of_tools(document: ConfigDocument) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the possible secrets of auth and headers: of implementations in tools.registry, and of tool sources.

    A source's auth has the names that its document gives them, so all of it counts.
    """
    tools = document.data.get("tools")
    for name, entries in tools.items() if isinstance(tools, dict) else ():
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            inside = ("implementation",) if name == "registry" else ()
            table = entry.get("implementation") if inside and isinstance(entry, dict) else entry
            if not isinstance(table, dict):
                continue
            for key in ("auth", "headers"):
                for path, value in walk(table.get(key), ("tools", name, index, *inside, key)):
                    last = str(path[-1])
                    if (key == "auth" and not inside) or (is_secret_name(last) and not last.endswith("_url")):
                        yield path, value


def keys_in_the_file(document: ConfigDocument) -> list[Problem]:
    """Return a note for each secret that is written out instead of coming from the environment."""
    notes = []
    for path, _ in written_secrets(document):
        owner = path[1] if len(path) > 2 else path[0]
        if path[0] == "tools":
            owner = document.data["tools"][path[1]][path[2]].get("name", owner)
        name = re.sub(r"\W+", "_", f"{owner}_{path[-1]}").strip("_").upper()
        text = f'the secret is written in the file; better write "${{{name}}}" and set that environment variable'
        notes.append(document.problem(path, text))
    return notes


class _Checker(Report):
    """A check of one document. Its state: the problems and notes found so far."""

    def __init__(self, document: ConfigDocument, tools: Collection[str]) -> None:
        super().__init__(document)
        self._intents_left = _MAX_INTENTS
        self._llms = self._names("llms")
        self._stores = self._names("stores")
        self._tools = self._tool_names() | set(tools)
        self._has_sources = self._sources() or any(name.endswith("/*") for name in tools)
        self._rules = self._tables("responses")
        tables = [document.data["stores"][name] for name in sorted(self._stores or ())]
        collections = (table.get("collection") if isinstance(table, dict) else None for table in tables)
        self._pinned: dict[Any, None] = dict.fromkeys(name if isinstance(name, str) else None for name in collections)

    def services(self) -> None:
        """Check that there are services, and those that run the phases."""
        data = self.document.data
        if data.get("llms", {}) == {}:
            self.problem(("llms",), "no LLM is configured: add an entry to 'llms'")
        for name in ("topic", "intent"):
            table = data.get(name)
            if isinstance(table, dict):
                self._model_choice((name,), table)
                if table.get("model") is not None and table.get("llm") is None:
                    self.problem((name, "model"), "whose model? 'llm' names the entry in llms")

    def rules(self) -> None:
        """Check each rule, and that each one can be reached."""
        earlier, paths = EarlierRules(), list[KeyPath]()
        for path, rule in self._rules:
            self._model_choice(path, rule)
            self._fallback_services(path, rule)
            match = rule.get("match", {})
            if isinstance(match, dict):
                self._match((*path, "match"), match)
                self._reach(path, match, earlier, paths)
                earlier.add(match)
                paths.append(path)
            if isinstance(rule.get("tools"), dict):
                self._rule_tools((*path, "tools"), rule["tools"])

    def fallback(self) -> None:
        """Check that every message gets an answer."""
        rules = self.document.data.get("responses", [])
        if rules == []:
            self.problem(("responses",), "no response rule is configured: add an entry to 'responses'")
        elif self._rules and all(rule.get("match", {}) != {} for _, rule in self._rules):
            text = "nothing would answer a message that fits no rule: add a rule without 'match' at the end"
            self.problem(("responses",), text)

    def _model_choice(self, path: KeyPath, table: dict[str, Any]) -> None:
        name = table.get("llm")
        if not isinstance(name, str) or not self._llms:
            return
        if name not in self._llms:
            self._unknown((*path, "llm"), "LLM", name, self._llms)
            return
        llm = self.document.data["llms"][name]
        if isinstance(llm, dict) and not table.get("model") and not llm.get("default_model"):
            self.problem(path, f"no model: write 'model' here, or 'default_model' in llms.{shortened(name)}")

    def _fallback_services(self, path: KeyPath, rule: dict[str, Any]) -> None:
        names = rule.get("fallback")
        for index, name in enumerate(names if isinstance(names, list) else ()):
            here = (*path, "fallback", index)
            if not isinstance(name, str) or not self._llms:
                continue
            llm = self.document.data["llms"].get(name)
            if name not in self._llms:
                self._unknown(here, "LLM", name, self._llms)
            elif isinstance(llm, dict) and not llm.get("default_model"):
                self.problem(here, f"llms.{shortened(name)} needs a 'default_model' to stand in for another")
            elif name == rule.get("llm"):
                self.note(here, f"{shortened(name)} cannot stand in for itself")

    def _match(self, path: KeyPath, match: dict[str, Any]) -> None:
        for key, value in match.items():
            here = (*path, key)
            if key not in MATCH_KEYS:
                hint = self._hint(key, MATCH_KEYS) or (
                    f" (known: {', '.join(PROFILE_FIELDS)}, each also with _contains or _regexp)"
                )
                self.problem(path, f"unknown key '{shortened(key)}'{hint}", at=here)
            elif key == "reasoning":
                if isinstance(value, bool):
                    self.note(path, "no phase decides 'reasoning' yet, so this rule never fits", at=here)
                else:
                    self.problem(here, f"expected true or false, got {describe_value(value)}")
            elif not isinstance(value, str):
                self.problem(here, f"expected text, got {describe_value(value)}")
            elif key.startswith("intent") and self._no_such_intent(here, key, value):
                pass
            elif key.endswith("_regexp"):
                self._pattern(here, value)
            elif key == "rag_results" and value not in RAG_RESULTS:
                hint = self._hint(value, RAG_RESULTS)
                words = ", ".join(f'"{word}"' for word in RAG_RESULTS)
                self.problem(here, f"expected one of {words}, got {describe_value(value)}{hint}")
            elif self._stores == frozenset() and _asks_for_documents(key, value):
                self.note(here, "no document store is configured (stores), so this rule never fits")
            elif key == "service" and self._stores is not None and value not in self._stores:
                self._unknown(here, "document store", value, self._stores)
            elif key == "collection":
                self._collection(here, value)

    def _collection(self, path: KeyPath, wanted: str) -> None:
        """Note that no store has this collection, if each is pinned to one."""
        pinned = self._pinned
        if pinned and wanted not in pinned and None not in pinned:
            listing = ", ".join(shortened(name) for name in itertools.islice(pinned, _MAX_LISTED))
            listing += ", …" if len(pinned) > _MAX_LISTED else ""
            self.note(path, f"only {listing} is used (stores), so this rule never fits")

    def _no_such_intent(self, path: KeyPath, key: str, wanted: str) -> bool:
        """Note it if no message can have an intent that meets this condition, and return whether that is so."""
        table = self.document.data.get("intent", {})
        categories = table.get("detection", {}) if isinstance(table, dict) else None
        if not isinstance(categories, dict) or self._stores is None:
            return False
        self._intents_left -= len(categories) + len(self._stores)
        if self._intents_left < 0:
            return False  # not reported if it takes too long to find out
        if not impossible_intent(key, wanted, categories, self._stores):
            of_a_model = (key == "intent" and wanted in categories) or (categories and not self._stores)
            if of_a_model and not table.get("llm"):
                self.note(path, "no model detects intents (intent.llm), so this rule never fits")
                return True
            return False
        if len(self.notes) >= MAX_PROBLEMS:
            self.note(path, "no category of intents fits this, so this rule never fits")
            return True
        listing = (
            ", ".join(sorted(map(shortened, {*categories, "other"}))) if categories else "none: see 'intent.detection'"
        )
        hint = self._hint(wanted, categories)
        self.note(
            path, f"no category of intents fits this{hint}, so this rule never fits; there is {shortened(listing, 200)}"
        )
        return True

    def _reach(self, path: KeyPath, match: dict[str, Any], earlier: EarlierRules, paths: list[KeyPath]) -> None:
        """Report a rule that can never answer."""
        never = contradiction(match)
        if never is not None:
            self.note((*path, "match"), f"this rule never fits: {shortened(never, 200)}")
            return
        first = earlier.taking(match)
        if first is None:
            return
        taker = paths[first]
        line = self.document.line(taker)
        where = f" on line {line}" if line else ""
        if self.document.data["responses"][taker[1]].get("match"):
            text = f"never reached: whatever it fits, {format_path(taker)}{where} has answered before it"
        else:
            text = f"never reached: the rule without 'match'{where} answers everything before it"
        self.note(path, text)

    def stores(self) -> None:
        """Check the thresholds of the document stores."""
        for name in sorted(self._stores or ()):
            table = self.document.data["stores"][name]
            if not isinstance(table, dict):
                continue
            match, partial = (_number(table.get(f"{kind}_threshold")) for kind in ("match", "partial"))
            path = ("stores", name)
            if match == 0:
                self.note((*path, "match_threshold"), "no distance is below 0, so nothing is ever a match")
            if partial == 0:
                self.note((*path, "partial_threshold"), "no distance is below 0, so nothing is ever a partial match")
            elif match is not None and partial is not None and partial <= match:
                text = "nothing is ever a partial match: any distance below it is below match_threshold, too"
                self.note((*path, "partial_threshold"), text)

    def plugins(self) -> None:
        """Check that no plugin is both required and blocked."""
        table = self.document.data.get("plugins")
        blocked, required = (table.get(key) if isinstance(table, dict) else None for key in ("block", "require"))
        if not isinstance(blocked, list) or not isinstance(required, list):
            return
        for index, name in enumerate(required):
            if isinstance(name, str) and name in blocked:
                at = format_path(("plugins", "block", blocked.index(name)))
                text = f"plugin '{shortened(name)}' is blocked by {at}, too: take it out of one of the two lists"
                self.problem(("plugins", "require", index), text)

    def variables(self) -> None:
        """Check the config's own variables, and those of named prompts."""
        prompts = self.document.data.get("prompts")
        prompt_items = prompts.items() if isinstance(prompts, dict) else ()
        paths: list[KeyPath] = [("variables",), *(("prompts", name, "variables") for name, _ in prompt_items)]
        tables = [self.document.data.get("variables")]
        tables += [prompt.get("variables") if isinstance(prompt, dict) else None for _, prompt in prompt_items]
        for path, table in zip(paths, tables, strict=True):
            for name, value in table.items() if isinstance(table, dict) else ():
                problem = variable_problem(name, value)
                if problem:
                    self.problem((*path, name), problem)

    def _pattern(self, path: KeyPath, pattern: str) -> None:
        body, _, flags = pattern.rpartition("/")
        are_flags = {*flags} <= {*_FLAGS_ELSEWHERE} and len({*flags}) == len(flags)  # and "/usr/bin" is just a path
        if body[:1] == "/" and len(body) > 1 and are_flags and not {*flags} <= {*FLAGS}:
            self.note(path, "the flags after the last / are g, i, m, u and y; with any other flag, both / are literal")
        try:
            compiled = compile_pattern(pattern)
        except PatternError as error:
            is_missing = isinstance(error, NoEngineError)
            text = str(error) if is_missing else f"this is not a regular expression: {shortened(str(error))}"
            self.problem(path, text)
            return
        if not compiled.linear:
            self.note(
                path,
                "a search with this pattern may take more than linear time (look-around, or a back reference): "
                f"one that takes more than {MAX_PATTERN_MS} ms is given up, and the rule does not fit",
            )

    def _rule_tools(self, path: KeyPath, tools: dict[str, Any]) -> None:
        allowed = tools.get("allowed_tools")
        path = (*path, "allowed_tools")
        if not isinstance(allowed, list):
            return
        if not allowed:
            text = "an empty list is ambiguous: leave the key out to offer all tools, or write enabled = false for none"
            self.problem(path, text)
        for index, name in enumerate(allowed):
            # A name may be that of a source's tool: sources and their lock are not read to start.
            if isinstance(name, str) and name not in self._tools and not self._has_sources and name[-2:] != "/*":
                self._unknown((*path, index), "tool in tools.registry", name, self._tools)

    def _hint(self, name: str, known: Collection[str]) -> str:
        """Suggest the name that was probably meant, for the problems that are listed."""
        return did_you_mean(name, known) if min(len(self.problems), len(self.notes)) < MAX_PROBLEMS else ""

    def _unknown(self, path: KeyPath, kind: str, name: str, known: Collection[str]) -> None:
        if len(self.problems) >= MAX_PROBLEMS:
            self.problem(path, f"no {kind} is called '{shortened(name)}'")
            return
        names = ", ".join(sorted(map(shortened, known))) or "none"
        text = (
            f"no {kind} is called '{shortened(name)}'{did_you_mean(name, known)}; configured: {shortened(names, 300)}"
        )
        self.problem(path, text)

    def _names(self, section: str) -> frozenset[str] | None:
        table = self.document.data.get(section, {})
        return frozenset(table) if isinstance(table, dict) else None

    def _tables(self, *keys: str) -> list[tuple[KeyPath, dict[str, Any]]]:
        value: Any = self.document.data
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        items = enumerate(value) if isinstance(value, list) else ()
        return [((*keys, index), item) for index, item in items if isinstance(item, dict)]

    def _sources(self) -> bool:
        """Return whether there are tool sources: lists of tables in tools that are not core's."""
        tools, core = self.document.data.get("tools"), own_keys(ToolsTable)
        items = tools.items() if isinstance(tools, dict) else ()
        return any(isinstance(value, list) and value and key not in core for key, value in items)

    def _tool_names(self) -> set[str]:
        names = [tool.get("name") for _, tool in self._tables("tools", "registry")]
        return {name for name in names if isinstance(name, str)}


def _asks_for_documents(key: str, wanted: str) -> bool:
    field = field_of(key)
    return field in ("service", "collection") or (key == "rag_results" and wanted in ("match", "partial", "any"))


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
