"""Costs over HTTP: those of the caller's tenant."""

from __future__ import annotations

from flexchat import FlexChat
from flexchat.host import read_since
from flexchat_web.shapes import listed, record
from flexchat_web.typing import Call, Operations, Reply, Schema

from ..costs import KEYS, UncountedError, read_costs

operation = Operations("turns", problems=(403, 404, 422, 503))

_SUM = {"name": str, "usd": str | None, "requests": int, "calls": int, "tokens": int, "unpriced": int}
_BY: Schema = {"type": "string", "enum": [*KEYS], "default": "rule"}
_SINCE: Schema = {"type": "string", "maxLength": 64, "default": "30d", "description": "12h, 7d, 2w, or a date in UTC"}


@operation(
    "GET",
    "/api/costs",
    permission="view_costs",
    query={"by": _BY, "since": _SINCE},
    answer=record(
        {
            "by": str,
            "currency": str,
            "costs": listed(record(_SUM)),
            "others": {"anyOf": [record({**_SUM, "names": int}), {"type": "null"}]},
            "total": record(_SUM),
            "unpriced_models": list[str],
        }
    ),
)
async def costs(call: Call, chat: FlexChat) -> Reply:
    """Add up what the tenant has spent while there were budgets. Amounts are exact decimal numbers, as text."""
    try:
        since_s = read_since(call.query["since"])
    except ValueError as error:
        raise call.web.ApiError(422, f"since: {error}") from None
    try:
        conversations = chat.conversations
        sums = await read_costs(conversations and conversations.store, call.query["by"], since_s, tenant=call.tenant)
    except UncountedError as error:
        raise call.web.ApiError(404, str(error), kind="no-costs") from None
    return call.web.Json(sums.to_dict())
