"""Regular expressions of match rules."""

import sys
import time

import pytest
from flexchat.config.patterns import MAX_PATTERN_MS, PatternError, compile_pattern
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("/(weather|forecast)/", "the weather", True),
        ("weather", "the weather", True),
        ("/WEATHER/i", "the weather", True),
        ("/WETTERÄ/i", "das wetterä", True),
        ("/^b/m", "a\nb", True),
        ("/x/s", "a/x/s", True),
        ("/x/s", "x", False),
        ("/a/b/", "a/b", True),
        ("(?<word>a)(?=b)(?<!c)", "ab", True),
        (r"(\w)\1", "hello", True),
        (r"\büber\b", "geht über Wien", True),
        (r"^\w+$", "größe", True),
        ("end$", "the end\n", True),
        ("x", "\ud800x", True),
        ("\ud800", "x", False),
    ],
)
def test_patterns_are_read_as_the_original_reads_them(pattern, text, found):
    assert compile_pattern(pattern).found_in(text) is found


@pytest.mark.parametrize("pattern", ["(?<word>a)\\k", "(", "[z-a]", "a{2,1}", "/(/i", "(?P<a>x)(?P<a"])
def test_what_is_no_pattern_is_an_error(pattern):
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@pytest.mark.timed
@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^(a+)+$", "a" * 50_000 + "!", False),
        ("(x+x+)+y", "x" * 50_000, False),
        ("^(a+)+$", "ä" + "a" * 5_000 + "!", False),
        ("^(ä+)+$", "ä" * 5_000 + "!", False),
        ("(.*a){25}", "a" * 24 + "ä" * 5_000, False),
        (r"^(([a-z])+.)+[A-Z]([a-z])+(?=$)", "a" * 5_000, None),
        ("(a|b|ab)*(?=c)", "ab" * 60 + "d", None),
    ],
)
def test_a_catastrophic_pattern_is_answered_in_a_tenth_of_a_second(pattern, text, found):
    """RE2 decides where it can; else the search is given up, which is neither yes nor no."""
    compiled = compile_pattern(pattern)
    started = time.thread_time()

    assert compiled.found_in(text) is found

    assert time.thread_time() - started < 0.1


@given(st.text(max_size=200))
def test_any_text_can_be_searched(text):
    """Whatever a user writes, both engines take it, and agree on a plain word."""
    assert compile_pattern("(?:ab)+c").found_in(text) is ("abc" in text)


def test_only_look_around_and_back_references_are_not_linear():
    assert compile_pattern("^(a|b)+$").linear
    assert not compile_pattern("(?=a)").linear
    assert not compile_pattern(r"(a)\1").linear
    assert MAX_PATTERN_MS <= 50


@pytest.mark.timed
@pytest.mark.parametrize(
    "pattern",
    ["(ab|c)d" * 1_500_000, "(" * 4000 + ")" * 4000, "((((a{1,1000}){1,1000}){1,1000}){1,1000})", "a" * 9_999],
)
def test_a_hostile_pattern_is_answered_soon(pattern):
    """Refused or compiled, whatever its length and depth."""
    started = time.thread_time()

    try:
        compile_pattern(pattern)
    except PatternError as error:
        assert len(str(error)) < 200  # noqa: PT017

    assert time.thread_time() - started < 1


def test_without_the_engine_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "regex", None)

    with pytest.raises(PatternError, match="\\./core\\[regex\\]"):
        compile_pattern.__wrapped__("a pattern of its own")
