"""flexchat slo: whether the objectives are met."""

from __future__ import annotations

import click
import flexchat_cli as cli
from flexchat_cli import FAILED, OK, CommandContext, UsageError

from ..keeping import report_violations
from ..objectives import Verdict, judge
from .sums import open_sums


@cli.command
@click.option("--tenant", metavar="NAME", help="only the turns of this tenant (default: of all)")
async def slo(context: CommandContext, tenant: str | None) -> int:
    """Print whether the objectives of the configuration are met.

    Exit status 1: one is violated.
    """
    chat, plugins = context.open_tools()
    objectives = chat.config.tables.get("slo")
    if not objectives:
        text = "there are no objectives: write some in [slo]"
        raise UsageError(f'{text}, such as "tool.get_weather" = {{ success = 0.99 }}')
    async with open_sums(context) as sums:
        verdicts = await judge(objectives, sums, tenant=tenant)
    violated = [each for each in verdicts if each.state == "violated"]
    await report_violations(plugins, violated)
    head = ("objective", "requires", "verdict", "so far", "budget left", "spent by")
    context.show_rows([each.to_dict() for each in verdicts], head, list(map(_row, verdicts)), "")
    return FAILED if violated else OK


def _row(verdict: Verdict) -> tuple[str, ...]:
    share = f"{verdict.line * 100:g} %"
    within = "" if verdict.limit_ms is None else f" within {verdict.limit_ms:g} ms"
    so_far = f"{verdict.good:,} of {verdict.tried:,}" if verdict.tried else "none"
    budget = "" if verdict.budget_left is None else f"{verdict.budget_left * 100:.0f} %"
    causes = ", ".join(f"{cause} ({n:,})" for cause, n in verdict.causes)
    name = f"{verdict.target} {verdict.objective}"
    return (
        name,
        f"{share}{within} in {verdict.window}",
        verdict.state,
        f"{so_far} since {verdict.began[:10]}",
        budget,
        causes,
    )
