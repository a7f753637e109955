"""How much a model shall think, in words it knows."""

from __future__ import annotations

from collections.abc import Sequence

from flexchat.plugin import Reasoning

from .traits import ModelTraits

# From the least to the most.
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def effort_for(reasoning: Reasoning, model: str, traits: ModelTraits | None, api: str) -> tuple[str | None, list[str]]:
    """Return the effort to send, None for none, and what could not be honoured.

    A model that is not known is sent what was asked for.

    Args:
        api: "chat" or "responses". Chat Completions refuses "max" on every model of OpenAI's.
    """
    warnings = []
    if reasoning.budget_tokens is not None:
        warnings.append("OpenAI's APIs count no reasoning tokens beforehand: budget_tokens is left out; set an effort")
    effort = reasoning.effort
    if effort is None or traits is None:
        return effort, warnings
    known = [e for e in traits.efforts if not (e == "max" and api == "chat")]
    if effort in known or (effort == "none" and not known):
        return (effort if known else None), warnings
    if not known:
        warnings.append(f"{model} does not reason: the reasoning effort is left out")
        return None, warnings
    nearest = _nearest(effort, known)
    warnings.append(f"{model} knows no reasoning effort '{effort}' here: '{nearest}' is sent")
    return nearest, warnings


def _nearest(effort: str, known: Sequence[str]) -> str:
    """Return the known effort that is nearest, of two the higher: "none" is not less thinking but no thinking."""
    wanted = _EFFORTS.index(effort)
    return min(known, key=lambda e: (abs(_EFFORTS.index(e) - wanted), -_EFFORTS.index(e)))
