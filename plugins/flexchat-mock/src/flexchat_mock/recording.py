"""Makes a mock tool of what a real one answered once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from flexchat.host import Mask
from flexchat.plugin import ToolDefinition


@attrs.frozen
class Recorded:
    """A mock, as a config has it.

    Attributes:
        entry: A table of tools.registry.
        masked: Where the answer had what looked like a secret, as JSONPath: "$.items[0].token".
    """

    entry: dict[str, Any]
    masked: tuple[str, ...]


def recorded(tool: ToolDefinition, answer: Any, mask: Mask) -> Recorded:
    """Return the mock that answers as the tool did, with the tool's own output_schema, or else the answer's shape.

    Args:
        answer: JSON data.
    """
    shown = mask.data(answer)
    masked = tuple(_differences("$", answer, shown))
    promised = getattr(tool.implementation.settings, "output_schema", None)
    schema = promised if promised and not masked else shape_of(shown)  # what is masked may not fit what is promised
    implementation = {"type": "mock", "mock_response": shown, "output_schema": schema}
    entry = {
        "name": tool.name,
        "description": tool.description,
        "effect": tool.effect,
        "parameters": tool.parameters,
        "implementation": implementation,
    }
    return Recorded(entry, masked)


def shape_of(*values: Any) -> dict[str, Any]:
    """Return the JSON Schema that all these values fit: their types, and the properties that all of them have."""
    types = sorted({_type(value) for value in values})
    if "integer" in types and "number" in types:
        types.remove("integer")
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
    objects = [value for value in values if isinstance(value, Mapping)]
    if objects:
        names = list(dict.fromkeys(name for each in objects for name in each))
        schema["properties"] = {name: shape_of(*(each[name] for each in objects if name in each)) for name in names}
        schema["required"] = [name for name in names if all(name in each for each in objects)]
    lists = [value for value in values if _type(value) == "array"]
    items = [item for each in lists for item in each]
    if items:
        schema["items"] = shape_of(*items)
    return schema


def _type(value: Any) -> str:
    kinds: tuple[tuple[str, Any], ...] = (
        ("null", type(None)),
        ("boolean", bool),
        ("integer", int),
        ("number", float),
        ("string", str),
        ("object", Mapping),
        ("array", Sequence),
    )
    return next(name for name, kind in kinds if isinstance(value, kind))


def _differences(place: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, Mapping):
        for name, value in before.items():
            yield from _differences(f"{place}.{name}", value, after[name])
    elif isinstance(before, (list, tuple)):
        for index, value in enumerate(before):
            yield from _differences(f"{place}[{index}]", value, after[index])
    elif before != after:
        yield place
