"""Questions to people: those of the turns that are kept, and replies to all of them, whichever process asks."""

from __future__ import annotations

import contextlib

from flexchat import ChatRequestError, FlexChat, FlexChatError, UnknownQuestionError
from flexchat import Reply as QuestionReply

from ..operations import Call, Json, Operations, Reply
from ..shapes import QUESTION, REPLY, TEXT, listed, record
from .events import pending_data
from .journal import list_arguments, list_query
from .turns import Turns

operation = Operations("turns", problems=(404, 503))


@operation(
    "GET",
    "/api/questions",
    query={**list_query(QUESTION), "turn": {**TEXT, "maxLength": 128}},
    answer=record({"questions": listed(QUESTION)}),
)
async def list_questions(call: Call, chat: FlexChat) -> Reply:
    """List the questions of kept turns, newest first: those that are open, or in another state."""
    chosen = list_arguments(call)
    chosen["states"] = chosen["states"] or ["open"]
    questions = await chat.pending(**chosen, turn=call.query.get("turn"))
    return Json({"questions": [pending_data(each) for each in questions]})


@operation("GET", "/api/questions/{id}", answer=QUESTION)
async def show_question(call: Call, chat: FlexChat) -> Reply:
    """Return a question of a kept turn with its reply; the beginning of its id is enough."""
    return Json(pending_data(await chat.question(call.path["id"], tenant=call.tenant)))


@operation(
    "POST",
    "/api/questions/{id}/reply",
    body=REPLY,
    answer=record({"id": str, "action": str}),
    problems=(404, 422, 503),
)
async def reply_to_question(call: Call, chat: FlexChat) -> Reply:
    """Reply to a question of a turn that runs in any process, or is suspended: then the turn goes on."""
    id = await record_reply(call, chat, call.path["id"], tenant=call.tenant, by=call.user)
    return Json({"id": id, "action": call.body["action"]})


async def record_reply(call: Call, chat: FlexChat, id: str, *, tenant: str, by: str) -> str:
    """Record the reply in a call's body, and let the question's turn go on; return the question's whole id.

    Raises:
        FlexChatError: As FlexChat.answer.
    """
    body, turn = call.body, ""
    reply = QuestionReply(
        action=body["action"],
        content=body.get("content") or {},
        why=body.get("reason", "").strip(),
        remember=body.get("remember", ""),
    )
    with contextlib.suppress(UnknownQuestionError, ChatRequestError):  # a question that is not kept
        question = await chat.question(id, tenant=tenant)
        id, turn = question.id, question.turn
    await chat.answer(id, reply, by=by, tenant=tenant, resume=False)
    if turn and not call.serving.settings.accept_only:
        # It may run, in the process that asks; if it cannot go on here, the reply counts, and other processes try.
        with contextlib.suppress(FlexChatError):
            await call.serving.shared(Turns).resume(turn, tenant)
    return id
