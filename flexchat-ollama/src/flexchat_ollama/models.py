"""The models of a server: their metadata in ``/api/tags`` and ``/api/show``, queried once."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Mapping

import attrs
from flexchat_sdk import (
    ModelInfo,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    Service,
    TimeLeft,
    known_count,
)

# Questions about models need no model loaded: a server that is there answers at once.
_PATIENCE_S = 10.0
_AT_ONCE = 8
_MAX_NAMED = 5
# Ollama's words for what a model can do, and ours. Source: types/model/capability.go of the server.
_CAPABILITIES = {
    "completion": "chat",
    "tools": "tools",
    "vision": "vision",
    "audio": "audio",
    "embedding": "embedding",
    "thinking": "reasoning",
}


@attrs.frozen(kw_only=True)
class ModelFacts:
    """Metadata of a model; None for facts that the server does not report, as old ones do not.

    Attributes:
        capabilities: FlexChat's names of its capabilities.
        context_length: Maximum context in tokens.
        num_ctx: Context in tokens set by its Modelfile.
        is_remote: It runs in Ollama's cloud, where num_ctx has no effect.
        digest: SHA-256 of its manifest.
    """

    capabilities: frozenset[str] | None = None
    context_length: int | None = None
    num_ctx: int | None = None
    is_remote: bool = False
    digest: str | None = None

    def lacks(self, capability: str) -> bool:
        """Return whether the model is known not to have a capability."""
        return self.capabilities is not None and capability not in self.capabilities


UNKNOWN = ModelFacts()


def read_show(body: object) -> ModelFacts:
    """Parse a response of ``/api/show``, ignoring invalid fields."""
    if not isinstance(body, dict):
        return UNKNOWN
    facts = _facts(body)
    return attrs.evolve(
        facts,
        context_length=facts.context_length or _context_length(body.get("model_info")),
        num_ctx=_parameter(body.get("parameters"), "num_ctx"),
    )


def read_tags(body: object) -> dict[str, ModelFacts]:
    """Read an answer of ``/api/tags``: the installed models by name.

    Raises:
        ValueError: It is not a list of models.
    """
    items = body.get("models") if isinstance(body, dict) else None
    if not isinstance(items, list):
        raise ValueError("no list of models")
    models = {}
    for item in items:
        if not isinstance(item, dict):
            continue
        name = item.get("model") or item.get("name")
        if name and isinstance(name, str):
            models[name] = _facts(item)
    return models


def model_info(name: str, facts: ModelFacts) -> ModelInfo:
    """Return a model as the list of models has it."""
    return ModelInfo(
        id=name,
        capabilities=facts.capabilities or frozenset(),
        context_length=facts.context_length or None,
        digest=facts.digest,
    )


def _facts(item: Mapping[str, object]) -> ModelFacts:
    listed, details, digest = item.get("capabilities"), item.get("details"), item.get("digest")
    capabilities = None
    if isinstance(listed, list) and listed:
        capabilities = frozenset(
            _CAPABILITIES[word] for word in listed if isinstance(word, str) and word in _CAPABILITIES
        )
    return ModelFacts(
        capabilities=capabilities,
        context_length=_length(details, "context_length"),
        is_remote=bool(item.get("remote_host") or item.get("remote_model")),
        digest=digest if isinstance(digest, str) and digest else None,
    )


def _context_length(info: object) -> int | None:
    """Find ``<architecture>.context_length`` in ``model_info``."""
    if not isinstance(info, dict):
        return None
    own = _length(info, f"{info.get('general.architecture')}.context_length")
    return own or next((_length(info, key) for key in info if str(key).endswith(".context_length")), None)


def _length(table: object, key: str) -> int | None:
    """Return a length in a table; None for one that is not positive."""
    length = known_count(table, key)
    return length if length is not None and length > 0 else None


def _parameter(text: object, name: str) -> int | None:
    """Find a parameter in the text that ``/api/show`` has for them: a name and a value a line."""
    for line in text.split("\n") if isinstance(text, str) else ():
        words = line.split()
        if len(words) == 2 and words[0] == name and words[1].isascii() and words[1].isdigit():
            return int(words[1][:12]) or None
    return None


class Catalogue:
    """The models of one server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._facts: dict[str, ModelFacts] = {}
        self._asking: dict[str, asyncio.Lock] = collections.defaultdict(asyncio.Lock)

    def known_facts(self, model: str) -> ModelFacts:
        """Return a model's facts, if they have been queried."""
        return self._facts.get(model, UNKNOWN)

    async def facts_of(self, model: str, time_left: TimeLeft) -> ModelFacts:
        """Return a model's facts, queried once. A failed query gives empty facts.

        Raises:
            ProviderError: There is no connection, so further requests would fail as well.
        """
        facts = self._facts.get(model)
        if facts is not None:
            return facts
        async with self._asking[model]:
            facts = self._facts.get(model)
            if facts is None:
                facts = await self._query(model, time_left)
                if facts is not None:
                    self._facts[model] = facts
        return facts or UNKNOWN

    async def installed(self, time_left: TimeLeft | None = None) -> dict[str, ModelFacts]:
        """Return the facts of the installed models, by name.

        Raises:
            ProviderError: The server does not list its models.
        """
        time_left = time_left or TimeLeft(None)
        models = await self._service.get("/api/tags", read_tags, what="a list of models", timeout_s=time_left())
        limit = asyncio.Semaphore(_AT_ONCE)

        async def complete(name: str, facts: ModelFacts) -> ModelFacts:
            if facts.capabilities is not None and facts.context_length is not None:
                return facts
            async with limit:
                try:
                    details = await self.facts_of(name, time_left)
                except ProviderError:
                    return facts
            return attrs.evolve(
                facts,
                capabilities=details.capabilities if facts.capabilities is None else facts.capabilities,
                context_length=facts.context_length or details.context_length,
            )

        return dict(zip(models, await asyncio.gather(*[complete(*item) for item in models.items()]), strict=True))

    async def able(self, capability: str) -> tuple[str, ...]:
        """Return some installed models with a capability; none if the server does not report capabilities."""
        try:
            installed = await self.installed(TimeLeft(_PATIENCE_S))
        except ProviderError:
            return ()
        able = [name for name, facts in installed.items() if facts.capabilities and capability in facts.capabilities]
        return tuple(able[:_MAX_NAMED])

    async def _query(self, model: str, time_left: TimeLeft) -> ModelFacts | None:
        """Query a model's facts; None after a failure that may be transient."""
        fields, patience_s = {"model": model}, time_left(_PATIENCE_S)
        try:
            return await self._service.post(
                "/api/show", fields, read_show, what="what a model can do", model=model, timeout_s=patience_s
            )
        except ProviderError as error:
            is_gone = isinstance(error, ProviderConnectionError | ProviderTimeoutError) and error.status is None
            if is_gone and error.retryable:
                raise
            return None if error.status == 404 else UNKNOWN  # it may be fetched in a moment
