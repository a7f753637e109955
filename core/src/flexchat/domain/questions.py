"""Questions of running tools to the person behind a turn, and the replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import attrs

from .messages import new_call_id

ReplyAction = Literal["accept", "decline", "cancel"]
"""What became of a question: it was answered, the person said no, or nobody decided (MCP's words)."""


@attrs.frozen(kw_only=True)
class Question:
    """A question of a tool.

    Attributes:
        message: The text for the person.
        schema: JSON Schema of the object that answers it; its properties are the fields of a form. None for a yes or
            no.
        url: A page where the person does something, such as signing in, in place of a form; empty for none.
        tool: The tool's own name.
        call_id: The call with the question.
        id: Unique.
    """

    message: str
    schema: Mapping[str, Any] | None = None
    url: str = ""
    tool: str = ""
    call_id: str = ""
    id: str = attrs.field(factory=new_call_id)


@attrs.frozen(kw_only=True)
class Reply:
    """The reply to a question.

    Attributes:
        action: "accept": it was answered. "decline": the person refused. "cancel": there is no answer.
        content: The answer, an object that fits the question's schema; empty unless accepted.
        why: Why there is no answer, for the tool and the model; empty if a person gave one, or declined.
    """

    action: ReplyAction
    content: Mapping[str, Any] = attrs.field(factory=dict)
    why: str = ""


OnQuestion = Callable[[Question], Awaitable[Reply | None] | Reply | None]
"""Asks a person: a function, async or not. None in place of a Reply: nobody can be asked."""

NOBODY = "nobody can be asked here"
"""Why a question has no answer where there is no person."""
