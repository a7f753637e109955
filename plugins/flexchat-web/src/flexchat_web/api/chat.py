"""Chatting: a message in, a turn or its events out; and why a rule would answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from flexchat import CollectionChoice, read_history
from flexchat.host import wait_for_answer

from .. import shapes
from ..operations import Call, Json, Operations, Reply, Stream, Upload, Written
from ..problems import ApiError
from ..sending import LongAnswers, encoded_in_pieces, paced, turn_reply
from ..shapes import body_schema, listed, record
from ..uploads import media_store, read_form
from .events import turn_data
from .media import ATTACHMENTS, attachments_of
from .turns import INTERRUPTED, Turns, begun, replayed

if TYPE_CHECKING:
    from flexchat import Explanation, FlexChat
    from flexchat.host import ResponseRule

REPLAYED = {"Idempotent-Replayed": "true"}
"""Of an answer to a request that an earlier one with the same key had made before."""

NO_PROMPT = "Invalid request: prompt is required and must be a string"

_REQUEST = {
    "previousMessages": shapes.MESSAGES,
    "selectedCollections": {**shapes.COLLECTIONS, "type": ["array", "null"]},
    "topic": str | None,
    "variables": shapes.VARIABLES,
}
_OPTIONS = {
    **body_schema({}, **shapes.MODEL_OPTIONS, reasoning=shapes.EFFORT),
    "type": ["object", "null"],
    "description": "How the model answers this message, instead of the rule's settings.",
}
_PROMPT = {"prompt": shapes.WORDS}
_MESSAGE = body_schema(
    {},
    prompt=shapes.TEXT,
    attachments=ATTACHMENTS,
    **_REQUEST,
    options=_OPTIONS,
    conversation=shapes.CONVERSATION_ID,
    stream=bool,
    pin={**shapes.SWITCH, "description": "Whether each later request of the conversation has the message."},
    questions={**shapes.SWITCH, "description": "Whether the client shows questions of tools, and replies."},
    accept={
        **shapes.SWITCH,
        "description": "Answer 202 at once; the turn runs when it can.",
    },
    retryCount={"description": "Not read."},
    selectedModels={"description": "Not read."},
)
_TEXTS = ("prompt", "conversation", "topic")
"""Fields that are texts in a form as well."""

_EXAMPLES = [{"prompt": "What is 2 + 2?"}]


def _no_prompt(body: Any) -> str | None:
    fields = body if isinstance(body, dict) else {}
    prompt = fields.get("prompt", "" if fields.get("attachments") else None)
    return None if isinstance(prompt, str) and (prompt.strip() or fields.get("attachments")) else NO_PROMPT


async def _form(upload: Upload) -> dict[str, Any]:
    return await read_form(upload, _TEXTS)


operation = Operations("chat", problems=shapes.TURN_PROBLEMS)


@operation(
    "POST",
    "/chat/api",
    name="chat",
    body={
        **_MESSAGE,
        "anyOf": [
            {"properties": _PROMPT, "required": ["prompt"]},
            {"properties": {"attachments": {"type": "array", "minItems": 1}}, "required": ["attachments"]},
        ],
        "examples": _EXAMPLES,
    },
    uploads={"multipart/form-data": _form},
    base64_at=("attachments", "data"),
    refusal=_no_prompt,
    max_body_bytes=4 * 1024 * 1024,
    answers={
        200: record({**dict.fromkeys(("response", "status", "topic", "service", "model"), str), "turn": shapes.TURN}),
        202: record({"id": str, "conversation": str}),
    },
    takes_key=True,
    streams=True,
)
async def _chat(call: Call) -> Reply:
    """Answer a message; with stream, or if the client accepts text/event-stream, as events."""
    body, turns = call.body, call.serving.shared(Turns)
    request = {**_request_fields(body), **_options(body), "conversation": body.get("conversation")}
    request |= {"attachments": attachments_of(body.get("attachments"), call.files), "pin": body.get("pin")}
    if body.get("questions"):  # a client that does not show questions must not be waited for
        request["on_question"] = wait_for_answer
    if body.get("accept") or call.serving.settings.accept_only:
        return await _accepted(call, turns, request)
    is_stream, stopped = body.get("stream", call.wants_stream), INTERRUPTED if request["conversation"] else None
    if call.key is None:
        if is_stream:
            return Stream(begun(turns, call.tenant, **request), stopped=stopped)
        async with call.serving.chat() as chat:
            turn = await chat.respond(**request, tenant=call.tenant)
            is_kept = request["conversation"] is not None and media_store(chat) is not None
        return await _answered(call, turn_data(turn, is_kept=is_kept), {})

    async def ask(chat: FlexChat) -> tuple[FlexChat, Mapping[str, Any]]:
        return chat, request

    joined, is_repeat = await turns.join(call.tenant, call.key, ask)
    headers = REPLAYED if is_repeat else {}
    if not is_stream:
        with turns.listening(joined):
            return await _answered(call, joined.data_of(await joined.handle.result()), headers)
    if turns.find(joined.handle.id, call.tenant) is None:
        return Stream(replayed(joined), headers)
    return Stream(begun(turns, call.tenant, joined=joined), headers, stopped=stopped)


async def _answered(call: Call, turn: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
    status = "success" if turn["status"] == "done" else turn["status"]
    answer = {"response": turn["content"], "status": status, "topic": turn.get("topic", "")}
    data = {**answer, "service": turn.get("service", ""), "model": turn.get("model", ""), "turn": turn}
    return await turn_reply(call.serving, turn["content"], data, headers)


async def _accepted(call: Call, turns: Turns, request: Mapping[str, Any]) -> Reply:
    """Accept a turn, and answer with its id; if only the server wants it accepted, with what becomes of it."""
    async with call.serving.chat() as chat:
        id = await chat.submit(**request, tenant=call.tenant, idempotency_key=call.key)
    turns.wake()
    if call.body.get("accept"):
        place = {"location": f"{call.base}/api/turns/{id}/events"}
        return Json({"id": id, "conversation": request["conversation"]}, status=202, headers=place)
    events = turns.events(id, call.tenant, is_waiting=False)
    if call.body.get("stream", call.wants_stream):
        return Stream(events, stopped=INTERRUPTED)
    async with aclosing(events):
        last = [event async for event in events][-1]
    data = json.loads(last.data) if isinstance(last.data, str) else last.data
    if last.name == "error":
        raise ApiError(data["status"], data["detail"], kind=data["type"].rpartition(":")[2])
    return await _answered(call, data, {})


@operation(
    "POST",
    "/api/explain",
    body={**body_schema(_PROMPT, **_REQUEST), "examples": _EXAMPLES},
    refusal=_no_prompt,
    max_body_bytes=4 * 1024 * 1024,
    answer=record(
        {
            "rule": shapes.NULLABLE_COUNT,
            "tools": list[str],
            "profile": dict,
            "verdicts": listed(record({"rule": int, "fits": bool, "failed": list[str]})),
            "phases": listed(dict),
            "rules": listed(record({"llm": str, "model": str | None, "match": dict}, name=str)),
        }
    ),
)
async def explain(call: Call, chat: FlexChat) -> Reply:
    """Show which rule would answer a message, and why."""
    explanation = await chat.explain(**_request_fields(call.body))
    async with call.serving.shared(LongAnswers):  # of thousands of rules
        return Written(await encoded_in_pieces(await _explained(explanation, chat.config.responses)))


_PROFILE = ("topic", "rag_results", "intent", "service", "collection", "reasoning")


async def _explained(explanation: Explanation, rules: Sequence[ResponseRule]) -> dict[str, Any]:
    profile = explanation.profile
    return {
        "rule": explanation.rule,
        "tools": list(explanation.tools),
        "profile": {**{name: getattr(profile, name) for name in _PROFILE}, "documents": len(profile.documents)},
        "verdicts": [
            {"rule": v.rule, "fits": v.fits, "failed": list(v.failed)} async for v in paced(explanation.verdicts)
        ],
        "phases": [phase.to_dict() for phase in explanation.phases],
        "rules": [
            {"llm": rule.llm, "model": rule.model, "match": dict(rule.match)}
            | ({"name": rule.name} if rule.name else {})
            async for rule in paced(rules)
        ],
    }


def _request_fields(body: dict[str, Any]) -> dict[str, Any]:
    chosen = body.get("selectedCollections")
    return {
        "message": body.get("prompt", ""),
        "history": read_history(body.get("previousMessages", ()), "previousMessages"),
        "topic": body.get("topic"),
        "variables": body.get("variables"),
        "collections": None
        if chosen is None
        else [CollectionChoice(store=item["service"], collection=item.get("name") or None) for item in chosen],
    }


def _options(body: dict[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in (body.get("options") or {}).items() if value is not None}
    return options | {
        name: int(options[name]) for name in ("max_tokens", "seed") if name in options
    }  # 5.0 is an integer
