"""Reasoning in Gemini's words, by model; and what is known of models."""

from typing import Any

import pytest
from flexchat_gemini.models import ALL_LEVELS, UNKNOWN, traits_of
from flexchat_gemini.request import thinking_config
from flexchat_sdk import Reasoning


@pytest.mark.parametrize(
    ("model", "asked", "config", "warning"),
    [
        ("gemini-2.5-flash", {"effort": "none"}, {"thinkingBudget": 0}, ""),
        ("gemini-2.5-flash", {"effort": "low"}, {"thinkingBudget": 1024}, ""),
        ("gemini-2.5-flash", {"effort": "medium"}, {"thinkingBudget": 8192}, ""),
        ("gemini-2.5-flash", {"effort": "max"}, {"thinkingBudget": 24576}, ""),
        ("gemini-2.5-flash", {"budget_tokens": -1}, {"thinkingBudget": -1}, ""),
        ("gemini-2.5-flash", {"effort": "high", "budget_tokens": 7}, {"thinkingBudget": 7}, ""),
        ("gemini-2.5-flash-lite", {"budget_tokens": 1}, {"thinkingBudget": 512}, "takes no thinking budget of 1 tok"),
        ("gemini-2.5-pro", {"effort": "none"}, {"thinkingBudget": 128}, "no thinking budget of 0 tokens: 128 is used"),
        ("gemini-2.5-pro", {"budget_tokens": 0}, {"thinkingBudget": 128}, "no thinking budget of 0 tokens"),
        ("gemini-2.5-pro", {"effort": "max"}, {"thinkingBudget": 32768}, ""),
        ("models/gemini-2.5-pro", {"summary": True}, {"includeThoughts": True}, ""),
        ("gemini-2.5-flash-image", {"effort": "low"}, {}, "takes no settings for thinking"),
        ("gemini-2.0-flash", {"effort": "low", "summary": True}, {}, "takes no settings for thinking"),
        ("gemini-2.0-flash", {"effort": "none"}, {}, ""),
        ("gemini-3-flash-preview", {"effort": "minimal"}, {"thinkingLevel": "MINIMAL"}, ""),
        ("gemini-3-flash-preview", {"effort": "none"}, {"thinkingLevel": "MINIMAL"}, "cannot be kept from thinking"),
        ("gemini-3-flash-preview", {"effort": "xhigh"}, {"thinkingLevel": "HIGH"}, "knows no thinking level XHIGH"),
        ("gemini-3-flash-preview", {"effort": "max"}, {"thinkingLevel": "HIGH"}, ""),
        ("gemini-3.7-flash", {"effort": "minimal"}, {"thinkingLevel": "LOW"}, "knows no thinking level MINIMAL"),
        ("gemini-3-pro-preview", {"effort": "medium"}, {"thinkingLevel": "HIGH"}, "knows no thinking level MEDIUM"),
        ("gemini-flash-latest", {"budget_tokens": 512}, {"thinkingBudget": 512}, ""),
        (
            "gemini-3.1-pro-preview",
            {"effort": "low", "budget_tokens": 1, "summary": False},
            {"thinkingLevel": "LOW", "includeThoughts": False},
            "not both: the budget is left out",
        ),
        ("tunedModels/mine", {"effort": "xhigh"}, {"thinkingLevel": "XHIGH"}, ""),
        ("tunedModels/mine", {"effort": "max"}, {"thinkingLevel": "HIGH"}, ""),
        ("tunedModels/mine", {"budget_tokens": 3}, {"thinkingBudget": 3}, ""),
        ("gemini-9-ultra", {"effort": "high"}, {"thinkingLevel": "HIGH"}, ""),
    ],
)
def test_reasoning_is_said_as_the_model_takes_it(
    model: str, asked: dict[str, Any], config: dict[str, Any], warning: str
) -> None:
    """A budget up to 2.5, a level from 3 on, never both; what cannot be said is a warning."""
    made, warnings = thinking_config(Reasoning(**asked), traits_of(model), model)

    assert made == config
    assert len(warnings) == bool(warning)
    assert all(warning in text for text in warnings)


@pytest.mark.parametrize(
    ("model", "signatures", "combines", "tools"),
    [
        ("gemini-1.5-pro", False, False, True),
        ("gemini-2.0-flash-lite", False, False, True),
        ("models/gemini-2.5-flash", False, False, True),
        ("gemini-2.5-flash-preview-tts", False, False, False),
        ("gemini-3-pro-preview", True, True, True),
        ("gemini-3-pro-image-preview", True, True, False),
        ("gemini-flash-lite-latest", True, True, True),
        ("gemini-4-argon", True, True, True),
        ("gemini-embedding-001", False, False, False),
        ("gemma-3-27b-it", False, False, False),
        ("tunedModels/gemma", False, False, False),
        ("projects/p/locations/l/endpoints/123", False, False, False),
    ],
)
def test_models_are_known_by_name(model: str, signatures: bool, combines: bool, tools: bool) -> None:
    """Signatures, tools with a format: Gemini 3 and later, and newer names than the table's; others do not."""
    traits = traits_of(model)

    assert (traits.signatures, traits.combines, traits.tools) == (signatures, combines, tools)


def test_what_is_not_known_is_not_guessed() -> None:
    """A name without a row has every level: what the user set is sent."""
    assert traits_of("my-model") is UNKNOWN
    assert UNKNOWN.levels == ALL_LEVELS
