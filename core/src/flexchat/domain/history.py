"""Reading and repairing callers' earlier messages: providers accept only well-formed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ..errors import did_you_mean
from .codec import message_from_dict, message_to_dict
from .messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from .openai_form import read_assistant, read_text, read_user, refuse, to_openai

_MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolMessage)
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
    """Return the entries of a history; none for None.

    Raises:
        ChatRequestError: It is not a list.
    """
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable | None):
        refuse(name, f"a list of messages was expected, got {type(entries).__name__}")
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
        return [to_openai(message) for message in messages]
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
        if isinstance(entry, _MESSAGES):
            return self._remember(entry)
        if not isinstance(entry, Mapping):
            refuse(place, f"a message or a mapping with role and content was expected, got {type(entry).__name__}")
        role = _role(entry, place)
        if role != "assistant" and entry.get("tool_calls"):
            refuse(place, f"only the assistant calls tools; this entry's role is {role}")
        if ("parts" in entry and role == "assistant") or ("media" in entry and role == "user"):
            return self._remember(_own(entry, place))
        content = entry.get("content", entry.get("text"))
        if content is None and role != "assistant":
            refuse(place, "it has no content (or text)")
        if role == "system":
            return SystemMessage(content=read_text(content, f"{place}.content"))
        if role == "user":
            return read_user(content, f"{place}.content")
        if role == "tool":
            return self._result(entry, read_text(content, f"{place}.content"), place)
        message, ids = read_assistant(entry, place)
        self._calls(message.tool_calls, ids)
        return message

    def _remember(self, message: Message) -> Message:
        if isinstance(message, AssistantMessage):
            self._calls(message.tool_calls, [call.id for call in message.tool_calls])
        return message

    def _calls(self, calls: Sequence[ToolCall], ids: Sequence[str | None]) -> None:
        """Remember calls. Programs reuse ids in later answers: then the earlier calls no longer wait."""
        for id in ids:
            self._waiting.pop(id or "", None)
        for call, id in zip(calls, ids, strict=True):
            self._waiting.setdefault(id or "", []).append(call)

    def _result(self, entry: Mapping[str, Any], text: str, place: str) -> ToolMessage:
        id = entry.get("tool_call_id")
        if not isinstance(id, str) or not id:
            refuse(place, "a tool's result needs the tool_call_id of its call")
        waiting = self._waiting.get(id)
        if not waiting:
            ids = [key for key, calls in self._waiting.items() if key and calls]
            near = did_you_mean(id, ids[:50])
            refuse(place, f"its tool_call_id {id[:80]!r} belongs to no call before it that waits for a result{near}")
        call = waiting.pop(0)
        own = _own({**entry, "name": call.name, "content": text}, place) if "media" in entry else None
        media = own.media if isinstance(own, ToolMessage) else ()
        is_error = entry.get("is_error") is True
        return ToolMessage(tool_call_id=call.id, name=call.name, content=text, is_error=is_error, media=media)


def _role(entry: Mapping[str, Any], place: str) -> str:
    name = entry.get("role")
    key, name = ("type", entry.get("type")) if name is None else ("role", name)
    role = "user" if name is None else _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        hint = did_you_mean(name[:80], _ROLES) if isinstance(name, str) else ""
        refuse(place, f"no message has the {key} {name!r:.80}{hint} (known: {', '.join(_ROLES)})")
    return role


def _own(entry: Mapping[str, Any], place: str) -> Message:
    """Return the message that message_to_dict wrote."""
    try:
        return message_from_dict(entry)
    except ValueError as error:
        refuse(place, str(error))


def repair_history(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Give every tool call exactly one answer, right after it; return the messages and a note per repair.

    Providers refuse a history with a call that has no answer (an interrupted turn) or an answer that has no call
    (a history cut in the middle).
    """
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
                answer = _missing(call)
            repaired.append(answer)
    notes += [f"history: a result of {stray.name} belongs to no call; it was left out" for stray in strays]
    return (tuple(repaired) if repaired != list(messages) else messages), tuple(notes)


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


def _missing(call: ToolCall) -> ToolMessage:
    return ToolMessage(tool_call_id=call.id, name=call.name, content=MISSING_RESULT, is_error=True)
