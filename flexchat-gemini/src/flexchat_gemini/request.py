"""Our messages and options as the body of a generateContent request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat_sdk import (
    Body,
    ChatOptions,
    Json,
    Message,
    PerTools,
    Reasoning,
    ResponseFormat,
    WireTools,
    check_allowed_tools,
    leading_instructions,
    merged,
    nearest_effort,
    option_fields,
    rewrite,
)

from .config import GeminiConfig
from .contents import ContentsWriter
from .dialects import JSON_SCHEMA, PARAMETERS
from .models import ALL_LEVELS, ModelTraits, traits_of
from .tools import OfferedTools, offered_tools

# What a cache of the service already holds, and refuses to be sent beside it.
_HELD_BY_CACHE = ("systemInstruction", "tools", "toolConfig")


class RequestWriter:
    """Writes requests for one server.

    Args:
        origin: scheme://host[:port] of the server.

    Attributes:
        as_parameters: Says schemas as the service's own kind (``parameters``, ``responseSchema``) instead of as
            JSON Schema.
    """

    def __init__(self, origin: str, config: GeminiConfig) -> None:
        self.as_parameters = config.schema_field == "parameters"
        self._config = config
        self._contents = ContentsWriter(origin)
        self._tools = PerTools(offered_tools)
        self._tools_array = WireTools()

    def body(self, messages: Sequence[Message], model: str, options: ChatOptions) -> Body:
        """Return the body of a request.

        Raises:
            ProviderRequestError: This dialect cannot express something in it.
        """
        traits = traits_of(model)
        warnings: list[str] = []
        spliced: dict[str, Json] = {}
        fields: dict[str, Any] = {}
        count, instructions = leading_instructions(messages)
        if instructions:
            fields["systemInstruction"] = {"parts": [{"text": instructions}]}
        # "required" limits the choice by name; for "auto" only the declarations themselves can be fewer.
        only = options.allowed_tools if options.tool_choice == "auto" else ()
        tools = self._tools.of(options.tools, only, self.as_parameters)
        check_allowed_tools(options, tools.names)
        if tools.objects:
            spliced["tools"] = self._tools_array.array(tools.objects)
        if tools.names and (calling := _calling_config(tools, model, options, traits, warnings)):
            fields["toolConfig"] = {"functionCallingConfig": calling}
        if generation := self._generation_config(tools, model, options, traits, warnings):
            fields["generationConfig"] = generation
        if self._config.safety_settings:
            fields["safetySettings"] = self._config.safety_settings
        for extra in (self._config.extra_body, options.extra):
            fields = merged(fields, extra)
        if fields.get("cachedContent"):
            in_cache = [name for name in _HELD_BY_CACHE if fields.get(name, spliced.get(name)) is not None]
            for name in _HELD_BY_CACHE:
                fields.pop(name, None)
                spliced.pop(name, None)
            if in_cache:
                warnings.append(f"cachedContent brings its own {', '.join(in_cache)}: left out of the request")
        if "contents" not in fields:
            spliced["contents"] = self._contents.contents(
                messages[count:], signatures=traits.signatures, media=traits.media_in_responses
            )
        return Body.of(fields, spliced, warnings)

    def _generation_config(
        self, tools: OfferedTools, model: str, options: ChatOptions, traits: ModelTraits, warnings: list[str]
    ) -> dict[str, Any]:
        config = option_fields(
            options,
            max_tokens="maxOutputTokens",
            temperature="temperature",
            top_p="topP",
            stop="stopSequences",
            seed="seed",
        )
        if options.response_format is not None:
            if tools.names and not traits.combines:
                warnings.append(f"{model} takes no response format beside tools: the format is left out")
            else:
                config |= self._format(options.response_format, warnings)
        if options.reasoning is not None:
            thinking, unsupported_options = thinking_config(options.reasoning, traits, model)
            warnings += unsupported_options
            if thinking:
                config["thinkingConfig"] = thinking
        return config

    def _format(self, form: ResponseFormat, warnings: list[str]) -> dict[str, Any]:
        config: dict[str, Any] = {"responseMimeType": "application/json"}
        if form.type == "json_object" or form.schema is None:
            return config
        field, dialect = ("responseSchema", PARAMETERS) if self.as_parameters else ("responseJsonSchema", JSON_SCHEMA)
        rewritten = rewrite(form.schema, dialect)
        lost = [f"response format {note.pointer or '/'}: {note.message}" for note in rewritten.notes]
        warnings += [text for text, note in zip(lost, rewritten.notes, strict=True) if note.severity != "info"]
        if rewritten.schema is not None:
            config[field] = rewritten.schema
        return config


def _calling_config(
    tools: OfferedTools, model: str, options: ChatOptions, traits: ModelTraits, warnings: list[str]
) -> dict[str, Any]:
    if options.parallel_tool_calls is False and options.tool_choice != "none":
        warnings.append("Gemini cannot be kept from calling several tools in one answer")
    if options.tool_choice == "none":
        return {"mode": "NONE"}
    if options.tool_choice == "required":
        names = [name for name in tools.names if name in options.allowed_tools]
        return {"mode": "ANY", "allowedFunctionNames": names} if names else {"mode": "ANY"}
    if not tools.strict:
        return {}
    if not traits.validates:
        warnings.append(f"{model} does not hold calls to their schema: strict is left out")
        return {}
    return {"mode": "VALIDATED"}


# The figures Google's own OpenAI-compatible endpoint uses; "minimal" is the least that 2.5 Flash-Lite takes.
_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 32768}
_LEVELS = {"none": "MINIMAL"} | {level.lower(): level for level in ALL_LEVELS}
DYNAMIC = -1
"""The budget that leaves it to the model."""


def thinking_config(reasoning: Reasoning, traits: ModelTraits, model: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Build ``thinkingConfig``. Returns it, and one warning per unsupported option."""
    effort, budget = reasoning.effort, reasoning.budget_tokens
    if traits.thinking == "none":
        is_set = effort not in (None, "none") or budget not in (None, 0) or reasoning.summary
        return {}, (f"{model} takes no settings for thinking: left out",) if is_set else ()
    config: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    if traits.thinking == "budget":
        exact = budget if budget is not None else _BUDGETS[effort] if effort else None
        if exact is not None:
            config["thinkingBudget"] = used = _nearest_budget(exact, traits)
            if used != exact and (budget is not None or effort == "none"):
                warnings = (f"{model} takes no thinking budget of {exact} tokens: {used} is used",)
    elif effort:
        config["thinkingLevel"], warnings = _nearest_level(effort, traits, model)
        if budget is not None:  # the service refuses both together
            warnings += (f"{model} takes a thinking level or a budget, not both: the budget is left out",)
    elif budget is not None:
        config["thinkingBudget"] = budget  # models with levels still take one
    if reasoning.summary is not None:
        config["includeThoughts"] = reasoning.summary
    return config, warnings


def _nearest_budget(budget: int, traits: ModelTraits) -> int:
    if budget == DYNAMIC or (budget == 0 and traits.can_stop_thinking):
        return budget
    return min(max(budget, traits.min_budget), traits.max_budget)


def _nearest_level(effort: str, traits: ModelTraits, model: str) -> tuple[str, tuple[str, ...]]:
    if effort == "max":
        return traits.levels[-1] if traits.thinking else "HIGH", ()
    exact = _LEVELS[effort]
    # Of two that are equally far, the higher: Google reads "medium" as HIGH where there is no MEDIUM.
    used = nearest_effort(exact, traits.levels, ALL_LEVELS)
    if effort == "none":
        return used, (f"{model} cannot be kept from thinking: {used}, its least, is used",)
    return used, () if used == exact else (f"{model} knows no thinking level {exact}: {used} is used",)
