"""Tools of OpenAI's clients: offered beside ours, and run by the client.

A client sees the calls of its own tools only. If an answer calls tools of both sides, ours run at once, and the
client's calls get ids that name the turn: with their results, the client sends these ids back, and the turn's messages
take the place of what the client has seen of them.

Source: platform.openai.com/docs/guides/function-calling.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import dropwhile
from typing import Any

import attrs
from flexchat import (
    AssistantMessage,
    ChatRequestError,
    ConversationTurn,
    FlexChat,
    Message,
    ToolCall,
    ToolMessage,
    Turn,
    UnknownConversationError,
    UnknownTurnError,
    UserMessage,
    read_history,
)

from ..problems import ApiError
from ..serving import Serving
from ..shapes import NULLABLE_SWITCH, NULLABLE_TABLE, NULLABLE_TEXT, record

HELD_S = 24 * 3600.0
"""How long the results of our tools are held for the client's next request, unless it names a kept conversation."""

MAX_HELD = 2_000
"""Most answers that are held in memory."""

PREFIX = "v1-"
"""Begins the id of a conversation in which an answer is held; then comes the id of its turn."""

MAX_TOOLS = 128

_ID = re.compile(r"call_([0-9a-f]{32})_(\d{1,3})")
_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
CHOICE = {
    "anyOf": [
        {"enum": [None, "auto", "none", "required"]},
        record({"type": {"const": "function"}}),
        record({"type": {"const": "allowed_tools"}}, mode={"enum": ["auto", "required"]}),
    ]
}
"""JSON Schema of tool_choice: a function is named as ``function.name``, or as ``name``."""

FUNCTION = record({"name": _NAME}, description=NULLABLE_TEXT, parameters=NULLABLE_TABLE, strict=NULLABLE_SWITCH)


def read_caller_tools(functions: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of respond for the client's functions, and for tool_choice and parallel_tool_calls.

    Without functions there are none: then the rule decides. A function may lack a description and parameters.

    Raises:
        ApiError: 400: tool_choice names no function of the request.
    """
    choice = body.get("tool_choice")
    names = [function["name"] for function in functions]
    if isinstance(choice, Mapping):
        allowed = choice.get("allowed_tools", choice) if choice.get("type") == "allowed_tools" else None
        chosen = [_name(tool) for tool in ([choice] if allowed is None else allowed.get("tools") or ())]
        for name in chosen:
            if name not in names:
                text = f"tool_choice: {name!r:.80} is none of this request's tools; only these can be chosen"
                raise ApiError(400, text, kind="request", param="tool_choice", code=None)
        names = names if allowed is None else chosen
        choice = chosen[0] if allowed is None else allowed.get("mode")
    tools = [
        {
            "name": function["name"],
            "description": function.get("description") or function["name"],
            "parameters": {"type": "object", "properties": {}, **(function.get("parameters") or {})},
            "strict": function.get("strict"),
        }
        for function in functions
        if function["name"] in names
    ]
    if not functions:
        return {}
    return {"caller_tools": tools, "tool_choice": choice, "parallel_tool_calls": body.get("parallel_tool_calls")}


def _name(tool: Any) -> Any:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    return function.get("name") if isinstance(function, Mapping) else None


def renamed(error: ChatRequestError) -> ApiError | ChatRequestError:
    """Return an error about the caller's tools under the name that they have in OpenAI's requests."""
    text = str(error)
    if not text.startswith("caller_tools["):
        return error
    text = text.removeprefix("caller_")
    return ApiError(400, text, kind="request", param=text.partition(":")[0], code=None)


@attrs.frozen
class _Held:
    messages: tuple[Message, ...]
    at: float


class HeldAnswers:
    """Answers that call tools of the client, until it brings the results.

    Where conversations are kept, an answer of both sides is held in one of its own, which outlives the process;
    otherwise in memory. An answer with data for its provider alone is held in memory, and is not missed if it is lost.
    """

    def __init__(self, serving: Serving) -> None:
        self._held: dict[tuple[str, str], _Held] = {}  # oldest first
        self._swept: dict[str, float] = {}

    async def calls(self, chat: FlexChat, tenant: str, turn: Turn, *, request_count: int) -> list[tuple[str, ToolCall]]:
        """Return the calls for the client, with their ids there, and hold the rest of the answer.

        Args:
            request_count: How many of the turn's messages are the request's.

        Raises:
            StorageError: It cannot be held.
        """
        calls, inside = turn.response.calls, turn.response.messages[request_count:]
        if not calls:
            return []
        if not turn.response.tool_calls:  # none of ours: the client's own ids do
            if _has_provider_data(inside):
                self._remember((tenant, calls[0].id), inside)
            return [(call.id, call) for call in calls]
        if turn.conversation is None and chat.conversations is None:
            self._remember((tenant, turn.id), inside)
        elif turn.conversation is None and chat.conversations is not None:
            store = chat.conversations.store
            question = next((m for m in turn.response.messages if isinstance(m, UserMessage)), UserMessage(""))
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            entry = ConversationTurn(
                id=turn.id,
                messages=(question, *inside),
                at=at,
                llm=turn.response.llm,
                model=turn.response.model,
                tool_calls=turn.response.tool_calls,
                shown=turn.content,
            )
            await store.append(PREFIX + turn.id, entry, tenant=tenant)
            await self._sweep(chat, tenant)
        return [(id_of(turn.id, at), call) for at, call in enumerate(calls)]

    async def find(self, chat: FlexChat, tenant: str, turn: str) -> tuple[Message, ...] | None:
        """Return the messages of a turn that ended with calls of the client; None if they are not held any more.

        Raises:
            StorageError: The store cannot be read.
        """
        answer = self._held.get((tenant, turn))
        if answer is not None:
            return answer.messages if time.monotonic() - answer.at < HELD_S else None
        if chat.conversations is None:
            return None
        own, entry = chat.conversations.of(tenant), None
        try:
            (entry,) = await own.turns(PREFIX + turn, last=1)
            if datetime.fromisoformat(entry.at) < datetime.now(UTC) - timedelta(seconds=HELD_S):
                return None
        except UnknownConversationError:
            entry = await kept_turn_of(chat, tenant, turn)
        return None if entry is None else inside_of(entry.messages)

    def soft(self, tenant: str, call: str) -> tuple[Message, ...] | None:
        """Return the answer that began with a call of this id, if it is remembered."""
        answer = self._held.get((tenant, call))
        return None if answer is None else answer.messages

    def _remember(self, key: tuple[str, str], messages: tuple[Message, ...]) -> None:
        self._held.pop(key, None)
        self._held[key] = _Held(messages, time.monotonic())
        while len(self._held) > MAX_HELD:
            del self._held[next(iter(self._held))]

    async def _sweep(self, chat: FlexChat, tenant: str) -> None:
        """Delete the answers that were held for long enough: at most once an hour for each tenant."""
        assert chat.conversations is not None
        if time.monotonic() - self._swept.get(tenant, -HELD_S) < HELD_S / 24:
            return
        self._swept[tenant] = time.monotonic()
        own, before = chat.conversations.of(tenant), None
        long_ago = datetime.now(UTC) - timedelta(seconds=HELD_S)
        while True:
            page = await own.list(limit=200, before=before)
            for info in page:
                if info.id.startswith(PREFIX) and datetime.fromisoformat(info.used_at) < long_ago:
                    await own.delete(info.id)
            if len(page) < 200:
                return
            others = [info.id for info in page if not info.id.startswith(PREFIX)]
            if not others:
                return
            before = others[-1]


def id_of(turn: str, at: int) -> str:
    """Return the id under which a client gets a call of a turn that also called our tools."""
    return f"call_{turn}_{at}"


async def kept_turn_of(chat: FlexChat, tenant: str, turn: str) -> ConversationTurn | None:
    """Return a turn of a kept conversation by its id; None if there is none."""
    try:
        row, _ = await chat.events(turn, tenant=tenant)
        if not chat.permits("view_others", tenant=tenant):
            await chat.turn(turn, tenant=tenant)
        assert chat.conversations is not None
        turns = await chat.conversations.of(tenant).turns(row.conversation) if row.conversation else ()
    except (ChatRequestError, UnknownTurnError, UnknownConversationError):
        return None
    return next((each for each in turns if each.id == turn), None)


def inside_of(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages of a turn from its first answer on."""
    return tuple(dropwhile(lambda message: not isinstance(message, AssistantMessage), messages))


def open_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the calls of a turn's last answer that have no result."""
    last = next((each for each in reversed(messages) if isinstance(each, AssistantMessage)), AssistantMessage())
    answered = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
    return [call for call in last.tool_calls if call.id not in answered]


async def with_held(
    entries: Sequence[Any], answers: HeldAnswers, chat: FlexChat, tenant: str, name: str = "messages"
) -> list[Any]:
    """Return messages as read_history reads them, in which held answers take the place of what the client has of them.

    Raises:
        ApiError: 400: a call's answer is not held.
        StorageError: The store cannot be read.
    """
    result: list[Any] = []
    ids: dict[str, str] = {}
    for at, entry in enumerate(entries):
        if isinstance(entry, Mapping) and "held" in entry:
            messages = await answers.find(chat, tenant, entry["held"])
            if messages is None:
                text = f"{entry['place']}: its response is not stored here, or belongs to another tenant"
                raise ApiError(400, text, kind="request", param=entry["place"], code=None)
            ids.update({id_of(entry["held"], at): call.id for at, call in enumerate(open_calls(messages))})
            result += messages
            continue
        calls = entry.get("tool_calls") if isinstance(entry, Mapping) else None
        if isinstance(entry, Mapping) and entry.get("role") == "tool":
            id = entry.get("tool_call_id")
            result.append({**entry, "tool_call_id": ids.get(id or "", id)})
            continue
        call_ids = [call.get("id") or "" for call in calls or ()]
        matches = [match for id in call_ids if (match := _ID.fullmatch(id))]
        messages = answers.soft(tenant, call_ids[0]) if call_ids and not matches else None
        for match in matches:
            messages = await answers.find(chat, tenant, match[1])
            numbered = dict(enumerate(open_calls(messages or ())))
            if messages is None or int(match[2]) not in numbered:
                raise unknown_call(match[0], f"{name}[{at}].tool_calls[{call_ids.index(match[0])}].id")
            ids[match[0]] = numbered[int(match[2])].id
        if messages is None:
            result.append(entry)
            continue
        texts = [message.content for message in messages if isinstance(message, AssistantMessage)]
        while result and _is_text(result[-1], texts):  # a response has an item for each text of its turn
            result.pop()
        result += messages
    return result


def _is_text(entry: Any, texts: Sequence[str | None]) -> bool:
    """Return whether a message is an answer of one of these texts alone."""
    if not isinstance(entry, Mapping) or entry.get("role") != "assistant" or entry.get("tool_calls"):
        return False
    content = entry.get("content")
    parts = [part.get("text") for part in content] if isinstance(content, list) else [content]
    return "".join(part or "" for part in parts) in texts


def unknown_call(id: str, place: str) -> ApiError:
    """Return the problem of a call that no answer is held for."""
    text = (
        f"{place}: no call {id!r:.80} of this client waits for a result; calls beside this server's are held for 24 h"
    )
    return ApiError(400, text, kind="request", param=place, code=None)


async def results_of(
    entries: Sequence[Mapping[str, Any]],
    chat: FlexChat,
    tenant: str,
    conversation: str,
    key: str,
    name: str = "messages",
) -> tuple[str, tuple[Message, ...]]:
    """Return the message that led to the calls with which a conversation ends, and their results.

    Args:
        entries: Messages with the role "tool".
        key: That of the request: a repetition finds the calls of the first, though the conversation has gone on.

    Raises:
        ApiError: 400: a result is of none of these calls.
        StorageError: The store cannot be read.
    """
    turns = await answered_turns(chat, tenant, conversation)
    question, calls = "", dict[str, tuple[int, str, AssistantMessage, ToolCall]]()
    for number, turn in enumerate(turns):
        question = next((m.content for m in turn.messages if isinstance(m, UserMessage)), question)
        message = next((m for m in reversed(turn.messages) if isinstance(m, AssistantMessage)), AssistantMessage())
        for at, call in enumerate(open_calls(turn.messages)):
            calls[call.id] = calls[id_of(turn.id, at)] = number, question, message, call
    read: list[Any] = []
    for at, entry in enumerate(entries):
        id = entry.get("tool_call_id") or ""
        number, question, message, call = calls.get(id, (-1, "", AssistantMessage(), ToolCall(name="", arguments={})))
        if number < 0 or not await may_continue(chat, tenant, turns[number + 1 :], key):
            raise unknown_call(id, f"{name}[{at}].tool_call_id")
        read += [message] * (message not in read) + [{**entry, "tool_call_id": call.id}]
    try:
        results = [m for m in read_history(read, name) if isinstance(m, ToolMessage)]
    except ChatRequestError as error:
        raise ApiError(400, str(error), kind="request", param=name, code=None) from None
    return question or "…", tuple(results)


async def answered_turns(chat: FlexChat, tenant: str, conversation: str) -> Sequence[ConversationTurn]:
    """Return the turns of a conversation that have an answer and are done.

    Raises:
        StorageError: The store cannot be read.
    """
    try:
        turns = () if chat.conversations is None else await chat.conversations.of(tenant).turns(conversation)
    except UnknownConversationError:
        turns = ()
    return [turn for turn in turns if turn.status == "done" and inside_of(turn.messages)]


async def may_continue(chat: FlexChat, tenant: str, later: Sequence[ConversationTurn], key: str) -> bool:
    """Return whether a request goes on from the end of its conversation, or did when it was sent first.

    Args:
        later: The answered turns after those that it goes on from.
        key: That of the request.
    """
    if not later:
        return True
    try:
        row, _ = await chat.turn(later[0].id, tenant=tenant)
    except (ChatRequestError, UnknownTurnError):
        return False
    return row.key == key


def _has_provider_data(messages: Sequence[Message]) -> bool:
    parts = [part for message in messages if isinstance(message, AssistantMessage) for part in message.parts]
    return any(part.provider_data is not None for part in parts)
