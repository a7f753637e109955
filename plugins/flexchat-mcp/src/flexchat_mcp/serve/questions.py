"""Questions to the person behind a call, as requests to the client (elicitation), and the client's replies.

Source: MCP 2025-11-25 and 2026-07-28, "Elicitation"; SEP-2322 (input_required).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types
from flexchat.plugin import Question, Reply

BY_CLIENT = "an MCP client"
"""Who replied, for the record."""

FORM = "elicitation/create"
MAX_RESPONSES = 100
_NO_FIELDS = {"type": "object", "properties": {}}


def request_of(question: Question) -> dict[str, Any]:
    """Return a question as a request to the client.

    A tool written for MCP clients may replace it: ``details={"request": {"method": …, "params": …}}``.
    """
    own = question.details.get("request")
    if isinstance(own, Mapping) and isinstance(own.get("method"), str):
        return {"method": own["method"], "params": dict(own.get("params") or {})}
    if question.url:
        form = {"mode": "url", "message": question.message, "url": question.url, "elicitationId": question.id}
        return {"method": FORM, "params": form}
    schema = dict(question.schema) if question.schema is not None else _NO_FIELDS
    return {"method": FORM, "params": {"message": question.message, "requestedSchema": schema}}


def names_of(questions: Iterable[Question]) -> dict[str, Question]:
    """Return questions by the names under which the client answers: their own (``details={"name": …}``), or ids."""
    by_name: dict[str, Question] = {}
    for question in questions:
        name = question.details.get("name")
        by_name[name if isinstance(name, str) and name and name not in by_name else question.id] = question
    return by_name


def can_answer(question: Question, capabilities: types.ClientCapabilities | None) -> bool:
    """Return whether a client has declared that it can be asked this."""
    if capabilities is None:
        return False
    method = request_of(question)["method"]
    if method == FORM:
        elicitation = capabilities.elicitation
        if elicitation is None:
            return False
        return elicitation.url is not None if question.url else elicitation.form is not None or elicitation.url is None
    return getattr(capabilities, method.partition("/")[0], None) is not None


def reply_of(question: Question, response: Any) -> Reply | None:
    """Read a client's response; None if it cannot be read, so that the question stays open."""
    if hasattr(response, "model_dump"):
        response = response.model_dump(mode="json", by_alias=True, exclude_none=True)
    if not isinstance(response, Mapping):
        return None
    if request_of(question)["method"] != FORM:
        return Reply(action="accept", content=dict(response))
    action, content = response.get("action"), response.get("content")
    if action == "accept" and (content is None or isinstance(content, Mapping)):
        return Reply(action="accept", content=dict(content or {}) if question.schema is not None else {})
    return Reply(action=action) if action in ("decline", "cancel") else None
