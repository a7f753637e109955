"""Questions to people: those of the turns that are kept, and replies to all of them, whichever process asks."""

from __future__ import annotations

import contextlib

from flexchat import ChatRequestError, FlexChat, FlexChatError, PendingQuestion, UnknownQuestionError
from flexchat import Reply as QuestionReply

from ..operations import Call, Json, Operations, Reply
from ..shapes import TEXT, body_schema, listed, record, schema_of
from .events import pending_data
from .journal import list_arguments, list_query
from .turns import Turns

_FIELDS = record(
    dict.fromkeys(("id", "call_id", "tool", "message"), str),
    **{"schema": dict, "details": dict},
    **dict.fromkeys(("url", "digest"), str),
    remember={"type": "object", "description": "Scopes in which a reply may count again."},
    arguments_text={**TEXT, "description": "An approval's arguments in JSON, with all characters visible."},
)
_REPLY = {**record({"action": str, "content": dict, "why": str, "remember": str}), "type": ["object", "null"]}
_QUESTION = schema_of(PendingQuestion, plus={"id": str, "question": _FIELDS, "reply": _REPLY})

operation = Operations("turns", problems=(404, 503))


@operation(
    "GET",
    "/api/questions",
    query={**list_query(_QUESTION), "turn": {**TEXT, "maxLength": 128}},
    answer=record({"questions": listed(_QUESTION)}),
)
async def list_questions(call: Call, chat: FlexChat) -> Reply:
    """List the questions of kept turns, newest first: those that are open, or in another state."""
    chosen = list_arguments(call)
    chosen["states"] = chosen["states"] or ["open"]
    questions = await chat.pending(**chosen, turn=call.query.get("turn"))
    return Json({"questions": [pending_data(each) for each in questions]})


@operation("GET", "/api/questions/{id}", answer=_QUESTION)
async def show_question(call: Call, chat: FlexChat) -> Reply:
    """Return a question of a kept turn with its reply; the beginning of its id is enough."""
    return Json(pending_data(await chat.question(call.path["id"], tenant=call.tenant)))


@operation(
    "POST",
    "/api/questions/{id}/reply",
    body={
        **body_schema(
            {"action": {"enum": ["accept", "decline", "cancel"]}},
            content=dict | None,
            reason={**TEXT, "maxLength": 2000, "description": "Why it is declined, for the tool and the model."},
            remember={**TEXT, "description": "A scope of the question in which the reply counts again."},
        ),
        "examples": [{"action": "accept", "content": {"seat": "window"}}, {"action": "decline", "reason": "too much"}],
    },
    answer=record({"id": str, "action": str}),
    problems=(404, 422, 503),
)
async def reply_to_question(call: Call, chat: FlexChat) -> Reply:
    """Reply to a question of a turn that runs in any process, or is suspended: then the turn goes on."""
    id, body, turn = call.path["id"], call.body, ""
    reply = QuestionReply(
        action=body["action"],
        content=body.get("content") or {},
        why=body.get("reason", "").strip(),
        remember=body.get("remember", ""),
    )
    with contextlib.suppress(UnknownQuestionError, ChatRequestError):  # a question that is not kept
        question = await chat.question(id, tenant=call.tenant)
        id, turn = question.id, question.turn
    await chat.answer(id, reply, by=call.user, tenant=call.tenant, resume=False)
    if turn and not call.serving.settings.accept_only:
        # It may run, in the process that asks; if it cannot go on here, the reply counts, and other processes try.
        with contextlib.suppress(FlexChatError):
            await call.serving.shared(Turns).resume(turn, call.tenant)
    return Json({"id": id, "action": reply.action})
