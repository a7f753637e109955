"""RE2 as the engine of patterns."""

import pytest
from flexchat.schema.patterns import problem_of, search


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
