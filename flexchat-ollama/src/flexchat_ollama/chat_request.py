"""Our messages and options as the body of a ``/api/chat`` request.

A message is encoded once and its bytes stay with it (``message.memo``), as do a turn's tools: a request in a long
conversation is put together from pieces.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

import attrs
from flexchat.plugin import ToolCall
from flexchat.provider import (
    AssistantMessage,
    ChatOptions,
    MediaPart,
    Message,
    ProviderData,
    ProviderRequestError,
    ReasoningPart,
    RefusalPart,
    ResponseFormat,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    finite,
    to_bytes,
)

from .config import OllamaConfig
from .context_window import BYTES_PER_TOKEN, TOKENS_PER_MEDIUM, chosen_num_ctx, estimate_warning
from .models import ModelFacts
from .thinking import think_value

SCOPE = "ollama"
"""Who may get back what this dialect received: see ProviderData."""

_NO_CALLS: Mapping[str, Any] = {}


@attrs.frozen(kw_only=True)
class WrittenRequest:
    """A request, ready to be sent.

    Attributes:
        num_ctx: How many tokens it lets the model read; None if that is the server's choice.
        tool_names: Of the tools it offers.
        warnings: What could not be honoured, one sentence each.
    """

    body: bytes
    num_ctx: int | None
    tool_names: frozenset[str]
    warnings: tuple[str, ...]


@attrs.frozen
class _Entry:
    """An encoded message.

    Attributes:
        data: Empty for a message that says nothing.
        tokens: An estimate.
        about: What data depends on beside the message: an assistant's calls by our id, as _WireCall; the _WireCall a
            tool message answers.
    """

    data: bytes
    tokens: float
    about: Any = None


@attrs.frozen
class _WireCall:
    """How the server knows a call."""

    id: str
    name: str


@attrs.frozen
class _Tools:
    """The tools of a request, encoded."""

    source: tuple[Mapping[str, Any], ...]
    data: bytes
    names: frozenset[str]


class ChatRequestWriter:
    """Writes requests for one server.

    Args:
        origin: scheme://host[:port] of the server; what it once said goes back to it as it said it.
    """

    def __init__(self, origin: str, config: OllamaConfig) -> None:
        self._origin = origin
        self._config = config
        self._memo_key = f"{SCOPE} {origin}"
        self._tools: dict[tuple[int, tuple[str, ...]], _Tools] = {}

    def write(
        self, messages: Sequence[Message], model: str, options: ChatOptions, facts: ModelFacts, *, stream: bool
    ) -> WrittenRequest:
        """Return the request.

        Raises:
            ProviderRequestError: Something in it cannot be said in this dialect.
        """
        warnings: list[str] = []
        extra = {**self._config.extra_body, **options.extra}
        try:
            entries = self._entries(messages)
            tools = self._offered(options, warnings)
            fields = {"model": model, "stream": stream, **self._fields(model, options, facts, tools, warnings)}
            fields["options"] = {
                **self._model_options(options, facts),
                **_table(self._config.extra_body, "options"),
                **_table(options.extra, "options"),
            }
            fields.update({name: value for name, value in extra.items() if name != "options"})
            if not fields["options"]:
                del fields["options"]
            parts = [to_bytes(fields)[:-1]]
            if "messages" not in fields:
                parts += (b',"messages":[', b",".join(entry.data for entry in entries), b"]")
            if tools is not None and "tools" not in fields:
                parts += (b',"tools":', tools.data)
            body = b"".join([*parts, b"}"])
        except (TypeError, ValueError, RecursionError) as error:
            text = f"the request cannot be written as JSON: {error}"
            raise ProviderRequestError(text, provider=SCOPE, model=model) from error
        num_ctx = fields.get("options", {}).get("num_ctx")
        num_ctx = num_ctx if type(num_ctx) is int else None
        tokens = sum(entry.tokens for entry in entries) + (len(tools.data) / BYTES_PER_TOKEN if tools else 0)
        if self._config.truncate and (warning := estimate_warning(tokens, num_ctx)):
            warnings.append(warning)
        names = tools.names if tools is not None else frozenset()
        return WrittenRequest(body=body, num_ctx=num_ctx, tool_names=names, warnings=tuple(warnings))

    def messages(self, messages: Sequence[Message]) -> list[bytes]:
        """Return the elements of the ``messages`` array."""
        return [entry.data for entry in self._entries(messages)]

    def _entries(self, messages: Sequence[Message]) -> list[_Entry]:
        key = self._memo_key
        calls: dict[str, _WireCall] = {}
        entries = []
        for message in _in_call_order(messages):
            entry: _Entry | None = message.memo.get(key)
            if type(message) is ToolMessage:
                call = calls.get(message.tool_call_id) or _WireCall(message.tool_call_id, message.name)
                if entry is None or entry.about != call:
                    entry = message.memo[key] = _tool_message(message, call)
            elif entry is None:
                entry = message.memo[key] = self._encoded(message)
            if type(message) is AssistantMessage:
                calls.update(entry.about)
            if entry.data:
                entries.append(entry)
        return entries

    def _fields(
        self, model: str, options: ChatOptions, facts: ModelFacts, tools: _Tools | None, warnings: list[str]
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
        if options.response_format is not None and tools is not None:
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

    def _offered(self, options: ChatOptions, warnings: list[str]) -> _Tools | None:
        """Return the tools the model may call; None for none."""
        if options.tool_choice == "none" or not options.tools:
            return None
        key = (id(options.tools), options.allowed_tools)
        found = self._tools.get(key)
        if found is None or found.source is not options.tools:
            if len(self._tools) >= 16:
                self._tools.clear()
            chosen = [t for t in options.tools if not options.allowed_tools or tool_name(t) in options.allowed_tools]
            names = frozenset(tool_name(tool) for tool in chosen)
            # The tuple is held, so that its id cannot come to belong to another.
            found = self._tools[key] = _Tools(options.tools, to_bytes(chosen), names)
        if not found.names:
            allowed = ", ".join(options.allowed_tools)
            raise ProviderRequestError(f"none of the allowed tools is offered: {allowed}", provider=SCOPE)
        if options.tool_choice == "required":
            warnings.append("Ollama cannot make a model call a tool: tool_choice 'required' is only a wish")
        if options.parallel_tool_calls is False:
            warnings.append("Ollama cannot limit an answer to one tool call: parallel_tool_calls is left out")
        return found

    def _encoded(self, message: Message) -> _Entry:
        match message:
            case SystemMessage():
                return _entry({"role": "system", "content": message.content}) if message.content else _Entry(b"", 0)
            case UserMessage():
                return _user(message)
            case AssistantMessage():
                return self._assistant(message)
            case ToolMessage():
                raise TypeError("a tool message needs its call")
            case _:
                assert_never(message)

    def _assistant(self, message: AssistantMessage) -> _Entry:
        texts, thoughts, items = [], [], []
        calls: dict[str, _WireCall] = {}
        for part in message.parts:
            match part:
                case TextPart() | RefusalPart():
                    texts.append(part.text)
                case ReasoningPart() if self._is_ours(part.provider_data):
                    thoughts.append(part.text)
                case ToolCall():
                    call = calls[part.id] = _WireCall(self._wire_id(part), part.name)
                    items.append(self._call(part, call))
        said: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
        if thought := "".join(thoughts):
            said["thinking"] = thought
        if items:
            said["tool_calls"] = items
        if not said["content"] and len(said) == 2:
            return _Entry(b"", 0, calls)
        return _entry(said, calls)

    def _call(self, call: ToolCall, wire: _WireCall) -> dict[str, Any]:
        function = {"name": wire.name, "arguments": finite(call.arguments or {})}
        if not self._is_ours(call.provider_data) or call.provider_data is None:
            return {"id": wire.id, "function": function}
        beside = call.provider_data.data
        return {**beside, "id": wire.id, "function": {**_table(beside, "function"), **function}}

    def _wire_id(self, call: ToolCall) -> str:
        # Where the server gave no id it gets ours: a result must be known by something.
        return call.wire_id if call.wire_id and self._is_ours(call.provider_data) else call.id

    def _is_ours(self, data: ProviderData | None) -> bool:
        return data is not None and data.scope == SCOPE and data.origin == self._origin


def tool_name(tool: Mapping[str, Any]) -> str:
    """Return the name of a tool in Ollama's format; empty if it has none."""
    return str(_table(tool, "function").get("name", ""))


def _in_call_order(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages, answers to the calls of one message in the order of the calls: some templates count."""
    asked: AssistantMessage | None = None
    answers: list[ToolMessage] = []
    for message in messages:
        if type(message) is ToolMessage:
            answers.append(message)
            continue
        if answers:
            yield from _sorted(answers, asked)
            answers = []
        if type(message) is AssistantMessage:
            asked = message
        yield message
    yield from _sorted(answers, asked)


def _sorted(answers: list[ToolMessage], asked: AssistantMessage | None) -> list[ToolMessage]:
    if len(answers) < 2 or asked is None:
        return answers
    order = {call.id: at for at, call in enumerate(asked.tool_calls)}
    return sorted(answers, key=lambda answer: order.get(answer.tool_call_id, len(order)))


def _entry(said: Mapping[str, Any], about: Any = _NO_CALLS) -> _Entry:
    data = to_bytes(said)
    return _Entry(data, len(data) / BYTES_PER_TOKEN, about)


def _tool_message(message: ToolMessage, call: _WireCall) -> _Entry:
    named = {"tool_name": call.name} if call.name else {}
    return _entry({"role": "tool", **named, "tool_call_id": call.id, "content": message.content}, call)


def _user(message: UserMessage) -> _Entry:
    said = {"role": "user", "content": message.content}
    text = _entry(said)
    if not message.media:
        return text
    data = to_bytes({**said, "images": [_medium(part) for part in message.media]})
    return _Entry(data, text.tokens + TOKENS_PER_MEDIUM * len(message.media))


def _medium(part: MediaPart) -> str:
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
    return base64.b64encode(part.data).decode()


def _format(wanted: ResponseFormat) -> Any:
    return "json" if wanted.type == "json_object" or wanted.schema is None else dict(wanted.schema)


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}
