"""YAML 1.2, and nothing that 1.1 made of it."""

import json

import pytest
import yaml
from flexchat_http.openapi.yaml_reading import MAX_ALIASED, YamlError, read_yaml
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn", "Co"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_json_is_yaml(value):
    """A JSON text means the same as YAML."""
    assert read_yaml(json.dumps(value, ensure_ascii=False)) == value


@given(VALUES)
def test_what_others_write_as_yaml_is_read_back(value):
    """PyYAML quotes what could be mistaken."""
    assert read_yaml(yaml.safe_dump(value, allow_unicode=True)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on: yes", {"on": "yes"}),
        ("2024-01-01: 2024-01-01", {"2024-01-01": "2024-01-01"}),
        ("200: 1.0", {"200": 1.0}),
        ("null: ~", {"null": None}),
        ("true: true", {"true": True}),
        ("a: 010", {"a": 10}),
        ("a: 0x1F", {"a": 31}),
        ("a: 0o17", {"a": 15}),
        ("a: 1_000", {"a": "1_000"}),
        ("a: 12:30:45", {"a": "12:30:45"}),
        ("a: .nan", {"a": ".nan"}),
        ("a: 1e999", {"a": "1e999"}),
        ("a: '1'", {"a": "1"}),
        ("a: !!str 1", {"a": "1"}),
        ("a: =", {"a": "="}),
        ("a:", {"a": None}),
        ("- 1\n- -.5\n- +3", [1, -0.5, 3]),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, c: 2}\nd: {b: 3, <<: *x}", {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}),
        ("a: &x {b: 1}\nd: {<<: [*x], b: 4}", {"a": {"b": 1}, "d": {"b": 4}}),
        ("", None),
    ],
)
def test_plain_scalars_are_those_of_the_core_schema(text, value):
    assert read_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [", 3, "node content"),
        ("a: 1\n---\nb: 2", 2, "second YAML document"),
        ("a: 1\nb: *x", 2, "*x has no anchor"),
        ("a: &x\n  b: *x", 2, "*x stands within its own value"),
        ("? [1, 2]\n: 3", 1, "key must be a text"),
        ("a: 1\n<<: 2", 2, "<< merges mappings"),
        ("a: \x00", 1, ""),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(text, line, words):
    with pytest.raises(YamlError) as caught:
        read_yaml(text)

    assert caught.value.line == line
    assert words in str(caught.value)


def test_a_bomb_of_aliases_is_refused():
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{key}: &{key} [{', '.join([f'*{before}'] * 10)}]" for before, key in zip("abcdefgh", "bcdefghi", strict=True)
    ]

    with pytest.raises(YamlError, match=f"more than {MAX_ALIASED:,}"):
        read_yaml("\n".join(lines))


def test_deep_nesting_does_not_overflow():
    with pytest.raises(YamlError):
        read_yaml("[" * 100_000)
