"""Questions of tools, asked of the client that listens to a turn."""

from __future__ import annotations

import asyncio

import attrs
from flexchat import OnQuestion, Question
from flexchat import Reply as QuestionReply
from flexchat.host import reply_problem

from ..operations import Call, Json, Operations, Reply
from ..problems import ApiError
from ..serving import Serving
from ..shapes import body_schema, record

ACTION = {"enum": ["accept", "decline", "cancel"]}


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


operation = Operations("turns")


@operation(
    "POST",
    "/api/questions/{id}/reply",
    body={
        **body_schema({"action": ACTION}, content=dict | None),
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
