"""Stored conversations, each visible to its own tenant only."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from flexchat import ConversationInfo, ConversationTurn, UnknownConversationError
from flexchat.host import UNFINISHED, cost_by_rule
from flexchat.store import JournaledTurn, turn_to_dict

from ..operations import Call, Json, Operations, Reply, Text
from ..problems import ApiError
from ..shapes import (
    CONVERSATION_ID,
    COST,
    PAGE,
    TOOL_CALL,
    TURN_FIELDS,
    TURN_STATUS,
    WORDS,
    body_schema,
    listed,
    record,
)

NOT_KEPT = "conversations are not kept; add a [conversations] table to the configuration to keep them"

MAX_UNFINISHED = 200
"""Turns, the newest, that are searched for those that begin a conversation."""

# Characters that some system refuses in file names, control characters, and those that change the text direction.
_NO_FILE_NAME = re.compile(r"[\x00-\x1f\x7f<>:\"/\\|?*\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")

_INFO = {
    **dict.fromkeys(("id", "title", "topic", "created_at", "updated_at"), str),
    "turns": int,
    "status": {"enum": [*TURN_STATUS["enum"], "running", "interrupted"]},
    "cost": {**COST, "type": ["object", "null"]},
}


@asynccontextmanager
async def _own(call: Call) -> AsyncIterator[Any]:
    """Lend the caller's conversations. An invalid id is treated as an unknown one."""
    async with call.serving.chat() as chat:
        if chat.conversations is None:
            raise ApiError(404, NOT_KEPT, kind="no-conversations")
        for id in (call.path.get("id"), call.query.get("before")):
            if id is not None and not re.fullmatch(CONVERSATION_ID["pattern"].strip("^$"), id):
                raise UnknownConversationError(id[:128])
        yield chat.conversations.of(call.tenant)


_RULE = {
    **record({"rule": str, "turns": int, "cost": COST}),
    "description": "The cost of the turns that a rule answered; by its name, else its number.",
}
_TURNS = listed(
    record(
        {
            **TURN_FIELDS,
            **dict.fromkeys(("at", "error"), str),
            "messages": listed(dict),
            "max_iterations_reached": bool,
            "traceparent": str,
            "tool_calls": listed(TOOL_CALL),
        },
        parsed={},
    )
)


operation = Operations("conversations", problems=(404, 503))


@operation(
    "GET",
    "/api/conversations",
    query={"search": {"type": "string", "default": "", "maxLength": 500}, **PAGE},
    answer=record({"conversations": listed(record(_INFO))}),
)
async def list_conversations(call: Call) -> Reply:
    """List conversations, most recently used first.

    Those whose first turn has not ended, with 0 turns and its state, come before the others.
    """
    words, before, most = call.query["search"].strip(), call.query.get("before"), call.query["limit"]
    first: Sequence[JournaledTurn] = []
    async with call.serving.chat() as chat, _own(call) as conversations:
        if before is None and chat.journal is not None:
            unfinished = await chat.turns(tenant=call.tenant, states=UNFINISHED, limit=MAX_UNFINISHED)
            # The last one of a page is in the store, which continues behind it.
            first = (await conversations.first_turns(unfinished, words))[: most - 1]
        page = {"limit": most - len(first), "before": before}
        infos = await (conversations.search(words, **page) if words else conversations.list(**page))
    return Json({"conversations": [_info(info) for info in (*map(ConversationInfo.begun_by, first), *infos)]})


@operation("GET", "/api/conversations/{id}", answer=record({**_INFO, "rules": listed(_RULE), "turns": _TURNS}))
async def show_conversation(call: Call) -> Reply:
    """Return a conversation with its messages."""
    async with _own(call) as conversations:
        info = await conversations.get(call.path["id"])
        turns = await conversations.turns(call.path["id"])
        is_kept = conversations.media is not None
    rules = [{"rule": name, "turns": n, "cost": cost.to_dict()} for name, (n, cost) in cost_by_rule(turns).items()]
    return Json({**_info(info), "rules": rules, "turns": [kept_turn(turn, is_kept=is_kept) for turn in turns]})


@operation(
    "PATCH",
    "/api/conversations/{id}",
    body=body_schema({"title": {**WORDS, "maxLength": 200}}),
    answer=record(_INFO),
)
async def rename_conversation(call: Call) -> Reply:
    """Rename a conversation."""
    async with _own(call) as conversations:
        await conversations.rename(call.path["id"], call.body["title"])
        return Json(_info(await conversations.get(call.path["id"])))


@operation("DELETE", "/api/conversations/{id}", answers={204: None})
async def delete_conversation(call: Call) -> Reply:
    """Delete a conversation with all its turns."""
    async with _own(call) as conversations:
        await conversations.delete(call.path["id"])
    return Text(status=204)


@operation(
    "GET",
    "/api/conversations/{id}/export",
    query={"format": {"type": "string", "enum": ["markdown", "json"], "default": "markdown"}},
    media=("text/markdown", "application/json"),
)
async def export_conversation(call: Call) -> Reply:
    """Export a conversation as a file."""
    id, as_json = call.path["id"], call.query["format"] == "json"
    async with _own(call) as conversations:
        title = (await conversations.get(id)).title
        if as_json:
            text = json.dumps(await conversations.export_json(id), indent=2)
        else:
            text = await conversations.export_markdown(id)
    return Text(
        text,
        media_type="application/json" if as_json else "text/markdown",
        headers={"content-disposition": _attachment(title or id, "json" if as_json else "md")},
    )


def _attachment(title: str, kind: str) -> str:
    """Return the header for a file with a conversation's title as its name. Source: RFC 6266, section 5."""
    name = _NO_FILE_NAME.sub(" ", title)[:80].strip(" .") or "conversation"
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    return f"attachment; filename=\"{plain}.{kind}\"; filename*=UTF-8''{quote(f'{name}.{kind}', safe='')}"


def _info(info: ConversationInfo) -> dict[str, Any]:
    data = info.to_dict()
    return {"created_at": data.pop("started_at"), "updated_at": data.pop("used_at"), **data}


_UNCHANGED = (
    *("id", "at", "status", "error", "topic", "intent", "rule", "rule_name", "model", "finish_reason"),
    *("max_iterations_reached", "traceparent"),
)


def kept_turn(turn: ConversationTurn, *, is_kept: bool = False) -> dict[str, Any]:
    """Return a kept turn: its messages, and the rest as Turn.to_dict has it for one that has just ended.

    Args:
        is_kept: Whether GET /api/media has its media. If not, they are in its messages, in Base64.
    """
    data: dict[str, Any] = without_provider_data(turn_to_dict(turn, {} if is_kept else None))
    return {
        **{name: getattr(turn, name) for name in _UNCHANGED},
        "messages": data["messages"],
        "service": turn.llm,
        "usage": turn.usage.to_dict() if turn.usage else None,
        "cost": turn.cost.to_dict(),
        "tool_calls": [record.to_dict() for record in turn.tool_calls or ()],
        "rounds": [one.to_dict() for one in turn.rounds],
        "warnings": list(turn.warnings),
        "citations": data.get("citations", []),
        "phases": [phase.to_dict() for phase in turn.phases],
        "elapsed_ms": round(turn.elapsed_ms, 3),
        **({"parsed": turn.parsed} if turn.parsed is not None else {}),
    }


def without_provider_data(data: Any) -> Any:
    """Remove the data that only the provider can interpret from a turn's data."""
    if isinstance(data, dict):
        return {key: without_provider_data(value) for key, value in data.items() if key != "provider_data"}
    if isinstance(data, list):
        kept_items = [item for item in data if not (isinstance(item, dict) and item.get("type") == "opaque")]
        return [without_provider_data(item) for item in kept_items]
    return data
