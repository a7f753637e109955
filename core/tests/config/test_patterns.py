"""Regular expressions of match rules."""

import re

import pytest
from flexchat.config.patterns import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("/(weather|forecast)/", "the weather", True),
        ("weather", "the weather", True),
        ("/WEATHER/i", "the weather", True),
        ("/^b/m", "a\nb", True),
        ("/x/s", "a/x/s", True),
        ("/x/s", "x", False),
        ("/a/b/", "a/b", True),
        ("(?<word>a)\\k", None, None),
        ("(?<word>a)(?=b)(?<!c)", "ab", True),
    ],
)
def test_patterns_are_read_as_the_original_reads_them(pattern, text, found):
    if text is None:
        with pytest.raises(re.error):
            compile_pattern(pattern)
    else:
        assert bool(compile_pattern(pattern).search(text)) is found
