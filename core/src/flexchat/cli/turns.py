"""flexchat turns …: the turns of kept conversations, their steps, and those that were interrupted."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

from ..app import FlexChat
from ..conversations.export import to_the_minute
from ..domain import Turn
from ..domain.text import counted
from ..plugin.contracts import Command, TurnJournal
from .conversations_store import add_tenant_argument, conversation_store
from .opening import introduce, open_chat
from .terminal import Terminal, one_line
from .usage import OK, UsageError

_MOST = 50
_SHORT_ID = 8
_NARROWEST = 20  # characters of a message that are shown, however narrow the terminal is


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--interrupted", action="store_true", help="only those that can be resumed")
    parser.add_argument("--limit", metavar="N", type=int, default=_MOST, help=f"maximum number (default: {_MOST})")
    add_tenant_argument(parser)


async def _list(journal: TurnJournal, args: argparse.Namespace) -> None:
    if args.limit < 1:
        raise UsageError(f"--limit is at least 1, not {args.limit}")
    states: Any = ("interrupted",) if args.interrupted else None
    turns = await journal.list(tenant=args.tenant, states=states, limit=args.limit)
    if args.json:
        args.terminal.json([attrs.asdict(turn) for turn in turns])
        return
    for turn in turns:
        columns = f"{turn.id[:_SHORT_ID]}  {to_the_minute(turn.began_at)}  {turn.state:11}  "
        text = turn.message + (f": {turn.error}" if turn.error else "")
        args.terminal.out(columns + one_line(text, max(args.terminal.width - len(columns), _NARROWEST)))
    if not turns:
        args.terminal.say("no turn is interrupted" if args.interrupted else "no turn is kept yet", "dim")
    elif any(turn.state == "interrupted" for turn in turns):
        args.terminal.say("to continue an interrupted turn: flexchat turns resume ID", "dim")


def _id_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="its id, or the start of it")
    add_tenant_argument(parser)


async def _show(journal: TurnJournal, args: argparse.Namespace) -> None:
    turn, entries = await journal.read(args.id, tenant=args.tenant)
    if args.json:
        args.terminal.json({**attrs.asdict(turn), "steps": [attrs.asdict(entry) for entry in entries]})
        return
    for name, value in (
        ("turn", turn.id),
        ("state", turn.state + (f": {turn.error}" if turn.error else "")),
        ("conversation", turn.conversation),
        ("began", turn.began_at),
        ("ended", turn.ended_at),
    ):
        if value:
            args.terminal.out(f"{name + ':':14}{one_line(value, 2_000)}")
    for entry in entries:
        columns = f"{entry.number:3}  {entry.at[11:23]}  {entry.kind:8}  "
        text = one_line(_told(entry.kind, entry.data), max(args.terminal.width - len(columns), _NARROWEST))
        args.terminal.out((columns + text).rstrip())


def _told(kind: str, data: Mapping[str, Any]) -> str:
    """Return a step in one line."""
    match kind:
        case "started":
            return str(data["request"]["user_message"])
        case "phase":
            return f"{data['record']['phase']}: {data['record']['outcome']}"
        case "rule":
            return str(data["outcome"].get("name") or data["index"] + 1)
        case "request":
            return f"{data['llm']}/{data['model']} is asked: {counted(data['messages'], 'message')}"
        case "answer":
            parts = data["result"]["message"]["parts"]
            calls = [part["name"] for part in parts if part["type"] == "tool_call"]
            said = "".join(part["text"] for part in parts if part["type"] == "text")
            return f"{data['elapsed_ms']:.0f} ms: {said or 'calls ' + ', '.join(calls)}"
        case "tool":
            result = data["record"]["result"]
            came = result["error"] if "error" in result else result.get("result")
            return f"{data['record']['tool']}: {came}"
        case "resumed":
            return f"with configuration {data['config']}, {', '.join(data['packages'])}"
    return ""


async def _resume(chat: FlexChat, args: argparse.Namespace) -> Turn:
    return await chat.resume(args.id, tenant=args.tenant)


async def _cancel(chat: FlexChat, args: argparse.Namespace) -> Turn:
    return await chat.close_turn(args.id, tenant=args.tenant)


def _show_resumed(turn: Turn, terminal: Terminal) -> None:
    for record in turn.failed_calls:
        terminal.say(f"{record.tool}: {record.result.explained()}", "dim")
    terminal.out(turn.content)


def _show_cancelled(turn: Turn, terminal: Terminal) -> None:
    calls: Sequence[Any] = turn.response.tool_calls or ()
    terminal.say(f"{turn.id[:_SHORT_ID]} is ended; what it did is in its conversation", "dim")
    for record in calls:
        terminal.say(f"{record.tool}: {record.result.explained() or 'done'}", "dim")


def _of_the_journal(
    name: str,
    summary: str,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    work: Callable[[TurnJournal, argparse.Namespace], Awaitable[None]],
) -> Command:
    async def on_the_journal(args: argparse.Namespace) -> None:
        store, _ = conversation_store(args)
        try:
            journal = getattr(store, "journal", None)
            if journal is None:
                raise UsageError("the store of the conversations keeps no journal of turns")
            await work(journal, args)
        finally:
            await store.aclose()

    def run(args: argparse.Namespace) -> int:
        asyncio.run(on_the_journal(args))
        return OK

    return Command(name=f"turns {name}", summary=summary, add_arguments=add_arguments, run=run)


def _of_a_chat(
    name: str,
    summary: str,
    work: Callable[[FlexChat, argparse.Namespace], Awaitable[Turn]],
    show: Callable[[Turn, Terminal], None],
) -> Command:
    async def in_the_chat(chat: FlexChat, args: argparse.Namespace) -> Turn:
        store, _ = conversation_store(args)
        try:
            async with chat:
                chat.keep_in(store)
                return await work(chat, args)
        finally:
            await store.aclose()

    def run(args: argparse.Namespace) -> int:
        chat = open_chat(args)
        introduce(chat, args)
        turn = asyncio.run(in_the_chat(chat, args))
        if args.json:
            args.terminal.json(turn.to_dict())
        else:
            show(turn, args.terminal)
        return OK

    return Command(name=f"turns {name}", summary=summary, add_arguments=_id_arguments, run=run)


COMMANDS = (
    _of_the_journal("list", "list the turns of kept conversations, newest first", _list_arguments, _list),
    _of_the_journal("show", "print the steps of a turn", _id_arguments, _show),
    _of_a_chat("resume", "continue an interrupted turn where it stopped", _resume, _show_resumed),
    _of_a_chat("cancel", "end an interrupted turn; what it did stays in its conversation", _cancel, _show_cancelled),
)
