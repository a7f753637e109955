"""From tables to attrs classes: exactly, completely, and without showing a secret."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import pytest
from flexchat.config.structure import structure, structure_mapping
from hypothesis import given
from hypothesis import strategies as st


def key(**metadata: Any) -> Any:
    rest = {name: metadata.pop(name) for name in ("default", "factory", "validator") if name in metadata}
    return attrs.field(metadata=metadata, **rest)


@attrs.frozen(kw_only=True)
class Reply:
    text: str
    weight: float = 1.0


@attrs.frozen(kw_only=True)
class Settings:
    """Everything a plugin's author might write."""

    name: str
    secret_word: str = key(secret=True, default="")
    api_key: str | None = None
    count: int = key(min=1, max=5, default=1)
    timeout_s: float = key(above=0, default=60.0)
    depth: int | None = key(min=2, default=None)
    most: float = key(max=1, default=0.5)
    on: bool = False
    mode: Literal["fast", "exact"] = "fast"
    words: tuple[str, ...] = ()
    pair: tuple[int, str] | None = None
    replies: list[Reply] = attrs.field(factory=list)
    by_name: Mapping[str, Reply] = attrs.field(factory=dict)
    either: str | tuple[str, ...] | None = None
    tags: frozenset[str] = frozenset()
    plain: Sequence[int] = ()
    free: Mapping[str, Any] = attrs.field(factory=dict)
    anything: Any = None
    url: str = attrs.field(default="http://x")

    @url.validator
    def _check(self, attribute: Any, value: str) -> None:
        if not value.startswith("http"):
            raise ValueError("url must start with http")


def problems(**table: Any) -> list[str]:
    value, found = structure_mapping({"name": "n", **table}, Settings)
    assert (value is None) == bool(found)
    return found


def test_a_table_that_fits_becomes_an_instance():
    """Whole numbers are taken where a number is wanted; nothing else is converted."""
    table = {
        "name": "n",
        "timeout_s": 3,
        "count": 5,
        "mode": "exact",
        "words": ["a", "b"],
        "pair": [1, "x"],
        "replies": [{"text": "t"}],
        "by_name": {"x": {"text": "t", "weight": 2}},
        "either": ["a"],
        "tags": ["a", "a"],
        "plain": [1],
        "free": {"a": [None, {"b": 1}]},
        "anything": {"x": 1},
    }

    value, found = structure_mapping(table, Settings)

    assert found == []
    assert value == Settings(
        name="n",
        timeout_s=3.0,
        count=5,
        mode="exact",
        words=("a", "b"),
        pair=(1, "x"),
        replies=[Reply(text="t")],
        by_name={"x": Reply(text="t", weight=2.0)},
        either=("a",),
        tags=frozenset({"a"}),
        plain=(1,),
        free={"a": [None, {"b": 1}]},
        anything={"x": 1},
    )
    assert isinstance(value.timeout_s, float)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"on": "yes"}, 'on: expected true or false, got the text "yes"'),
        ({"on": "true"}, 'on: expected true or false, got the text "true"; leave out the quotes'),
        ({"on": 1}, "on: expected true or false, got the number 1"),
        ({"count": True}, "count: expected a whole number, got true"),
        ({"count": 2.0}, "count: expected a whole number, got the number 2.0"),
        ({"count": "3"}, 'count: expected a whole number, got the text "3"; leave out the quotes'),
        ({"count": 6}, "count: expected a number from 1 to 5, got the number 6"),
        ({"count": 0}, "count: expected a number from 1 to 5, got the number 0; leave the key out for the default"),
        ({"timeout_s": "60"}, 'timeout_s: expected a number, got the text "60"; leave out the quotes'),
        ({"timeout_s": False}, "timeout_s: expected a number, got false"),
        ({"timeout_s": 10**400}, "timeout_s: expected a number, got a number of more than 80 digits"),
        ({"timeout_s": -1}, "timeout_s: expected a number of more than 0, got the number -1"),
        ({"depth": 1}, "depth: expected a number of at least 2, got the number 1"),
        ({"most": 2}, "most: expected a number of at most 1, got the number 2"),
        ({"name": 5}, "name: expected text, got the number 5"),
        ({"name": None}, "name: expected text, got null"),
        ({"mode": "exakt"}, 'mode: expected one of "fast", "exact", got the text "exakt" (did you mean \'exact\'?)'),
        ({"mode": []}, 'mode: expected one of "fast", "exact", got a list'),
        ({"words": "a"}, 'words: expected a list of text, got the text "a"; put it in [ ]'),
        ({"words": ["a", 3]}, "words[1]: expected text, got the number 3"),
        ({"pair": [1]}, "pair: expected a list of 2, got a list"),
        ({"replies": [{"text": "t"}, {"txt": "t"}]}, "replies[1]: unknown key 'txt' (did you mean 'text'?)"),
        ({"replies": {}}, "replies: expected a list of tables, got a table"),
        ({"by_name": {"x": 3}}, "by_name.x: expected a table, got the number 3"),
        ({"by_name": []}, "by_name: expected a table, got a list"),
        ({"either": 3}, "either: expected text or a list of text, got the number 3"),
        ({"either": ["a", 3]}, "either[1]: expected text, got the number 3"),
        ({"free": 1}, "free: expected a table, got the number 1"),
        ({"url": "ftp"}, "url: url must start with http"),
        ({"coutn": 1}, "unknown key 'coutn' (did you mean 'count'?)"),
    ],
)
def test_what_does_not_fit_is_said_in_words(table, text):
    """Where, what was expected, what is there, and a hint where one is likely to help."""
    assert text in problems(**table)


def test_everything_that_is_wrong_is_found_at_once():
    found = problems(on="yes", count=[], words=[1, 2], by_name={"a": {}, "b": {"text": 1, "wieght": 1}}, x=1)

    assert [line.partition(":")[0] for line in found] == [
        "count",
        "on",
        "words[0]",
        "words[1]",
        "by_name.a.text",
        "by_name.b.text",
        "by_name.b",
        "unknown key 'x' (known",
    ]


def test_a_required_key_is_missed_under_its_own_name():
    assert structure_mapping({}, Settings)[1] == ["name: required key missing"]


@pytest.mark.parametrize("name", ["secret_word", "api_key"])
def test_a_secret_is_never_shown(name):
    """Neither one that is marked so, nor one whose name says it."""
    (text,) = problems(**{name: [["sk-do-not-show"]]})

    assert text.startswith(f"{name}: expected text, got a list")
    assert "sk-" not in text


def test_a_long_value_is_cut():
    (text,) = problems(on="x" * 1000)

    assert len(text) < 150


def test_hidden_places_keep_their_values_to_themselves():
    """Values that came from the environment."""
    _, flaws = structure({"name": "n", "on": "from-env"}, Settings, hidden=frozenset({("on",)}))

    assert [flaw.text for flaw in flaws] == ["expected true or false, got a text (not shown here)"]


def test_keys_of_others_are_suggested_but_not_taken():
    """A typing error in a key of core's lands among the plugin's keys."""
    _, flaws = structure({"name": "n", "default_modle": "x"}, Settings, beside=("default_model",))

    assert [flaw.text for flaw in flaws] == ["unknown key 'default_modle' (did you mean 'default_model'?)"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([f.name for f in attrs.fields(Settings)]) | st.text(max_size=3), JSON))
def test_any_table_either_fits_or_has_problems(table):
    """And what fits says the same again: no value was changed but whole numbers to numbers."""
    value, found = structure_mapping(table, Settings)

    assert (value is None) == bool(found)
    if value is not None:
        assert all(getattr(value, name) == table[name] for name in ("name", "on", "count", "mode") if name in table)


def test_a_key_error_of_a_plugins_settings_is_told_with_its_class():
    """Its text alone is just the key, which looks like a value of the configuration."""

    @attrs.frozen
    class Unlucky:
        unit: str

        def __attrs_post_init__(self) -> None:
            {}[self.unit]

    assert structure_mapping({"unit": "km"}, Unlucky) == (None, ["KeyError: 'km'"])
