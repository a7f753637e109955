"""Arguments of a call that come value by value: ``partialArgs``, which Vertex AI sends to those who ask for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flexchat_sdk import WrongShape, objects_of, text_in

# One step of a JSONPath: .name, [0], ['name'], ["name"].
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\[(['"])((?:\\.|(?!\3).)*)\3\]""")
# What a value may be called, and the types it may have.
_VALUES: Mapping[str, tuple[type, ...]] = {
    "numberValue": (int, float),
    "boolValue": (bool,),
    "nullValue": (str, type(None)),
}


class PartialArgs:
    """Takes the values in the order in which they come; a text may come in several pieces."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def add(self, entries: list[Any], where: str) -> None:
        """Take the ``partialArgs`` of a part.

        Args:
            where: Their place in the answer, for errors.

        Raises:
            WrongShape: One of them cannot be read.
        """
        for path, item in objects_of(entries, where):
            if "jsonPath" not in item:
                raise WrongShape(f"{path}.jsonPath", "text", None)
            name = text_in(item, "jsonPath", path, needed=True)
            if "stringValue" in item:
                pieces = self._values.setdefault(name, [])
                if not isinstance(pieces, list):
                    raise WrongShape(f"{path}.stringValue", "a value of the type that has begun", item["stringValue"])
                pieces.append(text_in(item, "stringValue", path, needed=True))
            elif kind := next((kind for kind in _VALUES if kind in item), None):
                if type(item[kind]) not in _VALUES[kind]:
                    raise WrongShape(f"{path}.{kind}", "a value of that kind", item[kind])
                self._values[name] = None if kind == "nullValue" else item[kind]
            elif not item.get("willContinue"):  # a text may begin with nothing
                raise WrongShape(path, "a value", item)

    def build(self) -> Mapping[str, Any]:
        """Return the arguments.

        Raises:
            ValueError: The values do not fit together, or a path is none.
        """
        args: dict[str, Any] = {}
        for path, value in self._values.items():
            _set_path(args, _steps(path), "".join(value) if isinstance(value, list) else value)
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


def _set_path(args: dict[str, Any], steps: list[str | int], value: Any) -> None:
    place: Any = args
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(place, list) and isinstance(step, int) and step <= len(place):
            if step == len(place):
                place.append(None)
        elif not isinstance(place, dict) or not isinstance(step, str):
            raise ValueError("values that do not fit together")
        current = place[step] if isinstance(step, int) else place.get(step)
        if following is None:
            current = value
        elif current is None:
            current = [] if isinstance(following, int) else {}
        place[step] = current
        place = current
