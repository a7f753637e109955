"""Reading a file or a mapping into a Config, with all problems reported at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import attrs

from ..domain.masking import MASK
from ..errors import ConfigError, FlexChatError, Problem, did_you_mean
from .check import check, keys_in_the_file, written_secrets
from .document import MAX_PROBLEMS, ConfigDocument, and_more, document_of, read_document
from .including import with_included
from .keys import variable_value
from .model import Config, LLMEntry, ResponseRule, own_keys
from .normalise import normalise
from .positions import KeyPath
from .structure import Issue, structure
from .variables import MIN_SECRET_CHARS, Expanded, expand_variables
from .wording import describe_value, shortened

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class _Parts:
    """Everything a ReadConfig starts from; its checks run anew for each."""

    document: ConfigDocument
    written: ConfigDocument
    problems: Collection[Problem] = ()
    notes: Collection[Problem] = ()
    secrets: frozenset[str] = frozenset()
    hidden: frozenset[KeyPath] = frozenset()
    structured: tuple[Config | None, list[Issue]] = attrs.field()

    @structured.default
    def _structure(self) -> tuple[Config | None, list[Issue]]:
        return structure(self.document.data, Config, hidden=self.hidden)


class ReadConfig:
    """A configuration being read: plugins add the problems of their tables, then it is finished.

    A command reads its file once and passes this on. To add to it, make a new one: ``read_config`` of it.

    Attributes:
        written: The file, or the mapping, as written.
        document: Its data in our form, with placeholders replaced.
        config: Core's part of it, and the tables plugins have read; None if core's tables have problems.
        known_keys: Valid top-level keys, to suggest for unknown ones; plugins add the names of their tables.
        unread: Top-level keys that are not core's and that no plugin has read yet.
        secrets: Values from the environment, and of keys named like a secret, to mask in all output.
    """

    def __init__(self, parts: _Parts, tools: Collection[str] = ()) -> None:
        self._parts = parts
        self.written, self.document = parts.written, parts.document
        self.secrets = parts.secrets | {value for _, value in written_secrets(self.document)}
        self._problems, self._notes = _Listing(), _Listing()
        # The placeholder of a variable that is not set fits hardly any key: that would be a second problem, of no use.
        self._unset = {problem.path for problem in parts.problems if problem.path}
        self.config, issues = parts.structured
        self._add_issues((), issues)
        self.known_keys = sorted(own_keys(Config))
        self.unread = dict.fromkeys(key for key in self.document.data if key not in self.known_keys)
        check_problems, check_notes = check(self.document, tools)
        for problem in (*parts.problems, *check_problems):
            self._add(self._problems, problem)
        for note in (*parts.notes, *check_notes):
            self._add(self._notes, note)

    @property
    def path(self) -> Path | None:
        """The file as named; None if given in code."""
        return Path(self.written.source) if self.written.source else None

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes of all its files, in hexadecimal digits; see digest_of."""
        return digest_of(self.written.content, *self.document.others.values())

    @property
    def problems(self) -> list[Problem]:
        """The problems so far; if there are many, the first ones and how many more there are."""
        self._report_unread()
        return self._problems.to_problems(self.document)

    @property
    def notes(self) -> list[Problem]:
        """Things worth noting that are not errors: a changed meaning, a rule never reached. Limited like problems."""
        return self._notes.to_problems(self.document)

    def tables(self, *path: str | int) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
        """Yield the tables in a table or a list, each with its path; anything else is skipped."""
        return self.document.tables(*path, "*")

    def settings(self, path: KeyPath, core_keys: Collection[str], cls: type[T]) -> T | None:
        """Return a plugin's part of a table, all but core_keys, as its attrs class; None, and problems, if unfit."""
        table: Any = self.document.data
        for key in path:
            table = table[key]
        if not isinstance(table, Mapping):
            self.problem(path, f"expected a table, got {describe_value(table)}")
            return None
        own = {key: value for key, value in table.items() if key not in core_keys}
        fields = attrs.fields(cls)  # type: ignore[arg-type]  # an attrs class, as ProviderType etc. require
        marked = [own.get(field.name) for field in fields if field.metadata.get("secret")]
        self.secrets |= {value for value in marked if isinstance(value, str) and len(value) >= MIN_SECRET_CHARS}
        below = frozenset(h[len(path) :] for h in self._parts.hidden if h[: len(path)] == path)
        instance, issues = structure(own, cls, hidden=below, beside=core_keys)
        self._add_issues(path, issues)
        return instance

    def read_table(self, name: str, load: Callable[[], type], *, is_list: bool = False, is_named: bool = False) -> None:
        """Read an unread table of a plugin into ``config.tables``; load returns the attrs class of its keys.

        Args:
            is_list: Whether it is a list of such tables, which are read into a tuple.
            is_named: Whether it holds such tables by name, which are read into a dict.
        """
        del self.unread[name]
        data, table = self.document.data[name], cast("Any", None)
        cls = self.attempt((name,), load)
        if cls is not None and is_named and isinstance(data, Mapping):
            named = {key: self.settings((name, key), (), cls) for key in data}
            table = None if any(one is None for one in named.values()) else named
        elif cls is not None and not is_list:
            table = self.settings((name,), (), cls)
        elif cls is not None and isinstance(data, list):
            tables = [self.settings((name, index), (), cls) for index in range(len(data))]
            table = None if any(one is None for one in tables) else tuple(tables)
        elif cls is not None:
            self.problem((name,), f"expected a list of tables, got {describe_value(data)}; write [[{name}]]")
        if table is not None and self.config is not None:
            self.config = attrs.evolve(self.config, tables={**self.config.tables, name: table})

    def problem(self, path: KeyPath, text: str) -> None:
        """Add a problem; secrets in its text are masked."""
        self._add(self._problems, self.document.problem(path, text))

    def note(self, path: KeyPath, text: str) -> None:
        """Add a note; secrets in its text are masked."""
        self._add(self._notes, self.document.problem(path, text))

    def add(self, problem: Problem) -> None:
        """Add a problem of another file named by this configuration; secrets in its text are masked."""
        self._add(self._problems, problem)

    def attempt(self, path: KeyPath, make: Callable[[], T]) -> T | None:
        """Call a plugin's code with its settings and return the result; if it raises, add a problem and return None."""
        try:
            return make()
        except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
            own = isinstance(error, (FlexChatError, TypeError, ValueError)) and str(error)
            self.problem(path, own or f"{type(error).__name__}: {error}".removesuffix(": "))
            return None

    def finish(self) -> Config:
        """Return the configuration; raise ConfigError with all its problems if there are any."""
        problems = self.problems
        if problems or self.config is None:
            raise ConfigError(problems)
        return self.config

    def with_rules(self, change: Callable[[ResponseRule], ResponseRule]) -> ReadConfig:
        """Return the same configuration with every rule changed; problems keep the paths in the file."""
        config, issues = self._parts.structured
        if config is not None:
            config = attrs.evolve(config, responses=tuple(map(change, config.responses)))
        return ReadConfig(attrs.evolve(self._parts, document=self.document, structured=(config, issues)))

    def _report_unread(self) -> None:
        """Add a problem for each top-level key that neither core nor a plugin has read."""
        unread, self.unread = self.unread, {}
        for key in sorted(unread):
            few, names = len(self._problems.some) < MAX_PROBLEMS, self.known_keys
            hint = (did_you_mean(key, names) or f" (known: {', '.join(names)})") if few else ""
            text = f"unknown key '{shortened(key)}'{hint}"
            self._add(self._problems, self.document.problem((), text, (key,)))

    def _add_issues(self, path: KeyPath, issues: list[Issue]) -> None:
        for issue in issues:
            at = None if issue.at is None else (*path, *issue.at)
            self._add(self._problems, self.document.problem((*path, *issue.path), issue.text, at))

    def _add(self, to: _Listing, problem: Problem) -> None:
        if to is self._problems and problem.path in self._unset and problem not in self._parts.problems:
            return
        if not to.admits(problem):
            return
        text = problem.text
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        if text != problem.text:
            problem = attrs.evolve(problem, text=text)
        if problem not in to.some:
            to.some.append(problem)


class _Listing:
    """Problems or notes: the first ones, and the number of the others."""

    def __init__(self) -> None:
        self.some: list[Problem] = []
        self._seen: set[Problem] = set()

    def admits(self, problem: Problem) -> bool:
        """Return whether this one is new and among the first."""
        before = len(self._seen)
        self._seen.add(problem)
        return before < len(self._seen) <= MAX_PROBLEMS

    def to_problems(self, document: ConfigDocument) -> list[Problem]:
        """Return them, with a sentence about those left out."""
        more = len(self._seen) - MAX_PROBLEMS
        return [*self.some, document.problem((), and_more(more))] if more > 0 else [*self.some]


def digest_of(content: bytes, *others: bytes) -> str:
    """Return a digest of a configuration: the SHA-256 of its file, and of the others it is read from, in hexadecimal
    digits."""
    import hashlib  # loads OpenSSL: only when needed

    digest = hashlib.sha256(content)
    for other in others:
        digest.update(hashlib.sha256(other).digest())
    return digest.hexdigest()


def read_config(
    source: str | Path | ConfigDocument | ReadConfig | Mapping[str, Any],
    *,
    environ: Mapping[str, str] | None = None,
    tools: Collection[str] = (),
    llms: Mapping[str, str] = MappingProxyType({}),
) -> ReadConfig:
    """Read core's part of a configuration.

    Args:
        source: A .toml, .yaml or .json file, one already read, or its content as a mapping. For an earlier result of
            read_config, returns a copy without later additions; then no file is read, and nothing is replaced.
        environ: Where ${NAME} is looked up. Default: for a file, the process's environment and then the stored keys;
            for a mapping, nothing is replaced.
        tools: Names of tools given in code, and SOURCE/* for tool sources given in code.
        llms: Providers given in code, by the name of their entry in llms: from that name to the provider's own. The
            entry may be missing; the service settings of an existing one are neither read nor expanded.

    Raises:
        ConfigError: The file cannot be read at all. Everything else is in the result's problems.
    """
    if isinstance(source, ReadConfig):
        return ReadConfig(attrs.evolve(source._parts, document=source.document), tools)
    is_file = not isinstance(source, Mapping)
    if isinstance(source, ConfigDocument):
        source_document = source
    else:
        source_document = document_of(source) if isinstance(source, Mapping) else read_document(source)
    whole = with_included(source_document)
    document, notes = normalise(whole)
    document = _with_given(document, llms)
    if is_file:
        notes += keys_in_the_file(document)
    expanded = Expanded(document=document)
    if environ is not None or is_file:
        expanded = expand_variables(document, variable_value if environ is None else environ.get)
    parts = _Parts(
        document=expanded.document,
        written=source_document,
        problems=(*whole.problems, *expanded.problems),
        notes=notes,
        secrets=expanded.secrets,
        hidden=expanded.paths,
    )
    return ReadConfig(parts, tools)


def _with_given(document: ConfigDocument, llms: Mapping[str, str]) -> ConfigDocument:
    """Return the document with the entries of LLMs given in code, reduced to the keys that are not the provider's."""
    table = document.data.get("llms", {})
    if not llms or not isinstance(table, dict):
        return document
    entries, common = dict(table), own_keys(LLMEntry)
    for name, provider in llms.items():
        entry = entries.get(name)
        if name not in entries:
            entries[name] = {"provider": provider, "default_model": name}
        elif isinstance(entry, dict):
            entries[name] = {key: value for key, value in entry.items() if key in common}
    return attrs.evolve(document, data={**document.data, "llms": entries})
