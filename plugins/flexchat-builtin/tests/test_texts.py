"""The text tools."""

import time

import anyio
import pytest
from flexchat.plugin import Implementation, ToolContext, ToolDefinition
from flexchat_builtin import handlers as texts
from flexchat_builtin.handlers import text_case, text_length, text_replace, text_search, text_split
from flexchat_builtin.parameters import ParameterError
from hypothesis import given
from hypothesis import strategies as st

CONTEXT = ToolContext(
    tool=ToolDefinition(
        name="any", description="Any.", parameters={"type": "object"}, implementation=Implementation(type="builtin")
    )
)
LONG = "a" * 100_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", (0, 0, 0)), ("one two", (7, 2, 1)), ("Grüße,\n😀\n", (9, 2, 2)), ("  a  b  ", (8, 2, 1))],
)
async def test_length_counts_characters_words_and_lines(text, expected):
    """TC-101: string manipulation."""
    assert tuple((await text_length({"text": text}, CONTEXT)).values()) == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("upper", "DON'T STOP, ÉMILE"),
        ("lower", "don't stop, émile"),
        ("title", "Don't Stop, Émile"),
        ("sentence", "Don't stop, émile"),
        ("snake", "don't_stop,_émile"),
        ("kebab", "don't-stop,-émile"),
    ],
)
async def test_case_changes_the_case(case, expected):
    """Each of the cases the tool's schema offers."""
    assert await text_case({"text": "don't STOP, émile", "case": case}, CONTEXT) == {"text": expected}
    assert case in texts.CASES


@pytest.mark.parametrize("case", ["shout", None, 5, ["upper"]])
async def test_an_unknown_case_is_refused_with_the_known_ones(case):
    """The error lists what may be asked for."""
    with pytest.raises(ParameterError, match="must be one of: upper, lower, title"):
        await text_case({"text": "a", "case": case}, CONTEXT)


async def test_replace_is_literal():
    """A pattern's special characters mean themselves."""
    got = await text_replace({"text": "a.b.c axb", "find": ".b", "replace": r"\1"}, CONTEXT)

    assert got == {"text": r"a\1.c axb", "count": 1}


async def test_replace_without_a_replacement_deletes():
    """An absent replacement is the empty text."""
    assert await text_replace({"text": "banana", "find": "an"}, CONTEXT) == {"text": "ba", "count": 2}


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"text": LONG, "find": "a", "replace": LONG}, "the result would have 10000000000 characters"),
        ({"text": "a", "find": ""}, "'find' must not be empty"),
        ({"text": "a"}, "'find' must be a text, got nothing"),
        ({"text": 5, "find": "a"}, "'text' must be a text, got a number"),
        ({"text": {}, "find": "a"}, "'text' must be a text, got an object"),
        ({"text": LONG + "a", "find": "a"}, "'text' has 100001 characters, 100000 are allowed"),
    ],
)
async def test_replace_refuses_what_it_cannot_do(params, reason):
    """Wrong types and sizes are named; a result that would be huge is never built."""
    with pytest.raises(ParameterError, match=reason):
        await text_replace(params, CONTEXT)


@given(st.text(), st.text(min_size=1, max_size=2), st.text(max_size=3))
def test_replace_does_what_its_count_says(text, find, replace):
    """The result's length follows from the count."""
    got = anyio.run(text_replace, {"text": text, "find": find, "replace": replace}, CONTEXT)

    assert len(got["text"]) == len(text) + got["count"] * (len(replace) - len(find))


async def test_split_cuts_at_a_separator_or_at_white_space():
    """An absent separator means runs of white space."""
    assert await text_split({"text": "a,b,,c", "separator": ","}, CONTEXT) == {"parts": ["a", "b", "", "c"], "count": 4}
    assert await text_split({"text": " a  b\nc "}, CONTEXT) == {"parts": ["a", "b", "c"], "count": 3}


async def test_many_parts_are_counted_but_not_all_given():
    """At most 1,000 parts come back, and the result says that there are more."""
    got = await text_split({"text": "x " * 1_500}, CONTEXT)

    assert (len(got["parts"]), got["count"], got["truncated"]) == (1_000, 1_500, True)


def test_search_gives_matches_with_positions_and_groups():
    """Positions count characters, not bytes."""
    got = text_search({"text": "Größe 12 und 345", "pattern": r"(\d)(\d+)(x)?"}, CONTEXT)

    assert got == {
        "matches": [
            {"text": "12", "start": 6, "end": 8, "groups": ["1", "2", None]},
            {"text": "345", "start": 13, "end": 16, "groups": ["3", "45", None]},
        ],
        "count": 2,
    }


def test_search_heeds_case_unless_told_not_to():
    """ignore_case makes A and a the same."""
    assert text_search({"text": "Aa", "pattern": "a"}, CONTEXT)["count"] == 1
    assert text_search({"text": "Aa", "pattern": "a", "ignore_case": True}, CONTEXT)["count"] == 2
    assert text_search({"text": "Aa", "pattern": "b"}, CONTEXT) == {"matches": [], "count": 0}


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "[", "(", "*", "a{1001}", "\\"])
def test_a_pattern_re2_has_not_is_refused_in_a_sentence(pattern):
    """Back-references and look-around, which make searches slow without limit, and broken patterns."""
    with pytest.raises(ParameterError, match=r"the pattern cannot be used: .*no back-references"):
        text_search({"text": "aa", "pattern": pattern}, CONTEXT)


@pytest.mark.timed
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+b", "(a*)*b", "a?" * 100 + "a" * 100, ".*.*.*b"])
def test_a_search_takes_linear_time(pattern):
    """Patterns that take other engines hours on 100,000 characters."""
    started = time.thread_time()
    text_search({"text": LONG, "pattern": pattern}, CONTEXT)

    assert time.thread_time() - started < 2


@pytest.mark.slow
def test_a_search_is_given_up_where_every_match_reads_everything():
    """Linear time for each of 100,000 matches is still too much."""
    with pytest.raises(ParameterError, match="given up after 1 s"):
        text_search({"text": LONG, "pattern": "a.*b|a"}, CONTEXT)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"text": LONG, "pattern": r"(\w{1,900})(\w{1,900})"}, "the pattern is too large for this text"),
        ({"text": "a", "pattern": "a" * 501}, "'pattern' has 501 characters"),
        ({"text": "a", "pattern": "a", "ignore_case": "yes"}, "'ignore_case' must be true or false"),
        ({"text": "\ud800", "pattern": "a"}, "lone surrogate"),
        ({"text": "a", "pattern": "\ud800"}, "lone surrogate"),
        ({"text": "a"}, "'pattern' must be a text"),
    ],
)
def test_search_refuses_what_it_cannot_do(params, reason):
    """Sizes, types and texts that are none are named."""
    with pytest.raises(ParameterError, match=reason):
        text_search(params, CONTEXT)


def test_many_matches_are_counted_but_not_all_given():
    """At most 1,000 matches come back; the count is of all."""
    got = text_search({"text": "ab" * 2_000, "pattern": "b"}, CONTEXT)

    assert (len(got["matches"]), got["count"], got["truncated"]) == (1_000, 2_000, True)
