"""jsonschema as we use it: fetches nothing, runs patterns in linear time, and gives up if a check takes too long.

Importing this module imports jsonschema (0.1 s); schema.check does so for the first call that is not plainly valid.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import jsonschema
from jsonschema import Draft7Validator, Draft202012Validator, ValidationError
from referencing import Registry

from .limits import UncheckedError
from .patterns import search

MAX_ERRORS = 1_000

# One step applies one keyword to one value: 3 to 6 µs. Enough for 64 KiB of records, and stops 2^32 of doubled $refs.
MAX_STEPS = 50_000

_left: contextvars.ContextVar[list[int]] = contextvars.ContextVar("flexchat_schema_steps")

_Keyword = Callable[[Any, Any, Any, Any], Any]


@contextlib.contextmanager
def limited_work() -> Iterator[None]:
    """Allow MAX_STEPS for the checks in the block, in this task or thread.

    Raises:
        UncheckedError: They are used up, or the value is nested too deeply or holds a number too large to be checked.
    """
    _left.set([MAX_STEPS])
    try:
        yield
    except _StepsUsedUpError:
        reason = "too many values to be checked in time"
    except RecursionError:
        reason = "values nested too deeply to be checked"
    except (ArithmeticError, ValueError):  # ValueError: more digits than Python writes
        reason = "a number too large to be checked"
    else:
        return
    raise UncheckedError(reason)


class _StepsUsedUpError(Exception):
    """The steps allowed by limited_work are used up."""


class SchemaEngine:
    """A validator for one schema accepted by schema.limits."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # A $schema left in place would make jsonschema switch from our validator to its own. "required" comes first
        # so that it is among the errors however many there are.
        plain = {"required": schema.get("required", []), **schema}
        for keyword in ("$schema", "$id"):
            plain.pop(keyword, None)
        cls, whole = _DRAFT_7 if "draft-07" in str(schema.get("$schema")) else _DRAFT_2020
        self._validator: Any = cls(plain, registry=Registry())
        self._whole: Any = whole(plain, registry=Registry())

    def errors(self, value: Any, *, whole: bool = False) -> list[ValidationError]:
        """Return the errors, at most MAX_ERRORS. To be called within limited_work.

        Args:
            whole: Do not accept 3.0 as an integer. JSON Schema does, but the receiver may need an int.
        """
        validator = self._whole if whole else self._validator
        return [*itertools.islice(validator.iter_errors(value), MAX_ERRORS)]

    def fits(self, value: Any, schema: Any) -> bool:
        """Return whether the value is valid under a part of the schema."""
        return bool(self._validator.evolve(schema=schema).is_valid(value))

    def is_null_for_absent(self, error: ValidationError) -> bool:
        """Return whether an error is that an optional property is null."""
        return isinstance(error, NullForAbsentError)

    def is_type(self, value: Any, name: str) -> bool:
        """Return whether the value has the JSON Schema type of that name."""
        return bool(self._validator.is_type(value, name))


def _counted(keyword: _Keyword) -> _Keyword:
    def counted(validator: Any, expected: Any, instance: Any, schema: Any) -> Any:
        steps = _left.get()
        steps[0] -= 1 + (len(expected) >> 3) if isinstance(expected, (list, dict)) else 1
        if steps[0] < 0:
            raise _StepsUsedUpError
        return keyword(validator, expected, instance, schema)

    return counted


def _quadratic(keyword: _Keyword) -> _Keyword:
    """Count jsonschema's work for the unevaluated… keywords: it looks up each item in a list of them."""

    def counted(validator: Any, expected: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, (list, dict)):
            _left.get()[0] -= len(instance) ** 2 >> 7
        return keyword(validator, expected, instance, schema)

    return counted


def _required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Report each missing name as the error's message."""
    if isinstance(instance, dict):
        yield from (ValidationError(name) for name in names if name not in instance)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Apply additionalProperties in the order of the call; an unknown name is the error's message."""
    if not isinstance(instance, dict):
        return
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in properties or any(search(pattern, name) for pattern in patterns):
            continue
        if allowed is False:
            yield ValidationError(name)
        else:
            yield from _below(validator, value, allowed, name)


def _below(validator: Any, value: Any, schema: Any, name: str) -> Iterator[ValidationError]:
    """Go into a property. jsonschema omits the name if the schema is just false."""
    if schema is False:
        nothing: Any = None  # jsonschema's own value for a schema that is false
        yield ValidationError("not allowed", validator=nothing, path=(name,), instance=value, schema=False)
    else:
        yield from validator.descend(value, schema, path=name, schema_path=name)


class NullForAbsentError(ValidationError):
    """An optional property is null, which it may not be."""


def _properties(validator: Any, properties: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name, subschema in properties.items():
            if name not in instance:
                continue
            errors = _below(validator, instance[name], subschema, name)
            if instance[name] is None and name not in schema.get("required", ()):
                errors = (NullForAbsentError.create_from(error) for error in errors)
            yield from errors


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if search(pattern, name):
                yield from _below(validator, value, subschema, name)


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not search(pattern, instance):
        yield ValidationError("does not match")


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Find equal items in linear time; jsonschema compares all pairs."""
    if wanted and isinstance(instance, list) and len({_hashable(item) for item in instance}) < len(instance):
        yield ValidationError("has equal items")


def _hashable(value: Any) -> Any:
    """Return something that is equal exactly if the JSON data is: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return dict, frozenset((name, _hashable(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return list, tuple([_hashable(inner) for inner in value])
    return (bool, value) if isinstance(value, bool) else value


def _multiple_of(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Divide decimal numbers as written: 19.99 is a multiple of 0.01, which binary division denies.

    If the step is a fraction, the values are treated as fractions as well: none lies beyond a float's range.
    """
    if not validator.is_type(instance, "number"):
        return
    too_large = isinstance(step, float) and not step.is_integer() and abs(instance) > sys.float_info.max
    if too_large or Fraction(repr(instance)) % Fraction(repr(step)):
        yield ValidationError("is not a multiple")


def _is_number(checker: Any, value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0


def _is_int(checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _same_and_whole(keyword: _Keyword) -> _Keyword:
    """Make const and enum reject 3.0 if they name 3."""

    def checked(validator: Any, expected: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, float):
            options = expected if keyword is Draft202012Validator.VALIDATORS["enum"] else [expected]
            if any(isinstance(option, int) and option == instance for option in options):
                yield ValidationError("is written as a float")
        yield from keyword(validator, expected, instance, schema)

    return checked


def _build_validators(base: Any) -> tuple[Any, Any]:
    """Return a draft's validator, and one that does not accept 3.0 as an integer."""
    own: dict[str, _Keyword] = {
        **base.VALIDATORS,
        "required": _required,
        "properties": _properties,
        "additionalProperties": _additional_properties,
        "patternProperties": _pattern_properties,
        "pattern": _pattern,
        "uniqueItems": _unique_items,
        "multipleOf": _multiple_of,
    }
    del own["format"]  # an annotation
    for name in ("unevaluatedItems", "unevaluatedProperties"):
        if name in own:
            own[name] = _quadratic(own[name])
    types = base.TYPE_CHECKER.redefine("number", _is_number)
    whole = own | {name: _same_and_whole(own[name]) for name in ("const", "enum")}
    return _validator(base, own, types), _validator(base, whole, types.redefine("integer", _is_int))


def _validator(base: Any, keywords: Mapping[str, _Keyword], types: Any) -> Any:
    return jsonschema.validators.create(
        meta_schema=base.META_SCHEMA,
        validators={name: _counted(keyword) for name, keyword in keywords.items()},
        type_checker=types,
        id_of=base.ID_OF,
        applicable_validators=base._APPLICABLE_VALIDATORS,
    )


_DRAFT_2020 = _build_validators(Draft202012Validator)
_DRAFT_7 = _build_validators(Draft7Validator)
