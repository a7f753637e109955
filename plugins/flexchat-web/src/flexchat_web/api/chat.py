"""Chatting: a message in, a turn or its events out; questions of tools to the client; and why a rule would answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import CollectionChoice, OnQuestion, Question, Turn, read_history
from flexchat import Reply as QuestionReply
from flexchat.host import reply_problem

from .. import shapes
from ..operations import Call, Json, Operations, Reply, Stream, Written
from ..problems import ApiError
from ..sending import LongAnswers, encoded_in_pieces, paced, turn_reply
from ..shapes import body_schema, listed, record
from .events import turn_data
from .turns import INTERRUPTED, Turns, begun, replayed

if TYPE_CHECKING:
    from flexchat import Explanation, FlexChat
    from flexchat.host import ResponseRule

    from ..serving import Serving

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
_EXAMPLES = [{"prompt": "What is 2 + 2?"}]


def _no_prompt(body: Any) -> str | None:
    prompt = body.get("prompt") if isinstance(body, dict) else None
    return None if isinstance(prompt, str) and prompt.strip() else NO_PROMPT


operation = Operations("chat", problems=shapes.TURN_PROBLEMS)
questions = Operations("turns")


@attrs.frozen
class _Open:
    question: Question
    tenant: str
    reply: asyncio.Future[QuestionReply]


class Questions:
    """The questions that wait for a reply, of all turns that run here."""

    def __init__(self, serving: Serving) -> None:
        self._open: dict[str, _Open] = {}

    def asking(self, tenant: str) -> OnQuestion:
        """Return the handler that sends questions to a tenant's clients as events, and awaits the reply over HTTP."""

        async def ask(question: Question) -> QuestionReply:
            waiting = _Open(question, tenant, asyncio.get_running_loop().create_future())
            self._open[question.id] = waiting
            try:
                return await waiting.reply
            finally:
                del self._open[question.id]

        return ask

    def reply(self, id: str, tenant: str, reply: QuestionReply) -> None:
        """Give a question its reply: the first that fits counts.

        Raises:
            ApiError: 404: it is not open, or belongs to another tenant; 422: the reply does not fit.
        """
        waiting = self._open.get(id)
        if waiting is None or waiting.tenant != tenant or waiting.reply.done():
            text = "there is no such question here, or it is no longer open: it has its reply, or its turn has ended"
            raise ApiError(404, text, kind="unknown-question")
        problem = reply_problem(waiting.question, reply)
        if problem:
            raise ApiError(422, f"the reply does not fit the question: {problem}", kind="reply")
        waiting.reply.set_result(reply)


@operation(
    "POST",
    "/chat/api",
    name="chat",
    body={
        **body_schema(
            _PROMPT,
            **_REQUEST,
            options=_OPTIONS,
            conversation=shapes.CONVERSATION_ID,
            stream=bool,
            questions={**shapes.SWITCH, "description": "Whether the client shows questions of tools, and replies."},
            retryCount={"description": "Not read."},
            selectedModels={"description": "Not read."},
        ),
        "examples": _EXAMPLES,
    },
    refusal=_no_prompt,
    max_body_bytes=4 * 1024 * 1024,
    answer=record({**dict.fromkeys(("response", "status", "topic", "service", "model"), str), "turn": shapes.TURN}),
    takes_key=True,
    streams=True,
)
async def _chat(call: Call) -> Reply:
    """Answer a message; with stream, or if the client accepts text/event-stream, as events."""
    body, turns = call.body, call.serving.shared(Turns)
    request = {**_request_fields(body), **_options(body), "conversation": body.get("conversation")}
    if body.get("questions"):  # a client that does not show questions must not be waited for
        request["on_question"] = call.serving.shared(Questions).asking(call.tenant)
    is_stream, stopped = body.get("stream", call.wants_stream), INTERRUPTED if request["conversation"] else None
    if call.key is None:
        if is_stream:
            return Stream(begun(turns, call.tenant, **request), stopped=stopped)
        async with call.serving.chat() as chat:
            turn = await chat.respond(**request, tenant=call.tenant)
        return await _answered(call, turn, {})
    joined, is_repeat = await turns.join(call.tenant, call.key, lambda chat: (chat, request))
    headers = REPLAYED if is_repeat else {}
    if not is_stream:
        with turns.listening(joined):
            return await _answered(call, await joined.handle.result(), headers)
    if turns.find(joined.handle.id, call.tenant) is None:
        return Stream(replayed(joined), headers)
    return Stream(begun(turns, call.tenant, joined=joined), headers, stopped=stopped)


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
    return options | {
        name: int(options[name]) for name in ("max_tokens", "seed") if name in options
    }  # 5.0 is an integer


@questions(
    "POST",
    "/api/questions/{id}/reply",
    body={
        **body_schema({"action": {"enum": ["accept", "decline", "cancel"]}}, content=dict | None),
        "examples": [{"action": "accept", "content": {"seat": "window"}}],
    },
    answer=record({"id": str, "action": str}),
    problems=(404, 422),
)
async def reply_to_question(call: Call) -> Reply:
    """Reply to a question that a tool asks in a turn; its event has the id."""
    reply = QuestionReply(action=call.body["action"], content=call.body.get("content") or {})
    call.serving.shared(Questions).reply(call.path["id"], call.tenant, reply)
    return Json({"id": call.path["id"], "action": reply.action})
