"""flexchat record: a kept conversation becomes validation cases."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click
import flexchat_cli as cli
from flexchat import ConversationTurn
from flexchat.host import Conversations
from flexchat_cli import CommandContext, UsageError

from .cases import put_out, tags_option


@click.command
@cli.argument(
    "id",
    metavar="CONVERSATION",
    required=False,
    shell_complete=cli.complete_conversation,
    help="its id, or the start of it; default: the last",
)
@click.option("--turn", metavar="N", type=int, help="only this turn, from 1; -1 is the last")
@click.option("--whole", is_flag=True, help="one case with all turns; default: one case per turn")
@click.option("--name", metavar="NAME", type=cli.TEXT, help="name of the case; default: the user's message")
@tags_option("word to choose the case by; repeatable")
@click.option("--out", metavar="FILE", type=cli.FILE_NAME, help=".toml or .json file to add it to; default: print TOML")
@cli.tenant_option
@click.pass_obj
def record(
    context: CommandContext,
    id: str | None,
    turn: int | None,
    whole: bool,
    name: str | None,
    tags: tuple[str, ...],
    out: str | None,
    tenant: str,
) -> None:
    """Make validation cases from a kept conversation."""
    from ..recording import recorded_cases

    terminal = context.terminal
    if whole and turn is not None:
        raise UsageError("--turn makes a case of one turn, --whole of all: use one of the two")
    turns, shown_id = asyncio.run(_turns(context, id, tenant))
    result = recorded_cases(_chosen(turns, turn), name=name, tags=tags, whole=whole)
    for note in result.notes:
        terminal.say(f"note: {note}", "dim")
    if not result.cases:
        raise UsageError(f"conversation {shown_id} has no turn that a case can be made of")
    if not whole and len(turns) > 1 and turn != 1:
        terminal.say("note: a later turn may depend on earlier ones: --whole keeps them together", "dim")
    put_out(result, context, out)


async def _turns(context: CommandContext, id: str | None, tenant: str) -> tuple[Sequence[ConversationTurn], str]:
    store = cli.conversation_store(context)
    try:
        conversations = Conversations(store, tenant)
        if id is not None:
            info = await cli.find_conversation(conversations, id)
        else:
            last = await conversations.list(limit=1)
            if not last:
                raise UsageError("there is no kept conversation: flexchat ask --keep keeps one")
            info = last[0]
        return await conversations.turns(info.id), cli.short_id(info)
    finally:
        await store.aclose()


def _chosen(turns: Sequence[ConversationTurn], number: int | None) -> Sequence[ConversationTurn]:
    if number is None:
        return turns
    if number == 0 or abs(number) > len(turns):
        raise UsageError(f"--turn {number}: the conversation has turns 1 to {len(turns)}")
    return [turns[number - 1 if number > 0 else number]]
