"""What a text holds that could be an argument."""

import itertools
import time

import pytest
from flexchat_mock.rehearsal.values import values_of
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("2+2", "expression", ["2+2"]),
        ("what is 2 plus 2?", "expression", ["2 + 2"]),
        ("7 × 8 ÷ 2 − 1", "expression", ["7 * 8 / 2 - 1"]),
        ("10 divided by 4", "expression", ["10 / 4"]),
        ("17% of 230", "expression", ["17% of 230"]),
        ("sqrt(16) + max(1, 2)", "expression", ["sqrt(16) + max(1, 2)"]),
        ("(1 + 2) * (3 * (4 - 1))", "expression", ["(1 + 2) * (3 * (4 - 1))"]),
        ("[1, 2, 3] * 2", "expression", ["[1, 2, 3] * 2"]),
        ("2 * pi", "expression", ["2 * pi"]),
        ("2 + 2, 3 * 3", "expression", ["2 + 2", "3 * 3"]),
        ("5, 50%, box4, well-known, 2 plus, version 1.2.3, f(x)", "expression", []),
        ("it is 5, -2.5 or 1.2.3", "number", [5, -2.5]),
        ("'it' “is” `so` but don't", "quote", ["it", "is", "so"]),
        ("in tokyo, New York or Europe/Berlin", "zone", ["Asia/Tokyo", "America/New_York", "Europe/Berlin"]),
        ("Ask Anna Smith. Then São Paulo", "name", ["Anna Smith", "São Paulo"]),
        ("in South Africa", "name", ["South Africa"]),
        ("order A-1234", "code", ["A-1234"]),
    ],
)
def test_values_are_found(text, kind, expected):
    assert [value.value for value in values_of(text) if value.kind == kind] == expected


@given(st.text(alphabet="0123456789+-*/^()[]%., 'timesplusqroof×÷πAB@:", max_size=60) | st.text(max_size=60))
def test_every_value_lies_in_the_text_and_none_overlap(text):
    """Whatever is typed: places are real, in order and apart."""
    found = values_of(text)

    assert all(0 <= value.start < value.end <= len(text) for value in found)
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))


@pytest.mark.timed
@pytest.mark.parametrize(
    "piece", ["(", "(1+", "1+", "1 ", "'", "A ", "A-", "a@a.", "[1,", "%of ", "aa1(1", "http://", "pi", "- 1"]
)
def test_hostile_texts_take_no_time(piece):
    """2,000 characters, which is all that is read of a message."""
    begun = time.thread_time()

    values_of((piece * 2000)[:2000])

    assert time.thread_time() - begun < 1
