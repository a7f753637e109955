"""Mapping of reasoning options to ``thinkingConfig``: a budget in tokens up to Gemini 2.5, a level from 3 on."""

from __future__ import annotations

from typing import Any

from flexchat_sdk import Reasoning

from .traits import ALL_LEVELS, ModelTraits

# The figures Google's own OpenAI-compatible endpoint uses; "minimal" is the least that 2.5 Flash-Lite takes.
_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 32768}
_LEVELS = {"none": "MINIMAL"} | {level.lower(): level for level in ALL_LEVELS}
DYNAMIC = -1
"""The budget that leaves it to the model."""


def thinking_config(reasoning: Reasoning, traits: ModelTraits, model: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Build ``thinkingConfig``. Returns it, and one warning per unsupported option."""
    effort, budget = reasoning.effort, reasoning.budget_tokens
    if traits.thinking == "none":
        asked = effort not in (None, "none") or budget not in (None, 0) or reasoning.summary
        return {}, (f"{model} takes no settings for thinking: left out",) if asked else ()
    config: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    if traits.thinking == "budget":
        wanted = budget if budget is not None else _BUDGETS[effort] if effort else None
        if wanted is not None:
            config["thinkingBudget"] = used = _nearest_budget(wanted, traits)
            if used != wanted and (budget is not None or effort == "none"):
                warnings = (f"{model} takes no thinking budget of {wanted} tokens: {used} is used",)
    elif effort:
        config["thinkingLevel"], warnings = _nearest_level(effort, traits, model)
        if budget is not None:  # the service refuses both together
            warnings += (f"{model} takes a thinking level or a budget, not both: the budget is left out",)
    elif budget is not None:
        config["thinkingBudget"] = budget  # models with levels still take one
    if reasoning.summary is not None:
        config["includeThoughts"] = reasoning.summary
    return config, warnings


def _nearest_budget(wanted: int, traits: ModelTraits) -> int:
    if wanted == DYNAMIC or (wanted == 0 and traits.can_stop_thinking):
        return wanted
    return min(max(wanted, traits.min_budget), traits.max_budget)


def _nearest_level(effort: str, traits: ModelTraits, model: str) -> tuple[str, tuple[str, ...]]:
    if effort == "max":
        return traits.levels[-1] if traits.thinking else "HIGH", ()
    wanted = _LEVELS[effort]
    place = ALL_LEVELS.index(wanted)
    # Of two that are equally far, the higher: Google reads "medium" as HIGH where there is no MEDIUM.
    used = min(reversed(traits.levels), key=lambda level: abs(ALL_LEVELS.index(level) - place))
    if effort == "none":
        return used, (f"{model} cannot be kept from thinking: {used}, its least, is used",)
    return used, () if used == wanted else (f"{model} knows no thinking level {wanted}: {used} is used",)
