"""flexchat record: a kept conversation becomes validation cases."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from flexchat import ConversationTurn
from flexchat.host import (
    OK,
    Conversations,
    Terminal,
    UsageError,
    add_tenant_argument,
    conversation_store,
    find_conversation,
    short_id,
)

from .cases import put_out, words_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what record takes."""
    parser.add_argument("id", nargs="?", metavar="CONVERSATION", help="its id, or the start of it; default: the last")
    parser.add_argument("--turn", metavar="N", type=int, help="only this turn, from 1; -1 is the last")
    parser.add_argument("--whole", action="store_true", help="one case with all turns; default: one case per turn")
    parser.add_argument("--name", metavar="NAME", help="name of the case; default: what the user said")
    parser.add_argument("--tags", metavar="TAG", nargs="+", default=[], help="words to choose the case by")
    parser.add_argument("--out", metavar="FILE", help=".toml or .json file to add it to; default: print TOML")
    add_tenant_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was done in the conversation as cases, or add them to a file."""
    from ..recording import recorded_cases

    terminal: Terminal = args.terminal
    if args.whole and args.turn is not None:
        raise UsageError("--turn makes a case of one turn, --whole of all: use one of the two")
    turns, id = asyncio.run(_turns(args))
    chosen = _chosen(turns, args.turn)
    found = recorded_cases(chosen, name=args.name, tags=words_of(args.tags), whole=args.whole)
    for note in found.notes:
        terminal.say(f"note: {note}", "dim")
    if not found.cases:
        raise UsageError(f"conversation {id} has no turn that a case can be made of")
    if not args.whole and len(turns) > 1 and args.turn != 1:
        terminal.say("note: a later turn may depend on earlier ones: --whole keeps them together", "dim")
    put_out(found, args)
    return OK


async def _turns(args: argparse.Namespace) -> tuple[Sequence[ConversationTurn], str]:
    store, _ = conversation_store(args)
    try:
        conversations = Conversations(store, args.tenant)
        if args.id is not None:
            info = await find_conversation(conversations, args.id)
        else:
            last = await conversations.list(limit=1)
            if not last:
                raise UsageError("there is no kept conversation: flexchat ask --keep keeps one")
            info = last[0]
        return await conversations.turns(info.id), short_id(info)
    finally:
        await store.aclose()


def _chosen(turns: Sequence[ConversationTurn], number: int | None) -> Sequence[ConversationTurn]:
    if number is None:
        return turns
    if number == 0 or abs(number) > len(turns):
        raise UsageError(f"--turn {number}: the conversation has turns 1 to {len(turns)}")
    return [turns[number - 1 if number > 0 else number]]


COMMANDS = {"record": (add_arguments, run)}
"""What each command takes, and what it does, by its name; plugin.py says what they are."""
