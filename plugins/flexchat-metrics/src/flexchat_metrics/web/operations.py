"""Figures of a tenant's turns: for the page and programs in JSON, and for Prometheus as text."""

from __future__ import annotations

from flexchat import FlexChat
from flexchat.host import read_since
from flexchat.store import TurnSums
from flexchat_web.shapes import NUMBER, TABLE, TEXT, listed, record
from flexchat_web.typing import Call, Operations, Reply

from ..keeping import adder_of, bring_up_to_date, sums_of
from ..objectives import judge
from ..prometheus import MEDIA_TYPE, format_metrics, month_start_s
from ..report import KINDS, report_of

_ROW = record({"name": str, "count": int, "success": TABLE, "ms": TABLE})
_VERDICT = record({"target": str, "objective": str, "line": NUMBER, "state": str, "began": str, "causes": listed(dict)})
_STATS = record(
    {"since": str, **{f"{kind}s": listed(_ROW) for kind in KINDS[:-1]}, "objectives": listed(_VERDICT)},
)

operation = Operations("turns", problems=(403, 404, 503), permission="view_others")


@operation(
    "GET", "/api/stats", query={"since": {**TEXT, "default": "7d"}}, answer=_STATS, problems=(403, 404, 422, 503)
)
async def stats(call: Call, chat: FlexChat) -> Reply:
    """Show what turns, rules, models and tools did, and whether the objectives are met.

    It needs the permission "view_others", and shows costs with "view_costs".
    """
    since = call.query["since"]
    try:
        start_s = read_since(since)
    except ValueError as error:
        raise call.web.ApiError(422, f"since: {error}") from None
    sums = await _sums(call, chat)
    report = report_of(await sums.read(tenant=call.tenant, since_s=start_s))
    verdicts = await judge(chat.config.tables.get("slo", {}), sums, tenant=call.tenant)
    data = report.to_dict(KINDS[:-1], shows_costs=chat.permits("view_costs", tenant=call.tenant))
    return call.web.Json({"since": since, **data, "objectives": [each.to_dict() for each in verdicts]})


@operation("GET", "/metrics", media=("text/plain",))
async def metrics(call: Call, chat: FlexChat) -> Reply:
    """Show this month's figures in Prometheus' text format. It needs the same permissions as /api/stats."""
    sums = await _sums(call, chat)
    report = report_of(await sums.read(tenant=call.tenant, since_s=month_start_s()))
    verdicts = await judge(chat.config.tables.get("slo", {}), sums, tenant=call.tenant)
    text = format_metrics(report, verdicts, shows_costs=chat.permits("view_costs", tenant=call.tenant))
    return call.web.Text(text, media_type=MEDIA_TYPE)


async def _sums(call: Call, chat: FlexChat) -> TurnSums:
    sums = sums_of(chat.journal)
    if sums is None:
        raise call.web.ApiError(
            404, "this server keeps no conversations with sums of turns: add a table [conversations]"
        )
    await bring_up_to_date(sums, adder_of(chat))
    return sums
