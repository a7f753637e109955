"""The table of models: the first fitting prefix speaks."""

import pytest
from flexchat_openai.traits import traits_of


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
        ("gpt-4.1", None),
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
    from flexchat_openai.traits import _table

    prefixes = [traits.prefix for traits in _table()]

    for at, prefix in enumerate(prefixes):
        assert not any(prefix.startswith(above + "-") or prefix == above for above in prefixes[:at])
