"""OpenAI's Responses in front of the six phases: a response is a turn.

A response is stored if the configuration keeps conversations and the six phases answer: ``previous_response_id``
continues its conversation. Its id is that of its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import dropwhile, takewhile
from typing import Any

import attrs
from flexchat import (
    AssistantMessage,
    ChatRequestError,
    ConversationTurn,
    FlexChat,
    JournaledTurn,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Turn,
    TurnNotWaitingError,
    UnknownConversationError,
    UnknownTurnError,
)

from ..operations import Call, Event, Json, Operations, Reply, Stream
from ..problems import ApiError
from ..sending import turn_reply
from ..shapes import listed, record
from .caller_tools import (
    HeldAnswers,
    answered_turns,
    id_of,
    inside_of,
    may_continue,
    open_calls,
    renamed,
    results_of,
    with_held,
)
from .chat import REPLAYED
from .content_parts import ContentReader
from .openai import ABANDONED_S, ANSWERS, PHASES, Reading, Repeats, cancelled, digest_of, happenings_of, with_options
from .openai_format import Dialogue, read_media, read_messages, waits_for
from .responses_format import (
    REQUEST,
    RESPONSE,
    completions_body,
    ended_response,
    events_of_response,
    items_of,
    output_of,
    refusal,
    response,
    status_of,
    usage_of,
)
from .served import ServedTurn
from .turns import Turns

operation = Operations("openai", openai_errors=True, problems=(404, 503))


@attrs.define
class _Reading(Reading):
    """What is found while a request for a response is read.

    Attributes:
        conversation: Where it is stored; None if it is not.
        previous: Id of the response before it.
    """

    conversation: str | None = None
    previous: str | None = None

    def facts(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the response that depend on where it is stored."""
        extra = {"conversation": {"id": self.conversation}} if body.get("conversation") else {}
        return {"store": self.conversation is not None, **extra}


@operation(
    "POST",
    "/v1/responses",
    body=REQUEST,
    refusal=refusal,
    answer=RESPONSE,
    **ANSWERS,
)
async def create_response(call: Call) -> Reply:
    """Create a response, as OpenAI's API does: a turn, stored in a conversation unless store is false."""
    turns, reading, body = call.serving.shared(Turns), _Reading(), call.body
    if (reason := refusal(body)) is not None:
        raise _refused(reason.partition(":")[0], reason)
    key, patience_s, is_background = call.key, math.inf, bool(body.get("background"))
    if key is None:
        about = await asyncio.to_thread(digest_of, call.tenant, body)  # there may be megabytes
        key = call.serving.shared(Repeats).key_of(about, call.retries)
        patience_s = math.inf if is_background else ABANDONED_S

    async def read(chat: FlexChat) -> tuple[FlexChat, Mapping[str, Any]]:
        return await _read_request(call, chat, reading, key)

    try:
        if is_background and not body.get("stream"):
            async with call.serving.chat() as chat:
                chat, request = await read(chat)
                id = await chat.submit(**request, tenant=call.tenant, idempotency_key=key)
                row = await _row(chat, call.tenant, f"resp_{id}")
                stored = await _read_response(chat, call.tenant, row)
            await turns.run_accepted(id, call.tenant)
            same = {name: stored[name] for name in ("output", "usage", "error", "incomplete_details")}
            return Json(response(id, body, stored["status"], **same, **reading.facts(body)))
        turn, is_repeat = await turns.join(call.tenant, key, read, is_silent=True, patience_s=patience_s)
    except ChatRequestError as error:
        raise renamed(error) from None
    headers, more = REPLAYED if is_repeat else {}, reading.facts(body)
    if body.get("stream"):
        return Stream(_events(call, None if is_background else turns, turn, reading), headers)
    with turns.listening(turn):
        result = await turn.handle.result()
    if result.status == "cancelled":
        raise cancelled()
    calls = await reading.calls(call, result)
    messages, has_form = result.response.messages[reading.request_count :], result.response.data is not None
    output = output_of(result.id, messages, result.content + waits_for(result), calls, has_form=has_form)
    whole = ended_response(result, body, output, reading.warnings, **more)
    return await turn_reply(call.serving, result.content, whole, headers)


async def _events(call: Call, turns: Turns | None, turn: ServedTurn, reading: _Reading) -> AsyncGenerator[Event, None]:
    async def calls(ended: Turn) -> list[tuple[str, ToolCall]]:
        return await reading.calls(call, ended)

    facts = reading.facts(call.body)
    events = events_of_response(
        turn.handle.id, happenings_of(turn), call.body, reading.warnings, calls, facts, call.serving.mask
    )
    async with aclosing(events):
        if turns is None:  # in the background: it runs on without its listeners
            async for event in events:
                yield event
            return
        with turns.listening(turn):
            async for event in events:
                yield event


async def _read_request(call: Call, chat: FlexChat, reading: _Reading, key: str) -> tuple[FlexChat, Mapping[str, Any]]:
    """Return the chat that answers a request and the arguments of respond.

    Raises:
        ApiError: 400: something of it cannot be read, or done; 404: there is no such response.
        StorageError: The conversation cannot be read.
    """
    fields = call.body
    body, is_stored = completions_body(fields), fields.get("store") is not False
    fields.pop("input")  # nothing else needs its media, while the turn may take minutes
    can_store = chat.conversations is not None and fields["model"] == PHASES
    conversation, previous = fields.get("conversation"), fields.get("previous_response_id")
    for name in ("background", "conversation", "previous_response_id"):
        if fields.get(name) and not can_store:
            why = f"the model '{PHASES}'" if chat.conversations is not None else "a configuration with conversations"
            raise _refused(name, f"{name}: this needs {why}")
    if previous:
        row = await _row(chat, call.tenant, previous)
        reading.conversation, reading.previous = row.conversation, previous
        await _refuse_earlier(chat, call.tenant, row, key)
    elif conversation:
        reading.conversation = conversation if isinstance(conversation, str) else conversation["id"]
    elif is_stored and can_store:
        reading.conversation = _id_for(call.tenant, key, "conversation")
    entries = await read_media(body["messages"], ContentReader(chat, call.tenant))
    if reading.conversation is None:
        dialogue = await _dialogue(call, chat, entries)
        request, reading.request_count = dialogue.as_request(), 1 + len(dialogue.continuation)
    else:
        request = await _stored_request(call, chat, reading, entries, key)
    return with_options(call.serving, chat, body, request, reading.warnings)


async def _stored_request(
    call: Call, chat: FlexChat, reading: _Reading, entries: Sequence[Any], key: str
) -> dict[str, Any]:
    """Return the messages of a request whose turn is kept; those before its last question become an earlier turn."""
    conversation = reading.conversation or ""
    instructions = tuple(SystemMessage(entry["content"]) for entry in entries[:1] if call.body.get("instructions"))
    entries = entries[len(instructions) :]
    lead = [*takewhile(lambda entry: isinstance(entry, Mapping) and entry.get("role") == "tool", entries)]
    question, results = "", tuple[Message, ...]()
    if lead:
        question, results = await results_of(lead, chat, call.tenant, conversation, key, "input")
    request: dict[str, Any] = {"conversation": conversation, "history": instructions}
    if len(lead) == len(entries):
        reading.request_count = len(results)
        return {**request, "message": question, "continuation": results}
    dialogue = await _dialogue(call, chat, entries[len(lead) :])
    request["history"] += tuple(message for message in dialogue.history if isinstance(message, SystemMessage))
    id = _id_for(call.tenant, key, "input")
    messages = _with_ids((*results, *dialogue.history, dialogue.question, *dialogue.continuation), id)
    tail = [*takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages))][::-1]
    earlier = [message for message in messages[: -len(tail) or -1] if not isinstance(message, SystemMessage)]
    if earlier:
        assert chat.conversations is not None
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        imported = ConversationTurn(id=id, messages=tuple(earlier), at=at)
        await chat.conversations.store.append(conversation, imported, tenant=call.tenant)
    reading.request_count = len(tail) or 1
    request = {**dialogue.as_request(), **request, "continuation": tail}
    return {**request, "message": request["message"] or "…", "attachments": ()} if tail else request


def _with_ids(messages: Sequence[Message], id: str) -> list[Message]:
    """Return messages whose calls have the same ids when they are sent again: reading them makes new ones."""
    calls = [call for each in messages if isinstance(each, AssistantMessage) for call in each.tool_calls]
    ids = {call.id: f"call_{id}-{number}" for number, call in enumerate(calls)}
    changed: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            parts = [attrs.evolve(p, id=ids[p.id]) if isinstance(p, ToolCall) else p for p in message.parts]
            message = attrs.evolve(message, parts=tuple(parts))
        elif isinstance(message, ToolMessage):
            message = attrs.evolve(message, tool_call_id=ids.get(message.tool_call_id, message.tool_call_id))
        changed.append(message)
    return changed


async def _dialogue(call: Call, chat: FlexChat, entries: Sequence[Any]) -> Dialogue:
    answers = call.serving.shared(HeldAnswers)
    return read_messages(await with_held(entries, answers, chat, call.tenant, "input"), "input")


def _id_for(tenant: str, key: str, what: str) -> str:
    """Return the id of what a request adds: the same when it is repeated."""
    return hashlib.sha256(f"{what} {tenant} {key}".encode()).hexdigest()[:32]


async def _row(chat: FlexChat, tenant: str, response_id: str) -> JournaledTurn:
    """Return the turn of a stored response. Raises ApiError: 404: there is none, or it belongs to another tenant."""
    turn = response_id.removeprefix("resp_")
    try:
        row, _ = await chat.events(turn, tenant=tenant)
        if not chat.permits("view_others", tenant=tenant):
            await chat.turn(turn, tenant=tenant)
    except (ChatRequestError, UnknownTurnError):
        row = None
    if row is None or not row.conversation or turn == response_id:
        text = f"there is no stored response {response_id[:80]!r}"
        raise ApiError(404, text, kind="unknown-response", param="previous_response_id", code="response_not_found")
    return row


async def _refuse_earlier(chat: FlexChat, tenant: str, row: JournaledTurn, key: str) -> None:
    """Raise ApiError (400) if a response is not the last of its conversation: one without an answer does not count."""
    turns = await answered_turns(chat, tenant, row.conversation)
    later = [turn for turn in dropwhile(lambda turn: turn.id != row.id, turns) if turn.id != row.id]
    if not await may_continue(chat, tenant, later, key):
        text = (
            f"previous_response_id: the conversation has gone on since 'resp_{row.id}', and it has no branches: "
            f"continue 'resp_{turns[-1].id}', or send the whole input"
        )
        raise _refused("previous_response_id", text)


def _refused(param: str, text: str) -> ApiError:
    return ApiError(400, text, kind="request", param=param, code=None)


@operation("GET", "/v1/responses/{id}", answer=RESPONSE)
async def show_response(call: Call, chat: FlexChat) -> Reply:
    """Return a stored response: as far as it has got, if it runs in the background."""
    return Json(await _read_response(chat, call.tenant, await _row(chat, call.tenant, call.path["id"])))


@operation("POST", "/v1/responses/{id}/cancel", answer=RESPONSE, problems=(404, 409, 503))
async def cancel_response(call: Call, chat: FlexChat) -> Reply:
    """Cancel a response that runs in the background, wherever it runs. One that has ended does not change."""
    row = await _row(chat, call.tenant, call.path["id"])
    if row.state not in ("done", "failed", "cancelled"):
        with contextlib.suppress(TurnNotWaitingError):  # it has just ended
            await chat.cancel_turn(row.id, tenant=call.tenant, by=call.user)
        call.serving.shared(Turns).wake()
        row = await _row(chat, call.tenant, call.path["id"])
    return Json(await _read_response(chat, call.tenant, row))


@operation(
    "GET",
    "/v1/responses/{id}/input_items",
    answer=record({"object": str, "data": listed(dict), "has_more": bool}, first_id=str | None, last_id=str | None),
)
async def list_input_items(call: Call, chat: FlexChat) -> Reply:
    """List what a stored response was the answer to: the user's message, or results of the client's tools."""
    row = await _row(chat, call.tenant, call.path["id"])
    _, turn = await _read_turns(chat, call.tenant, row)
    messages: Sequence[Message] = () if turn is None else turn.messages
    items = items_of([*takewhile(lambda message: not isinstance(message, AssistantMessage), messages)])[::-1]
    ids = {"first_id": items[0]["id"] if items else None, "last_id": items[-1]["id"] if items else None}
    return Json({"object": "list", "data": items, "has_more": False, **ids})


@operation(
    "DELETE",
    "/v1/responses/{id}",
    answer=record({"id": str, "object": str, "deleted": bool}),
    problems=(404, 409, 503),
)
async def delete_response(call: Call, chat: FlexChat) -> Reply:
    """Delete a stored response with its conversation, if that has no other."""
    row = await _row(chat, call.tenant, call.path["id"])
    assert chat.conversations is not None
    own = chat.conversations.of(call.tenant)
    turns, _ = await _read_turns(chat, call.tenant, row)
    if others := [turn.id for turn in turns if turn.id != row.id and inside_of(turn.messages) and turn.model]:
        text = f"its conversation has other responses ('resp_{others[0]}'): delete it whole, /api/conversations/{{id}}"
        raise ApiError(409, text, kind="response-in-conversation", param="id", code=None)
    await own.delete(row.conversation)
    return Json({"id": call.path["id"], "object": "response", "deleted": True})


async def _read_turns(chat: FlexChat, tenant: str, row: JournaledTurn) -> tuple[Sequence[ConversationTurn], Any]:
    assert chat.conversations is not None
    try:
        turns = await chat.conversations.of(tenant).turns(row.conversation)
    except UnknownConversationError:
        turns = ()
    return turns, next((turn for turn in turns if turn.id == row.id), None)


async def _read_response(chat: FlexChat, tenant: str, row: JournaledTurn) -> dict[str, Any]:
    """Return a stored response."""
    turns, turn = await _read_turns(chat, tenant, row)
    _, steps = await chat.turn(row.id, tenant=tenant)
    request: Mapping[str, Any] = next(
        (step.data["request"] for step in steps if step.kind in ("accepted", "started")), {}
    )
    tools = request.get("caller_tools", ())
    body = {
        "model": PHASES,
        "instructions": next((m.get("content") for m in request.get("history", ()) if m["role"] == "system"), None),
        "tools": [
            {"type": "function", **{key: tool.get(key) for key in ("name", "description", "parameters", "strict")}}
            for tool in tools
        ],
        "tool_choice": request.get("tool_choice"),
    }
    times: dict[str, Any] = {
        "created_at": datetime.fromisoformat(row.began_at).timestamp() if row.began_at else None,
        "store": True,
    }
    if turn is None:
        is_cancelled = row.state == "accepted" and row.cancelled_by  # it ends when its place comes
        if is_cancelled or row.state in ("failed", "cancelled"):
            status, facts = status_of("cancelled" if is_cancelled else row.state, None, row.error)
            return response(row.id, body, status, **times, **facts)
        return response(row.id, body, "queued" if row.state == "accepted" else "in_progress", **times)
    before = [each.id for each in takewhile(lambda each: each.id != row.id, turns) if inside_of(each.messages)]
    body["previous_response_id"] = f"resp_{before[-1]}" if before else None
    inside, calls = inside_of(turn.messages), open_calls(turn.messages) if turn.status == "done" else []
    is_mixed = bool(turn.tool_calls)
    identified = [(id_of(row.id, at) if is_mixed else call.id, call) for at, call in enumerate(calls)]
    output = output_of(row.id, inside, turn.answer, identified, has_form=turn.parsed is not None)
    status, facts = status_of(turn.status, turn.finish_reason, turn.error)
    return response(row.id, body, status, output, usage=usage_of(turn.usage), **times, **facts)
