"""Models: those a server lists, what they are known to accept (model_traits.toml), and what they cost
(model_prices.toml)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Literal

import attrs
from flexchat_sdk import ModelInfo, ModelPrice, PriceTable, package_data


@attrs.frozen(kw_only=True)
class ModelsPage:
    """A page of ``GET /v1/models``.

    Attributes:
        limits: The longest answers, in tokens, of the models that have one.
        after: The id the next page begins behind; None on the last.
    """

    models: tuple[ModelInfo, ...]
    limits: Mapping[str, int]
    after: str | None


def read_models(body: object) -> ModelsPage:
    """Read a page. Models that cannot be used any more are left out.

    Raises:
        ValueError: It is not a list of models.
    """
    items = body.get("data") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(items, list):
        raise ValueError("no list of models")
    tables = [item for item in items if isinstance(item, dict) and isinstance(item.get("id"), str) and item["id"]]
    offered = [item for item in tables if item.get("lifecycle") != "retired"]
    last = body.get("last_id")
    return ModelsPage(
        models=tuple([_model(item) for item in offered]),
        limits={item["id"]: limit for item in tables if (limit := longest_answer(item)) is not None},
        after=last if body.get("has_more") is True and isinstance(last, str) and last else None,
    )


def longest_answer(item: object) -> int | None:
    """Return the maximum output tokens from a model's description; None if it is missing."""
    limit = item.get("max_tokens") if isinstance(item, dict) else None
    return limit if type(limit) is int and limit > 0 else None


def _model(item: Mapping[str, object]) -> ModelInfo:
    title, length = item.get("display_name"), item.get("max_input_tokens")
    return ModelInfo(
        id=str(item["id"]),
        name=title if isinstance(title, str) and title else None,
        capabilities=_capabilities(item.get("capabilities")),
        context_length=length if type(length) is int and length > 0 else None,
    )


def _capabilities(listed: object) -> frozenset[str]:
    """Read a model's capabilities. All models support chat and tools, which the service does not list."""
    if not isinstance(listed, dict):
        return frozenset()
    capabilities = {"chat", "tools"}
    capabilities |= {"vision"} if _is_supported(listed.get("image_input")) else set()
    capabilities |= {"reasoning"} if _is_supported(listed.get("thinking")) else set()
    return frozenset(capabilities)


def _is_supported(value: object) -> bool:
    return isinstance(value, dict) and value.get("supported") is True


ALL_EFFORTS = ("low", "medium", "high", "xhigh", "max")


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


@attrs.frozen(kw_only=True)
class ModelTraits:
    """What is known of the models whose name fits pattern. The columns are explained in model_traits.toml."""

    pattern: str
    max_tokens: int | None = None
    thinking: Literal["none", "budget", "adaptive", "either"] = "either"
    thinks: bool = False
    off: Literal["disabled", "between_tools", "never"] = "disabled"
    efforts: tuple[str, ...] = attrs.field(default=(), converter=_names)
    sampling: Literal["both", "one", "none"] = "both"
    forced: bool = True
    strict: bool = True
    prefill: bool = True
    media: bool = True
    max_media: int = 600


# Another vendor's model, behind a server that speaks this API.
UNKNOWN = ModelTraits(pattern="", thinks=True, efforts=ALL_EFFORTS)


@functools.lru_cache(maxsize=256)
def traits_of(model: str) -> ModelTraits:
    """Look up a model's traits. Gateways prefix names: "us.anthropic.claude-…"."""
    name = model.lower()
    name = name[max(name.rfind("claude-"), 0) :]
    return next((traits for traits in _table() if fnmatchcase(name, traits.pattern)), UNKNOWN)


@functools.cache
def _table() -> tuple[ModelTraits, ...]:
    rows = package_data(__package__, "model_traits.toml")["models"]
    return tuple(ModelTraits(**row) for row in rows)


def price_of(model: str, cache_ttl: str = "5m") -> ModelPrice | None:
    """Look up a model's price; None if it is not in the table.

    Args:
        cache_ttl: Lifetime of cache entries; writing for an hour costs more than for five minutes.
    """
    return table(cache_ttl).find(model)


@functools.cache
def table(cache_ttl: str = "5m") -> PriceTable:
    """Return the table for one of the two times."""
    instead = {"cache_write": "cache_write_1h"} if cache_ttl == "1h" else {}
    return PriceTable.from_package(__package__, instead=instead)
