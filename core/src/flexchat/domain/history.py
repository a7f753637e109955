"""Reading, writing and repairing callers' earlier messages: providers accept only well-formed ones.

Most programs keep their histories in the shape of OpenAI's Chat Completions.

Source: platform.openai.com/docs/api-reference/chat, "messages"; deviations of Ollama and vLLM (arguments as an
object, no ids, reasoning_content) are read as well.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn

import attrs

from ..errors import ChatRequestError, did_you_mean
from .codec import message_from_dict, message_to_dict
from .media import with_accepted_media
from .messages import (
    AssistantMessage,
    AssistantPart,
    MediaPart,
    Message,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
}

# Kinds of text parts, and the key each keeps its text under.
_TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}

MISSING_RESULT = "This call was never answered: the conversation broke off before its result came"


def read_history(entries: Iterable[Message | Mapping[str, Any]], name: str = "history") -> tuple[Message, ...]:
    """Return messages for a history.

    Args:
        entries: Messages, or mappings: as written by message_to_dict; in OpenAI's shape, with tool_calls and their
            results; {role, content} or {type, text} (requirements C20, TC-72). One without a role is the user's.
        name: The caller's name for the list, for errors.

    Raises:
        ChatRequestError: An entry is none of these; the text names it.
    """
    reader = _Reader()
    return tuple([reader.read(entry, f"{name}[{index}]") for index, entry in enumerate(entries_of(entries, name))])


def entries_of(entries: Any, name: str = "history") -> Iterable[Any]:
    """Return the entries of a history, none for None; raise ChatRequestError if it is not a list."""
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable | None):
        _refuse(name, f"a list of messages was expected, got {type(entries).__name__}")
    return entries or ()


def write_history(
    messages: Iterable[Message], form: Literal["openai", "flexchat", "texts"] = "openai"
) -> list[dict[str, Any]]:
    """Return a history as JSON data that read_history can read.

    Args:
        form: "openai" for OpenAI's shape; "flexchat" for message_to_dict's, which loses nothing; "texts" for the
            texts of user and model alone, as {type: "user" or "bot", text}.

    Raises:
        ChatRequestError: The form cannot hold something (a sound in OpenAI's).
    """
    if form == "flexchat":
        return [message_to_dict(message) for message in messages]
    if form == "openai":
        return [_to_openai(message) for message in messages]
    return [
        {"type": "user" if isinstance(message, UserMessage) else "bot", "text": message.content}
        for message in messages
        if isinstance(message, UserMessage | AssistantMessage) and message.content
    ]


class _Reader:
    """A reader of one history's entries, in order. Its state: the calls waiting for their results, by id."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[ToolCall]] = {}

    def read(self, entry: Any, place: str) -> Message:
        if isinstance(entry, Message):
            return self._remember(entry)
        if not isinstance(entry, Mapping):
            _refuse(place, f"a message or a mapping with role and content was expected, got {type(entry).__name__}")
        role = _role(entry, place)
        if role != "assistant" and entry.get("tool_calls"):
            _refuse(place, f"only the assistant calls tools; this entry's role is {role}")
        if ("parts" in entry and role == "assistant") or ("media" in entry and role == "user"):
            return self._remember(_own(entry, place))
        if role == "assistant":
            return self._remember(*_read_assistant(entry, place))
        content = entry.get("content", entry.get("text"))
        if content is None:
            _refuse(place, "it has no content (or text)")
        if role == "user":
            message = _read_user(content, f"{place}.content")
            return attrs.evolve(message, pinned=True) if entry.get("pinned") is True else message
        text = _read_text(content, f"{place}.content")
        return SystemMessage(content=text) if role == "system" else self._result(entry, text, place)

    def _remember(self, message: Message, ids: Sequence[str | None] | None = None) -> Message:
        """Remember a message's calls, under other ids than their own if any are given.

        Programs reuse ids in later answers: then the earlier calls no longer wait.
        """
        if isinstance(message, AssistantMessage):
            ids = [call.id for call in message.tool_calls] if ids is None else ids
            for id in ids:
                self._waiting.pop(id or "", None)
            for call, id in zip(message.tool_calls, ids, strict=True):
                self._waiting.setdefault(id or "", []).append(call)
        return message

    def _result(self, entry: Mapping[str, Any], text: str, place: str) -> ToolMessage:
        id = entry.get("tool_call_id")
        if not isinstance(id, str) or not id:
            _refuse(place, "a tool's result needs the tool_call_id of its call")
        waiting = self._waiting.get(id)
        if not waiting:
            ids = [key for key, calls in self._waiting.items() if key and calls]
            near = did_you_mean(id, ids[:50])
            _refuse(place, f"its tool_call_id {id[:80]!r} belongs to no call before it that waits for a result{near}")
        call = waiting.pop(0)
        own = _own({**entry, "name": call.name, "content": text}, place) if {"media", "loads"} & {*entry} else None
        more: dict[str, Any] = {"media": own.media, "loads": own.loads} if isinstance(own, ToolMessage) else {}
        is_error = entry.get("is_error") is True
        return ToolMessage(tool_call_id=call.id, name=call.name, content=text, is_error=is_error, **more)


def _role(entry: Mapping[str, Any], place: str) -> str:
    name = entry.get("role")
    key, name = ("type", entry.get("type")) if name is None else ("role", name)
    role = "user" if name is None else _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        hint = did_you_mean(name[:80], _ROLES) if isinstance(name, str) else ""
        _refuse(place, f"no message has the {key} {name!r:.80}{hint} (known: {', '.join(_ROLES)})")
    return role


def _own(entry: Mapping[str, Any], place: str) -> Message:
    try:
        return message_from_dict(entry)
    except ValueError as error:
        _refuse(place, str(error))


def _refuse(place: str, why: str) -> NoReturn:
    raise ChatRequestError(f"{place}: {why}")


def _read_text(content: Any, place: str) -> str:
    """Return a content's text: the text itself, or its parts' texts, joined without a separator."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        type_name = "null" if content is None else type(content).__name__
        _refuse(place, f"the content must be a text or a list of parts, not {type_name}")
    return "".join([_part_text(part, f"{place}[{index}]") for index, part in enumerate(content)])


def _read_user(content: Any, place: str) -> UserMessage:
    if not isinstance(content, list | tuple):
        return UserMessage(content=_read_text(content, place))
    texts, media = [], []
    for index, part in enumerate(content):
        if isinstance(part, Mapping) and part.get("type") == "image_url":
            media.append(_image(part.get("image_url"), f"{place}[{index}].image_url"))
        else:
            texts.append(_part_text(part, f"{place}[{index}]"))
    return UserMessage(content="".join(texts), media=tuple(media))


def _read_assistant(entry: Mapping[str, Any], place: str) -> tuple[AssistantMessage, tuple[str | None, ...]]:
    """Return a model's message, and the ids of its calls. Each call gets a new id: some clients count from 0."""
    reasoning, refusal, listed = (entry.get(key) for key in ("reasoning_content", "refusal", "tool_calls"))
    if entry.get("function_call"):
        _refuse(f"{place}.function_call", "this old form of a call is not read; give it as tool_calls")
    for key, text in (("reasoning_content", reasoning), ("refusal", refusal)):
        if not isinstance(text, str | None):
            _refuse(f"{place}.{key}", f"a text was expected, got {type(text).__name__}")
    if not isinstance(listed, list | tuple | None):
        _refuse(f"{place}.tool_calls", f"a list of calls was expected, got {type(listed).__name__}")
    calls = [_call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(listed or ())]
    content = entry.get("content", entry.get("text"))
    if content is None and not (calls or refusal):
        _refuse(place, "it has no content (or text), and no tool_calls")
    said = "" if content is None else _read_text(content, f"{place}.content")
    parts: list[AssistantPart] = [ReasoningPart(text=reasoning)] if reasoning else []
    if said or not (calls or refusal):
        parts.append(TextPart(text=said))
    if refusal:
        parts.append(RefusalPart(text=refusal))
    message = AssistantMessage(parts=(*parts, *[call for call, _ in calls]))
    return message, tuple(id for _, id in calls)


def _call(data: Any, place: str) -> tuple[ToolCall, str | None]:
    function = data.get("function") if isinstance(data, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if not (isinstance(name, str) and name and isinstance(arguments, str | Mapping | None)):
        _refuse(place, "a tool call is a function with a name, and arguments as text")
    id = data.get("id")
    if not isinstance(id, str | None):
        _refuse(f"{place}.id", f"a text was expected, got {type(id).__name__}")
    if isinstance(arguments, Mapping):
        return ToolCall.from_object(name, arguments), id
    return ToolCall.from_text(name, arguments), id


def _part_text(part: Any, place: str) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    key = _TEXT_PARTS.get(kind) if isinstance(kind, str) else None
    if key is None:
        _refuse(place, f"a history takes text only, not {kind if isinstance(part, Mapping) else part!r:.40}")
    if not isinstance(part.get(key), str):
        _refuse(place, f"a part of type {kind} has its text under '{key}'")
    return str(part[key])


def _image(found: Any, place: str) -> MediaPart:
    url = found.get("url") if isinstance(found, Mapping) else found
    if not isinstance(url, str) or not url:
        _refuse(place, "a picture has a url")
    if not url.startswith("data:"):
        return MediaPart(kind="image", mime_type="image/*", url=url)
    head, comma, body = url.removeprefix("data:").partition(",")
    mime_type, base64_mark, _ = head.partition(";base64")
    try:
        if not (comma and base64_mark and mime_type.startswith("image/")):
            raise ValueError
        return MediaPart(kind="image", mime_type=mime_type, data=base64.b64decode(body, validate=True))
    except (ValueError, binascii.Error):
        _refuse(place, "this data: URL is not a picture in Base64")


def _to_openai(message: Message) -> dict[str, Any]:
    """Return a message in OpenAI's shape. Thoughts, and data only a provider can read, do not fit into it."""
    match message:
        case SystemMessage():
            return {"role": "system", "content": message.content}
        case UserMessage():
            pinned = {"pinned": True} if message.pinned else {}
            if not message.media:
                return {"role": "user", "content": message.content, **pinned}
            parts = [{"type": "text", "text": message.content}, *map(_picture, message.media)]
            return {"role": "user", "content": parts, **pinned}
        case ToolMessage():
            content = with_accepted_media(message, lambda part: False).content  # a tool's message takes text only
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}
    data: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.refusal is not None:
        data["refusal"] = message.refusal
    if message.tool_calls:
        data["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}
            for call in message.tool_calls
        ]
    elif data["content"] is None and message.refusal is None:
        data["content"] = ""
    return data


def _picture(part: MediaPart) -> dict[str, Any]:
    if part.kind != "image":
        raise ChatRequestError(f"OpenAI's shape of a history has no place for a file of kind '{part.kind}'")
    url = part.url or f"data:{part.mime_type};base64,{base64.b64encode(part.data or b'').decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


MIN_REMEMBERED = 64
"""Messages below which a walk over them costs no more than finding what the last one found."""


def take_walk(messages: tuple[Message, ...], name: Hashable) -> tuple[int, Any]:
    """Take what an earlier walk kept of the beginning of a conversation; return its length and the value.

    (0, None) if nothing was kept of these very messages: of equal ones, in this order. They are compared without a loop
    in Python, which is why a turn need not cost more, the longer its conversation is.
    """
    for at in range(len(messages) - 1, -1, -1):
        entry = messages[at].memo.get(name)
        if entry is not None and len(entry[0]) == at and entry[0] == messages[:at]:
            # Taken out, so that one owner alone extends it; lost, it is found anew.
            return (at + 1, entry[1]) if messages[at].memo.pop(name, None) is entry else (0, None)
    return 0, None


def keep_walk(messages: tuple[Message, ...], name: Hashable, value: Any) -> None:
    """Keep what a walk over all of these messages found, with the last of them; it is freed with that."""
    if messages:
        messages[-1].memo[name] = messages[:-1], value


def repair_history(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Give every tool call exactly one answer, right after it; return the messages and a note per repair.

    Providers refuse a history with a call that has no answer (an interrupted turn) or an answer that has no call
    (a history cut in the middle).
    """
    if len(messages) < MIN_REMEMBERED:
        return _repair(messages)
    # Where all calls have their answers, nothing that follows belongs to them.
    count, _ = take_walk(messages, "repaired")
    rest = messages[count:]
    repaired, notes = _repair(rest)
    if repaired is not rest or notes:
        keep_walk(messages[:count], "repaired", True)
        return (*messages[:count], *repaired), notes
    keep_walk(messages, "repaired", True)
    return messages, ()


def _repair(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    if not any(isinstance(m, ToolMessage) or (isinstance(m, AssistantMessage) and m.tool_calls) for m in messages):
        return messages, ()
    answers, strays = _pair(messages)
    repaired: list[Message] = []
    notes: list[str] = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        repaired.append(message)
        for number, call in enumerate(message.tool_calls if isinstance(message, AssistantMessage) else ()):
            answer = answers.get((at, number))
            if answer is None:
                notes.append(f"history: the call of {call.name} had no result; an error result was put in its place")
                answer = ToolMessage(tool_call_id=call.id, name=call.name, content=MISSING_RESULT, is_error=True)
            repaired.append(answer)
    notes += [f"history: a result of {stray.name} belongs to no call; it was left out" for stray in strays]
    return (tuple(repaired) if repaired != list(messages) else messages), tuple(notes)


def repair_slice(
    messages: tuple[Message, ...], whole: Sequence[Message]
) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Repair messages cut out of a conversation; return them and a note per repair.

    In addition to ``repair_history``, answers with which they begin are left out if the conversation begins with a
    message of the user: services expect that role first.
    """
    messages, notes = repair_history(messages)
    first = next((m for m in whole if not isinstance(m, SystemMessage)), None)
    begins = [at for at, m in enumerate(messages) if isinstance(m, UserMessage)]
    end = begins[0] if begins else len(messages)
    head = [m for m in messages[:end] if isinstance(m, SystemMessage)]
    if not isinstance(first, UserMessage) or len(head) == end:
        return messages, notes
    return (*head, *messages[end:]), (*notes, "history: it began with an answer, which was left out")


def _pair(messages: tuple[Message, ...]) -> tuple[dict[tuple[int, int], ToolMessage], list[ToolMessage]]:
    """Return each call's answer, by the call's message and its place in it, and the answers of no call.

    An answer belongs to the latest message before it that has an unanswered call with its id (other programs'
    histories reuse ids: "call_0" in every answer), or, if there is none, to a later call.
    """
    waiting: dict[str, list[tuple[int, int]]] = {}
    answers: dict[tuple[int, int], ToolMessage] = {}
    early: list[ToolMessage] = []
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            places = waiting.get(message.tool_call_id)
            if places:
                place = min(places, key=lambda place: (-place[0], place[1]))
                places.remove(place)
                answers[place] = message
            else:
                early.append(message)
        elif isinstance(message, AssistantMessage):
            for number, call in enumerate(message.tool_calls):
                waiting.setdefault(call.id, []).append((at, number))
    strays = []
    for message in early:
        places = waiting.get(message.tool_call_id)
        if places:
            answers[places.pop(0)] = message
        else:
            strays.append(message)
    return answers, strays
