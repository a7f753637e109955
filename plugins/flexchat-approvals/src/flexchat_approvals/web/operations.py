"""Remembered replies, and questions behind the links that a webhook gets. All others are at /api/questions."""

from __future__ import annotations

from typing import Any

from flexchat import ClosedQuestionError, FlexChat, UnknownQuestionError
from flexchat.store import PendingQuestion
from flexchat_web.shapes import PAGE, QUESTION, REPLY, listed, record
from flexchat_web.typing import Call, Operations, Reply

from ..links import read_token
from ..webhook import masked

MAX_COUNTED = 100
LINK = "a link sent to the webhook"
"""Who replied, if it was by such a link, which needs no sign-in."""

operation = Operations("turns", problems=(404, 503))


@operation("GET", "/api/approvals/count", answer=record({"count": {"type": ["integer", "string"]}}))
async def count_open_questions(call: Call, chat: FlexChat) -> Reply:
    """Count the open questions: "99+" if there are more."""
    count = 0 if chat.journal is None else len(await chat.pending(tenant=call.tenant, limit=MAX_COUNTED))
    return call.web.Json({"count": count if count < MAX_COUNTED else f"{MAX_COUNTED - 1}+"})


@operation("GET", "/api/approvals/rules", query=PAGE, answer=record({"rules": listed(QUESTION)}))
async def approval_rules(call: Call, chat: FlexChat) -> Reply:
    """List the remembered replies, the newest first."""
    limit, before = call.query["limit"], call.query.get("before")
    rules = await chat.pending(tenant=call.tenant, states=("replied",), remembered="", limit=limit, before=before)
    return call.web.Json({"rules": [call.web.pending_data(rule) for rule in rules]})


@operation("DELETE", "/api/approvals/rules/{id}", answer=QUESTION)
async def revoke_approval_rule(call: Call, chat: FlexChat) -> Reply:
    """Revoke a remembered reply: from now on, calls like its own need a reply again."""
    return call.web.Json(call.web.pending_data(await chat.revoke(call.path["id"], tenant=call.tenant)))


@operation("GET", "/api/approvals/by-token/{token}", answer=QUESTION, open=True)
async def linked_question(call: Call, chat: FlexChat) -> Reply:
    """Show the open question behind a link. This changes nothing: programs open the links in messages."""
    return call.web.Json(_format_question(call, chat, await _linked(call, chat)))


@operation("POST", "/api/approvals/by-token/{token}", body=REPLY, answer=QUESTION, problems=(404, 422, 503), open=True)
async def reply_to_linked_question(call: Call, chat: FlexChat) -> Reply:
    """Reply to the question behind a link, which can be used once. The reply counts for this call only."""
    pending = await _linked(call, chat)
    if call.body.get("remember"):
        raise call.web.ApiError(422, "a reply by a link is not remembered: sign in to reply for more than this call")
    await call.web.record_reply(call, chat, pending.id, tenant=pending.tenant, by=LINK)
    return call.web.Json(_format_question(call, chat, await chat.question(pending.id, tenant=pending.tenant)))


async def _linked(call: Call, chat: FlexChat) -> PendingQuestion:
    """Return the open question of a token, of whichever tenant."""
    secret, pending = chat.config.questions.webhook_secret, None
    if secret is not None and chat.journal is not None and (link := read_token(secret, call.path["token"])):
        id, tenant = link
        try:
            pending = await chat.question(id, tenant=tenant)
        except UnknownQuestionError:
            pending = None
    if pending is None:
        raise call.web.ApiError(404, "this link leads to no question: it is cut off, forged or too old", kind="link")
    if pending.state != "open":
        at = pending.replied_at or pending.expires_at
        raise ClosedQuestionError(pending.id, pending.state, pending.replied_by, at)
    return pending


def _format_question(call: Call, chat: FlexChat, pending: PendingQuestion) -> Any:
    """Return a question for someone who has not signed in: without secrets of the config, or scopes to remember."""
    data = call.web.pending_data(pending)
    question = {name: value for name, value in data["question"].items() if name != "remember"}
    return masked({**data, "question": question}, chat.mask)
