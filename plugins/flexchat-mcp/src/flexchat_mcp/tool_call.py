"""The request that calls a tool, in both eras: a person answers the server's questions, and a task may be its answer.

Like the connection, this needs the SDK, and is imported when a server is needed.

Source: MCP 2025-11-25 and 2026-07-28, "Elicitation"; SEP-2322 (input_required).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from flexchat.plugin import ToolError
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from pydantic import TypeAdapter, ValidationError

from .errors import MAX_ERRORS
from .settings import MODERN

MAX_ROUNDS = 10  # how often one call may ask

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


Keep = Callable[[Mapping[str, Any], bool], Awaitable[None]]
"""Keeps a result of the kind input_required, before its questions are asked (False) and before the replies are sent."""

_TTL_MS = 24 * 3_600_000  # how long a server is asked to keep a task of the older era: a turn may be resumed much later
_RAW: Any = TypeAdapter(dict[str, Any])


async def call_tool(
    client: Client,
    name: str,
    arguments: Mapping[str, Any],
    meta: Mapping[str, Any] | None = None,
    answer: Answer | None = None,
    progress: ProgressFnT | None = None,
    *,
    required: Mapping[str, Any] | None = None,
    keep: Keep | None = None,
    definition: Mapping[str, Any] | None = None,
    is_write: bool = True,
) -> dict[str, Any]:
    """Call a tool; return the result as the protocol writes it, or the task it was answered with: see task_of.

    Not with client.call_tool, which lists the tools and validates the result against the server's current schema.

    Args:
        answer: Asks a person the server's questions; None if there is no one to ask.
        progress: Called with the tool's progress; None: progress is not requested.
        required: What the server has answered the same call with before, a result of the kind input_required: then the
            call goes on from there.
        keep: Called with each such result.
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
        if required is not None:
            responses, state = await answer_questions(required, answer)
            if keep is not None:
                await keep(required, True)
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
        required = result
        if keep is not None:
            await keep(required, False)
    raise ToolError(f"the tool asked {MAX_ROUNDS} times without coming to a result")


def task_metadata(client: Client, tool: Mapping[str, Any], *, is_write: bool) -> types.TaskMetadata | None:
    """Create the metadata that requests a task from a server of the older era; None for a call without one.

    A tool that leaves the choice is called with a task if it changes something: only then an id is worth keeping.

    Args:
        tool: Its definition.
    """
    support = (tool.get("execution") or {}).get("taskSupport")
    if not (support == "required" or (support == "optional" and is_write)) or client.protocol_version >= MODERN:
        return None  # servers of the newer era decide themselves
    tasks = client.server_capabilities.tasks
    takes_tasks = tasks is not None and tasks.requests is not None and tasks.requests.tools is not None
    return types.TaskMetadata(ttl=_TTL_MS) if takes_tasks else None


def task_in_error(error: ValidationError) -> dict[str, Any] | None:
    """Return the answer of the older era that the SDK takes for a broken result, because it is a task."""
    if error.error_count() > MAX_ERRORS:
        return None  # a task lacks little
    for each in error.errors(include_url=False):
        answer = each["input"]
        if each["loc"] == ("content",) and isinstance(answer, dict) and "task" in answer:
            return answer
    return None
