"""Configurations as text: tables in TOML, and changes in place."""

import json
import tomllib
from pathlib import Path

import pytest
from flexchat import ConfigError
from flexchat.host import parse_document
from flexchat_sdk import changed_config, toml_table
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SCALAR = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=9) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
TABLE = st.dictionaries(TEXT, VALUE, max_size=4)


@given(TABLE)
def test_a_table_reads_back_equal(table):
    """Any texts, numbers, lists and tables, under any keys."""
    text = toml_table("[[rows]]", table)

    assert tomllib.loads(text + toml_table("[[rows]]", {})) == {"rows": [table, {}]}


def test_a_long_list_has_a_line_for_each_item():
    assert toml_table("[a]", {"b": ["x" * 60, "y" * 60], "c": ("z",)}) == (
        f'[a]\nb = [\n    "{"x" * 60}",\n    "{"y" * 60}",\n]\nc = ["z"]\n'
    )


@pytest.mark.parametrize("value", [None, [None], {"x": {"y": None}}, object()])
def test_what_toml_has_not_is_refused(value):
    with pytest.raises(TypeError, match="TOML has no"):
        toml_table("[a]", {"b": value})


def test_half_a_character_is_replaced():
    assert tomllib.loads(toml_table("[a]", {"b": "x\ud83d"})) == {"a": {"b": "x\ufffd"}}


def add(data):
    data.setdefault("a", {})["y"] = {"z": [1]}


ADDED = toml_table("[a.y]", {"z": [1]})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("c.toml", "# mine\n[a]\nx = 1  # one\n", "# mine\n[a]\nx = 1  # one\n\n[a.y]\nz = [1]\n"),
        ("c.toml", "", "[a.y]\nz = [1]\n"),
        ("c.yaml", "# mine\na:\n    x: 1  # one\n", None),
        ("c.json", '{\n    "a": {"x": 1}\n}\n', json.dumps({"a": {"x": 1, "y": {"z": [1]}}}, indent=4) + "\n"),
    ],
)
def test_a_change_keeps_everything_else(name, text, expected):
    """In TOML and YAML with the comments, in JSON with the indentation."""
    changed = changed_config(text, Path(name), add, ADDED)

    assert parse_document(changed, name).data["a"]["y"] == {"z": [1]}
    assert changed == expected if expected is not None else changed.startswith(text)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("c.toml", "a = { x = 1 }\n", ConfigError),
        ("c.toml", "a = 1\n", ValueError),
        ("c.yaml", "b: &b {x: 1}\na: *b\n", ValueError),
        ("c.json", '{"a": []}', ValueError),
        ("c.json", "{", ConfigError),
    ],
)
def test_what_cannot_be_changed_in_place_is_refused(name, text, error):
    with pytest.raises(error):
        changed_config(text, Path(name), add, ADDED)
