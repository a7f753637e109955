"""Opens services from the entries of llms; and what those share with stores' entries: settings and secrets."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from ..config.keys import key_for
from ..config.model import LLMEntry, StoreEntry, own_keys
from ..domain.masking import secrets_of_environment
from ..endpoints import Endpoint, Endpoints
from ..plugin.contracts import ChatProvider, DocumentStoreType, ProviderType
from ..plugin.records import Records
from .llm import LLM, settings_of

if TYPE_CHECKING:
    from ..config.reading import ReadConfig  # loads cattrs, needed only when a configuration is read

MIN_KEY_CHARS = 8  # local servers accept "none" or "ollama" as a key: words an error text may need

# An entry's keys that are core's; the others belong to the plugin.
CORE_KEYS = {"llms": own_keys(LLMEntry), "stores": own_keys(StoreEntry)}
# Those that a document store also gets if its config_class has a field for them.
SHARED_KEYS = frozenset({"description", "collection", "match_threshold", "partial_threshold", "top_k"})


@attrs.frozen
class Configured:
    """One entry of llms or stores, read but not opened yet."""

    type: Any
    settings: Any


def read_entries(
    reading: ReadConfig, section: str, records: Records, *, given: Collection[str] = ()
) -> dict[str, Configured]:
    """Return the entries of llms or stores with their settings in the plugin's class.

    Problems are added to the reading's problems, and the entry is left out.

    Args:
        given: Names of entries to leave out: what they describe is given in code.
    """
    services: dict[str, Configured] = {}
    for path, table in reading.tables(section):
        name = table.get("provider")
        if path[-1] in given or not isinstance(name, str):
            continue  # a name that is no text is reported when core's own keys are structured
        kind: ProviderType | DocumentStoreType | None = records.by_name.get(name)
        if kind is None:
            reading.problem((*path, "provider"), records.missing(name))
            continue
        names = {field.name for field in attrs.fields(kind.config_class)}
        shared = SHARED_KEYS & names if section == "stores" else frozenset()
        settings = reading.settings(path, CORE_KEYS[section] - shared, kind.config_class)
        if settings is not None and section == "llms":
            settings = reading.attempt(path, functools.partial(with_usual_key, settings))
        if settings is not None:
            services[str(path[-1])] = Configured(kind, settings)
    return services


def with_usual_key(settings: Any) -> Any:
    """Complete a service's settings with the usual key for its host, if they hold no secret.

    The environment comes first, then the keys that ``flexchat keys set`` stored. A field's ``secret_key`` names the
    variables. The key is used over HTTPS only.

    Raises:
        ValueError: The variable holds something that is no key.
        KeyStorageError: A stored key cannot be read.
    """
    fields = [field for field in attrs.fields(type(settings)) if field.metadata.get("secret")]
    if any(getattr(settings, field.name) for field in fields):
        return settings
    address = urlsplit(getattr(settings, "base_url", ""))
    for field in fields if address.scheme == "https" else ():
        key = key_for(_usual_variables(field, address.hostname or ""))
        if key is not None:
            name, value = key
            try:
                return attrs.evolve(settings, **{field.alias or field.name: value})
            except ValueError as error:
                raise ValueError(f"environment variable {name}: {error}") from None
    return settings


def variables_of(kind: ProviderType) -> tuple[str, ...]:
    """Return the variables that usually hold the keys of a provider's services."""
    fields = attrs.fields(kind.config_class)
    return tuple(name for f in fields for names in f.metadata.get("variables", {}).values() for name in names)


def _usual_variables(field: attrs.Attribute[Any], host: str) -> Sequence[str]:
    for pattern, names in field.metadata.get("variables", {}).items():
        if host == pattern or (pattern.startswith("*") and host.endswith(pattern[1:])):
            variables: Sequence[str] = names
            return variables
    return ()


def secret_values(services: Iterable[Configured]) -> frozenset[str]:
    """Return the values of settings' fields marked secret, and of the environment's secrets."""
    fields = [
        getattr(service.settings, field.name)
        for service in services
        for field in attrs.fields(type(service.settings))
        if field.metadata.get("secret")
    ]
    long_enough = frozenset(value for value in fields if isinstance(value, str) and len(value) >= MIN_KEY_CHARS)
    return long_enough | secrets_of_environment()


def open_llms(reading: ReadConfig, services: Mapping[str, Configured]) -> list[LLM]:
    """Return the services of llms; problems with their settings are added to the reading's problems."""
    endpoints, opened = Endpoints(), []
    for name, service in services.items():
        # If core's tables have problems, nothing will run, and this only finds more problems.
        entry = reading.config.llms[name] if reading.config is not None else LLMEntry(provider=service.type.name)
        llm = reading.attempt(("llms", name), functools.partial(open_llm, name, service, entry, endpoints))
        if llm is not None:
            opened.append(llm)
    return opened


def open_llm(name: str, service: Configured, entry: LLMEntry, endpoints: Endpoints | None = None) -> LLM:
    """Return one service, whose requests are retried by the policy of its entry.

    Args:
        endpoints: What all services of one FlexChat share; default: this one shares nothing.
    """
    provider: ChatProvider = service.type.create(service.settings)
    if entry.tools == "prompted":
        if service.type.prompted is None:
            raise ValueError(f'tools = "prompted" is not for models of {service.type.name}')
        provider = service.type.prompted(provider)
    return LLM(
        name=name,
        provider=provider,
        endpoint=_endpoint(provider, endpoints or Endpoints()),
        retries=entry.retries,
        delay_s=entry.retry_delay_ms / 1000,
        **settings_of(entry),
    )


def _endpoint(provider: ChatProvider, endpoints: Endpoints) -> Endpoint:
    """Return the endpoint named by a provider's attribute ``endpoint``; a separate one if it names none."""
    origin = getattr(provider, "endpoint", None)
    return endpoints.of(origin) if isinstance(origin, str) else endpoints.unshared(f"provider {provider.name}")
