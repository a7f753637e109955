"""Tool sources: the tools that wait to be accepted, and the servers behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
from flexchat import FlexChat, SourceState, ToolChange, ToolChangedError, ToolSourceError
from flexchat_sdk import differences

from ..operations import Call, Json, Operations, Reply
from ..shapes import NULLABLE_TEXT, body_schema, listed, record, schema_of
from .errors import problem_of

_SERVER = {
    **record(
        {
            **dict.fromkeys(("version", "since", "trouble"), str),
            "status": {"enum": ["stopped", "running", "broken"]},
            "ends": int,
            "last_lines": list[str],
        }
    ),
    "type": ["object", "null"],
    "description": (
        "The server behind it; null if there is none, or it is not opened. trouble and last_lines are empty for those "
        "who may not edit: a server may write there what it was called with."
    ),
}
_CHANGE = schema_of(
    ToolChange,
    *("name", "accepted", "now"),
    plus={
        **dict.fromkeys(("tool", "description"), str),
        "effect": {"enum": ["read", "idempotent", "write"]},
        "parameters": dict,
        "digest": {**NULLABLE_TEXT, "description": "Of its current definition, to accept it by; null if it is gone."},
        "differences": listed(record({"place": str}, before={}, now={})),
    },
)
_LEFT_OUT = listed(record({"tool": str, "reason": str}))
_SOURCE = schema_of(
    SourceState, plus={"tools": list[str], "changes": listed(_CHANGE), "left_out": _LEFT_OUT, "server": _SERVER}
)
_SEEN = {
    "type": "object",
    "description": "The digest of each definition as it was shown; null for a tool that was shown as gone.",
    "minProperties": 1,
    "additionalProperties": {"type": ["string", "null"], "pattern": "^[0-9a-f]{64}$"},
}


operation = Operations("tools", problems=(404, 502, 503))


@operation(
    "GET",
    "/api/tools/sources",
    answer=record({"sources": listed(_SOURCE), "trouble": str, "lock": str}),
    problems=(),
)
async def list_tool_sources(call: Call, chat: FlexChat) -> Reply:
    """List the tool sources with their servers and the tools that wait to be accepted; opens none.

    Where there are roles, only for who may accept them: a definition that waits is no tool yet, and no role grants it.
    """
    sources = chat.tools.sources
    names = sources.by_name if chat.permits("edit") else ()
    states = [_source(call, await sources.review(name, tenant=call.tenant)) for name in names]
    return Json(chat.mask.data({"sources": states, "trouble": sources.trouble, "lock": sources.lock_path.name}))


@operation("POST", "/api/tools/sources/{name}/look", answer=record({"source": _SOURCE}), edits=True)
async def look_at_tool_source(call: Call) -> Reply:
    """Open a tool source and read its tools. Accepts none."""
    async with _chat(call) as chat:
        state = await chat.tools.sources.look(call.path["name"], tenant=call.tenant, accept_first=False)
        return Json({"source": _masked(call, chat, state)})


@operation("POST", "/api/tools/sources/{name}/restart", answer=record({"source": _SOURCE}), edits=True)
async def restart_tool_source(call: Call) -> Reply:
    """Start the server behind a tool source again, and read its tools. Accepts none."""
    async with _chat(call) as chat:
        state = await chat.tools.sources.restart(call.path["name"], tenant=call.tenant)
        return Json({"source": _masked(call, chat, state)})


@operation(
    "POST",
    "/api/tools/sources/{name}/accept",
    body={**body_schema({"tools": _SEEN}), "examples": [{"tools": {"find": "0" * 64, "drop": None}}]},
    answer=record({"accepted": list[str], "source": _SOURCE}),
    problems=(404, 409, 502, 503),
    edits=True,
)
async def accept_tools(call: Call) -> Reply:
    """Accept tools of a source as they were shown; 409 if one has changed since."""
    async with _chat(call) as chat:
        accepted = await chat.tools.sources.accept(call.path["name"], seen=call.body["tools"])
        return Json({"accepted": [change.name for change in accepted], "source": await _now(call, chat)})


@asynccontextmanager
async def _chat(call: Call) -> AsyncIterator[FlexChat]:
    """Lend the chat.

    Raises:
        ApiError: The source cannot be read, or has other tools than were seen; with its state.
    """
    async with call.serving.chat() as chat:
        try:
            yield chat
        except (ToolChangedError, ToolSourceError) as error:
            problem = problem_of(error, call.serving.mask)
            problem.more["source"] = await _now(call, chat)
            raise problem from error


async def _now(call: Call, chat: FlexChat) -> dict[str, Any]:
    return _masked(call, chat, await chat.tools.sources.review(call.path["name"], tenant=call.tenant))


def _masked(call: Call, chat: FlexChat, state: SourceState) -> dict[str, Any]:
    data: dict[str, Any] = chat.mask.data(_source(call, state))
    return data


def _source(call: Call, state: SourceState) -> dict[str, Any]:
    server = attrs.asdict(state.server) if state.server is not None else None
    if server is not None:
        server |= {"last_lines": [*server["last_lines"]]} if call.may_edit else {"trouble": "", "last_lines": []}
    return {
        **{name: getattr(state, name) for name in ("name", "type", "prefix", "status", "trouble", "accepted")},
        "tools": [tool.name for tool in state.tools],
        "changes": [_change(change) for change in state.changes],
        "left_out": [{"tool": name, "reason": why} for name, why in state.left_out.items()],
        "server": server,
    }


def _change(change: ToolChange) -> dict[str, Any]:
    changes = []
    if change.accepted is not None and change.now is not None:
        changes = [each.to_dict() for each in differences(change.accepted, change.now)]
    definition = change.now or change.accepted
    assert definition is not None, "a change is of something"
    return {
        "tool": change.name,
        "kind": change.kind,
        "offered": change.offered,
        "description": definition.description,
        "effect": definition.effect,
        "parameters": definition.parameters,
        "digest": change.now.digest if change.now is not None else None,
        "differences": changes,
        "warnings": [*change.warnings],
    }
