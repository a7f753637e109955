"""Messages and turns as JSON data and back, with nothing lost: how conversations are stored and exported.

Default values are left out. Readers ignore unknown keys, so that later versions may add some, but refuse an unknown
part or role, because leaving it out would change the conversation.
"""

from __future__ import annotations

import ast
import base64
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar, get_args

import attrs

from .chat import ChatResponse, ChatResult, Reasoning, ResponseFormat, Round
from .conversation import ConversationTurn, HistoryTurn
from .messages import (
    AssistantMessage,
    MediaPart,
    Message,
    OpaquePart,
    ProviderData,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from .prices import Price, plain, price_from_dict
from .questions import Question, Reply
from .retrieval import Citation, CollectionHits, Document, Profile, RagResults
from .tools import ToolCallRecord, ToolResult
from .turn import ChatRequest, CollectionChoice, PhaseRecord, Turn, TurnStatus
from .usage import Usage

T = TypeVar("T")

_PARTS: dict[str, type] = {
    "text": TextPart,
    "reasoning": ReasoningPart,
    "refusal": RefusalPart,
    "media": MediaPart,
    "tool_call": ToolCall,
    "opaque": OpaquePart,
}
_PART_NAMES = {cls: name for name, cls in _PARTS.items()}
_MESSAGES: dict[str, type] = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
}
_MESSAGE_CLASSES = frozenset(_MESSAGES.values())
_AS_IT_IS = frozenset((str, int, float, bool, type(None), dict, list))
_TYPES: dict[str, Any] = {
    "str": str,
    "str | None": str | None,
    "int": int,
    "int | None": int | None,
    "float": int | float,
    "float | None": int | float | None,
    "bool": bool,
    "bool | None": bool | None,
    "Mapping[str, Any]": Mapping,
    "Mapping[str, Any] | None": Mapping | None,
}
"""By a field's annotation: the types nothing else would check."""
_JSON_TYPES = (str, int, float, list, dict, type(None))  # bool is an int


def message_to_dict(message: Message) -> dict[str, Any]:
    """Return a message as JSON data: its role and its content. Media bytes become Base64."""
    if isinstance(message, AssistantMessage):
        return {"role": message.role, "parts": [], **_fields(message)}  # the key "parts" marks this form
    return {"role": message.role, **_fields(message)}


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Return the message that message_to_dict wrote.

    Raises:
        ValueError: It is not a message, or from a newer FlexChat, with a role or a part this one does not support.
    """
    plain = _plain_message(data)
    if plain is not None:
        return plain
    cls = _known(_MESSAGES, data, "role")
    message: Message = _made(cls, data, parts=_parts, media=_media, provider_data=_provider_data)
    return message


def _plain_message(data: Any) -> Message | None:
    """Read a message that is one text, as most of a history is, in a fifth of the general reader's time; else None."""
    if type(data) is not dict or len(data) != 2:
        return None
    if data.get("role") == "user" and type(data.get("content")) is str:
        return UserMessage(data["content"])
    parts = data.get("parts")
    if data.get("role") != "assistant" or type(parts) is not list or len(parts) != 1:
        return None
    part = parts[0]
    if type(part) is dict and len(part) == 2 and part.get("type") == "text" and type(part.get("text")) is str:
        return AssistantMessage((TextPart(part["text"]),))
    return None


def turn_to_dict(turn: ConversationTurn) -> dict[str, Any]:
    """Return a turn as JSON data, with complete messages.

    The media of a tool's result are in its message: its record only refers to them.
    """
    data = _fields(turn)
    if any(record.result.media for record in turn.tool_calls or ()):
        data["tool_calls"] = _without_copies(turn)
    return data


def turn_from_dict(data: Mapping[str, Any]) -> ConversationTurn:
    """Return the turn that turn_to_dict wrote.

    Raises:
        ValueError: It is not a turn, or from a newer FlexChat.
    """
    return _made(
        ConversationTurn,
        _with_media_again(data),
        messages=_messages,
        usage=_usage,
        citations=_citations,
        status=_status,
        phases=_phases,
        rounds=_rounds,
        tool_calls=_tool_calls,
        warnings=_texts,
    )


def turn_to_json(turn: ConversationTurn) -> str:
    """Return a turn as ASCII-only JSON text, which every database can store as text unchanged.

    NUL and halves of surrogate pairs are escaped; PostgreSQL's JSON column types accept neither.

    Raises:
        ValueError: Something in it is not JSON data, or nested too deeply.
    """
    try:
        return json.dumps(turn_to_dict(turn), separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"turn {turn.id} cannot be written as JSON: {error}") from None


def turn_from_json(text: str) -> ConversationTurn:
    """Return the turn that turn_to_json wrote.

    Raises:
        ValueError: It is not a turn, or from a newer FlexChat.
    """
    return turn_from_dict(_object_from_json(text))


def _json_from(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("a turn is nested too deeply to be read") from None


def _object_from_json(text: str) -> dict[str, Any]:
    data = _json_from(text)
    if not isinstance(data, dict):
        raise ValueError("a turn is a JSON object")
    return data


def turn_to_parts(turn: ConversationTurn) -> tuple[str, str]:
    """Return a turn as two JSON texts like that of turn_to_json: its HistoryTurn, and the rest.

    Raises:
        ValueError: As turn_to_json.
    """
    try:
        data = turn_to_dict(turn)
        history = {name: data.pop(name) for name in _OF_HISTORY if name in data}
        return json.dumps(history, separators=(",", ":")), json.dumps(data, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"turn {turn.id} cannot be written as JSON: {error}") from None


def turn_from_parts(history: str | None, rest: str) -> ConversationTurn:
    """Return the turn that turn_to_parts wrote; without a history, the one that turn_to_json wrote.

    Raises:
        ValueError: It is not a turn, or from a newer FlexChat.
    """
    data = _object_from_json(rest)
    return turn_from_dict(data if history is None else {**data, **_object_from_json(history)})


def history_from_json(texts: Sequence[str]) -> tuple[HistoryTurn, ...]:
    """Return the HistoryTurns in texts that are each the first of turn_to_parts, or that of turn_to_json.

    Raises:
        ValueError: One is something else, or from a newer FlexChat.
    """
    # Read as one array: a call of the JSON reader takes longer than reading a short turn.
    items = _json_from(f"[{','.join(texts)}]")
    return _each(items, _history_turn)


def _history_turn(data: Any) -> HistoryTurn:
    if type(data) is dict:
        id, topic, replay = data.get("id"), data.get("topic", ""), data.get("replay", True)
        if type(id) is str and type(topic) is str and type(replay) is bool and type(data.get("messages")) is list:
            return HistoryTurn(id=id, messages=_messages(data["messages"]), topic=topic, replay=replay)
    return _made(HistoryTurn, data, messages=_messages)


_OF_HISTORY = tuple(field.name for field in attrs.fields(HistoryTurn))


def result_to_json(result: ToolResult) -> str:
    """Return a tool's result as JSON.

    Raises:
        ValueError: It is not JSON data.
    """
    is_plain = result.success and not (result.notes or result.media or result.left_out)
    if is_plain and result.encoded is not None and result.encoded.isascii():
        return f'{{"success": true, "tool_name": {json.dumps(result.tool_name)}, "result": {result.encoded}}}'
    return json.dumps(_fields(result), allow_nan=False)


def result_from_json(text: str) -> ToolResult:
    """Return the tool's result that result_to_json wrote.

    Raises:
        ValueError: It is something else.
    """
    return _result(json.loads(text))


def value_to_dict(
    value: ChatResult | ToolCallRecord | RagResults | PhaseRecord | ChatRequest | Question | Reply,
) -> dict[str, Any]:
    """Return a value as JSON data; the caller's context is left out."""
    return _fields(value)


def result_from_dict(data: Any) -> ChatResult:
    """Return the model's answer in data of value_to_dict.

    Raises:
        ValueError: It is not one, or is one of a newer FlexChat. The others raise the same.
    """
    return _made(ChatResult, data, message=message_from_dict, usage=_usage, warnings=_texts)


def record_from_dict(data: Any) -> ToolCallRecord:
    """Return the record of a tool call in data of value_to_dict."""
    return _made(ToolCallRecord, data, result=_result)


def phase_from_dict(data: Any) -> PhaseRecord:
    """Return the record of a phase in data of value_to_dict."""
    return _made(PhaseRecord, data, usage=_usage, warnings=_texts, rounds=_rounds)


def round_from_step(data: Any) -> Round:
    """Return the record of an answer from its step in the journal, without its content."""
    round = _made(Round, data, price=price_from_dict)
    usage = data["result"].get("usage")
    return round if usage is None else attrs.evolve(round, usage=_usage(usage))


def rag_from_dict(data: Any) -> RagResults:
    """Return the outcome of phase 2 in data of value_to_dict."""
    return _made(RagResults, data, hits=_hits)


def question_from_dict(data: Any) -> Question:
    """Return the question in data of value_to_dict."""
    return _made(Question, data)


def reply_from_dict(data: Any) -> Reply:
    """Return the reply in data of value_to_dict."""
    return _made(Reply, data)


def request_from_dict(data: Any) -> ChatRequest:
    """Return the request in data of value_to_dict, without its context."""
    return _made(
        ChatRequest,
        data,
        history=_messages,
        continuation=_messages,
        collections=lambda items: tuple([_made(CollectionChoice, item) for item in _list(items)]),
        stop=_texts,
        reasoning=lambda item: _made(Reasoning, item),
        response_format=lambda item: _made(ResponseFormat, item),
    )


def whole_turn_to_dict(turn: Turn[Any]) -> dict[str, Any]:
    """Return a turn as JSON data; see Turn.to_dict."""
    response = turn.response
    answer = response.to_dict()
    if response.tool_calls is not None:
        records = zip(answer["tool_calls"], response.tool_calls, strict=True)
        answer["tool_calls"] = [{**entry, "call_id": record.call_id} for entry, record in records]
    details: Mapping[str, Any] = {
        "id": turn.id,
        "status": turn.status,
        **({"error": turn.error} if turn.error else {}),
        "topic": turn.profile.topic,
        "intent": turn.profile.intent,
        "rule": turn.rule,
        "rule_name": turn.rule_name,
        "finish_reason": response.finish_reason,
        "usage": response.usage.to_dict() if response.usage else None,
        "cost": turn.cost.to_dict(),
        "rounds": [one.to_dict() for one in response.rounds],
        "warnings": list(response.warnings),
        "citations": [citation.to_dict() for citation in turn.citations],
        "phases": [record.to_dict() for record in turn.phases],
        "elapsed_ms": round(turn.elapsed_ms, 3),
        **({"parsed": response.data} if response.parsed is not None or response.data is not None else {}),
        **({"conversation": turn.conversation} if turn.conversation else {}),
        "replay": turn.replay,
        "is_repeat": turn.is_repeat,
        "profile": _fields(turn.profile),
        "messages": [message_to_dict(message) for message in response.messages],
    }
    return {**answer, **details}


def whole_turn_from_dict(data: Any) -> Turn[Any]:
    """Return the turn in data of whole_turn_to_dict; see Turn.from_dict.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"a JSON object was expected, got {type(data).__name__}")
    given = {"topic": data.get("topic") or "", "intent": data.get("intent"), **_told(data, "profile", _table)}
    response: ChatResponse[Any] = _made(
        ChatResponse,
        {
            **{name: value for name, value in _with_media_again(data).items() if name not in ("llm", "data")},
            "llm": data.get("service"),
            "data": data.get("parsed"),
        },
        messages=_messages,
        usage=_usage,
        rounds=_rounds,
        warnings=_texts,
        tool_calls=lambda items: _each(items, _told_call),
    )
    profile = _told({"profile": given}, "profile", lambda item: _made(Profile, item, documents=_documents))
    return _made(
        Turn,
        {**data, "response": {}, "profile": {}},
        profile=lambda _: profile,
        response=lambda _: response,
        citations=_citations,
        status=_status,
        phases=_phases,
    )


_AS_IN_MESSAGE = "as in the message"
"""In place of a result's media: they are those of the message with the same call's id."""


def _without_copies(turn: ConversationTurn) -> list[dict[str, Any]]:
    sent = {message.tool_call_id: message.media for message in turn.messages if type(message) is ToolMessage}
    entries = []
    for record in turn.tool_calls or ():
        media = record.result.media
        is_copy = bool(media) and sent.get(record.call_id) == media
        entry = _fields(attrs.evolve(record, result=attrs.evolve(record.result, media=())) if is_copy else record)
        if is_copy:
            entry["result"]["media"] = _AS_IN_MESSAGE
        entries.append(entry)
    return entries


def _with_media_again(data: Any) -> Any:
    """Return a turn's data with its messages' media put back into its records; unchanged if there are none.

    Turn.to_dict describes a result's media without their bytes; if no message has them, they are gone.
    """
    entries = data.get("tool_calls") if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or not any(map(_has_media, entries)):
        return data
    messages = data.get("messages")
    found = messages if isinstance(messages, list) else []
    sent = {m.get("tool_call_id"): m.get("media") for m in found if isinstance(m, Mapping) and m.get("role") == "tool"}
    again = []
    for entry in entries:
        if _has_media(entry):
            result, media = entry["result"], entry["result"]["media"]
            if media == _AS_IN_MESSAGE or _is_told(media):
                entry = {**entry, "result": {**result, "media": sent.get(entry.get("call_id")) or []}}
        again.append(entry)
    return {**data, "tool_calls": again}


def _has_media(entry: Any) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("result"), Mapping) and "media" in entry["result"]


def _is_told(media: Any) -> bool:
    return isinstance(media, list) and any(isinstance(part, Mapping) and "bytes" in part for part in media)


def _told(data: Mapping[str, Any], key: str, make: Callable[[Any], T]) -> T:
    try:
        return make(data.get(key, {}))
    except ValueError as error:
        raise MisfitError.at(key, error) from None


def _table(item: Any) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise ValueError(f"a JSON object was expected, got {type(item).__name__}")
    return item


def _told_call(item: Any) -> ToolCallRecord:
    """Read the record of a call in the form of ToolCallRecord.to_dict: its adjustments stand beside the result."""
    notes = _table(item).get("notes")
    result = _told(item, "result", _table)
    return record_from_dict({**item, "result": result if notes is None else {**result, "notes": notes}})


def _fields(value: Any) -> dict[str, Any]:
    """Return an attrs instance's non-default values by field; a part's type comes first."""
    cls = type(value)
    data: dict[str, Any] = {"type": _PART_NAMES[cls]} if cls in _PART_NAMES else {}
    for name, default in _written(cls):  # type: ignore[arg-type]  # a class is hashable
        item = getattr(value, name)
        if item is not default and not (default is _NO_ENTRIES and item == {}):
            data[name] = item if type(item) in _AS_IT_IS else _data(item)
    return data


_NO_ENTRIES = object()
_NEVER_LEFT_OUT = object()


@functools.cache
def _written(cls: type) -> tuple[tuple[str, object], ...]:
    """Return the fields of a class that are written, each with the value that is left out."""
    fields = []
    for field in attrs.fields(cls):
        if field.init and field.eq:
            is_made = isinstance(field.default, attrs.Factory)  # type: ignore[arg-type]  # the stubs call it a function
            usual = _NO_ENTRIES if is_made else field.default
            fields.append((field.name, _NEVER_LEFT_OUT if field.name == "id" else usual))
    return tuple(fields)


def _data(item: Any) -> Any:
    cls = type(item)
    if cls in _AS_IT_IS:
        return item
    if cls is tuple:
        return [_data(each) for each in item]
    if cls is Price:
        return item.to_dict()
    if cls is Decimal:
        return plain(item)
    if cls in _MESSAGE_CLASSES:
        return message_to_dict(item)
    if isinstance(item, bytes):
        return base64.b64encode(item).decode()
    if attrs.has(cls):
        return _fields(item)
    if isinstance(item, tuple):
        return [_data(each) for each in item]
    if isinstance(item, Mapping):
        return dict(item)
    return item


def _known(classes: Mapping[str, type], data: Any, key: str) -> type:
    name = data.get(key) if isinstance(data, Mapping) else None
    cls = classes.get(name) if isinstance(name, str) else None
    if cls is None:
        found = f"{key} {name!r}" if name is not None else f"no {key}"
        raise ValueError(f"this FlexChat cannot read a message with {found} (it knows: {', '.join(classes)})")
    return cls


def _made(cls: type[T], found: Any, /, **read: Callable[[Any], Any]) -> T:
    """Return an instance of an attrs class from the keys of its fields; ``read`` converts values, by field."""
    if not isinstance(found, Mapping):
        raise ValueError(f"a JSON object was expected for {cls.__name__}, got {type(found).__name__}")
    values = {}
    annotations = _annotations(cls)  # type: ignore[arg-type]  # a class is hashable
    # By the keys of the data: most fields have their default, and are not there.
    for name, value in found.items():
        annotation = annotations.get(name)
        if annotation is None:
            continue
        if type(value) is not str or annotation != "str":
            _check_type(cls, name, value, annotation)
        make = read.get(name)
        try:
            values[name] = value if make is None or value is None else make(value)
        except ValueError as error:
            raise MisfitError.at(name, error) from None
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{cls.__name__} is incomplete: {error}") from None


@functools.cache
def _annotations(cls: type) -> dict[str, str]:
    """Return the unresolved annotations of a class's arguments; those of attrs' fields change once
    something resolves them.
    """
    passed = {field.name for field in attrs.fields(cls) if field.init}
    return {name: str(annotation) for name, annotation in cls.__annotations__.items() if name in passed}


def _check_type(cls: type, name: str, value: Any, annotation: str) -> None:
    if not _fits(value, annotation):
        raise ValueError(f"{cls.__name__}.{name}: {annotation} was expected, got {value!r:.40}")


def _fits(value: Any, annotation: str) -> bool:
    if annotation.startswith("Literal["):
        return value in ast.literal_eval(f"({annotation[8:-1]},)")
    if value is None:
        return annotation.endswith("None") or annotation in ("Any", "Parsed")
    return isinstance(value, _TYPES.get(annotation, _JSON_TYPES))


class MisfitError(ValueError):
    """Data of the wrong form; its text begins with the place: ``messages[2].parts[0]: …``."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(f"{place}: {text}")
        self.place, self.text = place, text

    @classmethod
    def at(cls, step: str, error: ValueError) -> MisfitError:
        """Return the error with one more step before its place: a key, or an index in brackets."""
        if not isinstance(error, MisfitError):
            return cls(step, str(error))
        return cls(f"{step}{'' if error.place.startswith('[') else '.'}{error.place}", error.text)


def _each(items: Any, make: Callable[[Any], T]) -> tuple[T, ...]:
    made = []
    for index, item in enumerate(_list(items)):
        try:
            made.append(make(item))
        except ValueError as error:
            raise MisfitError.at(f"[{index}]", error) from None
    return tuple(made)


def _messages(items: Any) -> tuple[Message, ...]:
    return _each(items, message_from_dict)


def _parts(items: Any) -> tuple[Any, ...]:
    return _each(items, _part)


def _part(item: Any) -> Any:
    cls = _known(_PARTS, item, "type")
    return _made(cls, item, provider_data=_provider_data, data=_bytes, citations=_tuple, notes=_texts)


def _media(items: Any) -> tuple[MediaPart, ...]:
    return _each(items, lambda item: _made(MediaPart, item, provider_data=_provider_data, data=_bytes))


def _citations(items: Any) -> tuple[Citation, ...]:
    return _each(items, lambda item: _made(Citation, item))


def _hits(items: Any) -> tuple[CollectionHits, ...]:
    return _each(items, lambda item: _made(CollectionHits, item, documents=_documents, distances=_tuple))


def _documents(items: Any) -> tuple[Document, ...]:
    return _each(items, lambda item: _made(Document, item))


def _phases(items: Any) -> tuple[PhaseRecord, ...]:
    return _each(items, phase_from_dict)


def _rounds(items: Any) -> tuple[Round, ...]:
    return _each(items, lambda item: _made(Round, item, usage=_usage, price=price_from_dict))


def _tool_calls(items: Any) -> tuple[ToolCallRecord, ...]:
    return _each(items, record_from_dict)


def _result(item: Any) -> ToolResult:
    return _made(ToolResult, item, notes=_texts, media=_media, left_out=_texts)


def _status(name: Any) -> Any:
    if name not in get_args(TurnStatus):
        raise ValueError(f"this FlexChat cannot read a turn with the status {name!r}")
    return name


def _provider_data(item: Any) -> ProviderData:
    return _made(ProviderData, item)


def _usage(item: Any) -> Usage:
    return _made(Usage, item, cost=_dollars)


def _dollars(text: Any) -> Decimal:
    try:
        amount = Decimal(text)
    except (ArithmeticError, TypeError) as error:
        raise ValueError("this is not a number of dollars") from error
    if not amount.is_finite():
        raise ValueError("this is not a number of dollars")
    return amount


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("bytes are kept as Base64 text")
    return base64.b64decode(text, validate=True)


def _tuple(items: Any) -> tuple[Any, ...]:
    return tuple(_list(items))


def _texts(items: Any) -> tuple[str, ...]:
    return _each(items, _text)


def _text(item: Any) -> str:
    if not isinstance(item, str):
        raise ValueError(f"a text was expected, got {item!r:.40}")
    return item


def _list(items: Any) -> list[Any]:
    if not isinstance(items, list):
        raise ValueError(f"a list was expected, got {type(items).__name__}")
    return items
