"""Our messages and options as the body of a request to /v1/messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from flexchat_sdk import (
    Body,
    ChatOptions,
    Message,
    PerTools,
    ProviderRequestError,
    Reasoning,
    ResponseFormat,
    check_allowed_tools,
    merged,
    nearest_effort,
    option_fields,
    rewrite,
    to_text,
    unsupported_options,
)

from .dialects import STRICT
from .messages import MessagesWriter, container_of, instructions_of, lacks_thinking
from .models import ALL_EFFORTS, ModelTraits, traits_of
from .tools import offered_tools

SAMPLING_ENDED = "2026-10-21"
"""The version of the API from which on no model takes temperature, top_p or top_k."""
FALLBACK_MAX_TOKENS = 4096
"""Sent for models whose maximum output is unknown, because the field is required."""

_FORM = "Answer with one JSON object and nothing else: no other text, no code fence."


class RequestWriter:
    """Writes requests for one server.

    Args:
        origin: scheme://host[:port] of the server.
        api_version: As in AnthropicConfig.
        max_tokens: Maximum output tokens if the rule sets none.
        cache: The ``cache_control`` that marks the stable prefix of requests; None for no markers.
        extra: Merged into every body, recursively; its ``tools`` are added to those of the request.
    """

    def __init__(
        self,
        origin: str,
        *,
        api_version: str = SAMPLING_ENDED,
        max_tokens: int | None = None,
        cache: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._origin = origin
        self._messages = MessagesWriter(origin)
        self._takes_sampling = api_version < SAMPLING_ENDED
        self._max_tokens = max_tokens
        self._cache = dict(cache) if cache else None
        self._extra = dict(extra or {})
        self._tools = PerTools(offered_tools)

    def known_max_tokens(self, model: str, options: ChatOptions) -> int | None:
        """Return the maximum output tokens from rule, config or table; None if none of them sets it."""
        max_tokens = self._wanted_max_tokens(options)
        return traits_of(model).max_tokens if max_tokens is None else max_tokens

    def with_room(self, max_tokens: int, model: str, options: ChatOptions) -> int:
        """Raise max_tokens above the thinking budget, unless the rule or the config sets it."""
        budget = budget_of(options.reasoning, traits_of(model))
        if budget is None or self._wanted_max_tokens(options) is not None:
            return max_tokens
        return max(max_tokens, budget + ROOM)

    def body(
        self,
        messages: Sequence[Message],
        model: str,
        options: ChatOptions,
        *,
        max_tokens: int,
        stream: bool = False,
        thinking: bool = True,
    ) -> Body:
        """Return the body.

        Args:
            max_tokens: Longest answer; see known_max_tokens and with_room.
            thinking: Whether earlier thinking goes back with it.

        Raises:
            ProviderRequestError: This dialect cannot express something in it.
        """
        traits = traits_of(model)
        chosen = thinking_for(options.reasoning, traits, model, max_tokens)
        warnings = [*chosen.warnings]
        if _is_enabled(chosen) and (not thinking or lacks_thinking(messages, self._origin)):
            warnings.append(f"{model} cannot think beside calls it did not think about: thinking is left out")
            chosen = Thinking()
        try:
            request = _Request(messages, model, options, traits, chosen, warnings)
            fields = {"model": model, "max_tokens": max_tokens, **self._fields(request)}
            if stream:
                fields["stream"] = True
            for extra in (self._extra, options.extra):
                tools, own = fields.get("tools"), extra.get("tools")
                if isinstance(tools, list) and isinstance(own, list | tuple):
                    # The service's own tools stand before ours, whose last may carry the cache's mark.
                    extra = {**extra, "tools": [*own, *tools]}
                fields = merged(fields, extra)
            if "messages" in fields:
                return Body.of(fields, warnings=warnings)
            turns, lost = self._messages.messages(messages, thinking=thinking, prefill=traits.prefill, mark=self._cache)
            return Body.of(fields, {"messages": turns}, (*warnings, *lost))
        except (TypeError, ValueError, RecursionError) as error:
            raise ProviderRequestError(f"the request cannot be written as JSON: {error}") from error

    def _wanted_max_tokens(self, options: ChatOptions) -> int | None:
        for source in (options.extra, self._extra):
            if type(limit := source.get("max_tokens")) is int:
                return limit
        return self._max_tokens if options.max_tokens is None else options.max_tokens

    def _fields(self, request: _Request) -> dict[str, Any]:
        messages, options, thinking = request.messages, request.options, request.thinking
        fields = self._sampling(request)
        if thinking.config is not None:
            fields["thinking"] = thinking.config
        output: dict[str, Any] = {"effort": thinking.effort} if thinking.effort else {}
        instructions = instructions_of(messages)
        if options.response_format is not None:
            form, instruction = _format(options.response_format, request)
            output |= form
            instructions = "\n\n".join(text for text in (instructions, instruction) if text)
        if output:
            fields["output_config"] = output
        if instructions:
            block = {"type": "text", "text": instructions, "cache_control": self._cache}
            fields["system"] = instructions if self._cache is None else [block]
        fields |= self._tool_fields(request)
        container = container_of(messages, self._origin)
        return {**fields, "container": container} if container else fields

    def _sampling(self, request: _Request) -> dict[str, Any]:
        model, options, traits, thinking = request.model, request.options, request.traits, request.thinking
        warnings = request.warnings
        warnings += unsupported_options(options, "seed")
        stop = [text for text in options.stop if text.strip()]
        if len(stop) < len(options.stop):
            warnings.append("the Messages API takes no stop sequence of white space: left out")
        fields: dict[str, Any] = {"stop_sequences": stop} if stop else {}
        sampling = option_fields(options, "temperature", "top_p")
        if traits.sampling == "none":
            # A value of 1 is what a model does anyway: no loss.
            warnings += [f"{model} takes no {name}: left out" for name, value in sampling.items() if value != 1]
            return fields
        if not self._takes_sampling:
            warnings += [
                f'{name} is left out: no model takes one in this version of the API (api_version = "2023-06-01" does)'
                for name, value in sampling.items()
                if value != 1
            ]
            return fields
        if thinking.happens and thinking.config is not None:
            refused = [n for n, v in sampling.items() if v != 1 and not (n == "top_p" and v >= 0.95)]
            warnings += [f"{model} takes no {name} of {sampling.pop(name):g} while it thinks" for name in refused]
        if sampling.get("temperature", 0) > 1:
            warnings.append(f"a temperature is at most 1 here, not {sampling['temperature']:g}: 1 is used")
            sampling["temperature"] = 1
        if traits.sampling == "one" and len(sampling) > 1:
            warnings.append(f"{model} takes a temperature or a top_p, not both: top_p is left out")
            del sampling["top_p"]
        return fields | sampling

    def _tool_fields(self, request: _Request) -> dict[str, Any]:
        options = request.options
        only = options.allowed_tools if options.tool_choice != "none" else ()
        offered = self._tools.of(options.tools, only, request.traits.strict)
        request.warnings.extend(offered.warnings)
        check_allowed_tools(options, offered.names)
        if not offered.objects:
            return {}
        tools = [*offered.objects]
        if self._cache is not None:
            tools[-1] = {**tools[-1], "cache_control": self._cache}
        choice = _tool_choice(request)
        return {"tools": tools, "tool_choice": choice} if choice else {"tools": tools}


def _is_enabled(thinking: Thinking) -> bool:
    """Say whether thinking has a budget, which is stricter than thinking that the model decides about."""
    return thinking.config is not None and thinking.config["type"] == "enabled"


def _tool_choice(request: _Request) -> dict[str, Any]:
    model, options, warnings = request.model, request.options, request.warnings
    if options.tool_choice == "none":
        return {"type": "none"}
    choice: dict[str, Any] = {}
    if options.tool_choice == "required":
        if not request.traits.forced:
            warnings.append(f"{model} cannot be made to call a tool: it decides itself")
        elif _is_enabled(request.thinking):
            warnings.append(f"{model} cannot be made to call a tool while it thinks: it decides itself")
        elif len(options.allowed_tools) == 1:
            choice = {"type": "tool", "name": options.allowed_tools[0]}
        else:
            choice = {"type": "any"}
    if options.parallel_tool_calls is False:
        return {"type": "auto", **choice, "disable_parallel_tool_use": True}
    return choice


def _format(form: ResponseFormat, request: _Request) -> tuple[dict[str, Any], str]:
    """Build ``output_config``, or an instruction for the system prompt where the format is not supported."""
    if form.type == "json_object" or form.schema is None:
        return {}, _FORM
    takes_schema = request.traits.strict
    schema = rewrite(form.schema, STRICT).schema if takes_schema else None
    if schema is not None:
        return {"format": {"type": "json_schema", "schema": schema}}, ""
    if form.strict:
        why = "the answer's schema cannot be said strictly"
        why = why if takes_schema else f"{request.model} takes no schema of an answer"
        request.warnings.append(f"{why}: the model is told it, and not held to it")
    return {}, f"{_FORM} It fits this JSON Schema:\n{to_text(form.schema)}"


MIN_BUDGET = 1024
"""Fewer tokens are refused."""
ROOM = 4096
"""Tokens for the answer itself, where the limit is made to fit a budget: thinking counts into max_tokens."""

_BUDGETS = {"minimal": MIN_BUDGET, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32000, "max": 32000}


@attrs.frozen(kw_only=True)
class Thinking:
    """The thinking parameters of a request.

    Attributes:
        config: The value of ``thinking``; None leaves it to the model.
        effort: The value of ``output_config.effort``.
        happens: The model is expected to think.
        warnings: One sentence per option that is not supported.
    """

    config: dict[str, Any] | None = None
    effort: str | None = None
    happens: bool = False
    warnings: tuple[str, ...] = ()


@attrs.frozen
class _Request:
    """What is known of a request while its fields are written. *warnings* grows."""

    messages: Sequence[Message]
    model: str
    options: ChatOptions
    traits: ModelTraits
    thinking: Thinking
    warnings: list[str]


def budget_of(reasoning: Reasoning | None, traits: ModelTraits) -> int | None:
    """Return the thinking budget in tokens; None if the request sets none, or an effort."""
    if reasoning is None or reasoning.effort == "none" or traits.thinking in ("none", "adaptive"):
        return None
    if reasoning.budget_tokens is not None:
        return max(reasoning.budget_tokens, MIN_BUDGET) if reasoning.budget_tokens > 0 else None
    return _BUDGETS[reasoning.effort] if reasoning.effort and traits.thinking == "budget" else None


def thinking_for(reasoning: Reasoning | None, traits: ModelTraits, model: str, max_tokens: int) -> Thinking:
    """Build the thinking parameters of a request.

    Args:
        max_tokens: Maximum output tokens of the request; a budget must be less.
    """
    if reasoning is None:
        return Thinking(happens=traits.thinks)
    effort, requested = reasoning.effort, reasoning.budget_tokens
    if traits.thinking == "none":
        is_set = effort not in (None, "none") or requested not in (None, 0) or reasoning.summary
        return Thinking(warnings=(f"{model} does not think: left out",) if is_set else ())
    if effort == "none" or (effort is None and requested == 0):
        return _off(traits, model)
    warnings: list[str] = []
    config: dict[str, Any] | None = None
    budget = budget_of(reasoning, traits)
    if budget is not None:
        used = min(budget, max_tokens - 1)
        if used < MIN_BUDGET:
            text = f"{model} thinks on at least {MIN_BUDGET} tokens, max_tokens is {max_tokens}: thinking is left out"
            return Thinking(happens=traits.thinks, warnings=(text,))
        if requested is not None and used != requested:
            warnings.append(f"{model} takes no thinking budget of {requested} tokens here: {used} is used")
        config = {"type": "enabled", "budget_tokens": used}
    elif traits.thinking == "budget":
        if reasoning.summary:
            warnings.append(f"{model} thinks only where an effort or a budget is set: there are no thoughts to show")
    else:
        config = {"type": "adaptive"}
        if requested is not None:
            warnings.append(f"{model} decides itself how many tokens it thinks: the budget is left out; set an effort")
    if config is not None and reasoning.summary is not None:
        config["display"] = "summarized" if reasoning.summary else "omitted"
    level = None
    if effort and traits.efforts:
        level, unsupported_options = _nearest_effort(effort, traits, model)
        warnings += unsupported_options
    return Thinking(config=config, effort=level, happens=config is not None, warnings=tuple(warnings))


def _off(traits: ModelTraits, model: str) -> Thinking:
    if traits.off == "never":
        text = f"{model} cannot be kept from thinking: {traits.efforts[0]}, its least effort, is used"
        return Thinking(effort=traits.efforts[0], happens=True, warnings=(text,))
    if traits.off == "between_tools":
        return Thinking(config={"type": "between_tools"}, happens=True)
    return Thinking(config={"type": "disabled"} if traits.thinks else None)


def _nearest_effort(effort: str, traits: ModelTraits, model: str) -> tuple[str, list[str]]:
    exact = "low" if effort == "minimal" else effort
    used = nearest_effort(exact, traits.efforts, ALL_EFFORTS)
    return used, [] if used == effort else [f"{model} knows no effort '{effort}': '{used}' is used"]
