"""flexchat tools find: what a model's search would find."""

from __future__ import annotations

import click
from flexchat.host import counted, did_you_mean
from flexchat_cli import FAILED, OK, CommandContext, UsageError, argument, command

from ..finder import index_of, shortened


@command
@argument("query", metavar="QUERY", help="what the model would search for")
@click.option("--rule", metavar="RULE", help="the rule whose tools are searched: its number, from 1, or its name")
async def find(context: CommandContext, query: str, rule: str | None) -> int:
    """Show the tools that a model would find.

    They are those that you may use; without --rule, of the first rule with deferred tools. The exit status is 1 if
    nothing is found.
    """
    terminal = context.terminal
    chat, _ = context.open_tools()
    rules = {key: each for at, each in enumerate(chat.config.responses, 1) for key in (str(at), each.name) if key}
    if rule is not None and rule not in rules:
        names = [each.name for each in chat.config.responses if each.name]
        hint = f" (rules are numbered 1 to {len(chat.config.responses)})"
        raise UsageError(f"--rule {rule}: no such rule{did_you_mean(rule, names) or hint}")
    async with chat:
        for each in chat.config.responses if rule is None else [rules[rule]]:
            for warning in await chat.tools.ready_for(each):
                terminal.say(warning)
            offer = chat.tools.offer_to(each)
            if offer.deferred:
                break
        else:
            where = "in any rule" if rule is None else f"in rule {rule}"
            how = "[tools.search] defers tools, and so does show in a rule's tools"
            raise UsageError(f"no tool that you may use is deferred {where}: {how}")
    tools = {offer.wire_name(tool.name): tool for tool in offer.own() if tool.name in offer.deferred}
    hits = index_of(tools).find(query, chat.tools.search.hits)
    if context.json:
        terminal.json([{"tool": hit.name, "score": round(hit.score, 2), "source": hit.tool.source} for hit in hits])
    for hit in () if context.json else hits:
        terminal.out(f"{hit.name}  {hit.score:.1f}", "bold")
        terminal.paragraph(shortened(hit.tool.description), indent="    ")
    if not hits:
        terminal.say(f"nothing found among {counted(len(tools), 'deferred tool')}")
    return OK if hits else FAILED
