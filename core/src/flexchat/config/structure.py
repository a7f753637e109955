"""Tables as attrs classes, exactly: no value is converted, no key is ignored, all problems are found at once.

A plugin's author writes a plain attrs class. Field metadata: "help" describes the key; "min", "max" and "above" limit a
number; "secret" keeps the value out of all errors.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from ..errors import did_you_mean
from .document import MAX_PROBLEMS
from .model import Config, ConversationsTable, ImplementationEntry, LLMEntry, StoreEntry, ToolsTable, own_keys
from .positions import KeyPath
from .wording import describe_type, describe_value, format_path, is_secret_name, printable, shortened

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Issue:
    """A value that does not fit its class.

    Attributes:
        path: Where, relative to the structured value.
        text: The fault.
        at: The path whose line counts, if different.
    """

    path: KeyPath
    text: str
    at: KeyPath | None = None


def structure(
    value: Any, cls: type[T], *, hidden: frozenset[KeyPath] = frozenset(), beside: Iterable[str] = ()
) -> tuple[T | None, list[Issue]]:
    """Return an instance of an attrs class for a table, or None and all issues, which show no hidden path's value.

    Args:
        beside: Further keys the same table may have, not handled by the class, to suggest for an unknown one.
    """
    try:
        return _converter.structure(value, cls), []
    except Exception as error:  # noqa: BLE001  a plugin's class may raise anything when instantiated
        finder = _IssueCollector(hidden, frozenset(beside))
        finder.collect(error, (), secret=False)
        return None, finder.issues


def structure_mapping(settings: Mapping[str, Any], cls: type[T]) -> tuple[T | None, list[str]]:
    """Return an instance of an attrs class for a mapping given in code, or None and a sentence for each issue."""
    value, issues = structure(settings, cls)
    first_issues = issues[:MAX_PROBLEMS]
    return value, [": ".join(part for part in (format_path(issue.path), issue.text) if part) for issue in first_issues]


class _WrongError(Exception):
    """A value does not have the required type."""

    def __init__(self, expected: str, value: Any, hint: str = "") -> None:
        self.expected, self.value, self.hint = expected, value, hint
        super().__init__(expected)


class _ItemsError(Exception):
    """Items of a list or of a table of names are wrong: their keys and errors."""

    def __init__(self, errors: Sequence[tuple[str | int, Exception]]) -> None:
        self.errors = errors
        super().__init__("items")


class _IssueCollector:
    """A collector of issues from a tree of errors. Its state: the issues found so far."""

    def __init__(self, hidden: frozenset[KeyPath], beside: frozenset[str]) -> None:
        self.issues: list[Issue] = []
        self._hidden = hidden
        self._beside = beside

    def collect(self, error: Exception, path: KeyPath, *, secret: bool) -> None:
        """Add the issues of an error and those inside it."""
        if isinstance(error, _WrongError):
            actual = f"{describe_value(error.value)}{error.hint}"
            if secret or path in self._hidden:
                actual = f"{describe_type(error.value)} (not shown here)"
            self._add(path, f"expected {error.expected}, got {actual}")
        elif isinstance(error, _ItemsError):
            for key, inner in error.errors:
                self.collect(inner, (*path, key), secret=secret or (isinstance(key, str) and is_secret_name(key)))
        elif isinstance(error, ClassValidationError):
            self._fields(error, path, secret)
        elif isinstance(error, ForbiddenExtraKeysError):
            fields = {field.name for field in attrs.fields(error.cl) if field.init}
            keys = own_keys(error.cl) if error.cl is ToolsTable else fields
            names = sorted(keys if path else keys | self._beside)
            for key in sorted(error.extra_fields):
                hint = ""
                if len(self.issues) < MAX_PROBLEMS:
                    hint = did_you_mean(key, names) or f" (known: {', '.join(names) or 'none'})"
                self._add(path, f"unknown key '{shortened(key)}'{hint}", at=(*path, key))
        else:
            text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
            if isinstance(error, KeyError):  # its text is just the key
                text = f"KeyError: {error}"
            self._add(path, printable(text) or type(error).__name__)

    def _fields(self, error: ClassValidationError, path: KeyPath, secret: bool) -> None:
        fields = attrs.fields_dict(error.cl)
        field_errors, class_errors = error.group_exceptions()
        for inner, note in field_errors:
            if isinstance(inner, KeyError):
                self._add((*path, note.name), "required key missing")
                continue
            is_secret = bool(fields[note.name].metadata.get("secret")) or is_secret_name(note.name)
            self.collect(inner, (*path, note.name), secret=secret or is_secret)
        for other in class_errors:
            # A class's own errors mostly start with the name of a field.
            name = str(other).partition(" ")[0].strip("'\"")
            self.collect(other, (*path, name) if name in fields else path, secret=secret)

    def _add(self, path: KeyPath, text: str, at: KeyPath | None = None) -> None:
        self.issues.append(Issue(path=path, text=text, at=at))


def describe_annotation(kind: Any) -> str:
    """Return a type as named in errors: "a list of text"."""
    names: dict[Any, str] = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
    if kind in names:
        return names[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ("one of " if len(args) > 1 else "") + ", ".join(f'"{word}"' for word in args)
    if origin in (Union, types.UnionType):
        return " or ".join(describe_annotation(arg) for arg in args if arg is not type(None))
    if is_list_type(kind):
        plural = {str: "text", int: "whole numbers", float: "numbers"}.get(args[0] if args else Any)
        return f"a list of {plural or 'tables'}" if plural or (args and attrs.has(args[0])) else "a list"
    return "a table"


def is_list_type(kind: Any) -> bool:
    """Return whether a type is written as a list."""
    return (get_origin(kind) or kind) in (tuple, list, frozenset, set, Sequence)


def is_names_type(kind: Any) -> bool:
    """Return whether a type is written as a table with keys chosen by the user."""
    return (get_origin(kind) or kind) in (dict, Mapping, MutableMapping)


def _has_origin(*origins: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) in origins


def _scalar(value: Any, kind: type) -> Any:
    if type(value) is kind:
        return value
    if kind is float and type(value) is int and abs(value) < 2**1023:
        return float(value)
    plain = value.strip().lower() if isinstance(value, str) else ""
    unquoted = {bool: plain in ("true", "false"), str: False}.get(kind, plain.replace(".", "", 1).isdecimal())
    raise _WrongError(describe_annotation(kind), value, "; leave out the quotes" if unquoted else "")


def _literal(value: Any, kind: Any) -> Any:
    for word in get_args(kind):
        if type(word) is type(value) and word == value:
            return value
    words = [word for word in get_args(kind) if isinstance(word, str)]
    raise _WrongError(describe_annotation(kind), value, did_you_mean(value, words) if isinstance(value, str) else "")


def _union(value: Any, kind: Any) -> Any:
    """Take None if it is allowed, otherwise the first type of the union that fits."""
    if value is None and type(None) in get_args(kind):
        return None
    kinds = [arg for arg in get_args(kind) if arg is not type(None)]
    errors = []
    for candidate in kinds:
        try:
            return _converter.structure(value, candidate)
        except Exception as error:  # noqa: BLE001  after any failure, the next type may still fit
            errors.append(error)
    # The deepest error is the most specific: a table that nearly fits one of the types.
    deep = [error for error in errors if not isinstance(error, _WrongError)]
    if len(kinds) == 1 or len(deep) == 1:
        raise (deep or errors)[0]
    raise _WrongError(describe_annotation(kind), value)


def _items(value: Any, kind: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        hint = "; put it in [ ]" if isinstance(value, str) else ""
        raise _WrongError(describe_annotation(kind), value, hint)
    args = get_args(kind)
    fixed = get_origin(kind) is tuple and Ellipsis not in args
    if fixed and len(args) != len(value):
        raise _WrongError(f"a list of {len(args)}", value)
    kinds = args if fixed else [args[0] if args else Any] * len(value)
    origin = get_origin(kind) or kind
    make = tuple if origin is Sequence else origin
    return make(_structured(list(zip(range(len(value)), value, kinds, strict=True))).values())


def _names(value: Any, kind: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _WrongError("a table", value)
    args = get_args(kind)
    return _structured([(key, item, args[1] if args else Any) for key, item in value.items()])


def _structured(items: Sequence[tuple[Any, Any, Any]]) -> dict[Any, Any]:
    done, errors = {}, []
    for key, item, kind in items:
        try:
            done[key] = item if kind is Any or kind is object else _converter.structure(item, kind)
        except Exception as error:  # noqa: BLE001  collected here, and distinguished in collect
            errors.append((key, error))
    if errors:
        raise _ItemsError(errors)
    return done


def _class_hook(cls: type) -> Any:
    """Return the hook for an attrs class: a table with only its keys, and numbers within their limits."""
    bounded: dict[str, Any] = {
        field.name: override(struct_hook=_bounded(field))
        for field in attrs.fields(cls)
        if not field.metadata.keys().isdisjoint(("min", "max", "above"))
    }
    make: Any = make_dict_structure_fn(
        cls,
        _converter,
        _cattrs_forbid_extra_keys=True,
        _cattrs_detailed_validation=True,
        _cattrs_use_linecache=False,
        **bounded,
    )
    core = own_keys(cls)

    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _WrongError("a table", value)
        own = {key: item for key, item in value.items() if key in core}
        rest = {key: item for key, item in value.items() if key not in core}
        if cls is Config:
            value = own  # reading.py has the others
        elif cls is ToolsTable:  # a value that is not a table is a misspelt key; tools/sources.py reads the rest
            sources = {key: item for key, item in rest.items() if isinstance(item, (list, tuple, Mapping))}
            value = {**{key: item for key, item in value.items() if key not in sources}, "sources": sources}
        elif cls in (LLMEntry, StoreEntry, ImplementationEntry, ConversationsTable):
            value = {**own, "settings": rest}
        try:
            return make(value, cls)
        except ClassValidationError as error:
            raise _with_validators(error, value) from None

    return hook


def _with_validators(error: ClassValidationError, table: Mapping[str, Any]) -> ClassValidationError:
    """Return the error with the errors of all validators added: attrs stops at the first, or runs none of them."""
    texts = {str(inner) for inner in error.exceptions}
    more: list[Exception] = []
    values = types.SimpleNamespace()  # of the fields so far, in place of the instance
    for field in attrs.fields(error.cl):
        try:
            value = _converter.structure(table[field.name], field.type) if field.name in table else field.default
            setattr(values, field.name, field.converter(value) if callable(field.converter) else value)
            if field.validator is not None and value is not attrs.NOTHING:
                field.validator(values, field, getattr(values, field.name))
        except ValueError as wrong:
            if str(wrong) not in texts:
                more.append(wrong)
        except Exception:  # noqa: BLE001  a wrong type, already reported, or a validator that needs such a field
            continue
    return ClassValidationError(error.message, [*error.exceptions, *more], error.cl) if more else error


def _bounded(field: attrs.Attribute[Any]) -> Any:
    least, most, above = (field.metadata.get(name) for name in ("min", "max", "above"))
    if least is not None and most is not None:
        expected = f"a number from {least} to {most}"
    else:
        words = (("more than", above), ("at least", least), ("at most", most))
        expected = "a number of " + " and ".join(f"{word} {limit}" for word, limit in words if limit is not None)

    def hook(value: Any, kind: Any) -> Any:
        number = _converter.structure(value, kind)
        if number is None:
            return None
        fits = (least is None or number >= least) and (most is None or number <= most)
        if not fits or (above is not None and number <= above):
            unset = number == 0 and field.default is not attrs.NOTHING
            raise _WrongError(expected, value, "; leave the key out for the default" if unset else "")
        return number

    return hook


def _new_converter() -> cattrs.Converter:
    converter = cattrs.Converter(detailed_validation=True, forbid_extra_keys=True)
    for kind in (str, bool, int, float):
        converter.register_structure_hook(kind, _scalar)
    converter.register_structure_hook_factory(attrs.has, _class_hook)
    converter.register_structure_hook_func(is_list_type, _items)
    converter.register_structure_hook_func(is_names_type, _names)
    converter.register_structure_hook_func(_has_origin(Literal), _literal)
    converter.register_structure_hook_func(_has_origin(Union, types.UnionType), _union)
    return converter


_converter = _new_converter()
