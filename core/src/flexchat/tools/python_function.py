"""Tools that are Python functions: the @tool decorator, and the implementation type "python"."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, Unpack, overload

import attrs

from ..domain import Implementation, ToolDefinition, ToolPrice, ToolRetry
from ..errors import ArgumentsError, did_you_mean
from ..plugin.contracts import ImplementationType, ToolContext, ToolHandler
from ..plugin.foreign import error_name
from ..schema.from_function import FunctionDescription, bind, describe_function


@attrs.frozen(kw_only=True)
class PythonSettings:
    """The implementation table of a Python function.

    Attributes:
        function: "package.module:name"; imported when the tool is first run.
    """

    function: str


@attrs.frozen
class FunctionTool:
    """A function a model may call; still callable as the function it is.

    Attributes:
        function: The function.
        definition: Its description for the model.
    """

    function: Callable[..., Any]
    definition: ToolDefinition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, unchecked."""
        return self.function(*args, **kwargs)


@attrs.frozen
class _Bound:
    """A function with its description: the settings of a tool made by @tool."""

    function: Callable[..., Any]
    description: FunctionDescription
    is_async: bool = attrs.field(init=False)

    @is_async.default
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


class ToolOptions(TypedDict, total=False):
    """The keywords of ``tool``: fields of ToolDefinition."""

    name: str | None
    description: str | None
    timeout_ms: int | None
    exclusive: bool
    repeatable: bool
    effect: Literal["read", "idempotent", "write"]
    honours_key: bool
    verify: str | None
    strict: bool | None
    retry: ToolRetry | None
    approve: bool
    asks_first: bool
    price: ToolPrice | None


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a typed function a tool: its schema comes from the signature and the docstring.

    Example:
        @tool
        def get_weather(location: str, days: int = 1) -> dict:
            '''Get the weather forecast of a city.

            Args:
                location: City name.
                days: How many days ahead, 1 to 7.
            '''

    A plain def runs in a thread, an async def on the event loop. A parameter annotated ``ToolContext`` gets the context
    and is hidden from the model. The options are those of ToolDefinition.

    Raises:
        ToolDefinitionError: The function cannot be described: no docstring, or an annotation JSON cannot express.
    """

    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        raise TypeError(f"tool() got an unexpected keyword argument '{min(unknown)}'")

    def make(function: Callable[..., Any]) -> FunctionTool:
        if isinstance(function, FunctionTool):
            return function
        described = describe_function(function, description=options.get("description"))
        fields: dict[str, Any] = {
            **options,
            "name": options.get("name") or described.name,
            "description": described.description,
        }
        implementation = Implementation(type="python", settings=_Bound(function, described))
        return FunctionTool(
            function, ToolDefinition(parameters=described.parameters, implementation=implementation, **fields)
        )

    return make if function is None else make(function)


@attrs.frozen
class _StandIn:
    """A function of all arguments as one mapping: the settings of a tool with a stand-in."""

    answer: Callable[[Mapping[str, Any]], Any]


def with_stand_in(answer: Callable[[Mapping[str, Any]], Any], definition: ToolDefinition) -> ToolDefinition:
    """Return the tool with a function that answers instead: it gets the checked arguments, and must not block.

    Its exception becomes the error the model reads. It needs no approval: the tool itself does not run.
    """
    implementation = Implementation(type="python", settings=_StandIn(answer))
    return attrs.evolve(definition, implementation=implementation, approve=False)


def is_stand_in(definition: ToolDefinition) -> bool:
    """Return whether a function answers in the tool's place; see with_stand_in."""
    return isinstance(definition.implementation.settings, _StandIn)


async def _run(settings: Any, params: Mapping[str, Any], context: ToolContext) -> Any:
    if isinstance(settings, _StandIn):
        return settings.answer(params)
    if callable(settings):
        is_async, call = inspect.iscoroutinefunction(settings), functools.partial(settings, params)
    else:
        bound = settings if isinstance(settings, _Bound) else _imported(settings.function)
        try:
            kwargs = bind(bound.description, params)
        except ValueError as error:
            raise ArgumentsError(str(error)) from None
        if bound.description.takes_others:
            kwargs |= _others(params, bound.description, context.tool)
        if bound.description.context_parameter is not None:
            kwargs[bound.description.context_parameter] = context
        is_async, call = bound.is_async, functools.partial(bound.function, **kwargs)
    if is_async:
        return await call()
    value = await context.run_in_thread(call)
    return await value if inspect.isawaitable(value) else value  # a plain function around an async one


def _others(params: Mapping[str, Any], described: FunctionDescription, tool: ToolDefinition) -> dict[str, Any]:
    """Return the arguments for ``**kwargs``: those that only the tool's own schema names, or admits expressly."""
    properties, admits = tool.parameters.get("properties", {}), tool.parameters.get("additionalProperties", False)
    reserved = {*described.forms, *described.own_names.values(), described.context_parameter}
    others = {name: value for name, value in params.items() if name not in reserved}
    return others if admits is not False else {name: value for name, value in others.items() if name in properties}


@functools.lru_cache(maxsize=1024)
def _imported(reference: str) -> _Bound:
    module, _, name = reference.partition(":")
    target: Any = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    function = target.function if isinstance(target, FunctionTool) else target
    # The config describes the tool to the model, so no docstring is needed.
    return _Bound(function, describe_function(function, description="-", has_schema=True))


def _check(settings: Any, tool: ToolDefinition, handlers: Mapping[tuple[str, str], ToolHandler]) -> str | None:
    if isinstance(settings, (_Bound, _StandIn)) or callable(settings):
        return None
    module, _, name = settings.function.partition(":")
    if not module or not name:
        return f"function must be 'package.module:name', got '{settings.function}'"
    try:
        description = _imported(settings.function).description
    except Exception as error:  # noqa: BLE001  importing a module runs it: it may raise anything
        return f"function '{settings.function}' cannot be used: {error_name(error)}"
    described = description.parameters
    parameters, properties = described["properties"], tool.parameters.get("properties", {})
    hidden = {description.context_parameter, *description.own_names.values()}
    for name in properties:
        if name not in parameters and (not description.takes_others or name in hidden):
            return f"function '{settings.function}' has no parameter '{name}'{did_you_mean(name, parameters)}"
    for name in described.get("required", ()):
        if name not in properties:
            hint = " (annotate it: context: ToolContext)" if name == "context" else ""
            return f"function '{settings.function}' needs '{name}', which the tool's parameters do not have{hint}"
    return None


PYTHON = ImplementationType(
    name="python",
    settings_class=PythonSettings,
    run=_run,
    check=_check,
    summary="a Python function: function = 'package.module:name'",
)
"""Core's own implementation type. Only the operator's file can name a function."""
