"""Our messages and options as the body of a ``/api/chat`` request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

import attrs
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    Base64,
    Body,
    ChatOptions,
    History,
    Ids,
    Json,
    MediaPart,
    Message,
    ProviderRequestError,
    Reasoning,
    ReasoningPart,
    RefusalPart,
    ResponseFormat,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    WireMessage,
    WireTools,
    media_behind_results,
    unshown,
    with_accepted_media,
)

from .config import OllamaConfig
from .context_window import chosen_num_ctx, estimate_warning, estimated_tokens
from .models import ModelFacts

SCOPE = "ollama"
"""Scope of what this dialect received and may get back: see ProviderData."""


class _CallId(str):
    """The id of a call, with the call's name: a result carries both."""

    name: str


# In a tool's message, renderers leave out the images: they follow in a user's. Source: model/renderers/qwen3vl.go.
_IMAGES = frozenset({"image/png", "image/jpeg"})


# A file is read by its bytes, and one that the server cannot decode is a 400. Source: server/prompt.go and
# model/imageproc of the server; sounds go into ``images`` as WAV.
SEES, HEARS = dict.fromkeys(sorted(_IMAGES)), {"audio/wav": None}
MEDIA_SOURCE = "https://docs.ollama.com/capabilities/vision"


def fits_in_result(part: MediaPart) -> bool:
    """Return whether a part can be sent with a tool's result: in the user message after it."""
    return part.data is not None and part.mime_type in _IMAGES


def without_earlier_media(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages with their media described, except those of the last user message: they are what is asked about.

    For a model that turns out to see nothing only when the server is asked.
    """
    last = max((at for at, message in enumerate(messages) if type(message) is UserMessage), default=-1)
    return [message if at == last else _described(message) for at, message in enumerate(messages)]


def _described(message: Message) -> Message:
    if type(message) is ToolMessage and message.media:
        return with_accepted_media(message, lambda part: False)
    if type(message) is UserMessage and message.media:
        words = [*map(unshown, message.media)]
        return UserMessage("\n\n".join([message.content, *words]) if message.content else "\n\n".join(words))
    return message


class ChatRequestWriter:
    """Writes requests for one server.

    Args:
        origin: scheme://host[:port] of the server; its own answers are sent back to it unchanged.
    """

    def __init__(self, origin: str, config: OllamaConfig) -> None:
        self._config = config
        self._history = History(SCOPE, origin, _encode, own_id=str, legal_name=None)
        self._tools = WireTools(tool_name)

    def write(
        self, messages: Sequence[Message], model: str, options: ChatOptions, facts: ModelFacts, *, stream: bool
    ) -> tuple[Body, int | None]:
        """Return the request, and how many tokens it lets the model read; None if that is the server's choice.

        Raises:
            ProviderRequestError: This dialect cannot express something in it.
        """
        warnings: list[str] = []
        spliced = {"messages": self._history.array(_ordered(messages))}
        if options.tools and options.tool_choice != "none":
            spliced["tools"] = self._offered(options, warnings)
        fields = {"model": model, "stream": stream}
        fields |= self._fields(model, options, facts, "tools" in spliced, warnings)
        values = self._model_options(options, facts)
        values |= {**_table(self._config.extra_body, "options"), **_table(options.extra, "options")}
        if values:
            fields["options"] = values
        extra = {**self._config.extra_body, **options.extra}
        fields |= {name: value for name, value in extra.items() if name != "options"}
        num_ctx = values.get("num_ctx")
        num_ctx = num_ctx if type(num_ctx) is int else None
        if self._config.truncate and num_ctx is not None:
            tokens = estimated_tokens(sum(map(len, spliced.values())), messages)
            warnings += filter(None, [estimate_warning(tokens, num_ctx)])
        return Body.of(fields, spliced, warnings), num_ctx

    def messages(self, messages: Sequence[Message]) -> list[Json]:
        """Return the elements of the ``messages`` array."""
        return self._history.pieces(_ordered(messages))

    def _fields(
        self, model: str, options: ChatOptions, facts: ModelFacts, has_tools: bool, warnings: list[str]
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        default = self._config.think
        if default and facts.lacks("reasoning"):
            default = None
            warnings.append(f"{model} cannot think: think of the configuration is left out")
        think, unheard = think_value(options.reasoning, model, default)
        warnings += unheard
        if think is not None:
            fields["think"] = think
        if options.response_format is not None and has_tools:
            warnings.append("Ollama takes no format in a request with tools: response_format is left out")
        elif options.response_format is not None:
            fields["format"] = _format(options.response_format)
            if facts.is_remote:
                warnings.append("Ollama's cloud does not hold a model to response_format")
        if self._config.keep_alive is not None:
            fields["keep_alive"] = self._config.keep_alive
        if not self._config.truncate:
            fields |= {"truncate": False, "shift": False}
        return fields

    def _model_options(self, options: ChatOptions, facts: ModelFacts) -> dict[str, Any]:
        values = {
            "num_ctx": chosen_num_ctx(self._config.num_ctx, self._config.max_num_ctx, facts),
            "num_predict": options.max_tokens,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "seed": options.seed,
            "stop": list(options.stop) or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    def _offered(self, options: ChatOptions, warnings: list[str]) -> bytes:
        """Return the tools the model may call."""
        array = self._tools.array(options.tools, options.allowed_tools or None)
        if array == b"[]":
            allowed = ", ".join(options.allowed_tools)
            raise ProviderRequestError(f"none of the allowed tools is offered: {allowed}", provider=SCOPE)
        if options.tool_choice == "required":
            warnings.append("Ollama cannot make a model call a tool: tool_choice 'required' is only a wish")
        if options.parallel_tool_calls is False:
            warnings.append("Ollama cannot limit an answer to one tool call: parallel_tool_calls is left out")
        return array


def tool_name(tool: Mapping[str, Any]) -> str:
    """Return the name of a tool in Ollama's format; empty if it has none."""
    return str(_table(tool, "function").get("name", ""))


def _ordered(messages: Sequence[Message]) -> Sequence[Message]:
    return media_behind_results([*_in_call_order(messages)], fits_in_result)


def _in_call_order(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages, answers to the calls of one message in the order of the calls: some templates count."""
    caller: AssistantMessage | None = None
    answers: list[ToolMessage] = []
    for message in messages:
        if type(message) is ToolMessage:
            answers.append(message)
            continue
        if answers:
            yield from _sorted(answers, caller)
            answers = []
        if type(message) is AssistantMessage:
            caller = message
        yield message
    yield from _sorted(answers, caller)


def _sorted(answers: list[ToolMessage], caller: AssistantMessage | None) -> list[ToolMessage]:
    if len(answers) < 2 or caller is None:
        return answers
    order = {call.id: at for at, call in enumerate(caller.tool_calls)}
    return sorted(answers, key=lambda answer: order.get(answer.tool_call_id, len(order)))


def _encode(message: Message, ids: Ids) -> WireMessage:
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.content} if message.content else None
        case UserMessage():
            media = {"images": [_medium(part) for part in message.media]} if message.media else {}
            return {"role": "user", "content": message.content, **media}
        case AssistantMessage():
            return _assistant(message, ids)
        case ToolMessage():
            name = getattr(ids.answered, "name", message.name)
            name_field = {"tool_name": name} if name else {}
            return {"role": "tool", **name_field, "tool_call_id": ids.answered, "content": message.content}
        case _:
            assert_never(message)


def _assistant(message: AssistantMessage, ids: Ids) -> WireMessage:
    texts, thoughts, items = [], [], []
    for part in message.parts:
        match part:
            case TextPart() | RefusalPart():
                texts.append(part.text)
            case MediaPart():
                texts.append(unshown(part))
            case ReasoningPart() if ids.is_ours(part.provider_data):
                thoughts.append(part.text)
            case ToolCall():
                items.append(_call(part, ids))
    wire: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if thinking := "".join(thoughts):
        wire["thinking"] = thinking
    if items:
        wire["tool_calls"] = items
    return wire if wire["content"] or len(wire) > 2 else None


def _call(call: ToolCall, ids: Ids) -> dict[str, Any]:
    # Where the server gave no id it gets ours: a result must be known by something.
    wire_id = ids.sent[call.id] = _CallId(ids.of(call))
    wire_id.name = call.name
    beside = ids.ours(call.provider_data)
    function = {**_table(beside, "function"), "name": call.name, "arguments": call.arguments or {}}
    return {**beside, "id": wire_id, "function": function}


def _medium(part: MediaPart) -> Base64:
    """Return an element of ``images``, where sound and films go as well."""
    if part.data is None:
        raise ProviderRequestError(
            f"Ollama fetches no addresses: give the {part.kind} itself (data), not its url",
            provider=SCOPE,
            kind="unsupported_feature",
        )
    if part.kind == "document":
        raise ProviderRequestError(
            f"Ollama takes no documents ({part.mime_type}): give their text, or pictures of their pages",
            provider=SCOPE,
            kind="unsupported_feature",
        )
    return Base64(part.data)


def _format(form: ResponseFormat) -> Any:
    return "json" if form.type == "json_object" or form.schema is None else dict(form.schema)


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}


Think = bool | str


@attrs.frozen(kw_only=True)
class _Levels:
    """Models that support levels of thinking.

    Attributes:
        prefix: Prefix of the model's name, without namespace.
        words: The supported levels, lowest first.
        can_stop: Thinking can be disabled.
    """

    prefix: str
    words: tuple[str, ...]
    can_stop: bool = True


# Source: the server's GPT-OSS documentation and shouldUseHarmony in server/routes.go; model/renderers/qwen35.go and
# glimmer.go. Of other thinking models it is not known; one that has no levels is switched on by any.
_KNOWN = (
    _Levels(prefix="gpt-oss", words=("low", "medium", "high"), can_stop=False),
    _Levels(prefix="qwen3.8", words=("low", "medium", "high")),
    _Levels(prefix="glimmer", words=("low", "medium", "high", "max")),
)
# What the server takes for any model that thinks.
_WORDS = {"minimal": "low", "low": "low", "high": "high", "xhigh": "high", "max": "max"}
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def think_value(reasoning: Reasoning | None, model: str, default: Think | None) -> tuple[Think | None, list[str]]:
    """Choose the value of ``think``, None to omit it. Returns it with one warning per unsupported option.

    Args:
        default: The configured value, for requests that set none.
    """
    if reasoning is None:
        return default, []
    warnings = []
    if reasoning.budget_tokens is not None:
        warnings.append("Ollama counts no tokens of thought: reasoning.budget_tokens is left out")
    if reasoning.summary is False:
        warnings.append("Ollama sends the thoughts with the answer: reasoning.summary is left out")
    if reasoning.effort is None:
        return default, warnings
    value, warning = _of_effort(reasoning.effort, model)
    return value, [*warnings, warning] if warning else warnings


def _of_effort(effort: str, model: str) -> tuple[Think, str]:
    name = model.rpartition("/")[2]
    levels = next((candidate for candidate in _KNOWN if name.startswith(candidate.prefix)), None)
    if effort == "none":
        if levels is None or levels.can_stop:
            return False, ""
        return levels.words[0], f"{model} cannot answer without thinking: it is asked to think {levels.words[0]}"
    if levels is None and effort == "medium":
        return True, ""
    if levels is None:
        warning = f"{model} is not known to have levels of thinking: '{_WORDS[effort]}' may only switch it on"
        return _WORDS[effort], warning
    # The highest of its levels that is not above what was asked for.
    fitting = [word for word in levels.words if _EFFORTS.index(word) <= _EFFORTS.index(effort)]
    word = fitting[-1] if fitting else levels.words[0]
    return word, "" if word == effort else f"{model} knows no effort {effort}: {word} is sent"
