"""How much a model should think, in values it supports, and which other options it then accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat_sdk import Reasoning

from .models import ModelTraits

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
    nearest = _nearest(effort, efforts)
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


def _nearest(effort: str, efforts: Sequence[str]) -> str:
    """Return the nearest known effort, the higher of two: "none" is not less thinking but no thinking."""
    place = _EFFORTS.index(effort)
    return min(efforts, key=lambda e: (abs(_EFFORTS.index(e) - place), -_EFFORTS.index(e)))
