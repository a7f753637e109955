"""Builds the parts of a FlexChat from a configuration and the installed plugins."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from .calls.effects import Effects
from .calls.manager import ToolLike, ToolManager, as_definition
from .config.model import Config, EffectsTable, LimitsTable, LLMEntry, ResponseRule, ToolsTable, own_keys
from .config.wording import shortened
from .domain.copies import with_own_tables
from .domain.masking import Mask
from .domain.prices import PriceSettings
from .errors import ConfigError, Problem, ProviderError, ToolDefinitionError, did_you_mean
from .installing import package_with
from .llms.llm import Llms, LocalModels
from .plugin.contracts import ChatProvider, ClosableFetcher, ConversationStore, Reranker, Retriever, SeparateJournal
from .plugin.foreign import contained, error_name
from .plugin.hooks import Hooks
from .plugin.host import BLOCKED_BY_CONFIG, FETCHER, SOURCE_LOADER, PluginHost
from .plugin.tool_sources import Closable, OpenSource
from .tools.deferral import FINDER
from .tools.registry import verify_trouble
from .tools.settings import allowed_tools, read_tool_settings, tool_trouble
from .tools.sources import ToolSources, settings_of, source_tables

if TYPE_CHECKING:
    from .config.reading import ReadConfig

log = logging.getLogger(__name__)

SLOW_LOAD_MS = 1000  # a plugin that takes longer is logged, because every command loads every plugin


@attrs.frozen(kw_only=True)
class Parts:
    """What a FlexChat is made of; see FlexChat.

    Attributes:
        holds: What is closed with it, in order of creation; closed in reverse, because a store may still need its
            embedder. Default: all the others.
    """

    config: Config
    llms: Llms
    tools: ToolManager
    hooks: Hooks = attrs.field(factory=Hooks)
    stores: Mapping[str, Retriever] = attrs.field(factory=dict)
    rerankers: tuple[Reranker, ...] = ()
    local_models: LocalModels = attrs.field(factory=LocalModels)
    conversations: ConversationStore | None = None
    journal: SeparateJournal | None = None
    usual_thresholds: Mapping[str, tuple[float, float]] = attrs.field(factory=dict)
    mask: Mask = attrs.field(factory=Mask)
    fetcher: ClosableFetcher | None = None
    packages: Mapping[str, str] = attrs.field(factory=dict)
    notes: tuple[Problem, ...] = ()
    holds: tuple[Closable, ...] = attrs.field()

    @holds.default
    def _all(self) -> tuple[Closable, ...]:
        store = self.conversations
        return (
            *(llm.provider for llm in self.llms.values()),
            self.local_models,
            *self.rerankers,
            *self.stores.values(),
            *(resource for resource in (store, self.journal, self.fetcher) if resource is not None),
            self.tools.effects,
            self.tools.sources,
        )


def assemble(
    reading: ReadConfig,
    host: PluginHost,
    tools: Iterable[ToolLike],
    providers: Mapping[str, ChatProvider],
    hooks: Iterable[object] = (),
    open_sources: Mapping[str, OpenSource] | None = None,
    *,
    history_policy: Callable[..., Any] | None = None,
    review: bool = True,
) -> Parts:
    """Build the parts a configuration describes; see FlexChat.from_config.

    Args:
        review: Whether to let plugins review the parts.

    Raises:
        ConfigError: All problems of the configuration.
    """
    from .document_stores import StoreOpener
    from .llms.open import Configured, open_llms, read_entries, secret_values

    host = as_configured(host, reading)
    _check_plugins(reading, host)
    entries = read_entries(reading, "llms", host.providers, given=providers)
    store_entries = read_entries(reading, "stores", host.document_stores)
    read_tables(reading, host)
    sources = _sources(reading, host, open_sources or {})
    tools = [*tools]
    names = {tool.name for tool in map(as_definition, (tool for tool in tools if not isinstance(tool, str)))}
    read = read_tool_settings(reading, host, has_sources=bool(sources.by_name), given=names)
    run_checks(reading, host, at_start=True)
    given_llms = Llms.from_providers(providers, reading.config.llms if reading.config is not None else {})
    opened = open_llms(reading, {name: entry for name, entry in entries.items() if name not in given_llms})
    llms = Llms([*opened, *given_llms.values()])
    local = LocalModels(host.providers.by_name.values())
    rerankers: list[Reranker] = []
    stores: Mapping[str, Retriever] = {}
    if reading.config is not None:
        _check_rules(reading, reading.config, host, llms)
        stores = StoreOpener(reading, reading.config, host, llms, local, rerankers).open(store_entries)
    conversations, journal = _conversations(reading, host)
    effects = _effects(reading, host, conversations)
    if history_policy is not None and "history" not in host.config_tables.by_name:
        reading.problem((), f"no plugin calls a history_policy: {host.config_tables.missing('history')}")
    config = reading.finish()
    configured = [Configured(None, settings) for settings in settings_of(sources)]
    mask = Mask(reading.secrets | secret_values([*entries.values(), *store_entries.values(), *configured]))
    own = host.hooks_of_chat(config.tables, hooks, history_policy)
    for llm in llms.values():
        llm.use_hooks(own)
    if own.restricts:
        from .plugin.permitted_stores import restrict_store

        stores = {name: restrict_store(name, store, own.refusal) for name, store in stores.items()}
    fetcher = create_fetcher(host, config, mask)
    manager = ToolManager.from_plugins(
        host,
        config.tools,
        stores=stores,
        hooks=own,
        mask=mask,
        effects=effects,
        fetcher=fetcher,
        sources=sources,
    )
    for index, text in manager.load_tools(read.structured, read.left_out, names).items():
        reading.problem(("tools", "registry", index), f"tool '{config.tools.registry[index].name}': {text}")
    reading.finish()
    _add_given(manager, tools, host)
    _check_verifying(reading, config, manager)
    _check_search(reading, config, manager, host)
    reading.finish()
    _note_retries(reading, config, manager)
    _log_rules_with_all_tools(config, manager)
    if review:
        run_reviews(reading, host, Reviewed(config=config, tools=manager, llms=llms, plugins=host))
        reading.finish()
    manager.start_sources(functools.partial(create_fetcher, host, config, mask))
    # The distances that suit each embedder, by "PROVIDER/MODEL".
    usual_thresholds = {
        f"{kind.name}/{model}": thresholds
        for kind in host.providers.by_name.values()
        for model, thresholds in kind.embedding_thresholds.items()
    }
    return Parts(
        config=config,
        llms=llms,
        tools=manager,
        hooks=own,
        stores=stores,
        rerankers=tuple(rerankers),
        local_models=local,
        conversations=conversations,
        journal=journal,
        usual_thresholds=usual_thresholds,
        mask=mask,
        fetcher=fetcher,
        packages={name: host.providers.package(entry.provider) for name, entry in config.llms.items()},
        notes=tuple(reading.notes),
    )


def _check_search(reading: ReadConfig, config: Config, manager: ToolManager, host: PluginHost) -> None:
    """Report a search for tools that no package offers, and patterns that fit no tool, as far as all are known."""
    shows = [(index, rule.tools.show) for index, rule in enumerate(config.responses) if rule.tools and rule.tools.show]
    if (config.tools.search is not None or shows) and manager.get_registry().finder is None:
        path = ("responses", shows[0][0], "tools", "show") if config.tools.search is None else ("tools", "search")
        reading.problem(path, host.tools.missing(FINDER))
    registry = manager.every_tool
    for index, show in shows if not manager.sources.by_name else ():
        for at, name in enumerate(show):
            if not registry.matching([name]):
                text = f"no tool is called '{shortened(name)}'{did_you_mean(name, registry.names())}"
                reading.problem(("responses", index, "tools", "show", at), text)


def _log_rules_with_all_tools(config: Config, manager: ToolManager) -> None:
    for index, rule in enumerate(config.responses):
        if rule.tools is not None and rule.tools.enabled and rule.tools.allowed_tools is None:
            names = manager.get_registry().names()
            log.info("responses[%d] names no allowed_tools: all %d tools are offered", index, len(names))


def split_model(named: str, host: PluginHost) -> tuple[str, str]:
    """Return the provider type's name and the model of "PROVIDER/MODEL".

    Raises:
        ConfigError: It is not of this form, or no installed plugin offers the provider.
    """
    if not isinstance(named, str):
        raise ConfigError([Problem(path="model", text=f'must be "PROVIDER/MODEL", not {type(named).__name__}')])
    provider, slash, model = named.partition("/")
    if slash and model.strip() and provider in host.providers.by_name:
        return provider, model
    if slash and provider and model.strip():
        text = host.providers.missing(provider)
    elif named.strip("/ ") in host.providers.by_name:
        text = f"'{named}' names a provider and no model: write \"{named.strip('/ ')}/MODEL\""
    else:
        names = ", ".join(sorted(host.providers.by_name)) or "none"
        text = f'\'{named}\' must be "PROVIDER/MODEL", as in "openai/gpt-5.2" (providers installed: {names})'
    raise ConfigError([Problem(path="model", text=text)])


def assemble_rule(
    rule: ResponseRule,
    settings: Mapping[str, Any],
    host: PluginHost,
    tools: Iterable[ToolLike],
    limits: LimitsTable,
    hooks: Iterable[object] = (),
    prices: Mapping[str, PriceSettings] | None = None,
) -> Parts:
    """Build the parts for one rule, whose llm is a provider type's name, and some tools; see FlexChat.from_model.

    Raises:
        ConfigError: No installed plugin offers the provider, it does not accept these settings, a price is none, or a
            gate is inactive.
    """
    from .llms.open import Configured, open_llm, secret_values, with_usual_key

    require_gates(host)
    provider = rule.llm
    provider_type = host.providers.by_name[provider]
    most = rule.tools.max_iterations if rule.tools is not None else None
    if most is not None and most < 1:
        raise ConfigError([Problem(path="max_iterations", text=f"must be at least 1, got {most}")])
    settings = dict(with_own_tables(settings))
    core_settings = {key: settings.pop(key) for key in ("retries", "retry_delay_ms", "max_parallel") if key in settings}
    checked = _settings(provider, LLMEntry, {"provider": provider} | ({"prices": prices} if prices is not None else {}))
    entry = LLMEntry(provider=provider, prices=checked.prices, **core_settings)
    own_settings = _settings(provider, provider_type.config_class, settings)
    try:
        service = Configured(provider_type, with_usual_key(own_settings))
        llm = open_llm(provider, service, entry)
    except (ProviderError, TypeError, ValueError) as error:
        raise ConfigError([Problem(path=f"provider {provider}", text=str(error))]) from None
    config = Config(llms={provider: entry}, responses=(rule,), limits=limits)
    own = host.hooks_of_chat(config.tables, hooks)
    llm.use_hooks(own)
    mask = Mask(secret_values([service]))
    fetcher = create_fetcher(host, config, mask)
    manager = ToolManager.from_plugins(host, config.tools, hooks=own, mask=mask, fetcher=fetcher)
    _add_given(manager, tools, host)
    for tool in manager.get_registry().list():
        if trouble := verify_trouble(tool, manager.get_registry()):
            raise ToolDefinitionError(trouble)
    return Parts(
        config=config,
        llms=Llms([llm]),
        tools=manager,
        hooks=own,
        local_models=LocalModels(host.providers.by_name.values()),
        mask=mask,
        fetcher=fetcher,
        packages={provider: host.providers.package(provider)},
    )


def create_fetcher(host: PluginHost, config: Config, mask: Mask) -> ClosableFetcher | None:
    """Create the client tools send requests with; None if no plugin offers one."""
    kind = host.fetchers.by_name.get(FETCHER)
    return kind.create(config.network.allow, config.network.domains, mask) if kind is not None else None


def installed_plugins(block: Mapping[str, str] | None = None, prefer: Iterable[str] = ()) -> PluginHost:
    """Return a host with every installed plugin except the blocked ones.

    Args:
        block: Plugin names to leave out, each with the place that blocks it. FLEXCHAT_BLOCK_PLUGINS (comma-separated
            names) adds to them; a warning is logged for names that no plugin has.
            FLEXCHAT_STRICT_PLUGINS=1 makes any failure an error.
        prefer: Plugins that win over others offering the same name.

    Raises:
        PluginError: In strict mode only.
    """
    variable = os.environ.get("FLEXCHAT_BLOCK_PLUGINS", "")
    blocked = {name.strip(): "FLEXCHAT_BLOCK_PLUGINS" for name in variable.split(",") if name.strip()}
    strict = os.environ.get("FLEXCHAT_STRICT_PLUGINS") == "1"
    host = PluginHost(block={**blocked, **(block or {})}, prefer=prefer, strict=strict)
    host.load_installed()
    names = [report.name for report in host.reports]
    for name in blocked:
        if name not in names:
            hint = did_you_mean(name, names) or f" (installed: {', '.join(names) or 'none'})"
            log.warning("FLEXCHAT_BLOCK_PLUGINS: no plugin is called '%s'%s", name, hint)
    for report in host.reports:
        if report.load_ms > SLOW_LOAD_MS:
            log.warning("plugin %s took %.1f s to load", report.name, report.load_ms / 1000)
    return host


def plugin_choice(reading: ReadConfig) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the plugins a configuration blocks, each with the place that blocks it, and those it prefers."""
    blocked = dict.fromkeys(_plugin_names(reading, "block").values(), BLOCKED_BY_CONFIG)
    return blocked, tuple(_plugin_names(reading, "prefer").values())


def plugins_for(reading: ReadConfig) -> PluginHost:
    """Return the installed plugins, with a configuration's block and prefer applied."""
    return installed_plugins(*plugin_choice(reading))


def as_configured(host: PluginHost, reading: ReadConfig) -> PluginHost:
    """Return a host with a configuration's block and prefer applied: the same one, if they are already."""
    return host.configured(*plugin_choice(reading))


def require_gates(host: PluginHost) -> None:
    """Check that every gate is active: otherwise, what it forbids would happen.

    Raises:
        ConfigError: A gate is inactive; the text gives the reason.
    """
    closed = [Problem(path="plugins", text=text) for _, text in host.closed_gates()]
    if closed:
        raise ConfigError(closed)


def run_checks(reading: ReadConfig, host: PluginHost, *, at_start: bool) -> None:
    """Run plugins' checks, which report what they find to the configuration.

    Args:
        at_start: Which checks: those of every start, or those that run only on request.
    """
    for plugin, check in host.config_checks.by_plugin() if reading.config is not None else ():
        if check.run is not None and check.at_start == at_start:
            _run_check(reading.problem, plugin, check.name, functools.partial(check.run, reading))


def _run_check(report: Callable[..., None], plugin: str, name: str, check: Callable[[], Any]) -> None:
    try:
        with contained():
            check()
    except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
        report((), f"plugin '{plugin}': its check '{name}' failed: {error_name(error)}")


@attrs.frozen(kw_only=True)
class Reviewed:
    """The parts of a chat as the review of a ConfigCheck sees them.

    Attributes:
        may_take_long: Whether a review was requested, so that prices may be searched: no program waits to start.
    """

    config: Config
    tools: ToolManager
    llms: Llms
    plugins: PluginHost
    may_take_long: bool = False


def run_reviews(reading: ReadConfig, host: PluginHost, parts: Reviewed) -> None:
    """Run plugins' reviews of a chat's parts; a failed one becomes a note."""
    for plugin, check in host.config_checks.by_plugin():
        if check.review is not None:
            _run_check(reading.note, plugin, check.name, functools.partial(check.review, reading, parts))


def _plugin_names(reading: ReadConfig, key: str) -> dict[int, str]:
    """Return the names in plugins.block, plugins.prefer or plugins.require, by index."""
    table = reading.document.data.get("plugins")
    names = table.get(key) if isinstance(table, Mapping) else None
    return {i: name for i, name in enumerate(names) if isinstance(name, str)} if isinstance(names, list) else {}


def _check_plugins(reading: ReadConfig, host: PluginHost) -> None:
    """Report required plugins that are missing, and blocked or preferred ones that do not exist."""
    installed, blocked = [report.name for report in host.reports], _plugin_names(reading, "block")
    required = _plugin_names(reading, "require")
    for index, name in required.items():
        reason = host.why_inactive(name)
        if reason is not None and name not in blocked.values():
            reading.problem(("plugins", "require", index), reason)
    for name, text in host.closed_gates():
        if name not in required.values():
            reading.problem(("plugins",), text)
    for key, names in (("block", blocked), ("prefer", _plugin_names(reading, "prefer"))):
        for index, name in names.items():
            if name not in installed:
                hint = did_you_mean(name, installed)
                there = f" (installed: {', '.join(installed) or 'none'})"
                text = f"no plugin is called '{name}'{hint or there}"
                # Blocking a plugin that is not installed is harmless; a typing error leaves it on.
                (reading.problem if hint else reading.note)(("plugins", key, index), text)


def read_tables(reading: ReadConfig, host: PluginHost) -> None:
    """Read plugins' tables, and report why one is not read; an unexplained key is left to the reading."""
    kinds = host.config_tables
    tables = kinds.by_name
    reading.known_keys = sorted({*reading.known_keys, *tables})
    for name in [*reading.unread]:
        suspects = "; ".join(kinds.suspects(name))
        if name in tables:
            table = tables[name]
            reading.read_table(name, table.load, is_list=table.is_list, is_named=table.is_named)
        elif name in kinds.conflicts:
            del reading.unread[name]
            reading.problem((name,), kinds.missing(name))
        elif package_with(kinds.kind, name):
            del reading.unread[name]
            report = reading.problem if package_with("forbidding table", name) else reading.note
            report((name,), f"this table is not read: {suspects}")
        elif (
            suspects and isinstance(reading.document.data[name], Mapping) and not did_you_mean(name, reading.known_keys)
        ):
            del reading.unread[name]
            reading.problem((name,), f"no plugin reads this table: {suspects}")


def _sources(reading: ReadConfig, host: PluginHost, given: Mapping[str, OpenSource]) -> ToolSources:
    """Return the tool sources, not started yet."""
    kind = host.source_loaders.by_name.get(SOURCE_LOADER)
    sources: ToolSources = kind.load(reading, host, given) if kind is not None else ToolSources()
    tables = source_tables(reading.document.data)
    if kind is None:  # the package to install is named
        why = f"no plugin loads tool sources ({'; '.join(host.source_loaders.suspects(SOURCE_LOADER))})"
        if given:
            reading.problem(("tools",), why)
        for name in tables:
            unknown = f"{host.tool_sources.missing(name)}{did_you_mean(name, own_keys(ToolsTable))}"
            reading.problem(("tools", name), why if name in host.tool_sources.by_name else unknown)
    names = {*sources.by_name, *given}
    for type_, items in tables.items():  # of all, also those that cannot be used
        table_names = [item.get("name", type_) for item in items if isinstance(item, Mapping)]
        names |= {name for name in table_names if isinstance(name, str)}
    for path, name in allowed_tools(reading):
        if isinstance(name, str) and name.endswith("/*") and name[:-2] not in names:
            listing = ", ".join(sorted(names)) or "none"
            text = f"no tool source is called '{shortened(name[:-2])}'{did_you_mean(name[:-2], names)}"
            reading.problem(path, f"{text}; configured: {listing}")
    return sources


def _conversations(reading: ReadConfig, host: PluginHost) -> tuple[ConversationStore | None, SeparateJournal | None]:
    """Return the store of conversations, and the journal of their turns if the store has none."""
    if "conversations" not in reading.document.data:
        return None, None
    from .conversations.opening import open_conversations, open_journal  # only if they are kept

    store = open_conversations(reading, host)
    return store, open_journal(host, store)


def _effects(reading: ReadConfig, host: PluginHost, conversations: ConversationStore | None) -> Effects:
    table = reading.config.tools.effects if reading.config is not None else EffectsTable()
    ledger = None
    if conversations is not None or table.store not in (None, "memory"):
        from .conversations.opening import open_ledger  # only if effects are kept

        ledger = open_ledger(reading, host, table, conversations)
    keep_s = table.keep_days * 24 * 3600.0
    return Effects(ledger, lease_s=table.lease_s, keep_s=keep_s, is_fixed=table.store is not None)


def _check_verifying(reading: ReadConfig, config: Config, manager: ToolManager) -> None:
    """Report each tool whose verifying tool cannot verify it."""
    entries = {entry.name: (index, entry) for index, entry in reversed([*enumerate(config.tools.registry)])}
    for tool in manager.get_registry().list():
        trouble = verify_trouble(tool, manager.get_registry(), may_be_sourced=bool(manager.sources.by_name))
        if trouble is not None and tool.name not in entries:
            raise ToolDefinitionError(trouble)
        if trouble is not None:
            index, entry = entries[tool.name]
            path = ("tools", "registry", index)
            reading.problem(path if entry.verify is None else (*path, "verify"), trouble)


def _note_retries(reading: ReadConfig, config: Config, manager: ToolManager) -> None:
    for index, entry in enumerate(config.tools.registry):
        tool = manager.get_registry().get(entry.name)
        if tool is not None and tool.retry is not None and tool.retry.max_attempts > 1 and not tool.may_repeat:
            text = f"tool '{tool.name}' is not retried: trying again could change something twice. Set honours_key "
            text += 'if its service acts once per key, or effect = "read" or "idempotent"'
            reading.note(("tools", "registry", index), text)


def _check_rules(reading: ReadConfig, config: Config, host: PluginHost, llms: Llms) -> None:
    """Report each rule with an unusable response_format, or with tools in a format that two plugins offer."""
    from .schema.answer_format import format_problem

    for index, rule in enumerate(config.responses):
        if rule.history is not None and "history" not in reading.document.data:
            text = "a rule overrides the limits of [history], which flexchat-history reads: add that table"
            reading.problem(("responses", index, "history"), text)
        if rule.response_format and (problem := format_problem(rule.response_format)):
            reading.problem(("responses", index, "response_format"), problem)
        uses_tools = rule.tools.enabled if rule.tools is not None else config.tools.apply_globally
        if rule.llm in llms and uses_tools:
            llm, model = llms.resolve(rule.llm, rule.model)
            name = llm.provider.tool_format(model)
            if name in host.tool_formats.conflicts:
                reading.problem(("responses", index, "llm"), host.tool_formats.missing(name))


def _add_given(manager: ToolManager, tools: Iterable[ToolLike], host: PluginHost) -> None:
    """Register tools given in code.

    Raises:
        ToolDefinitionError: One of them is not a tool, its name is taken, or what runs it is not installed.
    """
    for item in tools:
        if isinstance(item, str) and item in host.tools.conflicts:
            raise ToolDefinitionError(host.tools.missing(item))
        manager.add([item])
    for tool in manager.get_registry().list():
        trouble = tool_trouble(tool, host)
        if trouble is not None:
            raise ToolDefinitionError(f"tool '{tool.name}': {trouble}")


def _settings(provider: str, config_class: type[Any], settings: dict[str, Any]) -> Any:
    """Return a provider's settings from keyword arguments, with the errors a config would give."""
    if all(isinstance(value, (str, int, float, bool, type(None))) for value in settings.values()):
        try:
            return config_class(**settings)
        except (TypeError, ValueError):
            pass  # reported better below
    from .config.structure import structure_mapping  # imports cattrs: only when needed

    instance, problems = structure_mapping(settings, config_class)
    if problems:
        raise ConfigError([Problem(path=f"provider {provider}", text=text) for text in problems])
    return instance
