"""From the config's entries and the plugins' records to what can be opened: providers and document stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from ..config.model import LLMEntry, RagServiceEntry, own_keys
from ..domain.masking import secrets_of_environment
from ..plugin.contracts import ChatProvider, ProviderType, RetrieverType
from ..plugin.records import Records
from .endpoints import Endpoints
from .retry import RetryingProvider

if TYPE_CHECKING:
    from ..config.load import Draft  # loads cattrs, which is needed only where a configuration is read

SHORTEST_KEY = 8  # local servers take "none" or "ollama" for a key: words an error text may need

CORE_KEYS = {
    "llms": own_keys(LLMEntry),
    "rag_services": own_keys(RagServiceEntry),
}
"""Keys of an entry that are core's; the others belong to the plugin."""

SHARED_KEYS = frozenset({"description", "collection", "match_threshold", "partial_threshold", "top_k"})
"""Of those, the ones a document store gets too, where its config_class has a field for them."""


@attrs.frozen
class Service:
    """One entry of llms or rag_services, read and not opened yet."""

    type: Any
    settings: Any


def read_services(draft: Draft, section: str, records: Records) -> dict[str, Service]:
    """Return the entries of llms or rag_services with their settings as their plugin wants them.

    What is wrong is added to the draft's problems, and the entry is left out.
    """
    services: dict[str, Service] = {}
    for path, table in draft.tables(section):
        name = table.get("provider")
        if not isinstance(name, str):
            continue  # reported by the structuring of core's own keys
        found: ProviderType | RetrieverType | None = records.by_name.get(name)
        if found is None:
            draft.problem((*path, "provider"), records.missing(name))
            continue
        wanted = {field.name for field in attrs.fields(found.config_class)}
        shared = SHARED_KEYS & wanted if section == "rag_services" else frozenset()
        settings = draft.settings(path, CORE_KEYS[section] - shared, found.config_class)
        if settings is not None:
            services[str(path[-1])] = Service(found, settings)
    return services


def secret_values(services: Mapping[str, Service]) -> frozenset[str]:
    """Return the values of the settings' fields that are marked secret, and of the environment's secrets."""
    fields = [
        getattr(service.settings, field.name)
        for service in services.values()
        for field in attrs.fields(type(service.settings))
        if field.metadata.get("secret")
    ]
    long_enough = frozenset(value for value in fields if isinstance(value, str) and len(value) >= SHORTEST_KEY)
    return long_enough | secrets_of_environment()


def open_providers(draft: Draft, services: Mapping[str, Service]) -> dict[str, ChatProvider]:
    """Return the providers of llms by name; what is wrong with their settings is added to the draft's problems."""
    endpoints, opened = Endpoints(), {}
    for name, service in services.items():
        # Where core's tables have problems nothing will run, and this only finds more of them.
        entry = draft.config.llms[name] if draft.config is not None else LLMEntry(provider=service.type.name)

        def opener(service: Service = service, entry: LLMEntry = entry, name: str = name) -> ChatProvider:
            retries, delay_ms = entry.retries, entry.retry_delay_ms
            return open_provider(service, retries=retries, retry_delay_ms=delay_ms, endpoints=endpoints, name=name)

        provider = draft.attempt(("llms", name), opener)
        if provider is not None:
            opened[name] = provider
    return opened


def open_provider(
    service: Service, *, retries: int, retry_delay_ms: int, endpoints: Endpoints | None = None, name: str | None = None
) -> ChatProvider:
    """Return the provider of an llms entry, repeating what may be repeated.

    Args:
        endpoints: What all services of one FlexChat share; absent: this one shares nothing.
        name: The entry's, for the log.
    """
    provider: ChatProvider = service.type.create(service.settings)
    endpoint = (endpoints or Endpoints()).of(provider)
    return RetryingProvider(provider, endpoint, retries=retries, delay_s=retry_delay_ms / 1000, service=name)
