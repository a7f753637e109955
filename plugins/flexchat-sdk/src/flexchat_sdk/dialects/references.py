"""The $refs of a schema: what they lead to, whether that leads back, and its name in $defs."""

from __future__ import annotations

import re
from typing import Any

from flexchat.schema.references import resolve
from flexchat.schema.wording import quoted

from .shape import inner_schemas


class References:
    """The $refs of one schema.

    Attributes:
        waiting: Names and schemas that $defs must contain and that are not rewritten yet.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self.waiting: list[tuple[str, dict[str, Any]]] = []
        self._root = root
        self._names: dict[int, str] = {}
        self._recursive: dict[int, bool] = {}

    def target(self, reference: Any) -> tuple[Any, str]:
        """Resolve a $ref; return its target and a description of the problem, empty if it resolves."""
        if type(reference) is not str or (reference != "#" and not reference.startswith("#/")):
            text = f'$ref {quoted(reference)} leaves the schema; copy its target into $defs and write "#/$defs/…"'
            return None, text
        return resolve(self._root, reference)

    def in_defs(self, reference: str, target: dict[str, Any]) -> str:
        """Return the $ref to a target that goes to $defs, unless it is the root."""
        if target is self._root:
            return "#"
        name = self._names.get(id(target))
        if name is None:
            base = name = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rpartition("/")[2]) or "_"
            number = 1
            while name in self._names.values():
                number += 1
                name = f"{base}_{number}"
            self._names[id(target)] = name
            self.waiting.append((name, target))
        return f"#/$defs/{name}"

    def must_lead_back(self, schema: dict[str, Any]) -> bool:
        """Return whether a value of this schema must contain one of a schema that contains itself."""
        target, problem = self.target(schema["$ref"]) if "$ref" in schema else (None, "")
        if type(target) is dict and not problem:
            return self._leads_back(target) or self.must_lead_back(target)
        return any(self.must_lead_back(inner) for inner in inner_schemas(schema, required_only=True))

    def _leads_back(self, target: dict[str, Any]) -> bool:
        if id(target) not in self._recursive:
            waiting, seen, is_cycle = [target], set[int](), False
            while waiting and not is_cycle:
                schema = waiting.pop()
                inner = [*inner_schemas(schema)]
                if "$ref" in schema:
                    inner.append(self.target(schema["$ref"])[0])
                is_cycle = any(each is target for each in inner)
                for each in inner:
                    if type(each) is dict and id(each) not in seen:
                        seen.add(id(each))
                        waiting.append(each)
            self._recursive[id(target)] = is_cycle
        return self._recursive[id(target)]


def places(root: dict[str, Any]) -> dict[int, str]:
    """Return the JSON pointer of every object in a schema, by the object's identity."""
    pointers: dict[int, str] = {}
    waiting: list[tuple[Any, str]] = [(root, "")]
    while waiting:
        value, place = waiting.pop()
        if id(value) in pointers:
            continue
        pointers[id(value)] = place
        for step, inner in value.items() if type(value) is dict else enumerate(value):
            if type(inner) is dict or type(inner) is list:
                waiting.append((inner, f"{place}/{str(step).replace('~', '~0').replace('/', '~1')}"))
    return pointers
