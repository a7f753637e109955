"""How much a model thinks, by what it understands."""

from typing import Any

import pytest
from flexchat_anthropic.models import traits_of
from flexchat_anthropic.request import thinking_for
from flexchat_sdk import Reasoning

ADAPTIVE = {"type": "adaptive"}


def told(model: str, max_tokens: int = 64000, **reasoning: Any) -> tuple[Any, Any, int]:
    thinking = thinking_for(Reasoning(**reasoning), traits_of(model), model, max_tokens)
    return thinking.config, thinking.effort, len(thinking.warnings)


def enabled(budget: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": budget}


@pytest.mark.parametrize(
    ("model", "reasoning", "expected"),
    [
        # An effort where there are only budgets; both where there are both.
        ("claude-sonnet-4-5", {"effort": "minimal"}, (enabled(1024), None, 0)),
        ("claude-sonnet-4-5", {"effort": "medium"}, (enabled(8192), None, 0)),
        ("claude-3-7-sonnet-latest", {"effort": "max"}, (enabled(32000), None, 0)),
        ("claude-opus-4-5", {"effort": "medium"}, (enabled(8192), "medium", 0)),
        ("claude-opus-4-5", {"effort": "max"}, (enabled(32000), "high", 1)),
        # From 4.6 on the model decides; the recorded refusal: opus-4-6 knows no xhigh.
        ("claude-opus-4-6", {"effort": "low"}, (ADAPTIVE, "low", 0)),
        ("claude-opus-4-6", {"effort": "xhigh"}, (ADAPTIVE, "max", 1)),
        ("claude-opus-4-6", {"budget_tokens": 2000}, (enabled(2000), None, 0)),
        ("claude-opus-4-7", {"effort": "xhigh"}, (ADAPTIVE, "xhigh", 0)),
        ("claude-opus-4-7", {"effort": "minimal"}, (ADAPTIVE, "low", 1)),
        ("claude-opus-5", {"budget_tokens": 2000}, (ADAPTIVE, None, 1)),
        ("claude-opus-5", {"effort": "high", "budget_tokens": 2000}, (ADAPTIVE, "high", 1)),
        # Switched off.
        ("claude-sonnet-4-5", {"effort": "none"}, (None, None, 0)),
        ("claude-opus-4-8", {"effort": "none"}, (None, None, 0)),
        ("claude-opus-5", {"effort": "none"}, ({"type": "disabled"}, None, 0)),
        ("claude-opus-5", {"budget_tokens": 0}, ({"type": "disabled"}, None, 0)),
        ("claude-sonnet-5-5", {"effort": "none"}, ({"type": "between_tools"}, None, 0)),
        ("claude-fable-5", {"effort": "none"}, (None, "low", 1)),
        ("claude-opus-5-5", {"effort": "none"}, (None, "low", 1)),
        # Models that do not think.
        ("claude-3-5-haiku-latest", {"effort": "low"}, (None, None, 1)),
        ("claude-3-5-haiku-latest", {"effort": "none"}, (None, None, 0)),
        ("claude-3-5-haiku-latest", {"summary": True}, (None, None, 1)),
        # Shown or not.
        ("claude-opus-5", {"summary": True}, ({**ADAPTIVE, "display": "summarized"}, None, 0)),
        ("claude-opus-5", {"effort": "low", "summary": False}, ({**ADAPTIVE, "display": "omitted"}, "low", 0)),
        ("claude-sonnet-4-5", {"summary": True}, (None, None, 1)),
        (
            "claude-sonnet-4-5",
            {"effort": "minimal", "summary": True},
            ({**enabled(1024), "display": "summarized"}, None, 0),
        ),
        # Budgets that are too small.
        ("claude-sonnet-4-5", {"budget_tokens": 10}, (enabled(1024), None, 1)),
        # Nobody knows: what was set.
        ("kimi-k3", {"effort": "xhigh"}, (ADAPTIVE, "xhigh", 0)),
        ("kimi-k3", {"budget_tokens": 2000}, (enabled(2000), None, 0)),
        ("kimi-k3", {"effort": "none"}, ({"type": "disabled"}, None, 0)),
    ],
)
def test_thinking_is_said_in_the_models_words(model: str, reasoning: dict[str, Any], expected: Any) -> None:
    """What it cannot do is done as nearly as it can be, with a warning."""
    assert told(model, **reasoning) == expected


def test_a_budget_is_less_than_the_answer() -> None:
    """And at least 1024 tokens, or there is no thinking at all."""
    assert told("claude-sonnet-4-5", 2000, budget_tokens=3000) == (enabled(1999), None, 1)
    assert told("claude-sonnet-4-5", 1024, budget_tokens=3000) == (None, None, 1)
