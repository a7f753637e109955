"""Reading a text as the number, Boolean, array or object it spells if the schema requires one, null as "not given", and
3.0 as the integer it is.

Small models write ``{"days": "2"}``. Only lossless readings count: "2" is 2 and "true" is true, but "2.7" is not an
integer, " 2x" is not a number, "null" stays text, and a number never becomes text. ``{"days": null}`` is ``{}`` if
days is optional and cannot be null: many models write it that way, and under a strict schema all must. A value that is
already valid is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..domain.text import STRICT_JSON
from .wording import Path, branches, label, quoted

if TYPE_CHECKING:
    from .engine import SchemaEngine

_NOTHING = object()
_ABSENT = object()


def mended(value: Any, errors: Sequence[Any], engine: SchemaEngine) -> Any:
    """Return a copy in which texts that caused errors are the values they spell; value itself if there are none.

    The copy need not be valid: the caller checks it again, and mends text inside text in another round.
    """
    done: list[Path] = []
    for error in errors:
        path = tuple(error.relative_path)
        if any(path[: len(other)] == other or other[: len(path)] == path for other in done[-1:]):
            continue
        reading = _reading(error, engine)
        if reading is not _NOTHING:
            value = _replaced(value, path, reading)
            done.append(path)
    return value


def changes(before: Any, after: Any, path: Path = ()) -> Iterator[str]:
    """Yield a note for each text read as something else: ``days: "2" read as 2``."""
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before:
            if name in after:
                yield from changes(before[name], after[name], (*path, name))
            else:
                yield f"{label((*path, name))}: null read as not given"
    elif isinstance(before, list) and isinstance(after, list):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, (*path, index))
    else:
        yield f"{label(path)}: {quoted(before)} read as {quoted(after)}"


def _reading(error: Any, engine: SchemaEngine) -> Any:
    value, keyword = error.instance, error.validator
    if engine.is_null_for_absent(error):
        return _ABSENT
    is_whole = isinstance(value, float) and value.is_integer()
    spelt = _spelt(value) if isinstance(value, str) else int(value) if is_whole else _NOTHING
    if keyword == "type":
        types = error.validator_value
        names = [types] if isinstance(types, str) else types
        return spelt if any(engine.is_type(spelt, name) for name in names) else _NOTHING
    if keyword in ("enum", "const", "anyOf", "oneOf") and spelt is not _NOTHING and engine.fits(spelt, error.schema):
        return spelt
    if keyword in ("anyOf", "oneOf") and isinstance(value, (dict, list)):
        tried = [mended(value, branch, engine) for branch in branches(error)]
        fitting = [new for new in tried if new is not value and engine.fits(new, error.schema)]
        return fitting[0] if fitting and all(new == fitting[0] for new in fitting) else _NOTHING
    return _NOTHING


def _spelt(text: str) -> Any:
    """Return the JSON data a text spells; _NOTHING if it spells none, or a text or null."""
    try:
        data = STRICT_JSON.decode(text)
    except (ValueError, RecursionError):
        return _NOTHING
    if isinstance(data, (dict, list)):
        return data
    if data is None or isinstance(data, str) or text != text.strip():
        return _NOTHING
    # "2.0" is 2: JSON does not distinguish them, and a function with an integer parameter gets one.
    return int(data) if isinstance(data, float) and data.is_integer() and abs(data) <= 2**53 else data


def _replaced(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    step: Any = path[0]
    copy = dict(value) if isinstance(value, dict) else [*value]
    if new is _ABSENT and len(path) == 1:
        del copy[step]
    else:
        copy[step] = _replaced(value[step], path[1:], new)
    return copy
