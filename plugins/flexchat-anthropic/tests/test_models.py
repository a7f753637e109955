"""The list of models a server offers."""

from typing import Any

import pytest
from flexchat_anthropic.models import longest_answer, read_models

YES, NO = {"supported": True}, {"supported": False}


def test_models_have_capabilities_and_limits() -> None:
    """As the service tells; chat and tools, which it does not, all of them have."""
    item = {
        "type": "model",
        "id": "claude-x",
        "display_name": "Claude X",
        "max_input_tokens": 1000000,
        "max_tokens": 128000,
        "lifecycle": "active",
        "capabilities": {"image_input": YES, "thinking": {**YES, "types": {}}, "batch": NO},
    }
    page = read_models({"data": [item, {**item, "id": "y", "capabilities": {"image_input": NO}}], "has_more": False})

    first, second = page.models
    assert (first.id, first.name, first.context_length) == ("claude-x", "Claude X", 1000000)
    assert first.capabilities == {"chat", "tools", "vision", "reasoning"}
    assert second.capabilities == {"chat", "tools"}
    assert page.limits == {"claude-x": 128000, "y": 128000}
    assert page.after is None


def test_retired_models_are_left_out_and_untold_things_are_unknown() -> None:
    """Servers that only speak the API tell a name."""
    page = read_models(
        {"data": [{"id": "old", "lifecycle": "retired"}, {"id": "new"}], "has_more": True, "last_id": "new"}
    )

    (model,) = page.models
    assert (model.id, model.name, model.capabilities, model.context_length) == ("new", None, frozenset(), None)
    assert (page.limits, page.after) == ({}, "new")


@pytest.mark.parametrize("body", [None, [], "x", {}, {"data": None}, {"error": {}}])
def test_what_is_no_list_is_an_error(body: Any) -> None:
    """Of the kind the provider turns into one of its own."""
    with pytest.raises(ValueError, match="no list of models"):
        read_models(body)


def test_odd_items_are_left_out() -> None:
    """And odd values are none."""
    odd = {
        "id": "x",
        "display_name": 1,
        "max_input_tokens": "9",
        "max_tokens": True,
        "capabilities": [],
        "lifecycle": 1,
    }
    page = read_models({"data": [None, 1, {}, {"id": 1}, {"id": ""}, odd], "has_more": "yes", "last_id": 1})

    (model,) = page.models
    assert (model.id, model.name, model.context_length, page.limits, page.after) == ("x", None, None, {}, None)
    assert longest_answer(None) is longest_answer({"max_tokens": 0}) is None
