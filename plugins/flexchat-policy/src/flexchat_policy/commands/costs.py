"""flexchat costs: what was spent, by tool, rule, principal, tenant or model."""

from __future__ import annotations

import contextlib

import click
import flexchat_cli as cli
from flexchat.host import read_since
from flexchat_cli import CommandContext, UsageError

from ..costs import KEYS, By, Sum, read_costs

_NONE = {"tool": "no tool", "rule": "no rule", "principal": "no principal", "model": "no model"}
_HEAD = ("cost", "requests", "calls", "tokens")


@cli.command
@click.option("--by", type=click.Choice(KEYS), default="rule", help="what to add up (default: rule)")
@click.option(
    "--since", metavar="TIME", type=cli.TEXT, help="12h, 7d, 2w ago, or a date in UTC; whole hours (default: all)"
)
@click.option("--tenant", metavar="NAME", type=cli.TEXT, help="only of this one (default: all)")
async def costs(context: CommandContext, by: By, since: str | None, tenant: str | None) -> None:
    """Add up exactly what was spent while there were budgets: models, embeddings and tools that have a price."""
    try:
        since_s = 0.0 if since is None else read_since(since)
    except ValueError as error:
        raise UsageError(f"--since: {error}") from None
    if "roles" in context.config_data():
        context.open_chat().require("view_costs")
    async with contextlib.aclosing(cli.conversation_store(context)) as store:
        sums = await read_costs(store, by, since_s, tenant=tenant)
    rows = [(each.name or _NONE[by], *_columns(each)) for each in sums.rows]
    if sums.others is not None:
        rows.append((f"{sums.other_names:,} others", *_columns(sums.others)))
    if rows:
        rows.append(("total", *_columns(sums.total)))
    empty = "nothing was counted in this time" if since or tenant else "nothing is counted yet"
    context.show_rows(sums.to_dict(), (by, *_HEAD), rows, f"{empty}: costs are counted while there are [[budgets]]")
    if sums.unpriced_models and not context.json:
        names = ", ".join(name or "embeddings" for name in sums.unpriced_models)
        context.terminal.say(f"not in these amounts, as no price is known: {names}")


def _columns(row: Sum) -> tuple[str, ...]:
    amount = "unpriced" if row.usd is None else f"{'at least ' if row.unpriced else ''}${row.usd}"
    return amount, f"{row.requests:,}", f"{row.calls:,}", f"{row.tokens:,}"
