"""Laws about whatever a plugin registers: they need nothing from its author, and call nothing that changes the
world."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
import unittest
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Union, get_args, get_origin

import attrs
from flexchat.host import ArgumentChecker, PluginHost, is_secret_name, structure_mapping
from flexchat.store import DocumentStoreContext
from flexchat_sdk import ChatOptions, ProviderError, SchemaDialect, UserMessage

from .implementation import STRANGE_VALUES
from .law import Conformance, law, raising_only, refused, require, show
from .running import check_encoder, check_light
from .samples import FIRST

_Check = Callable[[Any, Any, Mapping[Any, Any]], str | None]
_SECRET = "kit-secret-0123456789"
# The discard port (RFC 863), on which nothing listens today: a connection is refused at once.
_NOWHERE = "http://127.0.0.1:9"


@attrs.frozen(kw_only=True)
class Registered:
    """An installed plugin.

    Attributes:
        name: The name of its entry point.
        module: The module that the entry point names.
        alone: A host with this plugin only.
        all: A host with all installed plugins.
    """

    name: str
    module: str
    alone: PluginHost
    all: PluginHost


class RegisteredConformance(Conformance):
    """What every plugin keeps, judged by its records alone."""

    capabilities: ClassVar[Mapping[str, str]] = {}

    def __init__(self, plugin: Registered) -> None:
        self.plugin = plugin

    @law()
    def test_it_loads(self) -> None:
        """flexchat plugins shows it as active."""
        report = self.plugin.alone.reports[0]
        require(report.status == "active", f"it is {report.status}: {report.reason}")

    @law()
    def test_its_names_are_its_own(self) -> None:
        """No other installed plugin offers one of its names, for then neither may have it."""
        host = self.plugin.all
        kinds = (host.providers, host.implementation_types, host.handlers, host.tools)
        for records in (*kinds, host.tool_sources, host.document_stores):
            for key, rivals in records.conflicts.items():
                if self.plugin.name in rivals:
                    name = key if isinstance(key, str) else " ".join(key)
                    others = " and ".join(rival for rival in rivals if rival != self.plugin.name) or "itself"
                    raise AssertionError(f"{records.kind} '{name}' is offered by {others} too")

    @law()
    def test_its_module_is_light(self) -> None:
        """Importing it loads nothing heavy and reaches no network: every command imports every plugin."""
        check_light(self.plugin.module)

    @law()
    def test_its_records_say_what_they_are(self) -> None:
        """Each record has a summary of one line, for flexchat plugins and for the help."""
        for kind, record in self._kinds():
            summary = record.summary
            fits = summary.strip() and "\n" not in summary and len(summary) <= 200
            require(fits, f"{kind} {record.name}: summary must be one line of 1 to 200 characters, got {show(summary)}")

    @law()
    def test_strange_settings_are_read_or_refused(self) -> None:
        """Its settings classes accept any table of a config, or refuse it with a sentence; nothing else is raised."""
        for what, cls, check in self._settings_classes():
            require(attrs.has(cls), f"{what}: {cls.__name__} must be an attrs class")
            for field, _ in _typed_fields(cls):
                for value in STRANGE_VALUES:
                    _try(what, cls, {field.name: value}, check)

    @law()
    def test_secrets_are_kept(self) -> None:
        """A field that holds a secret is marked so, and not part of the repr: see secret_key."""
        for what, cls, _ in self._settings_classes():
            for field, kind in _typed_fields(cls):
                if is_secret_name(field.name) and _takes_text(kind):
                    problem = f"{what}: {field.name} needs repr=False and the metadata {{'secret': True}}"
                    require(field.metadata.get("secret") and field.repr is False, problem)

    @law()
    async def test_providers_are_what_they_say(self) -> None:
        """A provider is made without a network, has its type's name, and names a tool format that is registered."""
        for type_ in self._records("providers"):
            formats = [*type_.tool_formats]
            for name in (*formats, *type_.schema_dialects):
                fits = name == type_.name or name.startswith(f"{type_.name}.")
                require(fits, f"provider {type_.name}: '{name}' must be '{type_.name}' or begin with '{type_.name}.'")
            strange = [d for d in type_.schema_dialects.values() if not isinstance(d, SchemaDialect)]
            require(not strange, f"provider {type_.name}: schema_dialects holds {show(strange)}")
            async with contextlib.aclosing(type_.create(_some_settings(type_.config_class))) as provider:
                require(provider.name == type_.name, f"a provider made by {type_.name} is called {provider.name!r}")
                format = provider.tool_format("some-model")
                require(
                    format in formats or not formats,  # a model that only embeds receives no tools
                    f"tool_format gives {format!r}, tool_formats has {', '.join(formats)}",
                )
                for method in ("generate_chat", "list_models", "aclose"):
                    is_async = inspect.iscoroutinefunction(getattr(provider, method, None))
                    require(is_async, f"provider {type_.name}: {method} must be an async def")
                shown_secret = _SECRET in repr(provider)
                require(not shown_secret, f"provider {type_.name}: its repr shows the key")

    @law()
    async def test_a_service_that_is_away_is_a_provider_error(self) -> None:
        """Where nothing listens, an exchange and the list of models raise ProviderErrors, without the key in them."""
        reachable = [t for t in self._records("providers") if "base_url" in attrs.fields_dict(t.config_class)]
        if not reachable:
            raise unittest.SkipTest("does not apply: it registers no provider with a base_url")
        for type_ in reachable:
            async with contextlib.aclosing(type_.create(_some_settings(type_.config_class))) as provider:
                messages = (UserMessage(content="Hello"),)
                exchange = functools.partial(provider.generate_chat, messages, "some-model", ChatOptions(timeout_s=5.0))
                for what, ask in (("generate_chat", exchange), ("list_models", provider.list_models)):
                    error = await refused(ask(), ProviderError, f"{what} at {_NOWHERE}, where nothing listens,")
                    require(_SECRET not in f"{error}{error!r}", f"{what}: the error holds the key")

    @law()
    def test_tool_formats_are_pure(self) -> None:
        """An encoder returns JSON data that names every tool, the same each time, and leaves the definitions alone."""
        for type_ in self._records("providers"):
            for name, encode in type_.tool_formats.items():
                check_encoder(name, encode)

    @law()
    def test_handlers_take_params_and_context(self) -> None:
        """call is a function of (params, context)."""
        for handler in self._records("handlers"):
            try:
                inspect.signature(handler.call).bind({}, None)
            except (TypeError, ValueError) as error:
                raise AssertionError(f"handler {handler.name}: call must take (params, context): {error}") from None

    @law()
    def test_its_tools_can_be_used(self) -> None:
        """A ready-made tool has a schema that can be checked, and settings that its implementation type takes."""
        for tool in self._records("tools"):
            try:
                ArgumentChecker(tool.parameters).check({})
            except (ValueError, RecursionError) as error:
                raise AssertionError(f"tool {tool.name}: its schema cannot be used: {error}") from None
            type_ = self.plugin.all.implementation_types.by_name.get(tool.implementation.type)
            if type_ is None:
                missing = self.plugin.all.implementation_types.missing(tool.implementation.type)
                raise AssertionError(f"tool {tool.name}: {missing}")
            settings = tool.implementation.settings
            if isinstance(settings, Mapping):
                settings, problems = structure_mapping(settings, type_.settings_class)
                require(not problems, f"tool {tool.name}: {'; '.join(problems)}")
            text = type_.check(settings, tool, self.plugin.all.handlers.by_name) if type_.check else None
            require(text is None, f"tool {tool.name}: {text}")

    @law()
    def test_implementation_types_can_be_awaited(self) -> None:
        """run is an async def of (settings, params, context)."""
        for type_ in self._records("implementation_types"):
            require(inspect.iscoroutinefunction(type_.run), f"{type_.name}: run must be an async def")

    @law()
    async def test_retrievers_are_made_and_closed(self) -> None:
        """A store is created without a network, answers queries, and releases its resources."""
        for type_ in self._records("document_stores"):
            store = type_.create(_some_settings(type_.config_class), DocumentStoreContext())
            for method in ("query", "collections", "aclose"):
                is_async = inspect.iscoroutinefunction(getattr(store, method, None))
                require(is_async, f"document store {type_.name}: {method} must be an async def")
            await store.aclose()

    def _records(self, kind: str) -> tuple[Any, ...]:
        records = tuple(getattr(self.plugin.alone, kind).by_name.values())
        if not records:
            raise unittest.SkipTest(f"does not apply: it registers no {kind.replace('_', ' ')}")
        return records

    def _kinds(self) -> Iterator[tuple[str, Any]]:
        host = self.plugin.alone
        kinds = (host.providers, host.implementation_types, host.tool_sources)
        for records in (*kinds, host.document_stores, host.rerankers, host.conversation_stores):
            yield from ((records.kind, record) for record in records.by_name.values())

    def _settings_classes(self) -> list[tuple[str, type, _Check | None]]:
        """List the configurable things, each with its settings class and the check of its settings."""
        host = self.plugin.alone
        classes: list[tuple[str, type, _Check | None]] = []
        for records in (host.providers, host.tool_sources, host.document_stores):
            classes += [(f"{records.kind} {name}", r.config_class, None) for name, r in records.by_name.items()]
        for name, type_ in host.implementation_types.by_name.items():
            classes.append((f"{host.implementation_types.kind} {name}", type_.settings_class, type_.check))
        for (_, name), handler in host.handlers.by_name.items():
            if handler.settings_class is not None:
                classes.append((f"{host.handlers.kind} {name}", handler.settings_class, None))
        classes += [
            (f"{host.config_tables.kind} {name}", t.load(), None) for name, t in host.config_tables.by_name.items()
        ]
        if not classes:
            raise unittest.SkipTest("does not apply: it registers nothing that has settings")
        return classes


def _try(what: str, cls: type, table: Mapping[str, Any], check: _Check | None) -> None:
    """Read a table as a config's, and let the plugin look at it; it may refuse, with a sentence."""
    with raising_only(what=f"{what}: reading the settings {show(table)}"):
        settings, problems = structure_mapping(table, cls)
        if not problems and check is not None:
            text = check(settings, FIRST, {})
            problems = [] if text is None else [text]
    silent = [problem for problem in problems if not (isinstance(problem, str) and problem.strip())]
    require(not silent, f"{what}: the settings {show(table)} are refused without a sentence: {show(silent)}")


def _some_settings(cls: type) -> Any:
    """Return settings with which a provider or a store may be made: the defaults, and guesses for what has none."""
    table = {
        field.name: _guess(field, kind)
        for field, kind in _typed_fields(cls)
        if field.default is attrs.NOTHING or field.name == "base_url" or _is_key(field, kind)
    }
    settings, problems = structure_mapping(table, cls)
    if problems:
        raise unittest.SkipTest(f"the kit cannot guess its settings: {'; '.join(problems)}")
    return settings


def _typed_fields(cls: type) -> list[tuple[attrs.Attribute[Any], Any]]:
    """Return the fields that a config may set, each with its type; annotations may be strings (PEP 563)."""
    hints = typing.get_type_hints(cls)
    return [(field, hints.get(field.name)) for field in attrs.fields(cls) if field.init]


def _is_key(field: attrs.Attribute[Any], kind: Any) -> bool:
    return bool(field.metadata.get("secret")) and _takes_text(kind)


def _guess(field: attrs.Attribute[Any], kind: Any) -> Any:
    if _is_key(field, kind):
        return _SECRET
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if str in kinds:
        return _NOWHERE if any(word in field.name for word in ("url", "address", "host", "endpoint")) else "kit"
    kind = kinds[0]
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    plain: dict[Any, Any] = {bool: False, int: 1, float: 1.0}
    return plain.get(kind, {} if get_origin(kind) in (dict, Mapping) else [])


def _takes_text(kind: Any) -> bool:
    return kind is str or (get_origin(kind) in (Union, types.UnionType) and str in get_args(kind))
