"""The request that calls a tool, in both eras: its questions are answered, and a task may be its answer.

Like the connection, this needs the SDK, and is imported when a server is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from flexchat.plugin import ToolError
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from pydantic import TypeAdapter, ValidationError

from .questions import MAX_ROUNDS, Answer, answer_questions
from .tasks import task_in_error, task_metadata

_RAW: Any = TypeAdapter(dict[str, Any])


async def call_tool(
    client: Client,
    name: str,
    arguments: Mapping[str, Any],
    meta: Mapping[str, Any] | None = None,
    answer: Answer | None = None,
    progress: ProgressFnT | None = None,
    *,
    definition: Mapping[str, Any] | None = None,
    is_write: bool = True,
) -> dict[str, Any]:
    """Call a tool; return the result as the protocol writes it, or the task it was answered with: see task_of.

    Not with client.call_tool, which lists the tools and validates the result against the server's current schema.

    Args:
        answer: Asks a person the server's questions; None without a person.
        progress: Called with the tool's progress; None: progress is not requested.
        definition: The tool's entry in the server's list.
        is_write: Whether it changes something.

    Raises:
        ToolError: The server asks a question that cannot be answered, or does not stop asking.
        ValidationError: The answer is not a result.
    """
    responses: types.InputResponses | None = None
    state: str | None = None
    task = task_metadata(client, definition or {}, is_write=is_write)
    for _ in range(MAX_ROUNDS):
        params = types.CallToolRequestParams(
            name=name,
            arguments=dict(arguments),
            input_responses=responses,
            request_state=state,
            task=task,
            _meta=meta,  # type: ignore[arg-type]
        )
        request = types.CallToolRequest(params=params)
        # The same state and the replies go back with each repetition: the server keeps nothing between them.
        try:
            result: dict[str, Any] = await client.session.send_request(request, _RAW, progress_callback=progress)
        except ValidationError as error:
            if (task_answer := task_in_error(error)) is None:
                raise
            return task_answer
        if result.get("resultType") == "task":
            return result
        if result.get("resultType") != "input_required":
            types.CallToolResult.model_validate(result, by_name=False)
            return result
        responses, state = await answer_questions(result, answer)
    raise ToolError(f"the tool asked {MAX_ROUNDS} times without coming to a result")
