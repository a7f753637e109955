"""Models: those a server lists, what they are known to accept (model_traits.toml), how much they should think, and what
they cost (model_prices.toml)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import attrs
from flexchat_sdk import ModelInfo, ModelPrice, PriceTable, Reasoning, nearest_effort, package_data

# The fields for a model's context length: OpenRouter and Together, vLLM, Groq, Mistral.
_LENGTHS = ("context_length", "max_model_len", "context_window", "max_context_length")
# Mistral's words.
_MISTRAL = {"completion_chat": "chat", "function_calling": "tools", "vision": "vision", "reasoning": "reasoning"}


def read_models(body: object) -> tuple[ModelInfo, ...]:
    """Read a ``GET /models`` answer. OpenAI gives only a name; nothing is guessed from it.

    Raises:
        ValueError: It is not a list of models.
    """
    items = body.get("data", body.get("models")) if isinstance(body, dict) else body  # Together sends the bare list
    if not isinstance(items, list):
        raise ValueError("no list of models")
    return tuple([_model(i) for i in items if isinstance(i, dict) and isinstance(i.get("id"), str) and i["id"]])


def _model(item: dict[str, Any]) -> ModelInfo:
    name = item.get("name")
    return ModelInfo(
        id=item["id"],
        name=name if isinstance(name, str) and name else None,
        capabilities=frozenset(_capabilities(item)),
        context_length=_context_length(item),
    )


def _capabilities(item: dict[str, Any]) -> set[str]:
    """Read a model's capabilities from a server that lists all of them: a missing one is not supported."""
    if item.get("type") == "embedding":  # Together
        return {"embedding"}
    listed = item.get("capabilities")
    if isinstance(listed, dict) and "completion_chat" in listed:
        return {word for key, word in _MISTRAL.items() if listed.get(key) is True}
    parameters, architecture = item.get("supported_parameters"), item.get("architecture")
    if not isinstance(parameters, list) or not isinstance(architecture, dict):
        return set()
    capabilities = {"chat"}  # OpenRouter
    capabilities |= {"tools"} if "tools" in parameters else set()
    capabilities |= {"reasoning"} if "reasoning" in parameters else set()
    modalities = architecture.get("input_modalities")
    if isinstance(modalities, list):
        capabilities |= {"vision"} if "image" in modalities else set()
        capabilities |= {"audio"} if "audio" in modalities else set()
    return capabilities


def _context_length(item: dict[str, Any]) -> int | None:
    meta = item.get("meta")  # llama.cpp: the context length it was started with
    lengths = [item.get(key) for key in _LENGTHS] + [meta.get("n_ctx") if isinstance(meta, dict) else None]
    return next((length for length in lengths if type(length) is int and length > 0), None)


@attrs.frozen(kw_only=True)
class ModelTraits:
    """What is known about the models whose name starts with prefix.

    Attributes:
        reasons: Whether they reason by default.
        efforts: The reasoning efforts they support; empty if they never reason.
        accepts_stop: Whether they take stop sequences.
        api: Which of OpenAI's two APIs supports everything they can do.
        sees: Whether they read images and PDFs.
        hears: Whether they take sounds, in Chat Completions.
    """

    prefix: str
    reasons: bool
    efforts: tuple[str, ...] = attrs.field(converter=tuple)
    accepts_stop: bool = True
    api: Literal["chat", "responses"] = "responses"
    sees: bool = True
    hears: bool = False

    def sampling_refused(self, effort: object) -> bool:
        """Return True if temperature and top_p are rejected, which is the case while the model reasons."""
        if effort is None or not self.efforts:
            return self.reasons
        return not (effort == "none" and "none" in self.efforts)


@functools.lru_cache(maxsize=256)
def traits_of(model: str) -> ModelTraits | None:
    """Look up a model's traits; None if it is not in the table, and options are sent unchanged.

    The first prefix that is the whole name or is followed by "-" wins: gpt-5 does not cover gpt-5.6. A model tuned
    from another ("ft:gpt-4.1-mini:…") counts as that one.
    """
    name = model.removeprefix("ft:").partition(":")[0]
    for traits in _table():
        if name == traits.prefix or name.startswith(traits.prefix + "-"):
            return traits
    return None


@functools.cache
def _table() -> tuple[ModelTraits, ...]:
    rows = package_data(__package__, "model_traits.toml")["models"]
    return tuple(ModelTraits(**row) for row in rows)


# From the least to the most.
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def effort_for(reasoning: Reasoning, model: str, traits: ModelTraits | None, api: str) -> tuple[str | None, list[str]]:
    """Return the effort to send (None for none) and warnings about what could not be honoured.

    An unknown model gets the requested effort.

    Args:
        api: "chat" or "responses". Chat Completions refuses "max" for every OpenAI model.
    """
    warnings = []
    if reasoning.budget_tokens is not None:
        warnings.append("OpenAI's APIs have no reasoning budget: budget_tokens is left out; set an effort")
    effort = reasoning.effort
    if effort is None or traits is None:
        return effort, warnings
    efforts = [e for e in traits.efforts if not (e == "max" and api == "chat")]
    if effort in efforts or (effort == "none" and not efforts):
        return (effort if efforts else None), warnings
    if not efforts:
        warnings.append(f"{model} does not reason: the reasoning effort is left out")
        return None, warnings
    nearest = nearest_effort(effort, efforts, _EFFORTS)
    warnings.append(f"{model} does not support reasoning effort '{effort}' here: '{nearest}' is sent")
    return nearest, warnings


def drop_refused(fields: dict[str, Any], model: str, traits: ModelTraits, effort: object, api: str) -> list[str]:
    """Remove what the model refuses from a body; return warnings about what could not be honoured.

    A temperature or top_p of 1 is the default, so nothing is lost. Chat Completions accepts that temperature.
    """
    refused = [] if traits.accepts_stop else ["stop"]
    if traits.sampling_refused(effort):
        refused += ["temperature", "top_p"]
    if api == "chat" and fields.get("temperature") == 1:
        refused = [name for name in refused if name != "temperature"]
    dropped = [name for name in refused if fields.pop(name, 1) != 1]
    return [f"{model} does not accept {' or '.join(dropped)}: left out"] if dropped else []


MAX_CHARGE = 1_000_000
"""Maximum plausible charge for one answer, in US dollars."""


def charged(usage: Mapping[str, Any]) -> Decimal | None:
    """Read the charge in US dollars from a usage object; None if it has none.

    OpenRouter's ``cost`` is a number, to which the upstream charge of a user's own key is added; Perplexity's is an
    object with a total.
    """
    cost = usage.get("cost")
    amount = _dollars(cost.get("total_cost") if isinstance(cost, Mapping) else cost)
    if amount is not None and usage.get("is_byok") is True:
        details = usage.get("cost_details")
        upstream = _dollars(details.get("upstream_inference_cost") if isinstance(details, Mapping) else None)
        return None if upstream is None else amount + upstream
    return amount


def _dollars(value: object) -> Decimal | None:
    if type(value) not in (int, float) or not 0 <= value <= MAX_CHARGE:  # type: ignore[operator]
        return None
    return round(Decimal(repr(value)), 12)


def price_of(model: str) -> ModelPrice | None:
    """Look up a model's price; None if it is not in the table."""
    return table().find(model)


@functools.cache
def table() -> PriceTable:
    """Return the table."""
    return PriceTable.from_package(__package__)
