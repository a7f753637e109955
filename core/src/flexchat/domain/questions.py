"""Questions to people: asked by tools and gates, and kept until someone replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import attrs

from .codec import value_to_dict
from .messages import STORED, new_call_id

ReplyAction = Literal["accept", "decline", "cancel"]
"""What became of a question: it was answered, the person said no, or nobody decided (MCP's words)."""

QuestionState = Literal["open", "replied", "expired", "withdrawn"]
"""Of a kept question. "withdrawn": its turn ended before there was a reply."""


@attrs.frozen(kw_only=True)
class Question:
    """A question of a tool, or of a step before it.

    Attributes:
        message: The text for the person.
        schema: JSON Schema of the object that answers it; its properties are the fields of a form. None for a yes or
            no.
        url: A page where the person does something, such as signing in, in place of a form; empty for none.
        tool: The tool's own name.
        call_id: The call with the question.
        id: Unique.
        digest: For an approval, the digest of what is approved: its reply lets exactly that run, once. Empty for other
            questions.
        details: Further facts about it for programs and pages, JSON data: an approval's arguments.
        remember: Scopes in which the reply may count again, and for each the key of what it covers. The key of the
            scope "" holds for any reply that names no scope.
        expires_s: Seconds after which there can be no reply; None for the time in ``questions.expires``.
    """

    message: str
    schema: Mapping[str, Any] | None = None
    url: str = ""
    tool: str = ""
    call_id: str = ""
    id: str = attrs.field(factory=new_call_id)
    digest: str = ""
    details: Mapping[str, Any] = attrs.field(factory=dict)
    remember: Mapping[str, str] = attrs.field(factory=dict)
    expires_s: float | None = None


@attrs.frozen(kw_only=True)
class Reply:
    """The reply to a question.

    Attributes:
        action: "accept": it was answered. "decline": the person refused. "cancel": there is no answer.
        content: The answer, an object that fits the question's schema; empty unless accepted.
        why: Why there is no answer, for the tool and the model; empty if a person gave one, or declined without a
            reason.
        remember: A scope of the question's ``remember`` in which the reply counts again; empty for this call only.
        by: Who replied, for the record, where ``on_question`` has it; the ``by`` of ``FlexChat.answer`` counts instead.
    """

    action: ReplyAction
    content: Mapping[str, Any] = attrs.field(factory=dict)
    why: str = ""
    remember: str = ""
    by: str = attrs.field(default="", metadata={STORED: None})  # PendingQuestion.replied_by has it


OnQuestion = Callable[[Question], Awaitable[Reply | None] | Reply | None]
"""Asks a person: a function, async or not. None in place of a Reply: nobody can be asked."""

NOBODY = "nobody can be asked here"  # why a question has no answer where there is no person


@attrs.frozen(kw_only=True)
class PendingQuestion:
    """A question in the journal, with its reply once there is one.

    Attributes:
        turn: Id of the turn it belongs to.
        asked_at, expires_at, replied_at: ISO 8601, UTC; replied_at is empty while it is open.
        replied_by: Who replied; empty for the caller of the turn.
        used_by: The call that an approval has let run: the key of its effect, or the id of its turn and its place.
        remembered: The key under which the reply counts again; empty if it counts once, or was revoked.
    """

    question: Question
    tenant: str
    conversation: str
    turn: str
    asked_at: str
    expires_at: str
    state: QuestionState = "open"
    reply: Reply | None = None
    replied_by: str = ""
    replied_at: str = ""
    used_by: str = ""
    remembered: str = ""

    @property
    def id(self) -> str:
        """The id of the question."""
        return self.question.id

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data, for programs and pages."""
        return {"id": self.id, **value_to_dict(self)}


@attrs.frozen
class Approval:
    """A person's permission for one call: the id of the question they accepted, and the digest of what they saw."""

    question: str
    digest: str
