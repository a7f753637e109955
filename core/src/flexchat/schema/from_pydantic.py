"""Schemas of pydantic's models and constraints, as pydantic itself writes them, and values read by pydantic.

Core does not depend on pydantic and never imports it: an annotation that needs it has brought it along.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import types
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import attrs

from ..domain.text import counted
from .wording import Path, label, quoted

SET_ITEMS = 1_000  # most items of a set; schema.limits requires a bound wherever items must differ

_MAX_SENTENCES = 5
_OURS = ("pydantic", "annotated_types")


def has_pydantic(annotation: Any) -> bool:
    """Return whether pydantic defines an annotation, or a part of it: a model, a type, a constraint."""
    if "pydantic" not in sys.modules:
        return False
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return any(map(_is_mark, annotation.__metadata__)) or has_pydantic(args[0])
    if isinstance(annotation, type) and hasattr(annotation, "__pydantic_core_schema__"):
        return True  # a model, generic or not, or a dataclass of pydantic's
    if origin is not None:
        return origin is not typing.Literal and any(map(has_pydantic, args))
    return isinstance(annotation, type) and hasattr(annotation, "__get_pydantic_core_schema__")


def pydantic_form(annotation: Any) -> tuple[dict[str, Any], Callable[[Any, Path], Any]] | None:
    """Return the schema and the reader of an annotation that pydantic can describe as a whole; see annotations.Form.

    None if it cannot, or has no part in it. Raises ValueError if only pydantic can interpret it and cannot describe it.
    """
    if not has_pydantic(annotation):
        return None
    pydantic: Any = sys.modules["pydantic"]
    if not hasattr(pydantic, "TypeAdapter"):
        raise ValueError(f"pydantic {pydantic.VERSION} is too old: version 2 is needed")
    try:
        with warnings.catch_warnings():
            # An alias or a default is a parameter's, and read in field_of_pydantic.
            warnings.filterwarnings("ignore", message="The '.*' attribute with value")
            adapter = pydantic.TypeAdapter(annotation)
        schema = adapter.json_schema(schema_generator=_generator(pydantic))
    except (pydantic.errors.PydanticUserError, NameError, TypeError) as error:
        if _is_container(annotation) or _says_nothing_else(annotation):
            return None
        text = str(error).partition("\n")[0]
        raise ValueError(f"pydantic cannot describe it: {text}") from None
    read = functools.partial(_read, adapter.validate_json, pydantic.ValidationError)
    return _tidy(schema, getattr(annotation, "__name__", None)), read


@attrs.frozen(kw_only=True)
class FieldOfPydantic:
    """The description of a parameter by a pydantic Field.

    Attributes:
        annotation: The parameter's, with the field's constraints on its values.
        name: The parameter's name for the model; None for its own name.
        default: Makes its default; None if it has none.
        shown_default: The default, if it can be shown; inspect.Parameter.empty if not.
    """

    annotation: Any
    name: str | None = None
    default: Callable[[], Any] | None = None
    shown_default: Any = None


def field_of_pydantic(annotation: Any, default: Any, empty: Any) -> FieldOfPydantic | None:
    """Return the description by pydantic's Field, in the annotation or as the default; None if there is none.

    Empty stands for no default. Raises ValueError if its alias is no name.
    """
    pydantic: Any = sys.modules.get("pydantic")
    field_class = getattr(getattr(pydantic, "fields", None), "FieldInfo", None)
    if field_class is None:
        return None
    is_default = isinstance(default, field_class)
    if is_default:
        annotation = typing.Annotated[Any if annotation is empty else annotation, default]
    marks = annotation.__metadata__ if typing.get_origin(annotation) is typing.Annotated else ()
    fields = [mark for mark in marks if isinstance(mark, field_class)]
    if not fields:
        return None
    names = [field.validation_alias or field.alias for field in fields]
    name = next((each for each in reversed(names) if each is not None), None)
    if not isinstance(name, str | None):
        raise ValueError("its alias must be one name; AliasChoices and AliasPath cannot be shown to a model")
    giving = next((field for field in reversed(fields) if not field.is_required()), None)
    if giving is None or (default is not empty and not is_default):
        shown = empty if is_default else default
        return FieldOfPydantic(annotation=annotation, name=name, shown_default=shown)
    shown = giving.default if giving.default_factory is None else empty
    make = functools.partial(giving.get_default, call_default_factory=True)
    return FieldOfPydantic(annotation=annotation, name=name, default=make, shown_default=shown)


def as_json_data(default: Any) -> Any:
    """Return a default that is a pydantic model as JSON data; anything else unchanged."""
    if not hasattr(type(default), "__pydantic_core_schema__") or not hasattr(default, "model_dump"):
        return default
    return default.model_dump(mode="json", by_alias=True)


def hoisted(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose ``$defs`` are all at its root, where their references look for them."""
    definitions: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    root = _hoist(schema, definitions, texts, False)
    return {**root, "$defs": definitions} if definitions else typing.cast(dict[str, Any], root)


def at_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its ``$defs`` at its root and, if it only refers to one of them, that one in its place."""
    whole = hoisted(schema)
    name = str(whole.get("$ref", "")).removeprefix("#/$defs/")
    if name not in whole.get("$defs", {}):
        return whole
    return {**whole["$defs"][name], **{key: each for key, each in whole.items() if key != "$ref"}}


def _hoist(node: Any, found: dict[str, Any], written: dict[str, Any], is_names: bool) -> Any:
    if isinstance(node, list):
        return [_hoist(each, found, written, False) for each in node]
    if not isinstance(node, dict):
        return node
    if not is_names and isinstance(node.get("$defs"), dict):
        node = dict(node)
        own = node.pop("$defs")
        suffix, number = "", 2
        while any(written.get(name + suffix, each) != each for name, each in own.items()):
            suffix, number = f"_{number}", number + 1
        for name, each in own.items():
            written[name + suffix] = each
            found[name + suffix] = _renamed(each, suffix)
        node = _renamed(node, suffix)
    return {
        key: each if key in _DATA and not is_names else _hoist(each, found, written, key in _NAMES and not is_names)
        for key, each in node.items()
    }


_DATA = ("enum", "const", "default", "examples")
_NAMES = ("properties", "patternProperties", "dependentSchemas")


def _renamed(node: Any, suffix: str) -> Any:
    if not suffix:
        return node
    if isinstance(node, list):
        return [_renamed(each, suffix) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: each + suffix if key == "$ref" and isinstance(each, str) else _renamed(each, suffix)
        for key, each in node.items()
    }


def _is_mark(mark: Any) -> bool:
    """Return whether something in an Annotated is pydantic's, or a constraint that it supports."""
    cls = mark if isinstance(mark, type) else type(mark)
    return cls.__module__.partition(".")[0] in _OURS or any(
        hasattr(cls, name) for name in ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__")
    )


def _is_container(annotation: Any) -> bool:
    """Return whether an annotation can be described part by part: ``list[Guest | Person]``."""
    origin = typing.get_origin(annotation)
    return origin not in (None, typing.Annotated) and (
        origin in (Union, types.UnionType) or origin.__module__ in ("builtins", "collections.abc", "typing")
    )


def _says_nothing_else(annotation: Any) -> bool:
    """Return whether pydantic's marks carry only a description or a default, which need no pydantic."""
    marks = [mark for mark in getattr(annotation, "__metadata__", ()) if _is_mark(mark)]
    return bool(marks) and all(getattr(mark, "metadata", None) == [] and not mark.discriminator for mark in marks)


@functools.cache
def _generator(pydantic: Any) -> Any:
    """Return a writer of schemas without the titles that pydantic derives from names and that only cost tokens."""
    from_pydantic: Any = sys.modules["pydantic.json_schema"]

    class Generator(from_pydantic.GenerateJsonSchema):  # type: ignore[misc]
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Generator


def _tidy(schema: Any, name: str | None = None, is_names: bool = False) -> Any:
    """Return a schema without repetitions and foreign keywords; sets get the bound that a schema needs."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if is_names:
        return {key: _tidy(each, key) for key, each in schema.items()}
    tidy = {
        key: each if key in _DATA else _tidy(each, None, key in (*_NAMES, "$defs"))
        for key, each in schema.items()
        if not (key == "discriminator" and "oneOf" in schema)
    }
    if name is not None and tidy.get("title") == name:
        del tidy["title"]
    if tidy.get("uniqueItems") is True:
        tidy.setdefault("maxItems", SET_ITEMS)
    return tidy


def _read(validate: Callable[[str], Any], error_class: type[Any], value: Any, path: Path) -> Any:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        raise ValueError(f"{label(path)} must be JSON data") from None
    try:
        return validate(text)
    except error_class as error:
        errors = error.errors(include_url=False)
        sentences = [*dict.fromkeys(_sentence(each, value, path) for each in errors)]
        more = len(sentences) - _MAX_SENTENCES
        sentence = "; ".join(sentences[:_MAX_SENTENCES])
        raise ValueError(f"{sentence}; and {counted(more, 'more problem')}" if more > 0 else sentence) from None


_SHOULD = re.compile(r"[A-Z][a-z]*(?: [a-z]+){0,2} should (?!have been)")
_RAISED = re.compile(r"(?:Value error|Assertion failed), ")


def _sentence(error: Mapping[str, Any], value: Any, path: Path) -> str:
    """Describe a fault of a value as our own validator would: its place, and the expected form."""
    steps, kind = error["loc"], error["type"]
    if kind in ("missing", "missing_argument") and steps:
        place = _place(value, steps[:-1], path)
        return f"missing '{steps[-1]}' in {label(place)}"
    place = _place(value, steps, path)
    if kind == "extra_forbidden":
        return f"{label(place)} is not allowed here"
    text = str(error["msg"])
    raised = _RAISED.match(text)
    if raised is not None:
        return f"{label(place)}: {text[raised.end() :]}"
    should = _SHOULD.match(text)
    value_given = error.get("input")
    suffix = f" (got {quoted(value_given)})" if isinstance(value_given, (str, int, float, bool, type(None))) else ""
    return f"{label(place)} must {text[should.end() :]}{suffix}" if should else f"{label(place)}: {text}{suffix}"


def _place(value: Any, steps: Sequence[Any], path: Path) -> Path:
    """Return the path of a value. Between the steps, pydantic names the alternative of a union that it tried."""
    for step in steps:
        keys = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
        if step in keys:
            value, path = value[step], (*path, step)
    return path
