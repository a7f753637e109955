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

MIN_WRITTEN_KEY_CHARS = 12  # characters; a shorter "key" is a dummy for local servers, such as "none" or "ollama"


def check(document: ConfigDocument, tools: Collection[str] = ()) -> tuple[list[Problem], list[Problem]]:
    """Return the problems and the notes; tools are the names of those given in code, SOURCE/* for a tool source."""
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
    """Yield what may be secret in tools: the auth and headers of implementations, and all of a source's auth."""
    for at, entry in document.tables("tools", "*", "*"):
        inside = ("implementation",) if at[1] == "registry" else ()
        table: Any = entry.get("implementation") if inside else entry
        for key in ("auth", "headers") if isinstance(table, dict) else ():
            for path, value in walk(table.get(key), (*at, *inside, key)):
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
        names = (tool.get("name") for _, tool in document.tables("tools", "registry", "*"))
        self._tools = {*tools, *(name for name in names if isinstance(name, str))}
        core = own_keys(ToolsTable)  # any other list of tables in tools is of sources
        of_tools = ((key, value) for _, table in document.tables("tools") for key, value in table.items())
        self._has_sources = any(name.endswith("/*") for name in tools) or any(
            isinstance(value, list) and value and key not in core for key, value in of_tools
        )
        self._rules = [(path, rule) for path, rule in document.tables("responses", "*") if isinstance(path[1], int)]
        tables = [document.data["stores"][name] for name in sorted(self._stores or ())]
        collections = (table.get("collection") if isinstance(table, dict) else None for table in tables)
        # The only collections used, if each store is pinned to one; otherwise None is among them.
        self._pinned: dict[Any, None] = dict.fromkeys(name if isinstance(name, str) else None for name in collections)

    def services(self) -> None:
        """Check that there are services, and those that run the phases."""
        if self.document.data.get("llms", {}) == {}:
            self.problem(("llms",), "no LLM is configured: add an entry to 'llms'")
        for path, table in (*self.document.tables("topic"), *self.document.tables("intent")):
            self._model_choice(path, table)
            if table.get("model") is not None and table.get("llm") is None:
                self.problem((*path, "model"), "whose model? 'llm' names the entry in llms")

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
                known = f" (known: {', '.join(PROFILE_FIELDS)}, each also with _contains or _regexp)"
                hint = self._hint(key, MATCH_KEYS) or known
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
            elif self._stores == frozenset() and (
                field_of(key) in ("service", "collection")
                or (key == "rag_results" and value in ("match", "partial", "any"))
            ):
                self.note(here, "no document store is configured (stores), so this rule never fits")
            elif key == "service" and self._stores is not None and value not in self._stores:
                self._unknown(here, "document store", value, self._stores)
            elif key == "collection" and self._pinned.keys().isdisjoint((value, None)) and self._pinned:
                listing = ", ".join(shortened(name) for name in itertools.islice(self._pinned, _MAX_LISTED))
                listing += ", …" if len(self._pinned) > _MAX_LISTED else ""
                self.note(here, f"only {listing} is used (stores), so this rule never fits")

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
        names = ", ".join(sorted(map(shortened, {*categories, "other"})))
        listing = shortened(names if categories else "none: see 'intent.detection'", 200)
        text = f"no category of intents fits this{self._hint(wanted, categories)}, so this rule never fits"
        self.note(path, f"{text}; there is {listing}")
        return True

    def _reach(self, path: KeyPath, match: dict[str, Any], earlier: EarlierRules, paths: list[KeyPath]) -> None:
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
        text = f"the rule without 'match'{where} answers everything before it"
        if self.document.data["responses"][taker[1]].get("match"):
            text = f"whatever it fits, {format_path(taker)}{where} has answered before it"
        self.note(path, f"never reached: {text}")

    def stores(self) -> None:
        """Check the thresholds of the document stores."""
        for path, table in sorted(self.document.tables("stores", "*")) if self._stores else ():
            thresholds = (table.get(f"{kind}_threshold") for kind in ("match", "partial"))
            match, partial = (value if type(value) in (int, float) else None for value in thresholds)
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
        for path, table in (*self.document.tables("variables"), *self.document.tables("prompts", "*", "variables")):
            for name, value in table.items():
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
        hint = did_you_mean(name, known)
        self.problem(path, f"no {kind} is called '{shortened(name)}'{hint}; configured: {shortened(names, 300)}")

    def _names(self, section: str) -> frozenset[str] | None:
        table = self.document.data.get(section, {})
        return frozenset(table) if isinstance(table, dict) else None
