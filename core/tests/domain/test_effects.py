"""Which calls are the same, and which key an effect has."""

import json

import pytest
from flexchat.domain.effects import arguments_digest, effect_key
from flexchat.domain.masking import Mask
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": 0}, {"a": -0.0}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": [1.0, {"b": 2.0}]}, {"a": (1, {"b": 2})}),
        ({"a": "\ud83d\ude00"}, {"a": "😀"}),
        ({"a": 2.0**53 - 1}, {"a": 2**53 - 1}),
    ],
)
def test_what_means_the_same_is_the_same(one, other):
    assert arguments_digest("t", one) == arguments_digest("t", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": False}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": "é"}, {"a": "e\u0301"}),
        ({"a": "\ud83d"}, {"a": "\ufffd"}),
        ({"a": 2**53}, {"a": 2**53 + 1}),
        ({"a": 0.1}, {"a": 0.2}),
    ],
)
def test_what_means_something_else_is_not(one, other):
    assert arguments_digest("t", one) != arguments_digest("t", other)
    assert arguments_digest("t", one) != arguments_digest("u", one)


@pytest.mark.parametrize(
    "odd", [{1: "a"}, {"a": float("nan")}, {"a": float("inf")}, {"a": {1, 2}}, {"a": b"x"}], ids=repr
)
def test_what_is_not_json_has_no_digest(odd):
    with pytest.raises(ValueError, match=r"JSON"):
        arguments_digest("t", odd)


def test_what_is_nested_too_deeply_has_no_digest():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="the arguments are nested too deeply"):
        arguments_digest("t", {"a": deep})


@given(JSON)
def test_a_digest_outlives_being_written_and_read(value):
    """A turn that goes on reads its arguments from a database."""
    assert arguments_digest("t", value) == arguments_digest("t", json.loads(json.dumps(value)))


def test_every_part_of_a_place_makes_another_key():
    keys = [
        effect_key("t", "c", "u", "1.0"),
        effect_key("T", "c", "u", "1.0"),
        effect_key("t", None, "u", "1.0"),
        effect_key("t", "c", "v", "1.0"),
        effect_key("t", "c", "u", "1.1"),
        effect_key("t,c", "u", "1.0", ""),
        effect_key("t", "null", "u", "1.0"),
        effect_key("\ud83d", "c", "u", "1.0"),
    ]
    assert len({*keys}) == len(keys)
    assert all(len(key) == 64 and int(key, 16) for key in keys)


def test_keys_do_not_change_between_versions():
    """They are in the files of those who use this."""
    assert effect_key("default", None, "", "key:order7").startswith("93f462599c637a45")


def test_data_is_masked_as_texts_are():
    """And what stands under a key that is called like a secret, which no text tells."""
    data = {"password": "hunter", "n": [1, "https://a:hunter2@host"], "issue_key": "PROJ-1", "api_key": 5}
    masked = Mask(["PROJ-SECRET"]).data({**data, "said": "PROJ-SECRET"})
    assert masked == {
        "password": "***",
        "n": [1, "https://a:***@host"],
        "issue_key": "PROJ-1",
        "api_key": 5,
        "said": "***",
    }
