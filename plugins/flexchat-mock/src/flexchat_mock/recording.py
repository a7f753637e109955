"""Creation of a mock tool from one result of the real tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from flexchat.host import Mask
from flexchat.plugin import ToolDefinition


@attrs.frozen
class RecordedMock:
    """A mock tool for a config.

    Attributes:
        entry: Its table of tools.registry.
        masked: JSONPaths of values that were masked as likely secrets: "$.items[0].token".
    """

    entry: dict[str, Any]
    masked: tuple[str, ...]


def record_mock(tool: ToolDefinition, answer: Any, mask: Mask) -> RecordedMock:
    """Create a mock that returns *answer*, with the tool's output_schema or else one inferred from the answer.

    Args:
        answer: JSON data.
    """
    masked_answer = mask.data(answer)
    masked = tuple(_differences("$", answer, masked_answer))
    schema = getattr(tool.implementation.settings, "output_schema", None)
    if masked or not schema:
        schema = shape_of(masked_answer)  # Masked values may violate the tool's output_schema.
    entry: dict[str, Any] = {name: getattr(tool, name) for name in ("name", "description", "effect", "parameters")}
    entry["implementation"] = {"type": "mock", "mock_response": masked_answer, "output_schema": schema}
    return RecordedMock(entry, masked)


def shape_of(*values: Any) -> dict[str, Any]:
    """Infer a JSON Schema that all *values* satisfy: their types and their common properties."""
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
    kinds: Mapping[str, Any] = {
        "null": type(None), "boolean": bool, "integer": int, "number": float, "string": str,
        "object": Mapping, "array": Sequence,
    }  # fmt: skip  # bool is a subclass of int, and str a Sequence: the order matters
    return next(name for name, kind in kinds.items() if isinstance(value, kind))


def _differences(place: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, Mapping):
        for name, value in before.items():
            yield from _differences(f"{place}.{name}", value, after[name])
    elif isinstance(before, (list, tuple)):
        for index, value in enumerate(before):
            yield from _differences(f"{place}[{index}]", value, after[index])
    elif before != after:
        yield place
