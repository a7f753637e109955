"""What is known of models, by their names."""

import pytest
from flexchat_anthropic.models import UNKNOWN, traits_of


@pytest.mark.parametrize(
    ("model", "pattern"),
    [
        ("claude-2.1", "claude-[12]*"),
        ("claude-3-opus-20240229", "claude-3*"),
        ("claude-3-haiku-20240307", "claude-3*"),
        ("claude-3-5-haiku-latest", "claude-3-5*"),
        ("claude-3-7-sonnet-20250219", "claude-3-7*"),
        ("claude-sonnet-4", "claude-*-4"),
        ("claude-sonnet-4-0", "claude-*-4[-@]0*"),
        ("claude-sonnet-4-20250514", "claude-*-4[-@]20*"),
        ("claude-opus-4-1-20250805", "claude-opus-4-1*"),
        ("claude-opus-4-5", "claude-opus-4-5*"),
        ("claude-haiku-4-5-20251001", "claude-*-4-5*"),
        ("claude-sonnet-4-6", "claude-*-4-6*"),
        ("claude-opus-4-8", "claude-opus-4-[78]*"),
        ("claude-opus-5", "claude-opus-5*"),
        ("claude-opus-5-5", "claude-opus-5-5*"),
        ("claude-haiku-5-5", "claude-haiku-5*"),
        ("claude-fable-5-2", "claude-fable-5-[12]*"),
        ("claude-mythos-5", "claude-mythos-5*"),
        ("claude-mythos-5-2-20260901", "claude-mythos-5-[12]*"),
        ("claude-fable-5-20260801", "claude-[fm]*-5[-@]20*"),
        ("claude-opus-6-5", "claude-*"),
        # As gateways call them.
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1*"),
        ("anthropic/claude-sonnet-4-6", "claude-*-4-6*"),
        ("claude-opus-4@20250514", "claude-*-4[-@]20*"),
    ],
)
def test_a_model_has_its_row(model: str, pattern: str) -> None:
    """The first whose pattern fits."""
    assert traits_of(model).pattern == pattern


def test_another_vendors_model_has_none() -> None:
    """It is sent what the user set."""
    assert traits_of("deepseek-chat") is UNKNOWN
    assert UNKNOWN.sampling == "both"


def test_the_newest_are_asked_for_little() -> None:
    """A model that is newer than the table refuses what all new ones refuse."""
    newest = traits_of("claude-later-7")
    assert (newest.sampling, newest.forced, newest.prefill, newest.max_tokens) == ("none", False, False, None)
