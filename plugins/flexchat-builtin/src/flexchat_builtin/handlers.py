"""Handlers: calculator, echo, date and time, unique ids, and texts of up to 100,000 characters."""

from __future__ import annotations

import asyncio
import datetime
import difflib
import sys
import time
import uuid
import zoneinfo
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flexchat.plugin import ToolContext, run_in_thread

from . import engine
from .parameters import MAX_TEXT, ParameterError, choice, flag, text

_ARITHMETIC = f"{__package__}.arithmetic"


def _load_arithmetic() -> None:
    from . import arithmetic  # noqa: F401


async def math_eval(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Return {"result": value} for params["expression"] (requirements TC-63, TC-64).

    Runs on the event loop, because an evaluation takes a few milliseconds at most. Importing numexpr, which lists need,
    takes longer and runs in a thread.
    """
    expression = params.get("expression")
    if not isinstance(expression, str) or not expression.strip():
        raise ParameterError('math_eval requires a non-empty string "expression" parameter')
    # Both imports take longer than a calculation, so they run in a thread: other turns use this event loop. They are
    # not at the top because every command imports this module, and few calculate.
    if "[" in expression and not engine.is_loaded():
        await asyncio.to_thread(engine.load)
    if _ARITHMETIC not in sys.modules:
        await run_in_thread(_load_arithmetic)
    from .arithmetic import evaluate

    return {"result": evaluate(expression)}


async def echo(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Return {"echo": params} (requirement TC-65)."""
    return {"echo": dict(params)}


async def get_current_datetime(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Return the current time in params["timezone"], an IANA name; UTC if absent or empty."""
    name = text(params, "timezone", default="", most=100).strip() or "UTC"
    try:
        zone = zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        # OSError includes IsADirectoryError: a folder of the database, such as "Europe".
        near = await asyncio.to_thread(_nearest_zones, name)
        hint = f"; near names: {', '.join(near)}" if near else ""
        raise ParameterError(f"unknown timezone {name!r}: use an IANA name such as Europe/Berlin{hint}") from None
    now = datetime.datetime.now(zone).replace(microsecond=0)
    return {
        "iso": now.isoformat(),
        "date": now.date().isoformat(),
        "time": now.time().isoformat(),
        "weekday": _WEEKDAYS[now.weekday()],
        "timezone": name,
        "utc_offset": now.isoformat()[-6:],
    }


# strftime("%A") depends on the machine's locale.
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _nearest_zones(name: str) -> list[str]:
    """Return up to three similar zone names; America/New_York for "new york"."""
    folded = name.casefold().replace(" ", "_")
    full: dict[str, str] = {}
    by_city: dict[str, str] = {}
    for zone in sorted(zoneinfo.available_timezones()):
        full[zone.casefold()] = zone
        by_city.setdefault(zone.casefold().rpartition("/")[2], zone)
    near = [full[folded]] if folded in full else []
    near += [by_city[c] for c in difflib.get_close_matches(folded.rpartition("/")[2], by_city, n=3, cutoff=0.75)]
    near += [full[z] for z in difflib.get_close_matches(folded, full, n=3, cutoff=0.7)]
    return list(dict.fromkeys(near))[:3]


async def generate_uuid(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Return {"uuid": a random UUID, version 4}."""
    return {"uuid": str(uuid.uuid4())}


MAX_ITEMS = 1_000  # maximum number of parts or matches returned; the count covers all of them
MAX_PATTERN = 500  # maximum length of a regular expression
MAX_WORK = 100_000_000  # length of the text times the size of RE2's program for the pattern: about a second

SEARCH_TIME_S = 1.0
"""RE2 finds one match in linear time; a pattern such as a.*b|a may read the whole text again for each."""


async def text_length(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Count the characters (Unicode code points), words and lines of params["text"]."""
    subject = text(params, "text")
    return {"characters": len(subject), "words": len(subject.split()), "lines": len(subject.splitlines())}


def _joined_words(separator: str) -> Callable[[str], str]:
    return lambda subject: separator.join(subject.casefold().split())


CASES: Mapping[str, Callable[[str], str]] = {
    "upper": str.upper,
    "lower": str.lower,
    "title": lambda subject: "".join(_titled(subject)),
    "sentence": lambda subject: subject[:1].upper() + subject[1:].lower(),
    "snake": _joined_words("_"),
    "kebab": _joined_words("-"),
}


def _titled(subject: str) -> list[str]:
    # str.title() turns "don't" into "Don'T".
    begins, letters = True, []
    for character in subject:
        letters.append(character.upper() if begins else character.lower())
        begins = not (character.isalnum() or character in "'’")
    return letters


async def text_case(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Convert params["text"] to the case params["case"], a key of CASES."""
    return {"text": choice(params, "case", CASES)(text(params, "text"))}


async def text_replace(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Replace every literal occurrence of params["find"] with params["replace"]."""
    subject, find, replacement = text(params, "text"), text(params, "find"), text(params, "replace", default="")
    if not find:
        raise ParameterError("'find' must not be empty")
    count = subject.count(find)
    length = len(subject) + count * (len(replacement) - len(find))
    if length > MAX_TEXT:
        raise ParameterError(f"the result would have {length} characters, {MAX_TEXT} are allowed")
    return {"text": subject.replace(find, replacement), "count": count}


async def text_split(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Split params["text"] at params["separator"], or at runs of whitespace if absent."""
    subject, separator = text(params, "text"), text(params, "separator", default="")
    parts = subject.split(separator or None)
    return _with_count("parts", parts[:MAX_ITEMS], len(parts))


def text_search(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Find all matches of the RE2 pattern params["pattern"] in params["text"]; positions count characters from 0.

    A plain function, so that it runs in a thread: a search may last SEARCH_TIME_S.
    """
    import re2

    subject, pattern = text(params, "text"), text(params, "pattern", most=MAX_PATTERN)
    options = re2.Options()
    options.case_sensitive = not flag(params, "ignore_case")
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
        if compiled.programsize * len(subject) > MAX_WORK:
            raise ParameterError("the pattern is too large for this text: use smaller repetition counts")
        return _matches(compiled.finditer(subject))
    except re2.error as error:
        raise ParameterError(_refusal(error)) from None
    except UnicodeEncodeError:
        raise ParameterError("the text or the pattern has half of a character (a lone surrogate)") from None


def _matches(results: Iterator[Any]) -> dict[str, Any]:
    ends, count, matches = time.monotonic() + SEARCH_TIME_S, 0, []
    for match in results:
        count += 1
        if count <= MAX_ITEMS:
            groups = list(match.groups())
            matches.append({"text": match[0], "start": match.start(), "end": match.end(), "groups": groups})
        # Checked after each match: the search itself cannot be interrupted, and one match takes linear time.
        if time.monotonic() > ends:
            raise ParameterError(f"the search was given up after {SEARCH_TIME_S:.0f} s: make the pattern more exact")
    return _with_count("matches", matches, count)


def _refusal(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return (
        f"the pattern cannot be used: {reason} (RE2 syntax: no back-references such as \\1, "
        "no look-ahead or look-behind such as (?=…), (?<!…))"
    )


def _with_count(name: str, items: list[Any], count: int) -> dict[str, Any]:
    cut = {"truncated": True} if count > len(items) else {}
    return {name: items, "count": count, **cut}
