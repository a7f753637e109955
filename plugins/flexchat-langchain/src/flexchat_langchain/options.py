"""Mapping of ChatOptions to the fields and arguments of a LangChain model.

LangChain has no options common to all models: integrations differ in the names of their fields and request arguments.
Known differences are listed here as data; everything else is derived from the class.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import attrs
from flexchat_sdk import ChatOptions, ProviderRequestError, Reasoning, ResponseFormat
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

# ChatOptions field to the equivalent model fields, best first.
_FIELDS = {
    "max_tokens": ("max_tokens", "num_predict", "max_output_tokens", "max_new_tokens", "max_tokens_to_sample"),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "seed": ("seed", "random_seed"),
}
_EFFORT_FIELDS = ("reasoning_effort", "effort", "thinking_level")
_BUDGET_FIELDS = ("thinking_budget",)

# Classes by name, so that none is imported. A subclass counts as its base.
_IGNORES_TOOL_CHOICE = frozenset({"ChatOllama"})  # bind_tools has this parameter
_TAKES_FORMAT = frozenset({"BaseChatOpenAI", "ChatOllama", "ChatAnthropic"})  # response_format, in OpenAI's form
_NO_FREE_JSON = frozenset({"ChatAnthropic"})  # requires a schema
_FORMAT_OR_TOOLS = frozenset({"ChatOllama"})  # a grammar for the answer prevents tool calls
_THINKS_OR_NOT = frozenset({"ChatOllama"})  # reasoning is a boolean
_TAKES_EXTRA_BODY = frozenset({"BaseChatOpenAI", "ChatAnthropic"})  # the others accept options as request arguments


@attrs.frozen(kw_only=True)
class Prepared:
    """A model configured for one request.

    Attributes:
        runnable: The model with its tools bound.
        arguments: Arguments of the request.
        warnings: One sentence per option that is not supported.
    """

    runnable: Runnable[Any, Any]
    arguments: Mapping[str, Any]
    warnings: tuple[str, ...]


def combines_tools_and_format(cls: type) -> bool:
    """Return True if models of this class accept tools and a response format in one request."""
    return _is(cls, _FORMAT_OR_TOOLS) is False


def prepared(model: BaseChatModel, options: ChatOptions) -> Prepared:
    """Apply the options to the model.

    Raises:
        ProviderRequestError: The model does not support tools, or no allowed tool is offered.
    """
    warnings: list[str] = []
    changes = _changes(model, options, warnings)
    if changes:
        model = model.model_copy(update=changes)  # The copy shares the connections.
    arguments: dict[str, Any] = {"stop": list(options.stop)} if options.stop else {}
    if options.response_format is not None:
        arguments.update(_format(model, options.response_format, warnings))
    runnable: Runnable[Any, Any] = model
    if options.tools and options.tool_choice != "none":
        runnable = _bound(model, options, warnings)
    extra = {"extra_body": dict(options.extra)} if _is(type(model), _TAKES_EXTRA_BODY) else options.extra
    arguments.update(extra if options.extra else {})
    return Prepared(runnable=runnable, arguments=arguments, warnings=tuple(warnings))


def _changes(model: BaseChatModel, options: ChatOptions, warnings: list[str]) -> dict[str, Any]:
    reasoning = options.reasoning or Reasoning()
    effort: Any = reasoning.effort
    effort_fields: tuple[str, ...] = _EFFORT_FIELDS
    if effort is not None and _is(type(model), _THINKS_OR_NOT):
        effort, effort_fields = effort != "none", ("reasoning",)
    changes: dict[str, Any] = {}
    for value, names, warning in (
        *((getattr(options, option), names, f"has no {option}: it is left out") for option, names in _FIELDS.items()),
        (effort, effort_fields, "has no setting for reasoning effort: reasoning.effort is left out"),
        (reasoning.budget_tokens, _BUDGET_FIELDS, "has no reasoning budget: reasoning.budget_tokens is left out"),
        (reasoning.summary, (), "cannot return its reasoning: reasoning.summary is left out"),
    ):
        field = next((name for name in names if name in type(model).model_fields), None)
        if value is not None and field is not None:
            changes[field] = value
        elif value is not None:
            warnings.append(f"{_name(model)} {warning}")
    return changes


def _format(model: BaseChatModel, spec: ResponseFormat, warnings: list[str]) -> dict[str, Any]:
    profile = getattr(model, "profile", None)
    takes = _is(type(model), _TAKES_FORMAT) or (isinstance(profile, Mapping) and profile.get("structured_output"))
    free = spec.type == "json_object" or spec.schema is None
    if not takes or (free and _is(type(model), _NO_FREE_JSON)):
        warnings.append(f"{_name(model)} does not support structured output: response_format is left out")
        return {}
    if free:
        return {"response_format": {"type": "json_object"}}
    form: dict[str, Any] = {"name": spec.name, "schema": dict(spec.schema or {})}
    form |= {"strict": spec.strict} if spec.strict is not None else {}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def _bound(model: BaseChatModel, options: ChatOptions, warnings: list[str]) -> Runnable[Any, Any]:
    allowed = options.allowed_tools
    tools = [dict(tool) for tool in options.tools if not allowed or tool["function"]["name"] in allowed]
    if not tools:
        raise ProviderRequestError(f"none of the allowed tools is offered: {', '.join(allowed)}", provider="langchain")
    how: dict[str, Any] = {}
    if options.tool_choice == "required":
        how["tool_choice"] = tools[0]["function"]["name"] if len(tools) == len(allowed) == 1 else "any"
        if _is(type(model), _IGNORES_TOOL_CHOICE):
            warnings.append(f"{_name(model)} cannot force a tool call: tool_choice 'required' is only a request")
    if options.parallel_tool_calls is not None:
        if "parallel_tool_calls" in inspect.signature(model.bind_tools).parameters:
            how["parallel_tool_calls"] = options.parallel_tool_calls
        elif options.parallel_tool_calls is False:
            warnings.append(f"{_name(model)} cannot be limited to one tool call: parallel_tool_calls is left out")
    try:
        return model.bind_tools(tools, **how)
    except NotImplementedError:
        text = f"{_name(model)} takes no tools: its class has no bind_tools"
        raise ProviderRequestError(text, provider="langchain", kind="unsupported_tools") from None


def _is(cls: type, names: frozenset[str]) -> bool:
    return any(base.__name__ in names for base in cls.__mro__)


def _name(model: BaseChatModel) -> str:
    return type(model).__name__
