"""RE2 as the engine of patterns."""

import re
import unicodedata

import pytest
from flexchat.schema.patterns import NOT_BLANK, problem_of, search


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?<!a)b", "[", "a{1001}", "\ud800"])
def test_what_re2_does_not_run_is_explained(pattern):
    """Back-references, look-around, broken and exploding patterns have a sentence."""
    assert problem_of(pattern)


def test_nothing_is_written_to_stderr(capfd):
    """RE2 logs a refused pattern unless told not to."""
    problem_of("(?=a)")

    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^a$", "a\n", False),
        (r"\d", "٣", False),
        ("^.$", "é", True),
        (r"^\p{L}+$", "Größe", True),
        ("a", "\ud83da", True),
    ],
)
def test_a_pattern_is_searched_as_in_ecma_262(pattern, text, found):
    """Found anywhere; $ is the very end; a lone surrogate in the text does no harm."""
    assert problem_of(pattern) is None
    assert search(pattern, text) is found


@pytest.mark.slow
def test_blank_means_the_same_to_every_engine():
    """What Unicode, Python or ECMA-262 calls a space is blank to RE2 and to Python's re; all else is not."""
    ecma_262 = {*"\t\n\v\f\r\u2028\u2029\ufeff"} | {
        c for c in map(chr, range(0x3001)) if unicodedata.category(c) == "Zs"
    }
    for char in map(chr, [*range(0xD800), *range(0xE000, 0x10000), 0x1F600]):
        is_blank = char.isspace() or char in ecma_262
        assert search(NOT_BLANK, char) is not is_blank
        assert (re.search(NOT_BLANK, char) is None) is is_blank
