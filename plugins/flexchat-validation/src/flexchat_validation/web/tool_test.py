"""Testing a model: one question, all tools, and the outcome in the model's record."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import flexchat_web.shapes as shapes
from flexchat import ChatRequestError, FlexChat, FlexChatError, Turn
from flexchat.host import ResponseRule, RuleTools, document_of, walk
from flexchat_web.shapes import body_schema, listed, record
from flexchat_web.typing import Call, Event, Operations, Reply

from ..attempting import is_the_models, may_run, without_effect
from .records import STATUS, results_of

MISSING = "Missing query or model"
PROMPT = "You are a helpful assistant with access to tools. Use them when appropriate."
MAX_TOKENS = 500
INLINE = "inline"


@attrs.frozen(kw_only=True)
class ToolTest:
    """A model to test.

    Attributes:
        chat: Answers everything with this model and all tools.
        record: Whether the outcome is recorded.
        standing_in: Tools that change something and are not run.
    """

    chat: FlexChat
    model_id: str
    service: str
    record: bool
    standing_in: tuple[str, ...] = ()


def _missing(body: Any) -> str | None:
    fields = body if isinstance(body, dict) else {}
    values = [fields.get(name) for name in ("query", "model")]
    return None if all(isinstance(value, str) and value.strip() for value in values) else MISSING


_SERVICE = {
    "type": "object",
    "description": "The request's own service, as in a configuration; needs permission to edit.",
    "properties": {name: {"type": "string", "minLength": 1} for name in ("provider", "type")},
    "anyOf": [{"required": ["provider"]}, {"required": ["type"]}],
}

_BODY = {
    **body_schema(
        {"query": shapes.WORDS, "model": shapes.WORDS},
        llm={**shapes.TEXT, "description": "The service; by default it precedes the model: LLM/MODEL."},
        provider_config=_SERVICE,
        registry={**listed(dict), "description": "Tools instead of the configuration's."},
        record={**shapes.SWITCH, "description": "false: no tool call is expected, so nothing is judged or recorded."},
        run_tools={
            **shapes.SWITCH,
            "default": False,
            "description": "Run tools that change something; otherwise they only answer with success.",
        },
        stream=bool,
    ),
    "not": {"required": ["llm", "provider_config"]},
    "dependentRequired": {"registry": ["provider_config"]},
    "examples": [{"query": "What is 2 + 2?", "model": "robot/r1", "record": False}],
}
_OUTCOME = {
    **dict.fromkeys(("content", "model", "service"), str),
    "not_run": {**shapes.TEXTS, "description": "Called tools that only answered with success."},
    "max_iterations_reached": bool,
    "iterations": int,
    "succeeded": bool | None,
    "elapsed_ms": float,
    "usage": dict | None,
    "finish_reason": str | None,
    "validation": STATUS,
}

operation = Operations("tools")


@operation(
    "POST",
    "/api/tools/test",
    body=_BODY,
    refusal=_missing,
    answer=record({**_OUTCOME, "tool_calls": listed(shapes.TOOL_CALL)}),
    problems=shapes.TURN_PROBLEMS,
    streams=True,
)
async def test_model(call: Call) -> Reply:
    """Put a question to a model with all tools, and record whether it called one."""
    if call.body.get("stream", call.wants_stream):
        return call.web.Stream(_events(call))
    async with _tool_test(call) as test:
        try:
            turn = await test.chat.respond(call.body["query"])
        except FlexChatError as error:
            await _record_failure(call, test, error)
            raise
        return call.web.Json(await _outcome(call, test, turn))


async def _events(call: Call) -> AsyncGenerator[Event, None]:
    async with _tool_test(call) as test:

        async def last(turn: Turn) -> Event:
            return call.web.Event("test", await _outcome(call, test, turn))

        events = call.web.events_of(test.chat.stream(call.body["query"]), last)
        try:
            async for event in events:
                yield event
        except FlexChatError as error:
            await _record_failure(call, test, error)
            raise
        finally:
            await events.aclose()


@asynccontextmanager
async def _tool_test(call: Call) -> AsyncIterator[ToolTest]:
    body = call.body
    async with call.serving.chat() as chat, contextlib.AsyncExitStack() as stack:
        is_recorded = body.get("record", True)
        if "provider_config" in body:
            tested, provider = await _inline(call, chat)
            await stack.enter_async_context(tested)
            # The same name in the configuration means another model.
            is_recorded = is_recorded and provider not in chat.config.llms
            service, model, label = INLINE, body["model"], provider
        else:
            tested = chat
            service, model = (
                (body["llm"], body["model"]) if "llm" in body else call.web.chosen_model(chat, body["model"])
            )
            chat.llms.resolve(service, model)  # raises if there is no such service
            label = service
        rule = ResponseRule(llm=service, model=model, prompt=PROMPT, max_tokens=MAX_TOKENS, tools=RuleTools())
        await tested.tools.ready_for(rule)  # else tools of sources that are opened later would run
        tools = tested.tools.offer_to(rule).list()
        standing_in = () if body.get("run_tools", False) else tuple(tool.name for tool in tools if not may_run(tool))
        yield ToolTest(
            chat=tested.with_rule(rule, tools=[without_effect(tool) for tool in tools] if standing_in else None),
            model_id=f"{label}/{model}",
            service=label,
            record=is_recorded,
            standing_in=standing_in,
        )


async def _inline(call: Call, chat: FlexChat) -> tuple[FlexChat, str]:
    """Return a chat with a service described in the request, and what kind of service it is."""
    if not call.may_edit:
        raise call.web.ApiError(
            403, "a service described in the request needs permission to edit (flexchat serve --edit)", kind="edit"
        )
    settings, registry = call.body["provider_config"], call.body.get("registry")
    provider = settings.get("provider") or settings["type"]
    entry = {**{key: value for key, value in settings.items() if key != "type"}, "provider": provider}
    if any(isinstance(value, str) and "${" in value for _, value in walk(entry)):
        raise ChatRequestError("${VARIABLES} are not expanded in a request; write them in the configuration's file")
    tables: dict[str, Any] = {
        "llms": {INLINE: entry},
        "responses": [{"llm": INLINE, "model": call.body["model"]}],
    }
    tools = chat.tools.get_registry().list()
    if registry is not None:
        tables["tools"], tools = {"registry": registry}, []
    flaws = call.web.refused(document_of(tables), {}, allow_env=(), expanded=None)
    if flaws:
        raise call.web.ApiError(422, f"{flaws[0].path}: {flaws[0].text}", flaws=flaws)
    return await asyncio.to_thread(
        lambda: FlexChat.from_config(tables, tools=tools, plugins=call.serving.plugins)
    ), provider


async def _outcome(call: Call, test: ToolTest, turn: Turn) -> dict[str, Any]:
    """Record a test and return its outcome: it succeeded if a tool was called and no call failed (T1).

    Without record nothing was expected, so the outcome is neither success nor failure.
    """
    response = turn.response
    calls = response.tool_calls or ()
    succeeded = bool(calls) and turn.succeeded
    iterations = max((entry.iteration for entry in calls), default=0)
    details = {"tools_used": [entry.tool for entry in calls], "iterations_used": iterations}
    if call.serving.authentication.is_required:  # all tenants see the history, but not what others asked
        why = f"failed: {', '.join(entry.tool for entry in turn.failed_calls)}"
    else:
        why = "; ".join(entry.result.explained() for entry in turn.failed_calls)
        details["query"] = call.body["query"]
    why = why if calls else "no tool was called"
    status = await _recorded(call, test, details, None if succeeded else {**details, "error": why})
    return {
        "content": response.content,
        "model": response.model,
        "service": test.service,
        "tool_calls": [entry.to_dict() for entry in calls],
        "not_run": sorted({entry.tool for entry in calls} & {*test.standing_in}),
        "max_iterations_reached": response.max_iterations_reached,
        "iterations": iterations,
        "succeeded": succeeded if call.body.get("record", True) else None,
        "elapsed_ms": round(turn.elapsed_ms, 3),
        "usage": response.usage.to_dict() if response.usage else None,
        "finish_reason": response.finish_reason,
        "warnings": list(response.warnings),
        "validation": status,
    }


async def _record_failure(call: Call, test: ToolTest, error: FlexChatError) -> None:
    """Record an error that counts against the model; an unavailable service is no evidence about its models."""
    if is_the_models(error):
        await _recorded(call, test, None, call.serving.mask(str(error)))


async def _recorded(call: Call, test: ToolTest, details: Any, error: Any = None) -> dict[str, Any]:
    """Record a test, which succeeded without an error; return the model's record."""
    async with call.serving.chat() as chat:
        tracker = (await results_of(call, chat)).tracker()
    if not test.record:
        return (await asyncio.to_thread(tracker.get_status, test.model_id)).status()
    record, about = (tracker.record_success, details) if error is None else (tracker.record_failure, error)
    return (await asyncio.to_thread(record, test.model_id, about)).status()
