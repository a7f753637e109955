"""Conversion of Python annotations to JSON Schema, and of JSON values back to the annotated types."""

from __future__ import annotations

import collections.abc as abc
import contextlib
import dataclasses
import datetime
import enum
import inspect
import json
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, Union

import attrs

from .docstrings import read_docstring
from .from_pydantic import SET_ITEMS, as_json_data, pydantic_form
from .wording import Path, label, quoted

_EMPTY = inspect.Parameter.empty
_SAID = "str, int, float, bool, list, dict, Literal, an Enum, a dataclass, or leave the annotation out"


class UnsayableError(Exception):
    """An annotation that JSON Schema cannot express; the text names it and the form to use."""


@attrs.frozen
class Form:
    """The form of JSON data for one annotation.

    Attributes:
        schema: Its JSON Schema.
        read: (value, path) -> the Python value. Raises ValueError, with a sentence for the model, if there is none; the
            sentence names the value by the path.
    """

    schema: dict[str, Any]
    read: Callable[[Any, Path], Any]


def form_of(annotation: Any, within: tuple[type, ...] = ()) -> Form:
    """Return the form of an annotation with its strings resolved; raise UnsayableError if it has none.

    Args:
        within: The classes whose fields are being described.
    """
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    try:
        pydantic = pydantic_form(annotation)
    except ValueError as error:
        raise UnsayableError(f"{_name(annotation)} cannot be used: {error}") from None
    if pydantic is not None:
        extras = args[1:] if origin is typing.Annotated else ()
        return _annotated(Form(*pydantic), extras)
    if origin is typing.Annotated:  # may contain a dict, and then has no hash
        return _annotated(form_of(args[0], within), args[1:])
    simple = _SIMPLE.get(annotation) if isinstance(annotation, abc.Hashable) else None
    if simple is not None:
        return simple
    if origin is Union or origin is types.UnionType:
        return _union([form_of(each, within) for each in args])
    if origin is Literal:
        return _enumeration(args, lambda value: next(each for each in args if _same(each, value)))
    if origin in (typing.Required, typing.NotRequired, typing.ClassVar, typing.Final):
        return form_of(args[0], within)
    if isinstance(annotation, typing.NewType):
        return form_of(annotation.__supertype__, within)
    collection = origin or annotation
    if not isinstance(collection, abc.Hashable):
        raise UnsayableError(f"{_name(annotation)} is not a type; use {_SAID}")
    if collection in _COLLECTIONS:
        return _collection(collection, args, within)
    if collection in (dict, abc.Mapping, abc.MutableMapping):
        return _mapping(args, within)
    if isinstance(annotation, type):
        return _class(annotation, within)
    raise UnsayableError(f"{_name(annotation)} cannot be expressed in JSON; use {_SAID}")


def or_none(form: Form) -> Form:
    """Return the form that also allows null."""
    try:
        form.read(None, ())
    except ValueError:
        return _union([form, _SIMPLE[None]])
    return form


def _as_is(value: Any, path: Path) -> Any:
    return value


def _exact_type_reader(kind: type, words: str) -> Callable[[Any, Path], Any]:
    def read(value: Any, path: Path) -> Any:
        if type(value) is not kind:
            raise _refusal(path, words, value)
        return value

    return read


def _read_integer(value: Any, path: Path) -> Any:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():  # JSON does not distinguish 5.0 from 5
        return int(value)
    raise _refusal(path, "an integer", value)


def _read_number(value: Any, path: Path) -> Any:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _refusal(path, "a number", value)
    try:
        return float(value) if float(value) == value else value
    except OverflowError:
        return value


def _text_of(words: str, parse: Callable[[str], Any]) -> Callable[[Any, Path], Any]:
    def read(value: Any, path: Path) -> Any:
        try:
            return parse(value)
        except (TypeError, ValueError, AttributeError):
            raise _refusal(path, words, value) from None

    return read


def _refusal(path: Path, words: str, value: Any) -> ValueError:
    return ValueError(f"{label(path)} must be {words} (got {quoted(value)})")


_SIMPLE: dict[Any, Form] = {
    Any: Form({}, _as_is),
    object: Form({}, _as_is),
    _EMPTY: Form({}, _as_is),
    str: Form({"type": "string"}, _exact_type_reader(str, "a string")),
    int: Form({"type": "integer"}, _read_integer),
    float: Form({"type": "number"}, _read_number),
    bool: Form({"type": "boolean"}, _exact_type_reader(bool, "a boolean")),
    None: Form({"type": "null"}, _exact_type_reader(type(None), "null")),
    type(None): Form({"type": "null"}, _exact_type_reader(type(None), "null")),
}
_WRITTEN_AS_TEXT: tuple[tuple[Any, str, str], ...] = (
    (datetime.datetime, "date-time", "a date and time such as 2026-05-01T12:30:00Z"),
    (datetime.date, "date", "a date such as 2026-05-01"),
    (datetime.time, "time", "a time such as 12:30:00"),
    (uuid.UUID, "uuid", "a UUID such as 123e4567-e89b-12d3-a456-426614174000"),
)
_SIMPLE |= {
    kind: Form({"type": "string", "format": name}, _text_of(words, getattr(kind, "fromisoformat", kind)))
    for kind, name, words in _WRITTEN_AS_TEXT
}
_COLLECTIONS: dict[Any, Callable[[Iterable[Any]], Any]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.Set: frozenset,
    abc.MutableSet: set,
}


_CONSTRAINTS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
}
"""Those of the package annotated_types, whose names other libraries share."""


def _annotated(form: Form, extras: tuple[Any, ...]) -> Form:
    """Add the metadata of Annotated: a text is the description, a mapping contains further keywords."""
    schema = dict(form.schema)
    for extra in extras:
        if isinstance(extra, Mapping):
            schema.update(extra)
            continue
        text = extra if isinstance(extra, str) else getattr(extra, "description", None)
        if isinstance(text, str):
            schema["description"] = text
        for name, keyword in _CONSTRAINTS.items():
            limit = getattr(extra, name, None)
            if type(limit) in (int, float) and type(extra).__module__ == "annotated_types":
                schema[keyword.replace("Length", "Items") if schema.get("type") == "array" else keyword] = limit
    return Form(schema, form.read)


def _union(members: list[Form]) -> Form:
    if all(member.schema.keys() == {"type"} for member in members):
        kinds = dict.fromkeys(member.schema["type"] for member in members)
        schema: dict[str, Any] = {"type": [*kinds]}
    elif any(not member.schema for member in members):
        schema = {}
    else:
        schema = {"anyOf": [member.schema for member in members]}
    # A plain text or number is tried last: dates and enum values are texts as well.
    order = sorted(members, key=lambda member: member.schema in ({"type": "string"}, {"type": "number"}, {}))

    def read(value: Any, path: Path) -> Any:
        reasons = []
        for member in order:
            try:
                return member.read(value, path)
            except ValueError as error:
                if member.schema != {"type": "null"}:
                    reasons.append(str(error))
        raise ValueError(" / ".join(reasons[:4]) or f"{label(path)} must be null (got {quoted(value)})")

    return Form(schema, read)


def _enumeration(values: Iterable[Any], find: Callable[[Any], Any]) -> Form:
    options = [*values]
    kinds = {_JSON_TYPES.get(type(value)) for value in options}
    if None in kinds:
        raise UnsayableError(f"the values {quoted(options)} are not all texts, numbers, booleans or None")
    schema: dict[str, Any] = {"type": kinds.pop(), "enum": options} if len(kinds) == 1 else {"enum": options}

    def read(value: Any, path: Path) -> Any:
        if not any(_same(value, option) for option in options):
            listed = ", ".join(option if isinstance(option, str) else quoted(option) for option in options)
            raise _refusal(path, f"one of: {listed}", value)
        return find(value)

    return Form(schema, read)


_JSON_TYPES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON scalars are equal; true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _collection(kind: Any, args: tuple[Any, ...], within: tuple[type, ...]) -> Form:
    build = _COLLECTIONS[kind]
    fixed = build is tuple and bool(args) and args[-1] is not Ellipsis
    items = [form_of(each, within) for each in args if each is not Ellipsis]
    schema: dict[str, Any] = {"type": "array"}
    if fixed:
        schema |= {"prefixItems": [item.schema for item in items], "minItems": len(items), "maxItems": len(items)}
    elif items and items[0].schema:
        schema["items"] = items[0].schema
    if build in (set, frozenset):
        schema |= {"uniqueItems": True, "maxItems": SET_ITEMS}

    def read(value: Any, path: Path) -> Any:
        if type(value) is not list or (fixed and len(value) != len(items)):
            raise _refusal(path, f"an array of {len(items)} items" if fixed else "an array", value)
        forms = items if fixed else (items or [_SIMPLE[Any]]) * len(value)
        try:
            return build([form.read(each, (*path, i)) for i, (form, each) in enumerate(zip(forms, value, strict=True))])
        except TypeError:  # a set of lists or objects
            raise _refusal(path, "an array of texts or numbers", value) from None

    return Form(schema, read)


def _mapping(args: tuple[Any, ...], within: tuple[type, ...]) -> Form:
    if args and args[0] not in (str, Any):
        raise UnsayableError(f"a dict with keys of {_name(args[0])} cannot be expressed in JSON; use dict[str, …]")
    inner = form_of(args[1], within) if args else _SIMPLE[Any]
    schema = {"type": "object", "additionalProperties": inner.schema} if inner.schema else {"type": "object"}

    def read(value: Any, path: Path) -> Any:
        if type(value) is not dict:
            raise _refusal(path, "an object", value)
        return {name: inner.read(each, (*path, name)) for name, each in value.items()}

    return Form(schema, read)


def _class(cls: type, within: tuple[type, ...]) -> Form:
    if cls in within:
        raise UnsayableError(f"{cls.__name__} contains itself; give the inner one as a dict")
    if issubclass(cls, enum.Enum):
        return _enumeration([member.value for member in cls], cls)
    if not (typing.is_typeddict(cls) or attrs.has(cls) or dataclasses.is_dataclass(cls)):
        raise UnsayableError(f"{_name(cls)} cannot be expressed in JSON; use {_SAID}")
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise UnsayableError(f"an annotation of {cls.__name__} cannot be resolved: {error}") from None
    texts = read_docstring(inspect.cleandoc(cls.__doc__ or "")).parameters
    forms: dict[str, Form] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, argument, is_required, default in _fields_of(cls, hints):
        form = forms[argument] = form_of(hints.get(name, Any), (*within, cls))
        properties[argument] = described(form.schema, texts.get(name), default)
        required += [argument] if is_required else []
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required

    def read(value: Any, path: Path) -> Any:
        if type(value) is not dict:
            raise _refusal(path, "an object", value)
        for name in required:
            if name not in value:
                raise ValueError(f"missing '{name}' in {label(path)}")
        fields = {name: form.read(value[name], (*path, name)) for name, form in forms.items() if name in value}
        try:
            return cls(**fields)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{label(path)} is no {cls.__name__}: {error}") from error

    return Form(schema, read)


def _fields_of(cls: Any, hints: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, Any]]:
    """Yield each field: its name, that of the constructor's argument, whether it is required, and its default."""
    if typing.is_typeddict(cls):
        for name, hint in hints.items():
            # __required_keys__ does not see Required and NotRequired if annotations are strings.
            origin = typing.get_origin(hint)
            is_required = name in cls.__required_keys__ and origin is not typing.NotRequired
            yield name, name, is_required or origin is typing.Required, _EMPTY
        return
    nothing: Any = attrs.NOTHING if attrs.has(cls) else dataclasses.MISSING
    for field in attrs.fields(cls) if attrs.has(cls) else dataclasses.fields(cls):
        if field.init:
            is_required = field.default is nothing and getattr(field, "default_factory", nothing) is nothing
            argument = getattr(field, "alias", None) or field.name
            yield field.name, argument, is_required, _EMPTY if field.default is nothing else field.default


def described(schema: dict[str, Any], description: str | None, default: Any) -> dict[str, Any]:
    """Return the schema with a description, unless it has one, and the default, if that is JSON data."""
    schema = dict(schema)
    if description:
        schema.setdefault("description", description)
    default = default.value if isinstance(default, enum.Enum) else as_json_data(default)
    if type(default) in _JSON_TYPES:
        schema.setdefault("default", default)
    elif isinstance(default, (list, tuple, dict)):
        with contextlib.suppress(TypeError, ValueError):  # not JSON data
            schema.setdefault("default", json.loads(json.dumps(default, allow_nan=False)))
    return schema


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
