"""What a server tells of its models, and how much of a conversation they will read."""

from typing import Any

import pytest
from flexchat_ollama.context_window import chosen_num_ctx, estimate_warning, measured_warning
from flexchat_ollama.models import UNKNOWN, ModelFacts, model_info, read_show, read_tags
from flexchat_sdk import ModelInfo
from hypothesis import given
from hypothesis import strategies as st

SHOW = {
    "capabilities": ["completion", "tools", "thinking", "vision", "insert", "word of tomorrow"],
    "details": {"family": "qwen3"},
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.embedding_length": 2560},
    "parameters": 'stop                           "<|im_end|>"\nnum_ctx                        32768\ntemperature  0.6',
}


def test_show_is_read() -> None:
    """Capabilities in our words; the context length under the architecture's name; num_ctx of the Modelfile."""
    assert read_show(SHOW) == ModelFacts(
        capabilities=frozenset({"chat", "tools", "reasoning", "vision"}), context_length=40960, num_ctx=32768
    )


def test_an_old_server_tells_less_and_that_is_unknown() -> None:
    """No capabilities is not "none": nothing is known to be lacking."""
    facts = read_show({"model_info": {"llama.context_length": 8192}, "details": {}})

    assert facts == ModelFacts(context_length=8192)
    assert not facts.lacks("tools")
    assert read_show(SHOW).lacks("audio")
    assert not read_show(SHOW).lacks("tools")


def test_a_model_of_the_cloud_is_told_apart() -> None:
    """It has a remote host."""
    assert read_show({"remote_host": "https://ollama.com:443", "remote_model": "gpt-oss:120b"}).is_remote


def test_tags_are_read() -> None:
    """New servers tell capabilities and context length beside the name, old ones the name."""
    new = {"name": "a:1b", "model": "a:1b", "capabilities": ["embedding"], "details": {"context_length": 512}}
    found = read_tags({"models": [new, {"name": "b"}, {"no": "name"}, 5]})

    assert [model_info(name, facts) for name, facts in found.items()] == [
        ModelInfo(id="a:1b", capabilities=frozenset({"embedding"}), context_length=512),
        ModelInfo(id="b"),
    ]
    for body in (None, [], {}, {"models": None}, {"data": []}):
        with pytest.raises(ValueError, match="no list of models"):
            read_tags(body)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from([*SHOW, "", "general.architecture", "models"]), anything)
def test_any_answer_is_read(key: str, value: Any) -> None:
    """Law: strange facts are no facts; num_ctx and lengths are positive numbers."""
    for body in (value, {**SHOW, key: value}, {**SHOW, "model_info": {key: value, "x.context_length": value}}):
        facts = read_show(body)
        assert all(n is None or (type(n) is int and n > 0) for n in (facts.context_length, facts.num_ctx))


@given(
    st.none() | st.integers(1, 2**20),
    st.integers(1, 2**20),
    st.none() | st.integers(1, 2**20),
    st.none() | st.integers(1, 2**20),
)
def test_num_ctx_is_a_setting_or_within_the_limit(
    setting: int | None, limit: int, length: int | None, own: int | None
) -> None:
    """Law: it is what somebody set, or neither more than the model can nor more than the limit."""
    chosen = chosen_num_ctx(setting, limit, ModelFacts(context_length=length, num_ctx=own))

    assert chosen is not None
    assert chosen == (setting or own) or (setting is own is None and chosen <= min(limit, length or limit))
    assert chosen_num_ctx(None, limit, UNKNOWN) == limit


def test_a_window_that_is_nearly_full_is_said() -> None:
    """From 90 % on, estimated and measured; where nothing is known nothing is said."""
    assert estimate_warning(900, 1000) is None
    assert estimate_warning(901, 1000) is not None
    assert measured_warning(900, 1000) is None
    assert "num_ctx is 1000" in str(measured_warning(950, 1000))
    assert estimate_warning(10**9, None) is measured_warning(10**9, None) is measured_warning(None, 10) is None


def test_the_digest_of_a_model_tells_it_from_another_of_its_name() -> None:
    """/api/tags gives the SHA-256 of each manifest; what is no text is unknown."""
    tags = {"models": [{"name": "a", "digest": "500a1f067a9f"}, {"name": "b", "digest": 5}, {"name": "c"}]}

    assert {name: model_info(name, facts).digest for name, facts in read_tags(tags).items()} == {
        "a": "500a1f067a9f",
        "b": None,
        "c": None,
    }
