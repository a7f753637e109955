"""The list of models a server offers."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from flexchat_sdk import ModelInfo


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


def _capabilities(told: object) -> frozenset[str]:
    """Read a model's capabilities. All models support chat and tools, which the service does not list."""
    if not isinstance(told, dict):
        return frozenset()
    found = {"chat", "tools"}
    found |= {"vision"} if _is_supported(told.get("image_input")) else set()
    found |= {"reasoning"} if _is_supported(told.get("thinking")) else set()
    return frozenset(found)


def _is_supported(value: object) -> bool:
    return isinstance(value, dict) and value.get("supported") is True
