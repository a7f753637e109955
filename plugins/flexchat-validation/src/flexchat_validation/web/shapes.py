"""The declaration of operations, and JSON Schemas that several of them share."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import attrs
from flexchat.host import NOT_BLANK

from ..summary import ValidationRecord

if TYPE_CHECKING:
    from flexchat_web.typing import Call, Operation, Reply, Web

    Handler: TypeAlias = Callable[[Call], Awaitable[Reply]]

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
WORDS: Schema = {"type": "string", "pattern": NOT_BLANK}
NULLABLE_TEXT: Schema = {"type": ["string", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
SWITCH: Schema = {"type": "boolean"}
TABLE: Schema = {"type": "object"}
TEXTS: Schema = {"type": "array", "items": TEXT}


def listed(item: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


def record(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    """Return the schema of an object in an answer: these keys, and others as they come."""
    return {"type": "object", "properties": {**required, **optional}, "required": [*required]}


def body_schema(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    """Create the schema of a request's body, which allows these keys and no others."""
    return {**record(required, **optional), "additionalProperties": False}


def schema_of(cls: type, *left_out: str, plus: Mapping[str, Schema] = MappingProxyType({})) -> Schema:
    """Derive the schema of an object in an answer from the attributes of its class.

    Args:
        left_out: Attributes that the answer does not have.
        plus: Further keys of the answer.
    """
    hints = get_type_hints(cls)
    names = [field.name for field in attrs.fields(cls) if field.name not in left_out]
    return record({**{name: _schema_of_type(hints[name]) for name in names}, **plus})


def _schema_of_type(kind: Any) -> Schema:
    args = get_args(kind)
    if get_origin(kind) is Literal:
        return {"enum": [*args]}
    if get_origin(kind) is tuple:
        return listed(_schema_of_type(args[0]))
    if NoneType in args:
        inner = _schema_of_type(next(arg for arg in args if arg is not NoneType))
        return {"type": [inner["type"], "null"]}
    return {str: TEXT, bool: SWITCH, int: COUNT, float: NUMBER}.get(kind, TABLE)


class Operations:
    """The operations of a module. It decorates their handlers, whose names and docstrings are those of the operations.

    Example:
        @operation("GET", "/api/validation/runs", answers={200: …})
        async def list_runs(call): …
    """

    def __init__(self) -> None:
        self._declared: list[dict[str, Any]] = []

    def __call__(
        self, method: str, path: str, *, tag: str = "validation", problems: tuple[int, ...] = (503,), **fields: Any
    ) -> Callable[[Handler], Handler]:
        """Declare an operation; *fields* are those of flexchat_web.typing.Operation."""

        def declare(handle: Handler) -> Handler:
            summary = (inspect.getdoc(handle) or "").partition("\n")[0]
            fields.update(method=method, path=path, tag=tag, problems=problems, summary=summary, handle=handle)
            self._declared.append({**fields, "name": getattr(handle, "__name__", "")})
            return handle

        return declare

    def create(self, web: Web) -> Iterator[Operation]:
        """Create the operations of the HTTP API."""
        return (web.Operation(**fields) for fields in self._declared)


STATUS = schema_of(ValidationRecord, "test_history", "reason")
