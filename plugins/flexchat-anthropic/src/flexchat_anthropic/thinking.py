"""Mapping of reasoning options to ``thinking`` and ``output_config.effort``."""

from __future__ import annotations

from typing import Any

import attrs
from flexchat_sdk import Reasoning

from .traits import ALL_EFFORTS, ModelTraits

LEAST_BUDGET = 1024
"""Fewer tokens are refused."""
ROOM = 4096
"""Tokens for the answer itself, where the limit is made to fit a budget: thinking counts into max_tokens."""

_BUDGETS = {"minimal": LEAST_BUDGET, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32000, "max": 32000}


@attrs.frozen(kw_only=True)
class Thinking:
    """The thinking parameters of a request.

    Attributes:
        config: The value of ``thinking``; None leaves it to the model.
        effort: The value of ``output_config.effort``.
        happens: The model is expected to think.
        warnings: One sentence per option that is not supported.
    """

    config: dict[str, Any] | None = None
    effort: str | None = None
    happens: bool = False
    warnings: tuple[str, ...] = ()


def budget_of(reasoning: Reasoning | None, traits: ModelTraits) -> int | None:
    """Return the thinking budget in tokens; None if the request sets none, or an effort."""
    if reasoning is None or reasoning.effort == "none" or traits.thinking in ("none", "adaptive"):
        return None
    if reasoning.budget_tokens is not None:
        return max(reasoning.budget_tokens, LEAST_BUDGET) if reasoning.budget_tokens > 0 else None
    return _BUDGETS[reasoning.effort] if reasoning.effort and traits.thinking == "budget" else None


def thinking_for(reasoning: Reasoning | None, traits: ModelTraits, model: str, max_tokens: int) -> Thinking:
    """Build the thinking parameters of a request.

    Args:
        max_tokens: Maximum output tokens of the request; a budget must be less.
    """
    if reasoning is None:
        return Thinking(happens=traits.thinks)
    effort, wanted = reasoning.effort, reasoning.budget_tokens
    if traits.thinking == "none":
        asked = effort not in (None, "none") or wanted not in (None, 0) or reasoning.summary
        return Thinking(warnings=(f"{model} does not think: left out",) if asked else ())
    if effort == "none" or (effort is None and wanted == 0):
        return _off(traits, model)
    warnings: list[str] = []
    config: dict[str, Any] | None = None
    budget = budget_of(reasoning, traits)
    if budget is not None:
        used = min(budget, max_tokens - 1)
        if used < LEAST_BUDGET:
            text = f"{model} thinks on at least {LEAST_BUDGET} tokens, max_tokens is {max_tokens}: thinking is left out"
            return Thinking(happens=traits.thinks, warnings=(text,))
        if wanted is not None and used != wanted:
            warnings.append(f"{model} takes no thinking budget of {wanted} tokens here: {used} is used")
        config = {"type": "enabled", "budget_tokens": used}
    elif traits.thinking == "budget":
        if reasoning.summary:
            warnings.append(f"{model} thinks only where an effort or a budget is set: there are no thoughts to show")
    else:
        config = {"type": "adaptive"}
        if wanted is not None:
            warnings.append(f"{model} decides itself how many tokens it thinks: the budget is left out; set an effort")
    if config is not None and reasoning.summary is not None:
        config["display"] = "summarized" if reasoning.summary else "omitted"
    said = None
    if effort and traits.efforts:
        said, unsupported_options = _nearest_effort(effort, traits, model)
        warnings += unsupported_options
    return Thinking(config=config, effort=said, happens=config is not None, warnings=tuple(warnings))


def _off(traits: ModelTraits, model: str) -> Thinking:
    if traits.off == "never":
        text = f"{model} cannot be kept from thinking: {traits.efforts[0]}, its least effort, is used"
        return Thinking(effort=traits.efforts[0], happens=True, warnings=(text,))
    if traits.off == "between_tools":
        return Thinking(config={"type": "between_tools"}, happens=True)
    return Thinking(config={"type": "disabled"} if traits.thinks else None)


def _nearest_effort(effort: str, traits: ModelTraits, model: str) -> tuple[str, list[str]]:
    wanted = "low" if effort == "minimal" else effort
    place = ALL_EFFORTS.index(wanted)
    # Of two that are equally far, the higher.
    used = min(reversed(traits.efforts), key=lambda known: abs(ALL_EFFORTS.index(known) - place))
    return used, [] if used == effort else [f"{model} knows no effort '{effort}': '{used}' is used"]
