"""The doors: what they offer is written down, sorted, and complete."""

import importlib

import pytest


@pytest.mark.parametrize(
    "door", ["flexchat", "flexchat.plugin", "flexchat.provider", "flexchat.store", "flexchat.host", "flexchat_testing"]
)
def test_a_door_offers_what_it_lists_and_has_docstrings(door):
    """__all__ is sorted, constants first, every name exists, and what is a class or function says what it is."""
    module = importlib.import_module(door)
    assert list(module.__all__) == sorted(module.__all__, key=lambda name: (not name.isupper(), name))
    for name in module.__all__:
        thing = getattr(module, name)
        assert not isinstance(thing, type) or (thing.__doc__ or "").strip(), f"{door}.{name} has no docstring"
