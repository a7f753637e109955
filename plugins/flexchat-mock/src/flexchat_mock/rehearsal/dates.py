"""Dates and times of day in a text."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator

import attrs

from .vocabulary import NUMBER_WORDS

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTH = "(?P<month>" + "|".join(f"{m}|{m[:3]}\\b\\.?" for m in _MONTHS) + "|sept\\b\\.?)"
_DAY = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?P<year>[12][0-9]{3})\b)?"
_COUNT = rf"(?P<count>[0-9]{{1,3}}|an?|{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))})"


@attrs.frozen
class Moment:
    """A date, a time of day, or both, found in a text.

    Attributes:
        date: YYYY-MM-DD; None if only a time of day is said.
        time: HH:MM:SS; None if only a date is said.
    """

    date: str | None
    time: str | None
    start: int
    end: int


def find_moments(text: str, today: dt.date) -> tuple[Moment, ...]:
    """Return the dates and times in a text, in order; a date and the time beside it are one."""
    found: list[Moment] = []
    for moment in _all(text, today):
        if all(moment.end <= other.start or other.end <= moment.start for other in found):
            found.append(moment)
    found.sort(key=lambda m: m.start)
    joined: list[Moment] = []
    for moment in found:
        last = joined[-1] if joined else None
        if last is not None and re.fullmatch(r"[\s,]*(?:at|on|T)?[\s,]*", text[last.end : moment.start]):
            if last.time is None and moment.date is None:
                joined[-1] = Moment(last.date, moment.time, last.start, moment.end)
                continue
            if last.date is None and moment.time is None:
                joined[-1] = Moment(moment.date, last.time, last.start, moment.end)
                continue
        joined.append(moment)
    return tuple(joined)


def _all(text: str, today: dt.date) -> Iterator[Moment]:
    for pattern, read in _FORMS:
        for match in pattern.finditer(text):
            try:
                date, time = read(match, today)
            except (ValueError, OverflowError):
                continue  # 31 February, 25:00
            yield Moment(date, time, match.start(), match.end())


_Read = Callable[["re.Match[str]", dt.date], tuple[str | None, str | None]]


def _iso(match: re.Match[str], today: dt.date) -> tuple[str | None, str | None]:
    return dt.date(int(match["y"]), int(match["m"]), int(match["d"])).isoformat(), None


def _iso_moment(match: re.Match[str], today: dt.date) -> tuple[str | None, str | None]:
    moment = dt.datetime.fromisoformat(match[0])
    return moment.date().isoformat(), moment.time().isoformat("seconds")


def _named(match: re.Match[str], today: dt.date) -> tuple[str | None, str | None]:
    month = next(i for i, name in enumerate(_MONTHS, 1) if name.startswith(match["month"].casefold().rstrip(".")[:3]))
    day = int(match["day"])
    if match["year"]:
        return dt.date(int(match["year"]), month, day).isoformat(), None
    date = dt.date(today.year, month, day)
    # Without a year the next such day is meant.
    return (date if date >= today else dt.date(today.year + 1, month, day)).isoformat(), None


def _relative(match: re.Match[str], today: dt.date) -> tuple[str | None, str | None]:
    said = " ".join(match[0].casefold().split())
    days = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "next week": 7, "last week": -7}
    days |= {"day after tomorrow": 2, "the day after tomorrow": 2, "day before yesterday": -2}
    return (today + dt.timedelta(days=days[said])).isoformat(), None


def _weekday(match: re.Match[str], today: dt.date) -> tuple[str | None, str | None]:
    ahead = (_DAYS.index(match["weekday"].casefold()) - today.weekday()) % 7
    if (match["which"] or "").casefold() == "last":
        return (today - dt.timedelta(days=7 - ahead if ahead else 7)).isoformat(), None
    return (today + dt.timedelta(days=ahead or 7)).isoformat(), None


def _ahead(match: re.Match[str], today: dt.date) -> tuple[str | None, str | None]:
    said = match["count"].casefold()
    count = 1 if said in ("a", "an") else int(NUMBER_WORDS.get(said, said))
    days = count * (7 if match["unit"].casefold().startswith("week") else 1)
    return (today + dt.timedelta(days=-days if match["ago"] else days)).isoformat(), None


def _clock(match: re.Match[str], today: dt.date) -> tuple[str | None, str | None]:
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    half = (match["half"] or "").casefold().replace(".", "")
    if half and not 1 <= hour <= 12:
        raise ValueError("no such hour")
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    return None, dt.time(hour, minute).isoformat("seconds")


def _noon(match: re.Match[str], today: dt.date) -> tuple[str | None, str | None]:
    return None, "12:00:00" if match[0].casefold() == "noon" else "00:00:00"


_FORMS: tuple[tuple[re.Pattern[str], _Read], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.ASCII), read)
    for pattern, read in (
        (r"\b[12][0-9]{3}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9](?::[0-5][0-9])?\b", _iso_moment),
        (r"\b(?P<y>[12][0-9]{3})-(?P<m>[01]?[0-9])-(?P<d>[0-3]?[0-9])\b", _iso),
        (r"\b(?P<d>[0-3]?[0-9])\.(?P<m>[01]?[0-9])\.(?P<y>[12][0-9]{3})\b", _iso),
        (rf"\b{_DAY}(?:\s+of)?\s+{_MONTH}\b{_YEAR}", _named),
        (rf"\b{_MONTH}\s+{_DAY}\b{_YEAR}", _named),
        (r"\b(?:(?:the\s+)?day\s+after\s+tomorrow|day\s+before\s+yesterday)\b", _relative),
        (r"\b(?:today|tonight|tomorrow|yesterday|next\s+week|last\s+week)\b", _relative),
        (rf"\b(?:(?P<which>next|this|last)\s+)?(?P<weekday>{'|'.join(_DAYS)})\b", _weekday),
        (rf"\bin\s+{_COUNT}\s+(?P<unit>days?|weeks?)\b(?P<ago>(?!))?", _ahead),
        (rf"\b{_COUNT}\s+(?P<unit>days?|weeks?)\s+(?P<ago>ago)\b", _ahead),
        (r"\b(?P<hour>[0-2]?[0-9])(?::(?P<minute>[0-5][0-9]))?\s*(?P<half>[ap]\.?m\b\.?)", _clock),
        (r"\b(?P<hour>[0-2]?[0-9]):(?P<minute>[0-5][0-9])\b(?P<half>(?!))?", _clock),
        (r"\b(?:noon|midnight)\b", _noon),
    )
)
