"""What kept turns have used of the roles' grants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flexchat import FlexChat
from flexchat.plugin import ToolDefinition

from .roles import Role, fits_tool

MAX_TURNS = 10_000
_PAGE = 200


async def unused_grants(chat: FlexChat, tenant: str) -> list[str]:
    """Return a sentence for each pattern of a role's tools by which no kept turn has called a tool.

    Looks at the newest turns of the tenant, at most MAX_TURNS.
    """
    roles: Mapping[str, Role] = chat.config.tables.get("roles", {})
    journal = chat.journal
    if not roles:
        return []
    if journal is None:
        return ["no turns are kept, so that nothing is known about the use of grants: add [conversations]"]
    unused = {(role, pattern) for role, grants in roles.items() for pattern in grants.tools}
    before, count, since = None, 0, ""
    while unused and count < MAX_TURNS:
        page = await journal.list(tenant=tenant, states=None, conversation=None, limit=_PAGE, before=before)
        for row in page:
            _, steps = await journal.read(row.id, tenant=tenant)
            request: Mapping[str, Any] = steps[0].data.get("request") or {} if steps else {}
            names = (request.get("principal") or {}).get("roles", ())
            tools = [tool for step in steps if step.kind == "tool" for tool in _run(chat, step.data)]
            unused -= {
                (role, pattern)
                for role, pattern in unused
                if role in names and any(fits_tool(pattern, tool) for tool in tools)
            }
            since, count = row.began_at, count + 1
        if len(page) < _PAGE:
            break
        before = page[-1].id
    where = f"in {count:,} kept turns, since {since[:10]}" if count else "(no turns are kept yet)"
    ordered = ((role, pattern) for role, grants in roles.items() for pattern in grants.tools)
    return [
        f"roles.{role}: '{pattern}' was never used {where}" for role, pattern in ordered if (role, pattern) in unused
    ]


def _run(chat: FlexChat, step: Mapping[str, Any]) -> list[ToolDefinition]:
    record = step.get("record") or {}
    if "refused" in (record.get("facts") or {}):
        return []
    name = record.get("name") or (record.get("result") or {}).get("tool_name")
    tool = chat.tools.every_tool.get(name) if isinstance(name, str) else None
    return [] if tool is None else [tool]
