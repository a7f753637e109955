"""Time zones in a text: by their IANA name, or by a place that has one."""

from __future__ import annotations

import functools
import re
import zoneinfo

import attrs

from .vocabulary import CITY_ZONES
from .words import words_of

_REGIONS = ("Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
# Zones whose last part is an ordinary word.
_NO_PLACES = {
    "center",
    "christmas",
    "easter",
    "factory",
    "general",
    "knox",
    "north",
    "reunion",
    "south",
    "troll",
    "vincennes",
    "west",
}
_PATH = re.compile(r"\b[A-Z][A-Za-z]+(?:/[A-Za-z0-9_+-]+){1,2}")
_LONGEST = 4


@attrs.frozen
class Zone:
    """A time zone a text speaks of.

    Attributes:
        name: IANA name, "Europe/Paris".
        capitalised: Whether the text writes the place as a name.
    """

    name: str
    start: int
    end: int
    capitalised: bool


@functools.cache
def _places() -> dict[str, str]:
    """Zones by the last part of their name; of several the one that comes first by region, length and alphabet."""
    places: dict[str, str] = {}
    zones = [z for z in zoneinfo.available_timezones() if z.split("/")[0] in _REGIONS and "/" in z]
    for zone in sorted(zones, key=lambda z: (_REGIONS.index(z.split("/")[0]), len(z), z)):
        place = zone.rsplit("/", 1)[1].replace("_", " ").casefold()
        if place not in _NO_PLACES and len(place) > 3:
            places.setdefault(place, zone)
    countries = ("Japan", "Singapore", "Israel", "Iran", "Turkey", "Egypt", "Iceland", "Portugal", "Poland", "Cuba")
    known = zoneinfo.available_timezones()
    return places | {c.casefold(): c for c in countries if c in known} | CITY_ZONES


def find_zones(text: str) -> tuple[Zone, ...]:
    """Return the time zones a text speaks of, in order; the longest name wins."""
    known = zoneinfo.available_timezones()
    found = [Zone(m[0], m.start(), m.end(), True) for m in _PATH.finditer(text) if m[0] in known]
    places, words = _places(), words_of(text)
    for size in range(_LONGEST, 0, -1):
        for i in range(len(words) - size + 1):
            first, last = words[i], words[i + size - 1]
            place = text[first.start : last.end].replace("’", "'").removesuffix("'s")
            end = first.start + len(place)
            zone = places.get(" ".join(place.casefold().split()))
            if zone is not None and all(end <= z.start or z.end <= first.start for z in found):
                found.append(Zone(zone, first.start, end, first.text[0].isupper()))
    return tuple(sorted(found, key=lambda z: z.start))
