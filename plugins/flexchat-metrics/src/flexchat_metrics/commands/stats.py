"""flexchat stats: what turns, rules, models and tools did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import flexchat_cli as cli
from flexchat.host import read_since
from flexchat_cli import CommandContext, UsageError

from ..report import KINDS, report_of
from .sums import open_sums

_HEADS = {
    "turn": ("turns", "count", "done", "p50", "p95", "p99", "tokens in, out", "cost", "answers", "at limit"),
    "model": ("model", "requests", "answered", "p50", "p95", "p99", "tokens in, out", "cost", "calls", "right tool"),
    "tool": ("tool", "calls", "succeeded", "p50", "p95", "p99", "errors", "arguments"),
}


@cli.command
@click.option("--by", type=click.Choice(KINDS[1:]), help="only the rows of each rule, model, tool or tenant")
@click.option(
    "--since", metavar="TIME", default="7d", help="12h, 7d, 2w ago, or a date in UTC; whole hours (default: 7d)"
)
@click.option("--tenant", metavar="NAME", help="only the turns of this tenant (default: of all)")
async def stats(context: CommandContext, by: str | None, since: str, tenant: str | None) -> None:
    """Print what turns, rules, models and tools did."""
    try:
        start_s = read_since(since)
    except ValueError as error:
        raise UsageError(f"--since: {error}") from None
    async with open_sums(context) as sums:
        report = report_of(await sums.read(tenant=tenant, since_s=start_s))
    kinds = (by,) if by else KINDS[:-1]
    data = report.to_dict(kinds)
    if context.json:
        context.terminal.json({"since": since, **data})
    elif not report.rows["turn"]:
        context.terminal.say("no turn has ended in this time", "dim")
    else:
        for kind in kinds:
            rows = data[f"{kind}s"]
            head = _HEADS.get(kind, (kind, *_HEADS["turn"][1:]))
            if rows:
                context.terminal.table(head, [_row(kind, row) for row in rows])


def _row(kind: str, row: Mapping[str, Any]) -> Sequence[str]:
    times = [_time(row["ms"][name]) for name in ("p50", "p95", "p99")]
    start = (row["name"], f"{row['count']:,}", _rate(row["success"]), *times)
    if kind == "tool":
        errors = ", ".join(f"{kind} {n:,}" for kind, n in row["errors"].items())
        return (*start, errors, ", ".join(f"{each['text']} ({each['calls']:,})" for each in row["arguments"][:3]))
    cost = row["cost"]
    price = "unknown" if cost["amount"] is None else f"${cost['amount']}" + (" or more" if cost["unpriced"] else "")
    start = (*start, f"{row['tokens']['input']:,}, {row['tokens']['output']:,}", price)
    if kind == "model":
        accuracy = row["selection_accuracy"]
        return (*start, f"{row['calls']:,}", "" if accuracy is None else f"{accuracy * 100:.1f} %")
    return (*start, f"{row['depth']['mean']:g}", f"{row['at_limit']:,}")


def _rate(success: Mapping[str, Any]) -> str:
    if success["rate"] is None:
        return ""
    return f"{success['rate'] * 100:.1f} % ({success['low'] * 100:.1f} to {success['high'] * 100:.1f})"


def _time(ms: float | None) -> str:
    if ms is None:
        return ""
    return f"{ms:,.0f} ms" if ms < 1_000 else f"{ms / 1_000:,.1f} s"
