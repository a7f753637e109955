"""Arithmetic in a text."""

import itertools

import pytest
from flexchat_mock.rehearsal.expressions import find_expressions
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2+2", ["2+2"]),
        ("what is 2 plus 2?", ["2 + 2"]),
        ("7 × 8 ÷ 2", ["7 * 8 / 2"]),
        ("3x4", ["3 * 4"]),
        ("17% of 230", ["17% of 230"]),
        ("15 percent of the 45", ["15% of 45"]),
        ("1,000 minus 1", ["1000 - 1"]),
        ("twenty-five hundred divided by five", ["2500 / 5"]),
        ("(1 + 2", ["1 + 2"]),
        ("sqrt(16) + max(1, 2)", ["sqrt(16) + max(1, 2)"]),
        ("the square root of 16 squared", ["sqrt(16^2)"]),
        ("the cube root of (3 + 5)", ["cbrt(3 + 5)"]),
        ("2 to the power of 10", ["2^10"]),
        ("3 cubed", ["3^3"]),
        ("10 modulo 3", ["10 % 3"]),
        ("2 * pi", ["2 * pi"]),
        ("minus 3 plus 5", ["-3 + 5"]),
        ("subtract 3 from 10", ["10 - 3"]),
        ("half of 50", ["50 / 2"]),
        ("the average of 1, 2 and 6", ["(1 + 2 + 6) / 3"]),
        ("2 plus 2 and 3 times 3", ["2 + 2", "3 * 3"]),
        ("5", []),
        ("50%", []),
        ("box4", []),
        ("well-known", []),
        ("2 plus", []),
        ("version 1.2.3", []),
    ],
)
def test_arithmetic_is_found_and_written_in_signs(text, expected):
    """What is written in signs stays as it is; words become signs; a lone number is no arithmetic."""
    assert [e.text for e in find_expressions(text)] == expected


@given(st.text(alphabet="0123456789+-*/^()%., plustimesqroof²³√×÷π", max_size=60))
def test_every_expression_lies_in_the_text_and_none_overlap(text):
    """Whatever is typed: places are real, in order and apart."""
    found = find_expressions(text)

    assert all(0 <= e.start < e.end <= len(text) for e in found)
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
