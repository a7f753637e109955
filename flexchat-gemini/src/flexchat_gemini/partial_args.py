"""Arguments of a call that come value by value: ``partialArgs``, which Vertex AI sends to those who ask for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# One step of a JSONPath: .name, [0], ['name'], ["name"].
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\[(['"])((?:\\.|(?!\3).)*)\3\]""")
_VALUES = ("numberValue", "boolValue")


class PartialArgs:
    """Takes the values in the order in which they come; a text may come in several pieces."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def add(self, found: object) -> None:
        """Take the ``partialArgs`` of a part; what is none is left out."""
        for item in found if isinstance(found, list) else ():
            path = item.get("jsonPath") if isinstance(item, dict) else None
            if not isinstance(path, str):
                continue
            text = item.get("stringValue")
            if isinstance(text, str):
                pieces = self._values.setdefault(path, [])
                if isinstance(pieces, list):
                    pieces.append(text)
            else:
                self._values[path] = next((item[name] for name in _VALUES if name in item), None)

    def made(self) -> Mapping[str, Any]:
        """Return the arguments.

        Raises:
            ValueError: The values do not fit together, or a path is none.
        """
        args: dict[str, Any] = {}
        for path, value in self._values.items():
            _put(args, _steps(path), "".join(value) if isinstance(value, list) else value)
        return args


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            break
        at = step.end()
        name = step[1] or (re.sub(r"\\(.)", r"\1", step[4]) if step[3] else None)
        steps.append(int(step[2]) if name is None else name)
    if not path.startswith("$") or at < len(path) or not steps:
        raise ValueError(f"no path: {path[:100]}")
    return steps


def _put(args: dict[str, Any], steps: list[str | int], value: Any) -> None:
    place: Any = args
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(place, list) and isinstance(step, int) and step <= len(place):
            if step == len(place):
                place.append(None)
        elif not isinstance(place, dict) or not isinstance(step, str):
            raise ValueError("values that do not fit together")
        held = place[step] if isinstance(step, int) else place.get(step)
        if following is None:
            held = value
        elif held is None:
            held = [] if isinstance(following, int) else {}
        place[step] = held
        place = held
