"""The table of models: the first fitting prefix speaks."""

from typing import Literal

import pytest
from flexchat_openai.models import effort_for, traits_of
from flexchat_sdk import Reasoning

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        ("gpt-5", True),
        ("gpt-5-mini-2025-08-07", True),
        ("gpt-5.6-terra", True),
        ("gpt-5.4", False),
        ("gpt-5.4-pro", True),
        ("gpt-5.1-chat-latest", True),
        ("gpt-6.1-sol", True),
        ("o4-mini", True),
        ("gpt-4.1", False),
        ("ft:gpt-4.1-mini-2025-04-14:org::id", False),
        ("ft:o4-mini:org", True),
        ("gpt-55", None),
        ("openai/gpt-5", None),
        ("", None),
    ],
)
def test_a_models_traits_are_found_by_prefix(model: str, reasons: bool | None) -> None:
    """A prefix ends at a hyphen or with the name; a model without a row is not known."""
    traits = traits_of(model)

    assert (traits and traits.reasons) is reasons


def test_longer_prefixes_stand_before_shorter_ones() -> None:
    """No row is hidden by one above it."""
    from flexchat_openai.models import _table

    prefixes = [traits.prefix for traits in _table()]

    for at, prefix in enumerate(prefixes):
        assert not any(prefix.startswith(above + "-") or prefix == above for above in prefixes[:at])


def test_the_table_speaks_of_efforts_that_exist_and_of_both_apis() -> None:
    """What reasons by default knows an effort; models that only the Responses API takes are the newer ones."""
    from flexchat_openai.models import _EFFORTS, _table

    for traits in _table():
        assert set(traits.efforts) <= set(_EFFORTS)
        assert traits.efforts or not traits.reasons
        assert traits.api in ("chat", "responses")


@pytest.mark.parametrize(
    ("model", "effort", "api", "sent", "warned"),
    [
        ("gpt-5", "minimal", "chat", "minimal", False),
        ("gpt-5", "none", "chat", "minimal", True),
        ("gpt-5", "xhigh", "chat", "high", True),
        ("gpt-5.6", "minimal", "responses", "low", True),
        ("gpt-6-astra", "max", "responses", "max", False),
        ("gpt-6-astra", "max", "chat", "xhigh", True),
        ("gpt-6-astra", "none", "responses", "low", True),
        ("gpt-5-pro", "low", "responses", "high", True),
        ("gpt-4.1", "none", "chat", None, False),
        ("gpt-4.1", "high", "chat", None, True),
        ("qwen3", "max", "chat", "max", False),
        ("qwen3", "none", "chat", "none", False),
    ],
)
def test_an_effort_a_model_does_not_know_becomes_the_nearest(
    model: str, effort: Effort, api: str, sent: str | None, warned: bool
) -> None:
    """With a warning; a model that is not known is sent what was asked for."""
    found, warnings = effort_for(Reasoning(effort=effort), model, traits_of(model), api)

    assert (found, bool(warnings)) == (sent, warned)


def test_a_budget_of_tokens_cannot_be_said() -> None:
    """It is left out with a warning, whatever the model."""
    for model in ("gpt-5", "qwen3"):
        assert "budget" in effort_for(Reasoning(budget_tokens=5), model, traits_of(model), "chat")[1][0]
