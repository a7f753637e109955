"""Models: those a server lists, what they are known to accept (model_traits.toml), and what they cost
(model_prices.toml)."""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from typing import Literal

import attrs
from flexchat_sdk import ModelInfo, ModelPrice, PriceTable, package_data


def read_models(body: object) -> tuple[tuple[ModelInfo, ...], str | None]:
    """Read a page of ``GET /models``; return its models and the token of the next page, None on the last.

    Raises:
        ValueError: It is not a list of models.
    """
    items = body.get("models", body.get("publisherModels")) if isinstance(body, dict) else None
    if not isinstance(body, dict) or not (isinstance(items, list) or body == {}):
        raise ValueError("no list of models")
    token = body.get("nextPageToken")
    models = tuple(_model(item) for item in items or () if isinstance(item, dict) and isinstance(item.get("name"), str))
    return models, token if isinstance(token, str) and token else None


def _model(item: dict[str, object]) -> ModelInfo:
    title, length = item.get("displayName"), item.get("inputTokenLimit")
    name = str(item["name"])
    # Models that are not the service's own keep their kind: tunedModels/x.
    name = name.removeprefix("models/").removeprefix("publishers/google/models/")
    return ModelInfo(
        id=name,
        name=title if isinstance(title, str) else None,
        capabilities=_capabilities(name, item),
        context_length=length if type(length) is int else None,
    )


def _capabilities(name: str, item: dict[str, object]) -> frozenset[str]:
    """Read a model's capabilities; for Google's own models, add tools and media, which the service does not list."""
    methods = item.get("supportedGenerationMethods")
    if not isinstance(methods, list):
        return frozenset()
    capabilities = set()
    if any(isinstance(method, str) and method.lower().endswith("embedcontents") for method in methods) or (
        "embedContent" in methods
    ):
        capabilities.add("embedding")
    if "generateContent" in methods:
        traits = traits_of(name)
        if traits is UNKNOWN:
            return frozenset()  # "chat" alone would mean that the model has no tools
        capabilities.add("chat")
        capabilities |= {"tools"} if traits.tools else set()
        capabilities |= {"vision", "audio"} if traits.media else set()
        capabilities |= {"reasoning"} if item.get("thinking") is True else set()
    return frozenset(capabilities)


ALL_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")


@attrs.frozen(kw_only=True)
class ModelTraits:
    """What is known of the models whose name fits pattern. The columns are explained in model_traits.toml."""

    pattern: str
    thinking: Literal["none", "budget", "level"] | None = None
    levels: tuple[str, ...] = attrs.field(default=ALL_LEVELS, converter=tuple)
    min_budget: int = 0
    max_budget: int = 0
    can_stop_thinking: bool = False
    signatures: bool = False
    combines: bool = False
    validates: bool = True
    tools: bool = True
    media: bool = True
    media_in_responses: bool = False


# A name that is not Gemini's is a tuned model, an endpoint of a project, or another vendor's: none is known to ask for
# signatures, and asking for format and tools one after the other works with every model.
UNKNOWN = ModelTraits(pattern="", tools=False, media=False)


@functools.lru_cache(maxsize=256)
def traits_of(model: str) -> ModelTraits:
    """Look up a model's traits, by its name with or without the prefix "models/"."""
    name = model.rsplit("/", 1)[-1].lower()
    return next((traits for traits in _table() if fnmatchcase(name, traits.pattern)), UNKNOWN)


@functools.cache
def _table() -> tuple[ModelTraits, ...]:
    rows = package_data(__package__, "model_traits.toml")["models"]
    return tuple(ModelTraits(**row) for row in rows)


def price_of(model: str) -> ModelPrice | None:
    """Look up a model's price; None if it is not in the table."""
    return table().find(model.removeprefix("models/"))


@functools.cache
def table() -> PriceTable:
    """Return the table."""
    return PriceTable.from_package(__package__)
