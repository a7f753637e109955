"""The fields of attrs classes, dataclasses and TypedDicts, in one form."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any

import attrs

from .docstrings import read_docstring


@attrs.frozen(kw_only=True)
class Field:
    """One field.

    Attributes:
        name: The name of the constructor's argument.
        annotation: With its strings resolved.
        description: Its description in the class docstring, under Attributes or Args.
        default: inspect.Parameter.empty if there is none that can be shown.
    """

    name: str
    annotation: Any
    description: str | None
    required: bool
    default: Any = inspect.Parameter.empty


@attrs.frozen
class Record:
    """The fields of a class, and a callable that builds an instance from them by name."""

    fields: tuple[Field, ...]
    build: Callable[..., Any]


def record_of(cls: type) -> Record | None:
    """Return the fields of a class; None if its kind is unknown.

    Raises:
        NameError: An annotation cannot be resolved.
    """
    if not (typing.is_typeddict(cls) or attrs.has(cls) or dataclasses.is_dataclass(cls)):
        return None
    hints = typing.get_type_hints(cls, include_extras=True)
    descriptions = read_docstring(inspect.cleandoc(cls.__doc__ or "")).parameters

    def field(name: str, argument: str, required: bool, default: Any = inspect.Parameter.empty) -> Field:
        return Field(
            name=argument,
            annotation=hints.get(name, Any),
            description=descriptions.get(name),
            required=required,
            default=inspect.Parameter.empty if required else default,
        )

    if typing.is_typeddict(cls):
        return Record(tuple(field(name, name, _is_required(cls, name, hint)) for name, hint in hints.items()), dict)
    if attrs.has(cls):
        nothing: Any = attrs.NOTHING
        fields = [f for f in attrs.fields(cls) if f.init]
        return Record(tuple(field(f.name, f.alias or f.name, f.default is nothing, f.default) for f in fields), cls)
    missing = dataclasses.MISSING
    inits = [f for f in dataclasses.fields(cls) if f.init]
    return Record(
        tuple(field(f.name, f.name, f.default is missing and f.default_factory is missing, f.default) for f in inits),
        cls,
    )


def _is_required(cls: Any, name: str, hint: Any) -> bool:
    # __required_keys__ does not see Required and NotRequired if annotations are strings.
    origin = typing.get_origin(hint)
    return origin is typing.Required or (name in cls.__required_keys__ and origin is not typing.NotRequired)
