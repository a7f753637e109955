"""The tools: lists them, shows how services accept them, and calls one for a person."""

from __future__ import annotations

from typing import Any

import attrs
from flexchat import FlexChat, ToolDefinition
from flexchat.host import STORED_RESULT
from flexchat_cli import BYTES_PER_TOKEN, rule_cost
from flexchat_sdk import lint_tools

from ..operations import Call, Json, Operations, Reply
from ..shapes import COST, TOOL_RESULT, body_schema, listed, record
from .chat import REPLAYED
from .events import with_media
from .media import keep_result

_TOOL = record(
    {
        **dict.fromkeys(("name", "description", "type"), str),
        "parameters": dict,
        "implementation": record({"type": str}),
        "effect": {"enum": ["read", "idempotent", "write"]},
        "timeout_ms": int | None,
        "source": str | None,
    }
)


_COUNTS = dict.fromkeys(("count", "max_iterations"), int)
_FINDING = record(
    {
        **dict.fromkeys(("tool", "dialect"), str),
        "status": {"enum": ["accepted", "rewritten", "refused"]},
        "sentence": str | None,
        "notes": listed(dict),
    }
)
_COST_OF_RULE = record(
    {
        **dict.fromkeys(("rule", "tokens"), int),
        "name": str | None,
        "format": str,
        "cost": COST,
        "tools": listed(record({"tool": str, "tokens": int})),
        "unsendable": list[str],
    }
)

operation = Operations("tools")


@operation(
    "GET",
    "/api/tools/list",
    answer=record({"tools": listed(_TOOL), **_COUNTS, **dict.fromkeys(("enabled", "apply_globally"), bool)}),
)
async def list_tools(call: Call, chat: FlexChat) -> Reply:
    """List the configuration's tools; none if tools are switched off."""
    enabled = chat.tools.is_enabled()
    tools = chat.tools.get_registry().list() if enabled else []
    return Json(
        {
            "tools": [_as_data(tool) for tool in tools],
            "count": len(tools),
            "enabled": enabled,
            "apply_globally": chat.tools.table.apply_globally,
            "max_iterations": chat.tools.get_max_iterations(),
        }
    )


@operation("GET", "/api/tools/available", answer=record({"tools": listed(_TOOL)}))
async def available_tools(call: Call, chat: FlexChat) -> Reply:
    """List the ready-made tools of the installed plugins."""
    tools = chat.tools.permitted(call.serving.plugins.tools.by_name.values())
    return Json({"tools": [_as_data(tool) for tool in tools]})


@operation(
    "POST",
    "/api/tools/call",
    body={
        **body_schema({"name": str, "arguments": dict}),
        "examples": [{"name": "calculator", "arguments": {"expression": "2 + 2"}}],
    },
    takes_key=True,
    answer=TOOL_RESULT,
)
async def call_tool(call: Call, chat: FlexChat) -> Reply:
    """Run a tool as a model would; errors are returned in the result."""
    name, arguments = call.body["name"], call.body["arguments"]
    result = await chat.call_tool(name, arguments, origin="api", tenant=call.tenant, idempotency_key=call.key)
    notes = {"notes": list(result.notes)} if result.notes else {}
    headers = REPLAYED if STORED_RESULT in result.notes else {}
    is_kept = await keep_result(chat, result, call.tenant)
    return Json({**with_media(result, is_kept=is_kept), **notes}, headers=headers)


@operation(
    "GET",
    "/api/tools/lint",
    name="lint_tools",
    answer=record({"services": list[str], "findings": listed(_FINDING)}),
)
async def _lint(call: Call, chat: FlexChat) -> Reply:
    """Report whether the configured providers accept, rewrite or refuse each tool's schema."""
    tools = chat.tools.get_registry().list()
    used = [*dict.fromkeys(entry.provider for entry in chat.config.llms.values())]
    kinds = call.serving.plugins.providers.by_name
    dialects_of = {name: kind.schema_dialects for name, kind in kinds.items() if kind.schema_dialects}
    chosen = [name for name in used if name in dialects_of] or [*dialects_of]
    dialects = {mode: dialect for name in chosen for mode, dialect in dialects_of[name].items()}
    findings = [
        {
            "tool": finding.tool,
            "dialect": finding.dialect,
            "status": finding.outcome,
            "sentence": finding.sentence,
            "notes": [attrs.asdict(note) for note in finding.notes],
        }
        for finding in lint_tools(tools, dialects)
    ]
    return Json({"services": [*dialects], "findings": findings})


@operation(
    "GET",
    "/api/tools/cost",
    answer=record({"rules": listed(_COST_OF_RULE), "budget_tokens": int, "bytes_per_token": float}),
)
async def tools_cost(call: Call, chat: FlexChat) -> Reply:
    """Estimate what each rule's tools cost in every request, in tokens and US dollars."""
    rules = []
    for index, rule in enumerate(chat.config.responses):
        tool_format, cost = rule_cost(rule, chat.tools, chat.llms)
        tools = [{"tool": name, "tokens": tokens} for name, tokens in cost.by_tool.items()]
        llm, model = chat.llms.resolve(rule.llm, rule.model)
        await llm.find_price(model)  # what that imports is not imported on the event loop
        price = llm.cost_of_reading(model, cost.tokens).to_dict()
        of_rule = {"rule": index, "name": rule.name, "format": tool_format, "tokens": cost.tokens, "cost": price}
        rules.append({**of_rule, "tools": tools, "unsendable": [*cost.unsendable]})
    return Json({"rules": rules, "budget_tokens": chat.config.tools.budget_tokens, "bytes_per_token": BYTES_PER_TOKEN})


def _as_data(tool: ToolDefinition) -> dict[str, Any]:
    names = ("name", "description", "type", "parameters", "effect", "timeout_ms", "source")
    return {name: getattr(tool, name) for name in names} | {"implementation": {"type": tool.implementation.type}}
