"""flexchat can: whether a role may use a tool, and why."""

from __future__ import annotations

from flexchat import Principal, TurnInfo
from flexchat.host import did_you_mean
from flexchat_cli import FAILED, OK, CommandContext, UsageError, argument, call_arguments, command, read_arguments

from ..roles import fits_tool


@command
@argument("roles", metavar="ROLE", help="a role of the configuration; several with commas, which add up")
@argument("name", metavar="TOOL", help="the tool's name")
@call_arguments
async def can(context: CommandContext, roles: str, name: str, words: tuple[str, ...]) -> int:
    """Show whether a role may use a tool, and why.

    The answer is that of a call. Arguments are checked as those of a call are; nothing runs. The exit status is 0 for
    yes, and 1 for no.
    """
    chat, _ = context.open_tools()
    table = chat.config.tables.get("roles")
    if table is None:
        raise UsageError("the configuration has no roles: write [roles.NAME] with tools into it")
    names = [each.strip() for each in roles.split(",")]
    for each in names:
        if each not in table:
            hint = f" (roles: {', '.join(table)})"
            raise UsageError(f"no role is called '{each}'{did_you_mean(each, table) or hint}")
    everyone = chat.tools.every_tool.names()
    async with chat:
        tool = chat.tools.every_tool.get(name)
        if tool is None and chat.tools.sources.by_name:
            tool = await chat.tools.sources.find(name)
    if tool is None:
        raise UsageError(f"no tool is called '{name}'{did_you_mean(name, everyone)}; there are: {', '.join(everyone)}")
    why = chat.tools.refusal(TurnInfo(principal=Principal("a principal with it", names)), tool)
    grants = [f"'{pattern}' of {each}" for each in names for pattern in table[each].tools if fits_tool(pattern, tool)]
    reason = why or (f"granted by {', '.join(grants)}" if grants else "no role need grant it")
    if why is None and words:
        read_arguments(words, tool)
    if why is None and tool.approve:
        reason += "; a person must approve each call"
    if context.json:
        context.terminal.json({"tool": tool.name, "roles": names, "permitted": why is None, "why": reason})
    else:
        context.terminal.out(f"{'yes' if why is None else 'no'}: {reason}")
    return OK if why is None else FAILED
