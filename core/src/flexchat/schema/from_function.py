"""Descriptions of Python functions for a model, and conversion of a model's arguments into a function's."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from ..errors import ToolDefinitionError
from .annotations import Form, UnsayableError, described, form_of, or_none
from .docstrings import read_docstring
from .from_pydantic import field_of_pydantic, hoisted

# By name: the class is in a layer that this one does not import.
_CONTEXT = "ToolContext"


@attrs.frozen(kw_only=True)
class FunctionDescription:
    """A function's description for a model, and the readers of its arguments.

    Attributes:
        name: The function's own name.
        description: The first paragraph of its docstring.
        parameters: JSON Schema of the arguments a model may give.
        context_parameter: The parameter that takes a ToolContext, hidden from the model; None if there is none.
        forms: How each parameter is read, by the model's name for it; see bind.
        own_names: The function's own name of a parameter that has another for the model.
        defaults: Makes the default of a parameter, by the function's name, where the signature has none of its own:
            pydantic's Field(default=…).
        takes_others: Whether it has ``**kwargs``, which take arguments that no parameter names.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    context_parameter: str | None = None
    forms: Mapping[str, Form] = attrs.field(factory=dict, repr=False)
    own_names: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    defaults: Mapping[str, Callable[[], Any]] = attrs.field(factory=dict, repr=False)
    takes_others: bool = False


def describe_function(
    function: Callable[..., Any], *, description: str | None = None, has_schema: bool = False
) -> FunctionDescription:
    """Describe a function by its signature, type hints and docstring.

    Supported annotations: str, int, float, bool, None, lists, tuples, sets, dicts with text keys, Literal, Enum,
    unions, attrs classes, dataclasses, TypedDict, datetime, date, time and UUID. ``Annotated[T, "text"]`` describes a
    parameter, ``Annotated[T, {"minimum": 1}]`` adds keywords. Models, fields and types of pydantic are described and
    read by pydantic.

    Args:
        description: Used instead of the docstring's first paragraph.
        has_schema: The tool has a schema of its own, so ``*args`` and ``**kwargs`` need no names.

    Raises:
        ToolDefinitionError: No docstring, an annotation that JSON cannot express, or a positional-only parameter or
            one without a fixed name.
    """
    inner = getattr(function, "func", function)  # of a functools.partial
    name = getattr(inner, "__name__", None) or type(function).__name__
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ToolDefinitionError(f"Tool function {name} is a generator; a tool returns its result in one piece")
    docstring = read_docstring(inspect.getdoc(function) or "")
    summary = description or docstring.summary
    if not summary:
        raise ToolDefinitionError(
            f"Tool function {name} has no docstring; its first paragraph tells the model what the tool does"
        )
    parameters = inspect.signature(function).parameters
    if next(iter(parameters), "") in ("self", "cls"):
        raise ToolDefinitionError(
            f"Tool function {name} is a method of a class: make the tool of an object's method, tool(thing.{name})"
        )
    contexts = [each for each, parameter in parameters.items() if _is_context(parameter.annotation)]
    if len(contexts) > 1:
        raise ToolDefinitionError(f"Tool function {name}: only one parameter can be the {_CONTEXT}")
    hints = _hints(function, name, parameters, contexts)
    forms: dict[str, Form] = {}
    own_names: dict[str, str] = {}
    defaults: dict[str, Callable[[], Any]] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    takes_others = has_schema and any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for each, parameter in parameters.items():
        if has_schema and parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        _refuse_unnamed(name, parameter)
        if each in contexts:
            continue
        annotation, default, wire_name = hints.get(each, Any), parameter.default, each
        try:
            field = field_of_pydantic(annotation, default, parameter.empty)
            if field is not None:
                annotation, default, wire_name = field.annotation, field.shown_default, field.name or each
            form = form_of(annotation)
        except (UnsayableError, ValueError) as error:
            raise ToolDefinitionError(f"Tool function {name}: parameter '{each}': {error}") from None
        if wire_name in forms:
            raise ToolDefinitionError(f"Tool function {name}: two parameters are called '{wire_name}'")
        if wire_name != each:
            own_names[wire_name] = each
        if field is not None and field.default is not None:
            defaults[each] = field.default
        forms[wire_name] = or_none(form) if default is None else form  # `x: int = None` is common
        properties[wire_name] = described(forms[wire_name].schema, docstring.parameters.get(each), default)
        if default is parameter.empty and each not in defaults:
            required.append(wire_name)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return FunctionDescription(
        name=name,
        description=summary,
        parameters=hoisted(schema),
        context_parameter=contexts[0] if contexts else None,
        forms=forms,
        own_names=own_names,
        defaults=defaults,
        takes_others=takes_others,
    )


def bind(description: FunctionDescription, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments for the function: checked JSON data converted to the annotated types.

    Arguments that it does not have, or that were not given, are left out. Raises ValueError, with a text for the
    model, for a value of the right JSON type that is not a date, a UUID, ….
    """
    forms = description.forms
    bound = {name: forms[name].read(value, (name,)) for name, value in params.items() if name in forms}
    if description.own_names:
        bound = {description.own_names.get(name, name): value for name, value in bound.items()}
    for name, make in description.defaults.items():
        if name not in bound:
            bound[name] = make()
    return bound


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return _CONTEXT in re.split(r"\W+", annotation)
    return any(getattr(each, "__name__", None) == _CONTEXT for each in (annotation, *typing.get_args(annotation)))


def _hints(
    function: Callable[..., Any], name: str, parameters: Mapping[str, inspect.Parameter], contexts: list[str]
) -> dict[str, Any]:
    """Resolve the annotations, but the result's and the context's: these are often imported for type checkers only."""
    hints = {
        each: parameter.annotation
        for each, parameter in parameters.items()
        if each not in contexts and parameter.annotation is not parameter.empty
    }
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(types.SimpleNamespace(__annotations__=hints), names, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"Tool function {name}: an annotation cannot be resolved: {error}; define or import it at module level"
        ) from None
    except (SyntaxError, TypeError) as error:
        raise ToolDefinitionError(f"Tool function {name}: an annotation is not a type: {error}") from None


def _refuse_unnamed(name: str, parameter: inspect.Parameter) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ToolDefinitionError(
            f"Tool function {name}: parameter '{parameter}' takes anything; name each parameter, so that the model "
            "knows what to give"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ToolDefinitionError(
            f"Tool function {name}: parameter '{parameter.name}' cannot be given by name; take the '/' out of the "
            "signature"
        )
