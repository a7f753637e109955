"""Short handlers: calculator, echo, date and time, unique ids."""

from __future__ import annotations

import asyncio
import datetime
import difflib
import sys
import uuid
import zoneinfo
from collections.abc import Mapping
from typing import Any

from flexchat.plugin import ToolContext, run_in_thread

from . import engine, parameters
from .errors import ParameterError

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
    name = parameters.text(params, "timezone", default="", most=100).strip() or "UTC"
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
