"""Loads plugins, reports on each, and keeps what they register. The only module that manages plugins with pluggy."""

from __future__ import annotations

import difflib
import importlib.metadata
import inspect
import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import attrs
import pluggy

from ..domain import ToolDefinition
from ..domain.masking import Mask, secrets_of_environment
from ..errors import ConfigError, PluginConflictError, PluginLoadError, Problem, did_you_mean
from . import hookspecs
from .call import PluginStep, Step, stage_problem
from .contracts import (
    ConfigCheck,
    ConfigTable,
    ConversationStoreType,
    DocumentStoreType,
    FetcherType,
    ImplementationType,
    ProviderType,
    RerankerType,
    ToolHandler,
)
from .foreign import ForeignError, contained, error_name
from .hooks import HookCall, Hooks
from .records import PluginReport, Records, spoken_name
from .tool_sources import SourceLoaderType, ToolSourceType

log = logging.getLogger(__name__)
watchers = logging.getLogger("flexchat.plugin.hooks")

API_VERSION = (0, 1)
"""The plugin API version this FlexChat offers; a plugin may name the one it was written for in FLEXCHAT_API."""

ENTRY_POINT_GROUP = "flexchat"
"""Entry points of plugins."""

GATES_GROUP = "flexchat.gates"
"""Entry points of plugins without which nothing may start: otherwise, what they forbid would happen."""

CHAT_HOOKS = "flexchat_register_chat_hooks"  # asked for each chat, and not once at the start
FETCHER = "fetcher"  # the name of every FetcherType: there is only one
SOURCE_LOADER = "tool sources"  # the name of every SourceLoaderType: there is only one
BLOCKED_BY_CONFIG = "plugins.block"  # where a plugin was blocked, if a configuration did so
CORE_TABLES = frozenset(
    (
        *("conversations", "embedding", "include", "intent", "limits", "llms", "network", "plugins", "prompts"),
        *("media", "questions"),
        *("responses", "stores", "tools", "topic", "variables"),
    )
)
"""Top-level keys of a configuration that are core's (config.model.Config), so that no plugin may take them."""

_MARK = "flexchat_impl"  # the attribute hookimpl sets on a function: the project's name, as pluggy documents


@attrs.frozen
class _Source:
    """Where a plugin comes from."""

    name: str
    package: str
    load: Callable[[], object]
    gate: bool


@attrs.define
class _Opened:
    """A plugin being loaded: the imported object or, failing that, the report with the reason."""

    source: _Source
    plugin: object = None
    report: PluginReport | None = None
    seconds: float = 0.0


class PluginHost:
    """The plugins of one app.

    A plugin that cannot be loaded is reported and left out. That becomes an error if a config needs what it would have
    provided or names it in plugins.require, and always for a gate: see ``why_inactive`` and ``closed_gates``. With
    strict=True (FLEXCHAT_STRICT_PLUGINS=1) any failure raises at once.

    Args:
        block: Plugin names to leave out, each with the place that blocks it, for the report.
        prefer: Names of plugins that win if others offer something under the same name; earlier ones win over later
            ones. Steps are excepted: if two have the same name, nothing starts.
    """

    def __init__(
        self, *, block: Mapping[str, str] | None = None, prefer: Iterable[str] = (), strict: bool = False
    ) -> None:
        self._block = dict(block or {})
        self._prefer = (*prefer,)
        self._strict = strict
        self._is_installed_only = True
        self._sources: list[_Source] = []
        self._claimed: dict[str, list[str]] = {}
        self._misplaced: list[str] = []
        self._manager = pluggy.PluginManager("flexchat")
        self._manager.add_hookspecs(hookspecs)
        self._known_hooks = {name for name in vars(hookspecs) if name.startswith("flexchat_")}
        self._reports: dict[str, PluginReport] = {}
        self.providers = Records("provider", self._reports, self._prefer)
        self.implementation_types = Records("implementation type", self._reports, self._prefer)
        self.handlers = Records("tool handler", self._reports, self._prefer)
        self.tools = Records("tool", self._reports, self._prefer)
        self.tool_formats = Records("tool format", self._reports, self._prefer)
        self.tool_sources = Records("tool source", self._reports, self._prefer)
        self.source_loaders = Records("loader", self._reports, self._prefer)
        self.document_stores = Records("document store", self._reports, self._prefer)
        self.rerankers = Records("reranker", self._reports, self._prefer)
        self.conversation_stores = Records("conversation store", self._reports, self._prefer)
        self.fetchers = Records("fetcher", self._reports, self._prefer)
        self.config_tables = Records("config table", self._reports, self._prefer)
        self.config_checks = Records("config check", self._reports, self._prefer)
        self.steps = Records("step", self._reports)

    @property
    def blocked(self) -> Mapping[str, str] | None:
        """What another process must block to have the same plugins; None if some were registered in code."""
        return self._block if self._is_installed_only else None

    @property
    def reports(self) -> tuple[PluginReport, ...]:
        """The report on each plugin, in loading order."""
        return tuple(self._reports.values())

    def load_installed(self) -> None:
        """Load every installed plugin, in order of name.

        Raises:
            PluginLoadError, PluginConflictError: In strict mode only.
        """
        installed = importlib.metadata.entry_points()  # read once: this opens a file of each installed package
        plugins, gates = installed.select(group=ENTRY_POINT_GROUP), installed.select(group=GATES_GROUP)
        of_gates = {entry.value for entry in gates}  # a plugin in both groups is loaded once
        entries = [
            *((entry, True) for entry in gates),
            *((entry, False) for entry in plugins if entry.value not in of_gates),
        ]
        # An editable install can appear twice in the metadata.
        unique = {(entry.name, entry.value): (entry, gate) for entry, gate in entries}
        sources = []
        for entry, gate in sorted(unique.values(), key=lambda found: found[0].name):
            facts = entry.dist.metadata if entry.dist is not None else None  # read once: it is parsed each time
            package = f"{facts['Name']} {facts['Version']}" if facts is not None else ""
            sources.append(_Source(entry.name, package, entry.load, gate))
        self._load(sources)

    def register(self, plugin: object, name: str, package: str = "", *, gate: bool = False) -> PluginReport:
        """Add a plugin directly: a module or an object with hook implementations.

        Args:
            gate: Whether nothing may start without it, as for plugins in the entry-point group flexchat.gates.
        """
        self._is_installed_only = False
        return self._load([_Source(name, package, lambda: plugin, gate)])[0]

    def configured(self, block: Iterable[str], prefer: Iterable[str]) -> PluginHost:
        """Return a host that blocks and prefers what a configuration does: this one, if it already does.

        Args:
            block: What plugins.block names; plugins blocked by other configurations are loaded.
            prefer: What plugins.prefer names; takes precedence over what this host already prefers.
        """
        ours = {name: place for name, place in self._block.items() if place != BLOCKED_BY_CONFIG}
        blocked = {**dict.fromkeys(block, BLOCKED_BY_CONFIG), **ours}
        preferred = tuple(dict.fromkeys((*prefer, *self._prefer)))
        names = {source.name for source in self._sources}
        if names & blocked.keys() == names & self._block.keys() and preferred == self._prefer:
            return self
        host = PluginHost(block=blocked, prefer=preferred, strict=self._strict)
        host._is_installed_only = self._is_installed_only
        host._load(self._sources)
        return host

    def why_inactive(self, name: str) -> str | None:
        """Explain in one sentence that a plugin is not active; None if it is."""
        report, claims = self._reports.get(name), self._claimed.get(name, ())
        if report is None:
            installed = ", ".join(self._reports) or "none"
            return f"no plugin is called '{name}'{did_you_mean(name, self._reports) or f' (installed: {installed})'}"
        if len(claims) > 1:
            return f"two packages provide a plugin '{name}', {claims[0]} and {claims[1]}: uninstall one of them"
        if report.status == "blocked":
            return f"plugin '{name}' is left out {report.reason}"
        if report.status == "failed":
            return f"plugin '{name}' could not be loaded: {report.reason}"
        if not report.hooks:
            return f"plugin '{name}' implements no hook: does its entry point name the module that has them?"
        return None

    def closed_gates(self) -> Iterator[tuple[str, str]]:
        """Yield inactive gates and missing steps as pairs: the plugin, and why it is missing and what to do."""
        for name in dict.fromkeys(source.name for source in self._sources if source.gate):
            reason = self.why_inactive(name)
            if reason is not None:
                package = self._reports[name].package or "its package"
                yield name, f"{reason}; it is a gate, without which nothing starts: fix it, or uninstall {package}"
        for step, (first, _) in self.steps.conflicts.items():  # neither is in the list: its bans would be ignored
            yield first, self.steps.missing(step)
        for name in self._misplaced:
            yield name, str(self.why_inactive(name))

    def hooks(self) -> Hooks:
        """Return the event hooks and the steps of the plugins that are active now."""
        calls: dict[str, list[HookCall]] = {}
        for hook in _event_hooks():
            implementations = getattr(self._manager.hook, hook).get_hookimpls()
            calls[hook] = [HookCall(i.plugin_name, i.function, i.argnames) for i in reversed(implementations)]
        return Hooks(calls, [PluginStep(plugin, step) for plugin, step in self.steps.by_plugin()])

    def hooks_of_chat(
        self, tables: Mapping[str, Any], given: Iterable[object] = (), history_policy: Any = None
    ) -> Hooks:
        """Return the plugins' hooks and steps, followed by those they make for a chat, and then the given ones.

        Args:
            tables: The plugins' tables in the chat's config; see flexchat_register_chat_hooks.
            given: Objects with @hookimpl methods, which are registered nowhere.
            history_policy: See FlexChat.from_config.

        Raises:
            ConfigError: A plugin failed to make its hooks: without them, what they forbid would be allowed. Or an
                object has no hook, an unknown one, or one that registers something other than steps.
        """
        objects: list[tuple[str, object]] = []
        facts = {"tables": tables, "plugins": self, "history_policy": history_policy}
        for implementation in reversed(self._manager.hook.flexchat_register_chat_hooks.get_hookimpls()):
            try:
                with contained():
                    offered: Any = implementation.function(*[facts[name] for name in implementation.argnames])
                    objects += [(implementation.plugin_name, each) for each in offered or ()]
            except Exception as error:
                text = f"plugin {implementation.plugin_name}: {CHAT_HOOKS} failed: {_one_line(error)}"
                raise ConfigError([Problem(path="plugins", text=text)]) from error
        objects += [(each.__name__ if isinstance(each, ModuleType) else type(each).__name__, each) for each in given]
        own = PluginHost()
        counts: Counter[str] = Counter()
        problems: list[str] = []
        for name, each in objects:
            counts[name] += 1
            unique = name if counts[name] == 1 else f"{name} {counts[name]}"
            report = own.register(each, unique)
            registers = [hook for hook in report.hooks if hook in registration_hooks() - {"flexchat_register_steps"}]
            if registers:
                problems.append(f"{unique}: {registers[0]} is for plugins: PluginHost.register takes them")
            elif (reason := own.why_inactive(unique)) is not None and not own.steps.conflicts:
                problems.append(reason)
        together = self.hooks().followed_by(own.hooks())
        times = Counter(each.step.name for each in together.steps)
        doubled = [*own.steps.conflicts, *(name for name, count in times.items() if count > 1)]
        problems += [f"two steps are called '{name}'" for name in doubled]
        if problems:
            raise ConfigError([Problem(path="hooks", text=text) for text in problems])
        return together

    def ask(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Return the answers to a plugin-defined hook, each with its plugin's name; empty if there are none.

        An implementation that raises is logged and left out; in strict mode it is an error.

        Raises:
            PluginLoadError: In strict mode only.
        """
        answers, caller = [], getattr(self._manager.hook, hook, None)
        for implementation in reversed(caller.get_hookimpls() if caller is not None else []):
            plugin = implementation.plugin_name
            try:
                with contained():
                    own_arguments = {name: arguments[name] for name in implementation.argnames}
                    answer = implementation.function(**own_arguments)
                    answers.append((plugin, [*answer] if inspect.isgenerator(answer) else answer))
            except Exception as error:
                reason = Mask(secrets_of_environment())(f"{hook} failed: {_one_line(error)}")
                if self._strict:
                    raise PluginLoadError(plugin, reason) from error
                watchers.warning("plugin %s: %s", plugin, reason)  # shown even without -v: nothing else reports it
        return answers

    def _load(self, sources: Iterable[_Source]) -> list[PluginReport]:
        """Import all plugins, then add the hooks they define, then register what each provides.

        This lets a plugin implement a hook of one loaded after it.
        """
        order = {name: place for place, name in enumerate(self._prefer)}
        opened = [self._open(source) for source in sorted(sources, key=lambda s: order.get(s.name, len(order)))]
        for each in opened:
            self._add_hookspecs(each)
        return [self._register(each) for each in opened]

    def _open(self, source: _Source) -> _Opened:
        started, opened = time.perf_counter(), _Opened(source)
        name, package, claims = source.name, source.package, self._claimed.setdefault(source.name, [])
        self._sources.append(source)
        claims.append(package or "another")
        if len(claims) > 1:
            other = claims[0] if claims[0] != "another" else "another plugin"
            second = attrs.evolve(source, name=f"{name} ({package})")
            opened.report = self._failed(second, f"the name '{name}' is taken by {other}")
        elif name in self._block:
            reason = f"by {self._block[name]}"
            opened.report = PluginReport(name=name, package=package, status="blocked", reason=reason)
        else:
            try:
                with contained():
                    opened.plugin = source.load()
            except Exception as error:  # noqa: BLE001  a plugin that calls sys.exit() at import is broken, not in charge
                opened.report = self._failed(source, f"import failed: {_one_line(error)}", error)
        opened.seconds = time.perf_counter() - started
        return opened

    def _add_hookspecs(self, opened: _Opened) -> None:
        """Let other plugins implement the hooks this one defines."""
        try:
            with contained():
                define: Any = getattr(opened.plugin, "flexchat_add_hookspecs", None)
                if opened.report is None and isinstance(getattr(define, _MARK, None), dict):
                    for holder in define():
                        self._manager.add_hookspecs(holder)
                        self._known_hooks |= {name for name in dir(holder) if hasattr(self._manager.hook, name)}
        except Exception as error:  # noqa: BLE001  a plugin's fault is its report
            opened.report = self._failed(opened.source, f"flexchat_add_hookspecs failed: {_one_line(error)}", error)

    def _register(self, opened: _Opened) -> PluginReport:
        started, source = time.perf_counter(), opened.source
        report = opened.report or self._add(source, opened.plugin)
        seconds = opened.seconds + time.perf_counter() - started
        report = attrs.evolve(report, gate=source.gate, load_ms=round(seconds * 1000))
        self._reports[report.name] = report
        return report

    def _add(self, source: _Source, plugin: object) -> PluginReport:
        name, doing = source.name, "reading it failed: "
        try:
            with contained(), warnings.catch_warnings():
                version = getattr(plugin, "FLEXCHAT_API", API_VERSION)
                marks = {a: getattr(getattr(plugin, a), _MARK, None) for a in dir(plugin)}
                hooks = tuple(a for a, mark in marks.items() if isinstance(mark, dict))
                needed = [a for a in hooks if not (marks[a] or {}).get("optionalhook")]
                unmarked = [a for a in marks if a not in hooks and inspect.isroutine(getattr(plugin, a))]
                if version > API_VERSION:
                    needs, has = ".".join(map(str, version)), ".".join(map(str, API_VERSION))
                    wrong: str | None = f"written for plugin API {needs}, this FlexChat has {has}: update flexchat-core"
                else:
                    wrong = _wrong_hook(needed, unmarked, self._known_hooks)
                if wrong is None:
                    if hasattr(plugin, "FLEXCHAT_API"):
                        warnings.simplefilter("ignore", hookspecs.ProvisionalHookWarning)
                    doing = ""
                    self._manager.register(plugin, name)
                    doing = "registering failed: "
                    provides, conflict = self._collect(plugin, name)
        except Exception as error:  # noqa: BLE001  a plugin's fault is its report
            if self._manager.has_plugin(name):
                self._manager.unregister(name=name)
            return self._failed(source, f"{doing}{_one_line(error)}", error)
        if wrong is not None:
            return self._failed(source, wrong)
        if conflict is not None:  # everything else it offers stays usable
            return self._failed(source, str(conflict), conflict, hooks=hooks, provides=provides)
        return PluginReport(name=name, package=source.package, status="active", hooks=hooks, provides=provides)

    def _collect(self, plugin: object, name: str) -> tuple[tuple[str, ...], PluginConflictError | None]:
        """Collect what a plugin registers: all of it or, if one of its hooks raises, nothing.

        Returns the registered names, and the first one that another plugin offers as well.
        """
        offers = [(hook, _records(plugin, hook, cls)) for hook, (_, _, cls) in _REGISTRATION.items()]
        for table in dict(offers)["flexchat_register_config_tables"]:
            if table.name in CORE_TABLES:
                raise ValueError(f"the config table '{table.name}' is FlexChat's own: give yours another name")
        for step in dict(offers)["flexchat_register_steps"]:
            problem = stage_problem(step)
            if problem is not None:
                self._misplaced.append(name)
                raise ValueError(problem)
        provides: list[str] = []
        conflict: PluginConflictError | None = None
        for hook, records in offers:
            kind, key, _ = _REGISTRATION[hook]
            store: Records = getattr(self, kind)
            for record in records:
                try:
                    if not store.add(key(record), record, name):
                        continue
                    provides.append(f"{store.kind} {spoken_name(key(record))}")
                    if isinstance(record, ProviderType):
                        self._add_tool_formats(record, name)
                except PluginConflictError as error:
                    conflict = conflict or error
        return tuple(provides), conflict

    def _add_tool_formats(self, provider: ProviderType, plugin: str) -> None:
        """Keep a provider's tool formats. Several may share one; only a different encoder of that name conflicts."""
        for name, encode in provider.tool_formats.items():
            if self.tool_formats.by_name.get(name) is not encode:
                self.tool_formats.add(name, encode, plugin)

    def _failed(self, source: _Source, reason: str, error: BaseException | None = None, **facts: Any) -> PluginReport:
        reason = Mask(secrets_of_environment())(reason)
        if self._strict:
            if isinstance(error, PluginConflictError):
                raise error
            raise PluginLoadError(source.name, reason) from error
        log.warning("plugin %s is left out: %s", source.name, reason)
        return PluginReport(name=source.name, package=source.package, status="failed", reason=reason, **facts)


_REGISTRATION: dict[str, tuple[str, Callable[[Any], Any], type]] = {
    "flexchat_register_providers": ("providers", lambda r: r.name, ProviderType),
    "flexchat_register_implementation_types": ("implementation_types", lambda r: r.name, ImplementationType),
    "flexchat_register_tool_handlers": ("handlers", lambda r: (r.kind, r.name), ToolHandler),
    "flexchat_register_tool_sources": ("tool_sources", lambda r: r.name, ToolSourceType),
    "flexchat_register_source_loaders": ("source_loaders", lambda _: SOURCE_LOADER, SourceLoaderType),
    "flexchat_register_tools": ("tools", lambda r: r.name, ToolDefinition),
    "flexchat_register_document_stores": ("document_stores", lambda r: r.name, DocumentStoreType),
    "flexchat_register_rerankers": ("rerankers", lambda r: r.name, RerankerType),
    "flexchat_register_conversation_stores": ("conversation_stores", lambda r: r.name, ConversationStoreType),
    "flexchat_register_fetchers": ("fetchers", lambda _: FETCHER, FetcherType),
    "flexchat_register_steps": ("steps", lambda r: r.name, Step),
    "flexchat_register_config_tables": ("config_tables", lambda r: r.name, ConfigTable),
    "flexchat_register_checks": ("config_checks", lambda r: r.name, ConfigCheck),
}


def registration_hooks() -> frozenset[str]:
    """Return the names of the hooks that offer something, at start or when a chat is made."""
    return frozenset((*_REGISTRATION, "flexchat_add_hookspecs", CHAT_HOOKS))


def _event_hooks() -> list[str]:
    return [name for name in vars(hookspecs) if name.startswith("flexchat_") and name not in registration_hooks()]


def _wrong_hook(hooks: Iterable[str], unmarked: Iterable[str], known: Collection[str]) -> str | None:
    """Return the problem that would make pluggy call no hook of a plugin, or the wrong one; None if there is none.

    Args:
        hooks: Names of the hooks it implements, except optional ones (optionalhook=True).
        unmarked: Names of its functions without @hookimpl.
        known: Names of all hooks.
    """
    for hook in hooks:
        if hook not in known:
            close = difflib.get_close_matches(hook, known, n=1, cutoff=0.5)
            hint = f"; did you mean '{close[0]}'?" if close else ""
            return f"unknown hook '{hook}'{hint}"
    for name in unmarked:
        if name.startswith("flexchat_") and difflib.get_close_matches(name, known, n=1, cutoff=0.85):
            return f"{name} is not marked with @hookimpl, so it would never be called"
    return None


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
    raised = error.__cause__ if isinstance(error, ForeignError) else None
    return " ".join(error_name(raised or error).split())
