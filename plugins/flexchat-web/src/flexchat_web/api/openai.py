"""OpenAI's own API in front of the six phases: programs written for it talk to a configuration.

Source: platform.openai.com/docs/api-reference/chat and …/models.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime
from itertools import takewhile
from typing import Any

import attrs
from flexchat import ChatRequestError, FlexChat, StreamEvent, ToolCall, Turn, TurnCancelled, TurnFailed
from flexchat.host import ResponseRule, RuleTools, did_you_mean
from flexchat_sdk import Reasoning

from .. import shapes
from ..operations import Call, Event, Json, Operations, Reply, Stream
from ..problems import ApiError
from ..sending import turn_reply
from ..serving import Serving
from ..shapes import NULLABLE_SWITCH, listed, record
from .caller_tools import (
    CHOICE,
    FUNCTION,
    MAX_TOOLS,
    HeldAnswers,
    read_caller_tools,
    renamed,
    results_of,
    with_held,
)
from .chat import REPLAYED
from .content_parts import ContentReader
from .models import named_models
from .openai_format import chunks, completion, has_media, read_media, read_messages, unread_message
from .served import ServedTurn
from .turns import Turns

PHASES = "flexchat"
"""The model answered by the six phases: the rules choose the real one."""

ABANDONED_S = 15.0
"""How long a turn goes on whose client has left: for a client that has given up waiting, and asks again."""

RECENT_S = 600.0
"""How long a request can be told from its repetition."""

MAX_RECENT = 10_000
"""How many requests are remembered."""

LONG_CHARS = 4096
"""The length from which a text stands for itself in the digest of a request as its own digest."""

_STEP_CHARS = 2**16

_OPTIONS = ("max_tokens", "temperature", "top_p", "stop", "seed", "reasoning_effort", "tool_choice")
_UNREAD = (
    "frequency_penalty",
    "include",
    "truncation",
    "presence_penalty",
    "logit_bias",
    "service_tier",
    "verbosity",
    "prediction",
    "web_search_options",
)
"""Fields that would change an answer but are ignored here, with a warning."""


_NAME = {**shapes.TEXT, "minLength": 1}
_NO_TOOLS = {"type": ["array", "null"], "maxItems": 0}
_PARTS: Mapping[str, Any] = {
    "text": shapes.TEXT,
    "refusal": shapes.TEXT,
    "image_url": record({"url": shapes.TEXT}),
    "input_audio": record({"data": shapes.TEXT, "format": shapes.TEXT}),
    "file": record({}, **dict.fromkeys(("file_data", "filename", "file_id"), str)),
}
_PART = {
    "type": "object",
    "properties": {"type": {"enum": [*_PARTS]}, **_PARTS},
    "anyOf": [{"properties": {"type": {"const": kind}}, "required": ["type", kind]} for kind in _PARTS],
}
_TOOL = record({"type": {"const": "function"}, "function": FUNCTION})
_CALL = record({"function": record({"name": _NAME}, arguments=str | None)}, id=str | None)
_MESSAGE = record(
    {"role": {"enum": ["system", "developer", "user", "assistant", "tool"]}},
    content={"anyOf": [shapes.TEXT, {"type": "null"}, listed(_PART)]},
    tool_calls={"type": ["array", "null"], "items": _CALL},
    **dict.fromkeys(("name", "tool_call_id", "refusal"), str | None),
)
_FORM = {
    **record(
        {"type": {"enum": ["text", "json_object", "json_schema"]}},
        json_schema=record(
            {"schema": record({"type": {"const": "object"}})},
            name={"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
            strict=bool | None,
        ),
    ),
    "type": ["object", "null"],
    "if": {"type": "object", "properties": {"type": {"const": "json_schema"}}},
    "then": {"required": ["json_schema"]},
}
_COMPLETIONS = {
    **record(
        {"model": _NAME, "messages": {**listed(_MESSAGE), "minItems": 1, "maxItems": 2_000}},
        stream=bool | None,
        stream_options={**shapes.NULLABLE_TABLE, "properties": {"include_usage": NULLABLE_SWITCH}},
        max_completion_tokens=shapes.TOKENS,
        reasoning_effort=shapes.EFFORT,
        response_format=_FORM,
        n={"enum": [None, 1]},
        tools={"type": ["array", "null"], "items": _TOOL, "maxItems": MAX_TOOLS},
        functions=_NO_TOOLS,
        logprobs={"enum": [None, False]},
        variables=shapes.VARIABLES,
        conversation={"anyOf": [shapes.CONVERSATION_ID, {"type": "null"}]},
        **{**shapes.MODEL_OPTIONS, "tool_choice": CHOICE},
    ),
    "examples": [{"model": PHASES, "messages": [{"role": "user", "content": "What is 2 + 2?"}]}],
}
_COMPLETION = record(
    {
        **dict.fromkeys(("id", "object", "model"), str),
        "created": int,
        "choices": listed(dict),
        "usage": dict | None,
        "flexchat": dict,
    }
)
_MODEL = record({"id": str, "object": str, "created": int, "owned_by": str})


def _refusal(body: Any) -> str | None:
    fields = body if isinstance(body, dict) else {}
    if fields.get("functions"):
        return "functions: this old form is not read; give them as tools"
    for index, tool in enumerate(tools if isinstance(tools := fields.get("tools"), list) else ()):
        if isinstance(tool, dict) and tool.get("type") != "function":
            return f"tools[{index}].type: a client's tools are functions here, not {tool.get('type')!r:.40}"
    if fields.get("n") not in (None, 1):
        return "n: this server gives one answer; leave n out"
    if fields.get("logprobs"):
        return "logprobs: this server does not return probabilities; leave logprobs out"
    return unread_message(fields.get("messages"))


operation = Operations("openai", openai_errors=True)

ASKS_MODEL: Mapping[str, Any] = {"problems": (404, 422, 429, 502, 503, 504)}
"""Fields of operations that ask a model."""

ANSWERS: Mapping[str, Any] = {**ASKS_MODEL, "max_body_bytes": 32 * 1024 * 1024, "streams": True, "takes_key": True}
"""Fields of operations that answer messages."""


class Repeats:
    """Gives each request to OpenAI's API a key: its own, or that of the request it repeats.

    OpenAI's clients send a request again whose answer they did not get in time, without a key: only with a count.

    Source: github.com/openai/openai-python, README, "Retries", and src/openai/_base_client.py.
    """

    def __init__(self, serving: Serving) -> None:
        self._recent: dict[bytes, tuple[str, float]] = {}  # oldest first

    def key_of(self, about: bytes, retries: int) -> str:
        """Return a request's key.

        Args:
            about: The digest of the request and its tenant.
            retries: How often the client has sent it before: if it has, the key of the last request of this tenant with
                this body, if that is recent.
        """
        now = time.monotonic()
        key, at = self._recent.pop(about, ("", 0.0))
        if not key or not retries or now - at > RECENT_S:
            key = secrets.token_hex(16)
        self._recent[about] = key, now
        while len(self._recent) > MAX_RECENT or next(iter(self._recent.values()))[1] < now - RECENT_S:
            del self._recent[next(iter(self._recent))]
        return key


def digest_of(tenant: str, body: Any) -> bytes:
    """Return the digest of a request and its tenant."""
    return hashlib.sha256(json.dumps([tenant, _in_short(body)], sort_keys=True).encode()).digest()


def _in_short(value: Any) -> Any:
    """Return JSON data with digests in place of long texts, of which JSON would be several copies."""
    if isinstance(value, str):
        if len(value) < LONG_CHARS:
            return value
        digest = hashlib.sha256()
        for at in range(0, len(value), _STEP_CHARS):
            digest.update(value[at : at + _STEP_CHARS].encode())
        return digest.hexdigest()
    if isinstance(value, list):
        return [*map(_in_short, value)]
    return {key: _in_short(item) for key, item in value.items()} if isinstance(value, dict) else value


@operation(
    "POST",
    "/v1/chat/completions",
    body=_COMPLETIONS,
    refusal=_refusal,
    answer=_COMPLETION,
    **ANSWERS,
)
async def create_chat_completion(call: Call) -> Reply:
    """Create a chat completion, as OpenAI's API does. The configuration's tools run on the server."""
    turns, reading = call.serving.shared(Turns), Reading()
    key, patience_s = call.key, math.inf
    if key is None:
        # In a thread, if there may be megabytes: other requests would wait for them.
        is_long = any(map(has_media, call.body["messages"]))
        args = call.tenant, call.body
        about = await asyncio.to_thread(digest_of, *args) if is_long else digest_of(*args)
        key, patience_s = call.serving.shared(Repeats).key_of(about, call.retries), ABANDONED_S

    async def read(chat: FlexChat) -> tuple[FlexChat, Mapping[str, Any]]:
        return await _read_request(call, chat, reading, key)

    try:
        turn, is_repeat = await turns.join(
            call.tenant,
            key,
            lambda chat: _read_request(call, chat, reading, key),
            is_silent=True,
            patience_s=patience_s,
        )
    except ChatRequestError as error:
        raise renamed(error) from None
    headers = REPLAYED if is_repeat else {}
    if call.body.get("stream"):
        return Stream(_events(call, turns, turn, reading), headers)
    with turns.listening(turn):
        result = await turn.handle.result()
    if result.status == "cancelled":
        raise cancelled()
    calls = await reading.calls(call, result)
    answer = completion(result, call.body["model"], tuple(reading.warnings), calls)
    return await turn_reply(call.serving, result.content, answer, headers)


@attrs.define
class Reading:
    """What is found while a request is read.

    Attributes:
        warnings: What is not done as requested.
        request_count: How many messages of its turn are the request's.
    """

    warnings: list[str] = attrs.field(factory=list)
    request_count: int = 1

    async def calls(self, call: Call, turn: Turn) -> list[tuple[str, ToolCall]]:
        """Return the calls with which the turn ended, with their ids for the client; see HeldAnswers."""
        async with call.serving.chat() as chat:
            return await call.serving.shared(HeldAnswers).calls(
                chat, call.tenant, turn, request_count=self.request_count
            )


async def _events(call: Call, turns: Turns, turn: ServedTurn, reading: Reading) -> AsyncGenerator[Event, None]:
    include_usage = bool((call.body.get("stream_options") or {}).get("include_usage"))

    async def calls(ended: Turn) -> list[tuple[str, ToolCall]]:
        return await reading.calls(call, ended)

    model, warnings = call.body["model"], tuple(reading.warnings)
    events = chunks(happenings_of(turn), model, warnings, calls, include_usage=include_usage)
    with turns.listening(turn):
        async with aclosing(events):
            async for event in events:
                yield event


async def happenings_of(turn: ServedTurn) -> AsyncGenerator[StreamEvent, None]:
    """Yield what happens in a turn; raise its error if it fails or is cancelled."""
    async with aclosing(turn.handle.events()) as events:
        async for _, happened in events:
            if isinstance(happened, TurnFailed):
                raise happened.error
            if isinstance(happened, TurnCancelled):
                raise cancelled()
            yield happened


def cancelled() -> ApiError:
    """Return the problem of a request whose turn was cancelled."""
    text = "this request's turn was cancelled, for example because its client had left it for too long"
    return ApiError(409, text, kind="cancelled", headers={"x-should-retry": "false"})


async def _read_request(call: Call, chat: FlexChat, reading: Reading, key: str) -> tuple[FlexChat, Mapping[str, Any]]:
    """Return the chat that answers a request and the arguments of respond; add what is not done as requested."""
    body, warnings = call.body, reading.warnings
    # Nothing else needs the texts of media, while the turn may take minutes.
    entries, request = body.pop("messages"), dict[str, Any]()
    results = [*takewhile(lambda entry: entry["role"] == "tool", reversed(entries))][::-1]
    if body.get("conversation") and results:
        message, continuation = await results_of(results, chat, call.tenant, body["conversation"], key)
        request |= {"message": message, "continuation": continuation, "conversation": body["conversation"]}
        has_more, reading.request_count = len(entries) > len(results), len(continuation)
    else:
        entries = await read_media(entries, ContentReader(chat, call.tenant))
        entries = await with_held(entries, call.serving.shared(HeldAnswers), chat, call.tenant)
        dialogue = read_messages(entries)
        request |= dialogue.as_request()
        has_more, reading.request_count = bool(dialogue.history), 1 + len(dialogue.continuation)
        if body.get("conversation"):
            request |= {"conversation": body["conversation"], "history": ()}
    if body.get("conversation") and has_more:
        warnings.append("messages before the last are ignored: the conversation has its own")
    return with_options(call.serving, chat, body, request, warnings)


def with_options(
    serving: Serving, chat: FlexChat, body: Mapping[str, Any], request: Mapping[str, Any], warnings: list[str]
) -> tuple[FlexChat, Mapping[str, Any]]:
    """Return the chat that answers a request, and its messages with the options of its body.

    Raises:
        ApiError: 404: there is no such model; 400: tool_choice names no tool.
    """
    form = body.get("response_format")
    request = {
        **request,
        "response_format": None if form is None or form["type"] == "text" else form,
        "variables": body.get("variables"),
        **read_caller_tools([tool["function"] for tool in body.get("tools") or ()], body),
    }
    warnings += [f"{name} is ignored by this server" for name in _UNREAD if body.get(name)]
    if body["model"] == PHASES:
        unused = [name for name in (*_OPTIONS, "max_completion_tokens") if name not in request]
        ignored = [name for name in unused if body.get(name) not in (None, "auto")]
        warnings += [f"{name} is ignored: the rule that answers decides it; name a model to set it" for name in ignored]
    else:
        if body.get("variables"):
            warnings.append("variables are ignored: when you name a model, no rule's prompt is used")
        chat = chat.with_rule(_rule(serving, chat, body))
    return chat, request


def _rule(serving: Serving, chat: FlexChat, body: Mapping[str, Any]) -> ResponseRule:
    models = named_models(serving, chat)
    if body["model"] not in models:
        raise _no_model(body["model"], [PHASES, *models])
    service, model = models[body["model"]]
    stop, effort, seed = body.get("stop"), body.get("reasoning_effort"), body.get("seed")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    return ResponseRule(
        llm=service,
        model=model,
        max_tokens=int(limit) if limit else None,  # 5.0 is an integer in JSON Schema
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        seed=None if seed is None else int(seed),
        reasoning=Reasoning(effort=effort) if effort else None,
        tools=RuleTools(
            enabled=body.get("tool_choice") != "none" or bool(body.get("tools")),
            choice="required" if body.get("tool_choice") == "required" else "auto",
            parallel=body.get("parallel_tool_calls"),
        ),
    )


def _no_model(name: str, names: list[str]) -> ApiError:
    text = f"The model '{name[:200]}' does not exist{did_you_mean(name, names)}; there are: {', '.join(names)}"
    return ApiError(404, text, kind="model-not-found", param="model", code="model_not_found")


@operation("GET", "/v1/models", answer=record({"object": str, "data": listed(_MODEL)}))
async def list_openai_models(call: Call, chat: FlexChat) -> Reply:
    """List the available models: flexchat (the six phases) and those named in the configuration."""
    names = [PHASES, *named_models(call.serving, chat)]
    return Json({"object": "list", "data": [_model(call, name) for name in names]})


@operation("GET", "/v1/models/{id:path}", answer=_MODEL, problems=(404,))
async def show_openai_model(call: Call, chat: FlexChat) -> Reply:
    """Return one model."""
    names = [PHASES, *named_models(call.serving, chat)]
    if call.path["id"] not in names:
        raise _no_model(call.path["id"], names)
    return Json(_model(call, call.path["id"]))


def _model(call: Call, name: str) -> dict[str, Any]:
    created = int(datetime.fromisoformat(call.serving.reloaded_at).timestamp())
    return {"id": name, "object": "model", "created": created, "owned_by": "flexchat"}
