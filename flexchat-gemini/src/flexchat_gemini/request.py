"""Our messages and options as the body of a generateContent request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flexchat.provider import ChatOptions, Message, ProviderRequestError, ResponseFormat, rewrite, to_bytes

from .contents import ContentsWriter, leading_instructions
from .dialects import JSON_SCHEMA, PARAMETERS
from .thinking import thinking_config
from .tools import WireTools, wire_tools
from .traits import ModelTraits, traits_of

# What a cache of the service already holds, and refuses to be sent beside it.
_HELD_BY_CACHE = ("systemInstruction", "tools", "toolConfig")


class RequestWriter:
    """Writes requests for one server.

    Args:
        origin: scheme://host[:port] of the server.
        safety_settings: Sent with every request.
        extra: Merged into every body; tables in it are merged into the body's tables.

    Attributes:
        as_parameters: Says schemas as the service's own kind (``parameters``, ``responseSchema``) instead of as
            JSON Schema.
    """

    def __init__(
        self,
        origin: str,
        *,
        as_parameters: bool = False,
        safety_settings: Sequence[Mapping[str, Any]] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.as_parameters = as_parameters
        self._contents = ContentsWriter(origin)
        self._safety_settings = [*safety_settings]
        self._extra = dict(extra or {})
        self._tools: dict[tuple[int, tuple[str, ...], bool], tuple[object, WireTools]] = {}

    def body(self, messages: Sequence[Message], model: str, options: ChatOptions) -> tuple[bytes, tuple[str, ...]]:
        """Return the body and what could not be honoured, one sentence each.

        Raises:
            ProviderRequestError: Something in it cannot be said in this dialect.
        """
        try:
            count, instructions = leading_instructions(messages)
            fields, warnings = self._fields(instructions, model, options)
            if "contents" in fields:
                return to_bytes(fields), warnings
            contents = self._contents.contents(messages[count:], signatures=traits_of(model).signatures)
            rest = to_bytes(fields)
            return b'{"contents":' + contents + (b"," if len(rest) > 2 else b"") + rest[1:], warnings
        except (TypeError, ValueError, RecursionError) as error:
            text = f"the request cannot be written as JSON: {error}"
            raise ProviderRequestError(text, provider="gemini", model=model) from error

    def _fields(self, instructions: str, model: str, options: ChatOptions) -> tuple[dict[str, Any], tuple[str, ...]]:
        traits = traits_of(model)
        warnings: list[str] = []
        fields: dict[str, Any] = {}
        if instructions:
            fields["systemInstruction"] = {"parts": [{"text": instructions}]}
        tools = self._wire_tools(options)
        is_limited = options.tools and options.allowed_tools and options.tool_choice != "none"
        if is_limited and set(tools.names).isdisjoint(options.allowed_tools):
            names = ", ".join(options.allowed_tools)
            raise ProviderRequestError(f"none of the allowed tools is offered: {names}", provider="gemini", model=model)
        if tools.objects:
            fields["tools"] = tools.objects
        if tools.names:
            calling = _calling_config(tools, model, options, traits, warnings)
            if calling:
                fields["toolConfig"] = {"functionCallingConfig": calling}
        generation = self._generation_config(tools, model, options, traits, warnings)
        if generation:
            fields["generationConfig"] = generation
        if self._safety_settings:
            fields["safetySettings"] = self._safety_settings
        for extra in (self._extra, options.extra):
            fields = _merged(fields, extra)
        if fields.get("cachedContent"):
            held = [name for name in _HELD_BY_CACHE if fields.pop(name, None) is not None]
            if held:
                warnings.append(f"cachedContent brings its own {', '.join(held)}: left out of the request")
        return fields, tuple(warnings)

    def _wire_tools(self, options: ChatOptions) -> WireTools:
        # "required" limits the choice by name; for "auto" only the declarations themselves can be fewer.
        only = options.allowed_tools if options.tool_choice == "auto" else ()
        key = (id(options.tools), only, self.as_parameters)
        found = self._tools.get(key)
        if found is None or found[0] is not options.tools:
            if len(self._tools) >= 16:
                self._tools.clear()
            # The tuple is held, so that its id cannot come to belong to another.
            made = wire_tools(options.tools, only=only, as_parameters=self.as_parameters)
            found = self._tools[key] = (options.tools, made)
        return found[1]

    def _generation_config(
        self, tools: WireTools, model: str, options: ChatOptions, traits: ModelTraits, warnings: list[str]
    ) -> dict[str, Any]:
        set_ = {
            "maxOutputTokens": options.max_tokens,
            "temperature": options.temperature,
            "topP": options.top_p,
            "stopSequences": options.stop or None,
            "seed": options.seed,
        }
        config: dict[str, Any] = {name: value for name, value in set_.items() if value is not None}
        if options.response_format is not None:
            if tools.names and not traits.combines:
                warnings.append(f"{model} takes no response format beside tools: the format is left out")
            else:
                config |= self._format(options.response_format, warnings)
        if options.reasoning is not None:
            thinking, unsaid = thinking_config(options.reasoning, traits, model)
            warnings += unsaid
            if thinking:
                config["thinkingConfig"] = thinking
        return config

    def _format(self, wanted: ResponseFormat, warnings: list[str]) -> dict[str, Any]:
        config: dict[str, Any] = {"responseMimeType": "application/json"}
        if wanted.type == "json_object" or wanted.schema is None:
            return config
        field, dialect = ("responseSchema", PARAMETERS) if self.as_parameters else ("responseJsonSchema", JSON_SCHEMA)
        rewritten = rewrite(wanted.schema, dialect)
        lost = [f"response format {note.pointer or '/'}: {note.message}" for note in rewritten.notes]
        warnings += [text for text, note in zip(lost, rewritten.notes, strict=True) if note.severity != "info"]
        if rewritten.schema is not None:
            config[field] = rewritten.schema
        return config


def _calling_config(
    tools: WireTools, model: str, options: ChatOptions, traits: ModelTraits, warnings: list[str]
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


def _merged(fields: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(fields)
    for name, value in extra.items():
        held = merged.get(name)
        merged[name] = _merged(held, value) if isinstance(held, Mapping) and isinstance(value, Mapping) else value
    return merged
