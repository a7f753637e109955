"""Questions of servers in the middle of a call: elicitation, in both eras. Only a person can answer them.

Source: MCP 2025-11-25 and 2026-07-28, "Elicitation"; SEP-2322 (input_required).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from flexchat.plugin import ToolError

MAX_ROUNDS = 10
"""How often one call may ask."""

Answer = Callable[[types.ElicitRequestParams], Awaitable[types.ElicitResult]]
"""Asks a person, who may also decline."""


def schema_of(question: types.ElicitRequestParams) -> dict[str, Any] | None:
    """Return the JSON Schema of a question's answer; None for one that sends the person to a page."""
    if isinstance(question, types.ElicitRequestURLParams):
        return None
    schema: Any = question.requested_schema
    return (
        schema if isinstance(schema, dict) else dict(schema.model_dump(mode="json", by_alias=True, exclude_none=True))
    )


async def answer_questions(
    required: Mapping[str, Any], answer: Answer | None
) -> tuple[types.InputResponses | None, str | None]:
    """Ask the person a result's questions; return the answers and the state with which the call is repeated.

    Args:
        required: A result of the kind input_required, as the protocol writes it.
        answer: Asks the person; None if there is none.

    Raises:
        ToolError: There is no person to ask, or the server requests something other than a person's answer.
    """
    result = types.InputRequiredResult.model_validate(required, by_name=False)
    requests = result.input_requests or {}
    kinds = sorted({request.method for request in requests.values()})
    if requests and (answer is None or kinds != ["elicitation/create"]):
        raise ToolError(f"the tool asks something ({', '.join(kinds)}) that cannot be answered here; it has not run")
    responses: types.InputResponses = {}
    for name, request in requests.items():
        assert answer is not None
        assert isinstance(request, types.ElicitRequest)
        responses[name] = await answer(request.params)
    return responses or None, result.request_state
