"""flexchat tools cost: what each rule's tools cost in every request, in tokens and dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from flexchat.calls.tool_notes import rule_cost
from flexchat.domain.prices import Cost
from flexchat.domain.text import counted
from flexchat.errors import did_you_mean
from flexchat.tools.cost import BYTES_PER_TOKEN, ToolsCost

from .context import CommandContext
from .explain import rule_label
from .terminal import Terminal
from .usage import UsageError

if TYPE_CHECKING:
    from flexchat.app import FlexChat

_MAX_SHOWN = 10


def _complete_rule(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    rules = ctx.obj.open_tools()[0].config.responses
    return [rule.name for rule in rules if rule.name and rule.name.startswith(incomplete)]


@click.command
@click.option(
    "--rule", metavar="RULE", shell_complete=_complete_rule, help="only this rule: its number, from 1, or its name"
)
@click.pass_obj
def cost(context: CommandContext, rule: str | None) -> None:
    """Estimate the cost of each rule's tools in every request.

    The dearest tools come first; -v shows all.
    """
    terminal = context.terminal
    chat, _ = context.open_tools()
    costs: list[tuple[int, str, ToolsCost, Cost]] = []
    for index in _rules(chat, rule):
        entry = chat.config.responses[index]
        form, estimate = rule_cost(entry, chat.tools, chat.llms)
        llm, model = chat.llms.resolve(entry.llm, entry.model)
        costs.append((index, form, estimate, llm.cost_of_reading(model, estimate.tokens)))
    if context.json:
        terminal.json(
            [
                {"rule": index, "name": chat.config.responses[index].name, "format": form}
                | {"tokens": estimate.tokens, "cost": cost.to_dict()}
                | {"tools": estimate.by_tool, "unsendable": estimate.unsendable}
                for index, form, estimate, cost in costs
            ]
        )
        return
    for each in costs:
        _show(terminal, chat, *each)
    for state in chat.tools.sources.states():
        if not state.accepted:
            terminal.say(f"without the tools of source '{state.name}', which nobody has opened yet", "dim")
    terminal.say(f"estimates: {BYTES_PER_TOKEN} bytes of JSON a token, not cached; services count differently", "dim")


def _show(terminal: Terminal, chat: FlexChat, index: int, form: str, cost: ToolsCost, price: Cost) -> None:
    label = rule_label(index, chat.config.responses[index].name)
    if cost.unsendable:
        names = ", ".join(cost.unsendable)
        terminal.say(f"{label}: {form} cannot be sent {names}; flexchat tools lint says why", "red")
    if not cost.by_tool:
        terminal.out(f"{label}: no tools", "dim")
        return
    tools = counted(len(cost.by_tool), "tool")
    terminal.out(f"{label}: {tools}, about {counted(cost.tokens, 'token')} as sent to {form}, {price}", "bold")
    tools_shown = [*cost.by_tool.items()][: None if terminal.verbose else _MAX_SHOWN]
    width = len(f"{tools_shown[0][1]:,}")
    for name, tokens in tools_shown:
        terminal.out(f"  {tokens:{width},}  {name}")
    if len(tools_shown) < len(cost.by_tool):
        more = counted(len(cost.by_tool) - len(tools_shown), "cheaper one")
        terminal.out(f"  {' ' * width}  and {more}; -v shows all", "dim")


def _rules(chat: FlexChat, name: str | None) -> list[int]:
    rules = chat.config.responses
    if name is None:
        return [*range(len(rules))]
    indexes = [index for index, rule in enumerate(rules) if name in (str(index + 1), rule.name)]
    if not indexes:
        names = [rule.name for rule in rules if rule.name]
        last = f"rules are numbered 1 to {len(rules)}" if rules else "there are no rules"
        raise UsageError(f"--rule {name}: no such rule{did_you_mean(name, names)} ({last})")
    return indexes
