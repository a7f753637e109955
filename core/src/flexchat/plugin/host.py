"""Loads plugins, reports on each, and keeps what they register. The only module that imports pluggy to manage."""

from __future__ import annotations

import difflib
import importlib.metadata
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import attrs
import pluggy

from ..domain import ToolDefinition
from ..domain.masking import Mask, secrets_of_environment
from ..errors import PluginConflictError, PluginLoadError, did_you_mean
from . import hookspecs
from .contracts import (
    Command,
    ConversationStoreType,
    ImplementationType,
    ProviderType,
    RerankerType,
    RetrieverType,
    ToolHandler,
)
from .events import EventHooks, Watcher

log = logging.getLogger(__name__)

API_VERSION = (0, 1)
"""The plugin surface this FlexChat offers; a plugin may name the one it was written for in FLEXCHAT_API."""

ENTRY_POINT_GROUP = "flexchat"

_MARK = "flexchat_impl"  # what hookimpl leaves on a function: the name of the project, as pluggy documents it

# Which package to install for a name that a config uses and no installed plugin offers.
FIRST_PARTY = {
    ("provider", "openai"): "flexchat-openai",
    ("provider", "ollama"): "flexchat-ollama",
    ("provider", "gemini"): "flexchat-gemini",
    ("provider", "anthropic"): "flexchat-anthropic",
    ("provider", "langchain"): "flexchat-langchain",
    ("provider", "scripted"): "flexchat-mock",
    ("provider", "rehearsal"): "flexchat-mock",
    ("implementation type", "mock"): "flexchat-mock",
    ("implementation type", "builtin"): "flexchat-builtin",
    ("implementation type", "internal"): "flexchat-internal",
    ("retriever", "memory"): "flexchat-internal",
    ("retriever", "sqlite"): "flexchat-rag",
    ("retriever", "pgvector"): "flexchat-pgvector",
    ("retriever", "chromadb-wrapper"): "flexchat-chromadb",
    ("reranker", "minilm"): "flexchat-minilm",
    ("provider", "minilm"): "flexchat-minilm",
    ("conversation store", "postgresql"): "flexchat-pgvector",
    ("command", "rag"): "flexchat-rag",
    ("command", "serve"): "flexchat-web",
    ("tool", "calculator"): "flexchat-builtin",
    ("tool", "get_current_datetime"): "flexchat-builtin",
    ("tool", "generate_uuid"): "flexchat-builtin",
}


@attrs.frozen(kw_only=True)
class PluginReport:
    """What became of one plugin.

    Attributes:
        name: Of its entry point.
        package: Distribution and version, "flexchat-openai 0.1.0".
        hooks: Names of the hooks it implements.
        provides: What it registered, a phrase each: "provider openai".
        reason: Why it is not active; empty if it is.
    """

    name: str
    package: str
    status: Literal["active", "blocked", "failed"]
    hooks: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return attrs.asdict(self)


class Records:
    """What plugins registered of one kind, by name.

    A name that two plugins offer is held by neither: ``missing`` says so when it is asked for.
    """

    def __init__(self, kind: str, reports: Mapping[str, PluginReport]) -> None:
        self.kind = kind
        self.by_name: dict[Any, Any] = {}
        self.conflicts: dict[Any, tuple[str, str]] = {}
        self._owners: dict[Any, str] = {}
        self._reports = reports

    def add(self, name: Any, record: Any, plugin: str) -> None:
        """Keep a record.

        Raises:
            PluginConflictError: Another plugin offers that name; from now on nobody does.
        """
        owner = self._owners.setdefault(name, plugin)
        if owner == plugin and name not in self.by_name:
            self.by_name[name] = record
            return
        self.by_name.pop(name, None)
        self.conflicts[name] = (owner, plugin)
        raise PluginConflictError(self.kind, _spoken(name), (owner, plugin))

    def package(self, name: Any) -> str:
        """Return the distribution and version of the plugin that offers a name; empty if nobody does, or has one."""
        report = self._reports.get(self._owners.get(name, ""))
        return report.package if report is not None else ""

    def missing(self, name: Any) -> str:
        """Return the sentence for a name nobody offers: why not, what is there, and what to do."""
        if name in self.conflicts:
            return str(PluginConflictError(self.kind, _spoken(name), self.conflicts[name]))
        known = sorted(map(_spoken, self.by_name))
        text = f"no {self.kind} is called '{_spoken(name)}'{did_you_mean(_spoken(name), known)}"
        details = [f"installed: {', '.join(known) or 'none'}"]
        package = FIRST_PARTY.get((self.kind, _spoken(name)))
        troubled = [r for r in self._reports.values() if r.status != "active"]
        culprits = [r for r in troubled if package and r.package.startswith(package + " ")] or troubled
        details += [f"plugin '{r.name}' {r.status}: {r.reason}" for r in culprits]
        if package and not any(r.package.startswith(package + " ") for r in troubled):
            details.append(f"it comes with the package {package}: pip install {package}")
        return f"{text} ({'; '.join(details)})"


def _spoken(name: Any) -> str:
    return name if isinstance(name, str) else " ".join(name)


class PluginHost:
    """The plugins of one app.

    A plugin that cannot be loaded is reported and left out; an error arises only where a config needs what it
    would have brought. With strict=True (FLEXCHAT_STRICT_PLUGINS=1) any failure raises at once.

    Args:
        block: Plugin names to leave out, each with the place that said so, for the report.
    """

    def __init__(self, *, block: Mapping[str, str] | None = None, strict: bool = False) -> None:
        self._block = dict(block or {})
        self._strict = strict
        self._manager = pluggy.PluginManager("flexchat")
        self._manager.add_hookspecs(hookspecs)
        self._reports: dict[str, PluginReport] = {}
        self.providers = Records("provider", self._reports)
        self.implementation_types = Records("implementation type", self._reports)
        self.handlers = Records("tool handler", self._reports)
        self.tools = Records("tool", self._reports)
        self.retrievers = Records("retriever", self._reports)
        self.rerankers = Records("reranker", self._reports)
        self.conversation_stores = Records("conversation store", self._reports)
        self.commands = Records("command", self._reports)

    @property
    def reports(self) -> tuple[PluginReport, ...]:
        """What became of each plugin, in the order of loading."""
        return tuple(self._reports.values())

    def load_installed(self) -> None:
        """Load every installed plugin, in the order of their names.

        Raises:
            PluginLoadError, PluginConflictError: In strict mode only.
        """
        seen: set[tuple[str, str]] = set()
        for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name):
            if (entry.name, entry.value) in seen:
                continue  # an editable install can stand twice in the metadata
            seen.add((entry.name, entry.value))
            facts = entry.dist.metadata if entry.dist is not None else None  # read once: it is parsed each time
            package = f"{facts['Name']} {facts['Version']}" if facts is not None else ""
            self._load(entry.name, package, entry.load)

    def register(self, plugin: object, name: str, package: str = "") -> PluginReport:
        """Add a plugin that is at hand: a module or an object with hook implementations."""
        return self._load(name, package, lambda: plugin)

    def events(self) -> EventHooks:
        """Return the event hooks of the plugins that are active now."""
        watchers: dict[str, list[Watcher]] = {}
        for hook in _hook_names(registration=False):
            found = getattr(self._manager.hook, hook).get_hookimpls()
            watchers[hook] = [Watcher(i.plugin_name, i.function, i.argnames) for i in reversed(found)]
        return EventHooks(watchers)

    def _load(self, name: str, package: str, load: Callable[[], object]) -> PluginReport:
        if name in self._reports:
            other = self._reports[name].package or "another plugin"
            return self._fail(f"{name} ({package})", package, f"the name '{name}' is taken by {other}")
        if name in self._block:
            report = PluginReport(name=name, package=package, status="blocked", reason=f"by {self._block[name]}")
            return self._keep(report)
        try:
            plugin = load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  a plugin that calls sys.exit() at import is broken, not in charge
            return self._fail(name, package, f"import failed: {_one_line(error)}", error)
        return self._add(name, package, plugin)

    def _add(self, name: str, package: str, plugin: object) -> PluginReport:
        try:
            wanted = getattr(plugin, "FLEXCHAT_API", API_VERSION)
            too_new = wanted > API_VERSION
            hooks = tuple(a for a in dir(plugin) if isinstance(getattr(getattr(plugin, a), _MARK, None), dict))
        except Exception as error:  # noqa: BLE001  a plugin's fault is its report
            return self._fail(name, package, f"reading it failed: {_one_line(error)}", error)
        if too_new:
            needs, has = ".".join(map(str, wanted)), ".".join(map(str, API_VERSION))
            return self._fail(
                name, package, f"written for plugin API {needs}, this FlexChat has {has}: update flexchat-core"
            )
        known = _hook_names()
        for hook in hooks:
            if hook not in known:
                close = difflib.get_close_matches(hook, known, n=1, cutoff=0.5)
                hint = f"; did you mean '{close[0]}'?" if close else ""
                return self._fail(name, package, f"unknown hook '{hook}'{hint}")
        try:
            self._manager.register(plugin, name)
        except Exception as error:  # noqa: BLE001  a plugin's fault is its report
            if self._manager.has_plugin(name):
                self._manager.unregister(name=name)
            return self._fail(name, package, _one_line(error), error)
        try:
            provides, conflict = self._collect(plugin, name)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's fault is its report
            self._manager.unregister(name=name)
            return self._fail(name, package, f"registering failed: {_one_line(error)}", error)
        if conflict is not None:  # what it offers besides stays usable
            return self._fail(name, package, str(conflict), conflict, hooks=hooks, provides=provides)
        return self._keep(PluginReport(name=name, package=package, status="active", hooks=hooks, provides=provides))

    def _collect(self, plugin: object, name: str) -> tuple[tuple[str, ...], PluginConflictError | None]:
        """Take over what a plugin registers: all of it or, if one of its hooks raises, nothing.

        Returns what was taken over, and the first name that another plugin offers too.
        """
        found = [(hook, _records(plugin, hook, cls)) for hook, (_, _, cls) in _REGISTRATION.items()]
        provides: list[str] = []
        conflict: PluginConflictError | None = None
        for hook, records in found:
            kind, key, _ = _REGISTRATION[hook]
            store: Records = getattr(self, kind)
            for record in records:
                try:
                    store.add(key(record), record, name)
                    provides.append(f"{store.kind} {_spoken(key(record))}")
                except PluginConflictError as error:
                    conflict = conflict or error
        return tuple(provides), conflict

    def _fail(
        self, name: str, package: str, reason: str, error: BaseException | None = None, **rest: tuple[str, ...]
    ) -> PluginReport:
        reason = Mask(secrets_of_environment())(reason)
        if self._strict:
            if isinstance(error, PluginConflictError):
                raise error
            raise PluginLoadError(name, reason) from error
        log.warning("plugin %s is left out: %s", name, reason)
        return self._keep(PluginReport(name=name, package=package, status="failed", reason=reason, **rest))

    def _keep(self, report: PluginReport) -> PluginReport:
        self._reports[report.name] = report
        return report


_REGISTRATION: dict[str, tuple[str, Callable[[Any], Any], type]] = {
    "flexchat_register_providers": ("providers", lambda r: r.name, ProviderType),
    "flexchat_register_implementation_types": ("implementation_types", lambda r: r.name, ImplementationType),
    "flexchat_register_tool_handlers": ("handlers", lambda r: (r.kind, r.name), ToolHandler),
    "flexchat_register_tools": ("tools", lambda r: r.name, ToolDefinition),
    "flexchat_register_retrievers": ("retrievers", lambda r: r.name, RetrieverType),
    "flexchat_register_rerankers": ("rerankers", lambda r: r.name, RerankerType),
    "flexchat_register_conversation_stores": ("conversation_stores", lambda r: r.name, ConversationStoreType),
    "flexchat_register_commands": ("commands", lambda r: r.name, Command),
}


def _hook_names(registration: bool | None = None) -> list[str]:
    names = [name for name in vars(hookspecs) if name.startswith("flexchat_")]
    return [n for n in names if registration is None or (n in _REGISTRATION) == registration]


def _records(plugin: object, hook: str, cls: type) -> list[Any]:
    implementation = getattr(plugin, hook, None)
    if implementation is None:
        return []
    offered: Iterable[Any] = implementation() or ()
    records = list(offered)
    for record in records:
        if not isinstance(record, cls):
            raise TypeError(f"{hook} must yield {cls.__name__}, got {type(record).__name__}")
    return records


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
