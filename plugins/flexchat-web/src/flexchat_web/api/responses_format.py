"""The format of OpenAI's Responses: requests as Chat Completions, a turn as a response or as its events.

Source: platform.openai.com/docs/api-reference/responses; openresponses.org/specification.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import flexchat
from flexchat import (
    AssistantMessage,
    ChatRequestError,
    FlexChatError,
    Message,
    StreamEvent,
    ToolCall,
    ToolMessage,
    Turn,
    Usage,
    UserMessage,
)
from flexchat.host import TurnEvent
from flexchat_sdk import ReasoningPart, TextPart

from .. import shapes
from ..operations import Event
from ..problems import ApiError
from ..shapes import NULLABLE_SWITCH, NULLABLE_TEXT, listed, record
from .caller_tools import CHOICE, FUNCTION, MAX_TOOLS
from .errors import problem_of
from .openai_format import Calls, turn_with, waits_for

_UNSUPPORTED = (
    *("prompt", "context_management", "moderation", "image", "access_programs", "background_options"),
    *("max_tool_calls", "top_logprobs"),
)
"""Fields that are refused: without them, the answer would be another one."""

_UNREAD = ("service_tier", "truncation", "include")
"""Fields that are ignored, with a warning."""

_INCLUDED = ("reasoning.encrypted_content",)
_ECHOED = (
    *("instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "previous_response_id", "temperature"),
    *("tool_choice", "tools", "top_p", "text", "reasoning", "truncation", "background"),
)
_DEFAULTS = {
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "text": {"format": {"type": "text"}},
    "truncation": "disabled",
    "background": False,
}

_FORM = {
    "anyOf": [
        {"type": "null"},
        record({"type": {"enum": ["text", "json_object"]}}),
        record(
            {"type": {"const": "json_schema"}, "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}},
            schema=record({"type": {"const": "object"}}),
            strict=NULLABLE_SWITCH,
        ),
    ]
}
_CONTENT = {"anyOf": [shapes.TEXT, listed(record({"type": str}))]}
_ITEM = record(
    {},
    type={"enum": ["message", "function_call", "function_call_output", "reasoning", "item_reference"]},
    role={"enum": ["user", "assistant", "system", "developer"]},
    content={"anyOf": [*_CONTENT["anyOf"], {"type": "null"}]},
    output=_CONTENT,
    **dict.fromkeys(("id", "call_id", "name", "arguments"), NULLABLE_TEXT),
)
_TEXT_PARTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}

REQUEST = {
    **record(
        {
            "model": {**shapes.TEXT, "minLength": 1},
            "input": {"anyOf": [shapes.WORDS, {**listed(_ITEM), "minItems": 1, "maxItems": 2_000}]},
        },
        instructions=NULLABLE_TEXT,
        tools={
            "type": ["array", "null"],
            "maxItems": MAX_TOOLS,
            "items": {**FUNCTION, "properties": {**FUNCTION["properties"], "type": {"const": "function"}}},
        },
        tool_choice=CHOICE,
        text={**shapes.NULLABLE_TABLE, "properties": {"format": _FORM}},
        reasoning={**shapes.NULLABLE_TABLE, "properties": {"effort": shapes.EFFORT}},
        conversation={
            "anyOf": [shapes.CONVERSATION_ID, record({"id": shapes.CONVERSATION_ID}), {"type": "null"}],
        },
        previous_response_id=NULLABLE_TEXT,
        max_output_tokens=shapes.TOKENS,
        metadata=dict | None,
        variables=shapes.VARIABLES,
        **{name: shapes.MODEL_OPTIONS[name] for name in ("temperature", "top_p", "parallel_tool_calls")},
        **dict.fromkeys(("stream", "store", "background"), NULLABLE_SWITCH),
        **{key: {"enum": [None, 0, False, "", [], {}]} for key in _UNSUPPORTED},
        include={"type": ["array", "null"], "items": {"enum": [*_INCLUDED]}},
    ),
    "examples": [{"model": "flexchat", "input": "What is 2 + 2?"}],
}
RESPONSE = record(
    {
        **dict.fromkeys(("id", "object", "model"), str),
        "created_at": float,
        "status": {"enum": ["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]},
        "output": listed(record({"type": str, "id": str})),
        "error": dict | None,
        "incomplete_details": dict | None,
        "usage": dict | None,
        "tools": listed(dict),
        "parallel_tool_calls": bool,
        "tool_choice": {},
        "store": bool,
    },
    previous_response_id=str | None,
    conversation=dict | None,
    flexchat=dict,
)


def refusal(body: Any) -> str | None:
    """Return the sentence that refuses a request for something that is not done here; None if it has none."""
    fields = body if isinstance(body, dict) else {}
    for name in _UNSUPPORTED:
        if fields.get(name):
            return f"{name}: this server does not support it; leave {name} out"
    for index, tool in enumerate(tools if isinstance(tools := fields.get("tools"), list) else ()):
        if isinstance(tool, dict) and tool.get("type") != "function":
            return f"tools[{index}].type: a client's tools are functions here, not {tool.get('type')!r:.40}"
    for index, name in enumerate(names if isinstance(names := fields.get("include"), list) else ()):
        if name not in _INCLUDED:
            return f"include[{index}]: this server does not return {name!r:.60}"
    for index, item in enumerate(items if isinstance(items := fields.get("input"), list) else ()):
        kind = item.get("type", "message") if isinstance(item, dict) else "message"
        if kind not in _ITEM["properties"]["type"]["enum"]:
            return f"input[{index}].type: this server does not read items of type {kind!r:.40}"
    if fields.get("conversation") and fields.get("previous_response_id"):
        return "previous_response_id: it names a conversation already; leave conversation out"
    if fields.get("background") and fields.get("store") is False:
        return "background: such a response is stored; leave store out"
    return None


def completions_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a chat completion that asks for the same."""
    reasoning, text = body.get("reasoning") or {}, body.get("text") or {}
    form = text.get("format")
    if form is not None and form["type"] == "json_schema":
        form = {"type": "json_schema", "json_schema": {key: form.get(key) for key in ("name", "schema", "strict")}}
    same = ("model", "stream", "temperature", "top_p", "tool_choice", "parallel_tool_calls", "variables", *_UNREAD)
    converted = {
        **{name: body.get(name) for name in same},
        "messages": entries_of(body),
        "response_format": form,
        "tools": [{"type": "function", "function": tool} for tool in body.get("tools") or ()],
        "max_completion_tokens": body.get("max_output_tokens"),
        "reasoning_effort": reasoning.get("effort"),
        "verbosity": text.get("verbosity"),
    }
    return {name: value for name, value in converted.items() if value is not None}


def entries_of(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a request's instructions and input as messages of Chat Completions.

    A reference to an item of a stored response becomes {"held": id of its turn}: all its messages take its place.

    Raises:
        ApiError: 400: an item cannot be read.
    """
    source = body["input"]
    items = [{"role": "user", "content": source}] if isinstance(source, str) else source
    entries: list[dict[str, Any]] = []
    if body.get("instructions"):
        entries.append({"role": "system", "content": body["instructions"]})
    for index, item in enumerate(items):
        place, last = f"input[{index}]", entries[-1] if entries else {}
        match item.get("type", "message"):
            case "message":
                if not item.get("role"):
                    raise _unread(f"{place}.role", "a message has a role")
                entries.append({"role": item["role"], "content": _content(item.get("content"))})
            case "function_call":
                function = {"name": item.get("name"), "arguments": item.get("arguments")}
                call = {"id": item.get("call_id"), "type": "function", "function": function}
                if last.get("role") != "assistant":
                    entries.append({"role": "assistant", "content": None})
                entries[-1].setdefault("tool_calls", []).append(call)
            case "function_call_output":
                content = _content(item.get("output"))
                entries.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
            case "item_reference":
                kind, _, turn = (item.get("id") or "").partition("_")
                turn, _, number = turn.partition("_")
                if kind not in ("msg", "fc", "rs") or not number:
                    raise _unread(f"{place}.id", f"no item of a response is called {item.get('id')!r:.80}")
                if last.get("held") != turn:
                    entries.append({"held": turn, "place": f"{place}.id"})
    return entries


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    kinds = [_TEXT_PARTS.get(part["type"], part["type"]) for part in content]
    return [{**part, "type": kind} for part, kind in zip(content, kinds, strict=True)]


def _unread(place: str, text: str) -> ApiError:
    return ApiError(400, f"{place}: {text}", kind="request", param=place, code=None)


def items_of(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages with which a turn began as input items."""
    items: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        if isinstance(message, UserMessage):
            content = [{"type": "input_text", "text": message.content}]
            items.append({"type": "message", "id": f"in_{number}", "role": "user", "content": content})
        elif isinstance(message, ToolMessage):
            items.append(
                {
                    "type": "function_call_output",
                    "id": f"in_{number}",
                    "call_id": message.tool_call_id,
                    "output": message.content,
                    "status": "completed",
                }
            )
    return items


class Output:
    """The output items of a turn, one after another, and the events that report them.

    Attributes:
        items: Those that are complete.
    """

    def __init__(self, turn: str) -> None:
        self._turn, self._number = turn, 0
        self.items: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None

    def text(self, text: str) -> Iterator[dict[str, Any]]:
        """Add to the message that is being written, or begin one."""
        if self._open is None or self._open["type"] != "message":
            yield from self.close()
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            item = {"type": "message", "role": "assistant", "status": "in_progress", "content": []}
            yield from self._begin("msg", item)
            yield self._of_part("response.content_part.added", part={**part})
            self._open = {**item, "content": [part]}
        self._open["content"][0]["text"] += text
        yield self._of_part("response.output_text.delta", delta=text, logprobs=[])

    def reasoning(self, text: str) -> Iterator[dict[str, Any]]:
        """Add to the summary of thoughts that is being written, or begin one."""
        if self._open is None or self._open["type"] != "reasoning":
            yield from self.close()
            yield from self._begin("rs", {"type": "reasoning", "summary": []})
            part = {"type": "summary_text", "text": ""}
            yield self._of_summary("response.reasoning_summary_part.added", part={**part})
            self._open = {"type": "reasoning", "summary": [part]}
        self._open["summary"][0]["text"] += text
        yield self._of_summary("response.reasoning_summary_text.delta", delta=text)

    def call(self, id: str, call: ToolCall) -> Iterator[dict[str, Any]]:
        """Add a call of one of the client's tools."""
        yield from self.close()
        item = {"type": "function_call", "call_id": id, "name": call.name, "arguments": "", "status": "in_progress"}
        yield from self._begin("fc", item)
        yield self._of_item("response.function_call_arguments.delta", delta=call.arguments_text)
        done = {"name": call.name, "arguments": call.arguments_text}
        yield self._of_item("response.function_call_arguments.done", **done)
        yield self._end({**item, "arguments": call.arguments_text, "status": "completed"})

    def close(self) -> Iterator[dict[str, Any]]:
        """End the item that is being written, if there is one."""
        item, self._open = self._open, None
        if item is None:
            return
        if item["type"] == "message":
            part = item["content"][0]
            yield self._of_part("response.output_text.done", text=part["text"], logprobs=[])
            yield self._of_part("response.content_part.done", part=part)
            yield self._end({**item, "status": "completed"})
        else:
            part = item["summary"][0]
            yield self._of_summary("response.reasoning_summary_text.done", text=part["text"])
            yield self._of_summary("response.reasoning_summary_part.done", part=part)
            yield self._end(item)

    def _begin(self, prefix: str, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._id = f"{prefix}_{self._turn}_{self._number}"
        self._number += 1
        at = {"output_index": len(self.items), "item": {"id": self._id, **item}}
        yield {"type": "response.output_item.added", **at}

    def _end(self, item: dict[str, Any]) -> dict[str, Any]:
        whole = {"id": self._id, **item}
        self.items.append(whole)
        return {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": whole}

    def _of_item(self, kind: str, **data: Any) -> dict[str, Any]:
        return {"type": kind, "item_id": self._id, "output_index": len(self.items), **data}

    def _of_part(self, kind: str, **data: Any) -> dict[str, Any]:
        return self._of_item(kind, content_index=0, **data)

    def _of_summary(self, kind: str, **data: Any) -> dict[str, Any]:
        return self._of_item(kind, summary_index=0, **data)


def output_of(
    turn: str, messages: Sequence[Message], content: str, calls: Sequence[tuple[str, ToolCall]], *, has_form: bool
) -> list[dict[str, Any]]:
    """Return the output items of a turn that has ended.

    Args:
        messages: Of the turn, from its first answer on.
        content: The text for the user; it is that of the last answer, or takes its place.
        has_form: Whether a form was requested: then there is no other text.
    """
    output = Output(turn)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    for message in answers:
        for part in message.parts:
            if isinstance(part, ReasoningPart) and part.text:
                [*output.reasoning(part.text)]
            elif isinstance(part, TextPart) and part.text and message is not answers[-1] and not has_form:
                [*output.text(part.text)]
        if message is answers[-1] and content:
            [*output.text(content)]
        [*output.close()]
    if not answers and content:
        [*output.text(content), *output.close()]
    for id, call in calls:
        [*output.call(id, call)]
    return output.items


def response(
    turn: str,
    body: Mapping[str, Any],
    status: str,
    output: Sequence[Mapping[str, Any]] = (),
    *,
    created_at: float | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a response object.

    Args:
        turn: Id of its turn.
        body: The request, whose fields it repeats.
    """
    echoed = {name: _DEFAULTS.get(name) if body.get(name) is None else body[name] for name in _ECHOED}
    return {
        "id": f"resp_{turn}",
        "object": "response",
        "created_at": int(time.time() if created_at is None else created_at),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": body["model"],
        "output": [*output],
        "usage": None,
        **echoed,
        **more,
    }


def ended_response(
    turn: Turn, body: Mapping[str, Any], output: Sequence[Mapping[str, Any]], warnings: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Return the response of a turn that has ended."""
    status, facts = status_of(turn.status, turn.response.finish_reason)
    facts = {"usage": usage_of(turn.response.usage), "flexchat": turn_with(turn, tuple(warnings)), **facts}
    return response(turn.id, body, status, output, **{**facts, **more})


def status_of(status: str, finish_reason: str | None, error: str = "") -> tuple[str, dict[str, Any]]:
    """Return the status of a response whose turn has this status, and the fields that explain it."""
    if status == "failed":
        return "failed", {"error": {"code": "server_error", "message": error}}
    if status == "cancelled":
        return "cancelled", {}
    if status in ("suspended", "accepted"):
        return "incomplete", {}
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    if (reason := reasons.get(finish_reason or "")) is not None:
        return "incomplete", {"incomplete_details": {"reason": reason}}
    return "completed", {}


def usage_of(usage: Usage | None) -> dict[str, Any] | None:
    """Return the tokens of a turn; None if they were not counted."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


async def events_of_response(
    id: str,
    turn: AsyncGenerator[StreamEvent, None],
    body: Mapping[str, Any],
    warnings: Sequence[str],
    calls: Calls,
    more: Mapping[str, Any],
    mask: Callable[[str], str],
) -> AsyncGenerator[Event, None]:
    """Yield a turn as the events of a response, numbered from 0.

    Errors before the model's answer are raised, with their own status; a later one is the event response.failed.
    """
    output, number, begun = Output(id), -1, False

    def event(data: Mapping[str, Any]) -> Event:
        nonlocal number
        number += 1
        return Event(data["type"], {**data, "sequence_number": number})

    def state(kind: str, whole: Mapping[str, Any]) -> Event:
        return event({"type": f"response.{kind}", "response": whole})

    try:
        async with aclosing(turn):
            async for happened in turn:
                if not begun and not (isinstance(happened, TurnEvent) and not _is_end(happened)):
                    begun = True
                    for kind in ("created", "in_progress"):
                        yield state(kind, response(id, body, "in_progress", **more))
                match happened:
                    case flexchat.TextDelta(text=text) if text:
                        pieces = output.text(text)
                    case flexchat.ReasoningDelta(text=text) if text:
                        pieces = output.reasoning(text)
                    case flexchat.AnswerEnd(result=result) if not result.is_paused:
                        pieces = output.close()
                    case flexchat.ToolStarted(call=call) if begun:
                        yield Event(None, None, comment=f"the tool {call.name} runs")
                        continue
                    case flexchat.TurnFinished(turn=ended) | flexchat.TurnSuspended(turn=ended):
                        if text := waits_for(ended).lstrip():  # an item of its own
                            for piece in (*output.text(text), *output.close()):
                                yield event(piece)
                        for identified in await calls(ended):
                            for piece in output.call(*identified):
                                yield event(piece)
                        for piece in output.close():
                            yield event(piece)
                        whole = ended_response(ended, body, output.items, warnings, **more)
                        yield state(whole["status"], whole)
                        continue
                    case _:
                        continue
                for piece in pieces:
                    yield event(piece)
    except (FlexChatError, ApiError) as error:
        if not begun or isinstance(error, ChatRequestError):
            raise
        problem = problem_of(error, mask) if isinstance(error, FlexChatError) else error
        failure = {"error": {"code": "server_error", "message": problem.detail}}
        yield state("failed", response(id, body, "failed", output.items, **{**more, **failure}))


def _is_end(happened: StreamEvent) -> bool:
    return isinstance(happened, flexchat.TurnFinished | flexchat.TurnSuspended)
