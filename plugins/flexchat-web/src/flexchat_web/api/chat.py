"""Chatting: a message in, a turn or its events out; and why a rule would answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flexchat import CollectionChoice, OnQuestion, Turn, read_history

from ..operations import Call, Operations, Reply, Stream, Written
from ..pace import LongAnswers, encoded_in_pieces, paced, turn_reply
from ..shapes import (
    COLLECTIONS,
    CONVERSATION_ID,
    COUNT,
    EFFORT,
    MESSAGES,
    MODEL_OPTIONS,
    NULLABLE_TEXT,
    SWITCH,
    TABLE,
    TEXT,
    TEXTS,
    TURN,
    TURN_PROBLEMS,
    VARIABLES,
    WORDS,
    body_schema,
    listed,
    record,
)
from .events import turn_data
from .questions import Questions
from .turns import INTERRUPTED, Turns, begun, replayed

if TYPE_CHECKING:
    from flexchat import Explanation
    from flexchat.host import ResponseRule

REPLAYED = {"Idempotent-Replayed": "true"}
"""Of an answer to a request that an earlier one with the same key had made before."""

NO_PROMPT = "Invalid request: prompt is required and must be a string"

_REQUEST = {
    "previousMessages": MESSAGES,
    "selectedCollections": {**COLLECTIONS, "type": ["array", "null"]},
    "topic": NULLABLE_TEXT,
    "variables": VARIABLES,
}
_OPTIONS = {
    **body_schema({}, **MODEL_OPTIONS, reasoning=EFFORT),
    "type": ["object", "null"],
    "description": "How the model answers this message, in place of what the rule says.",
}
_PROMPT = {"prompt": WORDS}
_EXAMPLES = [{"prompt": "What is 2 + 2?"}]


def _no_prompt(body: Any) -> str | None:
    prompt = body.get("prompt") if isinstance(body, dict) else None
    return None if isinstance(prompt, str) and prompt.strip() else NO_PROMPT


operation = Operations("chat")


@operation(
    "POST",
    "/chat/api",
    name="chat",
    body={
        **body_schema(
            _PROMPT,
            **_REQUEST,
            options=_OPTIONS,
            conversation=CONVERSATION_ID,
            stream=SWITCH,
            questions={**SWITCH, "description": "Whether the client shows questions of tools, and replies."},
            retryCount={"description": "Not read."},
            selectedModels={"description": "Not read."},
        ),
        "examples": _EXAMPLES,
    },
    refusal=_no_prompt,
    max_body_bytes=4 * 1024 * 1024,
    answers={
        200: record({"response": TEXT, "status": TEXT, "topic": TEXT, "service": TEXT, "model": TEXT, "turn": TURN})
    },
    problems=TURN_PROBLEMS,
    takes_key=True,
    streams=True,
)
async def _chat(call: Call) -> Reply:
    """Answer a message; with stream, or if the client accepts text/event-stream, as events."""
    if call.key is not None:
        return await _chat_once(call, call.key)
    if call.body.get("stream", call.wants_stream):
        events = begun(
            Turns.of(call.serving), **_request_fields(call.body), **_options(call.body), **_conversation_fields(call)
        )
        return Stream(events, stopped=INTERRUPTED if call.body.get("conversation") else None)
    async with call.serving.chat() as chat:
        turn = await chat.respond(**_request_fields(call.body), **_options(call.body), **_conversation_fields(call))
    return await _answered(call, turn, {})


async def _chat_once(call: Call, key: str) -> Reply:
    """Answer a request that has a key: with a new turn, or with that of an earlier request."""
    turns = Turns.of(call.serving)
    request = {**_request_fields(call.body), **_options(call.body), "conversation": call.body.get("conversation")}
    request["on_question"] = _question_handler(call)
    turn, is_repeat = await turns.join(call.tenant, key, lambda chat: (chat, request))
    headers = REPLAYED if is_repeat else {}
    if not call.body.get("stream", call.wants_stream):
        with turns.listening(turn):
            return await _answered(call, await turn.handle.result(), headers)
    if turns.find(turn.handle.id, call.tenant) is None:
        return Stream(replayed(turn), headers)
    events = begun(turns, call.tenant, joined=turn)
    return Stream(events, headers, stopped=INTERRUPTED if request["conversation"] else None)


async def _answered(call: Call, turn: Turn, headers: Mapping[str, str]) -> Reply:
    status = "success" if turn.status == "done" else turn.status
    answer = {"response": turn.content, "status": status, "topic": turn.profile.topic}
    data = {**answer, "service": turn.response.llm, "model": turn.response.model, "turn": turn_data(turn)}
    return await turn_reply(call.serving, turn, data, headers)


@operation(
    "POST",
    "/api/explain",
    body={**body_schema(_PROMPT, **_REQUEST), "examples": _EXAMPLES},
    refusal=_no_prompt,
    max_body_bytes=4 * 1024 * 1024,
    answers={
        200: record(
            {
                "rule": {**COUNT, "type": ["integer", "null"]},
                "tools": TEXTS,
                "profile": TABLE,
                "verdicts": listed(record({"rule": COUNT, "fits": SWITCH, "failed": TEXTS})),
                "phases": listed(TABLE),
                "rules": listed(record({"llm": TEXT, "model": NULLABLE_TEXT, "match": TABLE}, name=TEXT)),
            }
        )
    },
    problems=TURN_PROBLEMS,
)
async def explain(call: Call) -> Reply:
    """Show which rule would answer a message, and why."""
    async with call.serving.chat() as chat:
        explanation = await chat.explain(**_request_fields(call.body))
        async with LongAnswers.of(call.serving):  # of thousands of rules
            return Written(await encoded_in_pieces(await _explained(explanation, chat.config.responses)))


async def _explained(explanation: Explanation, rules: Sequence[ResponseRule]) -> dict[str, Any]:
    profile = explanation.profile
    return {
        "rule": explanation.rule,
        "tools": list(explanation.tools),
        "profile": {
            "topic": profile.topic,
            "rag_results": profile.rag_results,
            "intent": profile.intent,
            "service": profile.service,
            "collection": profile.collection,
            "reasoning": profile.reasoning,
            "documents": len(profile.documents),
        },
        "verdicts": [
            {"rule": v.rule, "fits": v.fits, "failed": list(v.failed)} async for v in paced(explanation.verdicts)
        ],
        "phases": [phase.to_dict() for phase in explanation.phases],
        "rules": [
            {
                "llm": rule.llm,
                "model": rule.model,
                "match": dict(rule.match),
                **({"name": rule.name} if rule.name else {}),
            }
            async for rule in paced(rules)
        ],
    }


def _request_fields(body: dict[str, Any]) -> dict[str, Any]:
    chosen = body.get("selectedCollections")
    return {
        "message": body["prompt"],
        "history": read_history(body.get("previousMessages", ()), "previousMessages"),
        "topic": body.get("topic"),
        "variables": body.get("variables"),
        "collections": None
        if chosen is None
        else [CollectionChoice(store=item["service"], collection=item.get("name") or None) for item in chosen],
    }


def _options(body: dict[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in (body.get("options") or {}).items() if value is not None}
    whole = {
        name: int(options[name]) for name in ("max_tokens", "seed") if name in options
    }  # 5.0 is an integer in JSON
    return {**options, **whole}


def _conversation_fields(call: Call) -> dict[str, Any]:
    return {
        "conversation": call.body.get("conversation"),
        "tenant": call.tenant,
        "on_question": _question_handler(call),
    }


def _question_handler(call: Call) -> OnQuestion | None:
    """Return the handler of questions; None for a client that does not show them, and must not be waited for."""
    return Questions.of(call.serving).asking(call.tenant) if call.body.get("questions") else None
