"""Dates and times of day in a text."""

import datetime as dt

import pytest
from flexchat_mock.rehearsal.dates import find_moments
from hypothesis import given
from hypothesis import strategies as st

FRIDAY = dt.date(2026, 11, 20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 2026-05-03", [("2026-05-03", None)]),
        ("3.5.2026", [("2026-05-03", None)]),
        ("on 3 May", [("2027-05-03", None)]),
        ("December 24th", [("2026-12-24", None)]),
        ("Dec. 24, 2030", [("2030-12-24", None)]),
        ("the 1st of March 2027", [("2027-03-01", None)]),
        ("today and tomorrow", [("2026-11-20", None), ("2026-11-21", None)]),
        ("the day after tomorrow", [("2026-11-22", None)]),
        ("yesterday", [("2026-11-19", None)]),
        ("on Monday", [("2026-11-23", None)]),
        ("Friday", [("2026-11-27", None)]),
        ("last Friday", [("2026-11-13", None)]),
        ("in three days", [("2026-11-23", None)]),
        ("two weeks ago", [("2026-11-06", None)]),
        ("at 7pm", [(None, "19:00:00")]),
        ("12 am", [(None, "00:00:00")]),
        ("19:30", [(None, "19:30:00")]),
        ("noon", [(None, "12:00:00")]),
        ("tomorrow at 7:30 pm", [("2026-11-21", "19:30:00")]),
        ("at 9 am on Monday", [("2026-11-23", "09:00:00")]),
        ("2026-05-03T10:20", [("2026-05-03", "10:20:00")]),
        ("31 February, 25:99, 13pm", []),
        ("may I", []),
    ],
)
def test_dates_and_times_are_found(text, expected):
    """Counted from Friday, 20 November 2026; a day without a year is the next such day."""
    assert [(m.date, m.time) for m in find_moments(text, FRIDAY)] == expected


@given(st.dates(min_value=dt.date(1000, 1, 1), max_value=dt.date(2999, 12, 31)))
def test_every_iso_date_is_read_as_itself(date):
    """YYYY-MM-DD is not guessed at."""
    assert [m.date for m in find_moments(f"on {date.isoformat()}.", FRIDAY)] == [date.isoformat()]
