"""JSON whose media are encoded while it is sent."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from flexchat_sdk import Base64, Body, Json, Pieces, join
from flexchat_sdk.history import replayed
from hypothesis import given
from hypothesis import strategies as st

texts = st.text(st.characters(codec="utf-8"), max_size=20)
media = st.builds(Base64, st.binary(max_size=100), st.sampled_from(["", "data:image/png;base64,", 'a "quoted" ü,']))
values = st.recursive(
    texts | media | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def plain(value: Any) -> Any:
    """The same data with texts in place of media."""
    match value:
        case Base64():
            return value.prefix + base64.b64encode(value.data).decode()
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
    return value


@given(st.dictionaries(texts, values))
def test_media_are_sent_as_if_they_had_been_text(value):
    encoded = replayed(value)
    assert bytes(encoded) == replayed(plain(value))
    assert len(encoded) == len(bytes(encoded))
    assert b"".join(encoded if isinstance(encoded, Pieces) else [encoded]) == bytes(encoded), "and once more"


@given(st.lists(st.dictionaries(texts, values), max_size=4))
def test_pieces_are_joined_like_bytes(messages):
    assert bytes(replayed(messages)) == replayed(plain(messages))
    array: Json = b"[" + join(b",", map(replayed, messages)) + b"]"
    assert json.loads(bytes(array)) == plain(messages)
    assert json.loads(bytes(Body.of({"a": 1}, {"messages": array, "last": array}).content)) == {
        "a": 1,
        "messages": plain(messages),
        "last": plain(messages),
    }


@pytest.mark.parametrize("size", [0, 1, 2, 49_151, 49_152, 49_153, 200_000])
def test_a_medium_of_any_size_is_encoded_in_small_steps(size):
    data = bytes(range(256)) * (size // 256 + 1)
    pieces = replayed({"data": Base64(data[:size])})
    assert isinstance(pieces, Pieces)
    assert max(map(len, pieces)) <= 65_536
    assert json.loads(bytes(pieces)) == {"data": base64.b64encode(data[:size]).decode()}


def test_what_json_lacks_is_null_beside_media_as_well():
    assert bytes(replayed({"n": float("nan"), "data": Base64(b"abc")})) == b'{"n":null,"data":"YWJj"}'


def test_anything_else_is_refused_by_its_type():
    with pytest.raises(TypeError, match="bytes is not JSON serializable"):
        replayed({"media": Base64(b"abc"), "data": b"abc"})


def test_the_ends_of_pieces_are_read_and_extended_like_those_of_bytes():
    block = replayed({"type": "image", "data": Base64(b"abc")})
    assert isinstance(block, Pieces)
    assert block.startswith((b'{"type":"text"', b'{"type":"image"'))
    assert not block.startswith(b'{"data"')
    assert bytes(block.removesuffix(b"}") + b',"more":1}') == b'{"type":"image","data":"YWJj","more":1}'
