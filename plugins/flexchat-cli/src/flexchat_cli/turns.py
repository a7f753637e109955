"""flexchat turns …: the turns of kept conversations, their steps, and those that were interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat.conversations.export import to_the_minute
from flexchat.domain import Turn
from flexchat.domain.journal_cost import cost_of_steps
from flexchat.domain.text import counted

from .context import CommandContext
from .conversations_store import conversation_store, tenant_option
from .opening import report_notes
from .parameters import argument
from .terminal import one_line
from .usage import UsageError

if TYPE_CHECKING:
    from flexchat.app import FlexChat
    from flexchat.plugin.contracts import TurnJournal

_MOST = 50
_SHORT_ID = 8
_id = argument("id", metavar="ID", help="its id, or the start of it")


@click.command
@click.option("--interrupted", is_flag=True, help="only those that can be resumed")
@click.option("--limit", metavar="N", type=int, default=_MOST, help=f"maximum number (default: {_MOST})")
@tenant_option
@click.pass_obj
def list_(context: CommandContext, interrupted: bool, limit: int, tenant: str) -> None:
    """List the turns of kept conversations, newest first."""
    terminal = context.terminal
    if limit < 1:
        raise UsageError(f"--limit is at least 1, not {limit}")

    async def work(journal: TurnJournal) -> None:
        states: Any = ("interrupted",) if interrupted else None
        turns = await journal.list(tenant=tenant, states=states, limit=limit)
        if context.json:
            terminal.json([attrs.asdict(turn) for turn in turns])
            return
        rows = []
        for turn in turns:
            text = turn.message + (f": {turn.error}" if turn.error else "")
            rows.append((turn.id[:_SHORT_ID], to_the_minute(turn.began_at), turn.state, text))
        terminal.table(("id", "began", "state", "message"), rows)
        if not turns:
            terminal.say("no turn is interrupted" if interrupted else "no turn is kept yet", "dim")
        elif any(turn.state == "interrupted" for turn in turns):
            terminal.say("to continue an interrupted turn: flexchat turns resume ID", "dim")

    _with_journal(context, work)


@click.command
@_id
@tenant_option
@click.pass_obj
def show(context: CommandContext, id: str, tenant: str) -> None:
    """Print the steps of a turn."""
    terminal = context.terminal

    async def work(journal: TurnJournal) -> None:
        turn, entries = await journal.read(id, tenant=tenant)
        cost = cost_of_steps(turn, entries)
        if context.json:
            steps = [attrs.asdict(entry) for entry in entries]
            terminal.json({**attrs.asdict(turn), "cost": cost.to_dict(), "steps": steps})
            return
        for name, value in (
            ("turn", turn.id),
            ("state", turn.state + (f": {turn.error}" if turn.error else "")),
            ("conversation", turn.conversation),
            ("began", turn.began_at),
            ("ended", turn.ended_at),
            ("cost", cost.explained()),
        ):
            if value:
                terminal.out(f"{name + ':':14}{one_line(value, 2_000)}")
        rows = [
            (f"{entry.number:3}", entry.at[11:23], entry.kind, _format_step(entry.kind, entry.data))
            for entry in entries
        ]
        terminal.table(("step", "at", "kind", "what"), rows)

    _with_journal(context, work)


@click.command
@_id
@tenant_option
@click.pass_obj
def resume(context: CommandContext, id: str, tenant: str) -> None:
    """Continue an interrupted turn where it stopped."""
    turn = _in_chat(context, lambda chat: chat.resume(id, tenant=tenant))
    if context.json:
        context.terminal.json(turn.to_dict())
        return
    for record in turn.failed_calls:
        context.terminal.say(f"{record.tool}: {record.result.explained()}", "dim")
    context.terminal.out(turn.content)


@click.command
@_id
@tenant_option
@click.pass_obj
def cancel(context: CommandContext, id: str, tenant: str) -> None:
    """End an interrupted turn, and keep its results in the conversation."""
    turn = _in_chat(context, lambda chat: chat.close_turn(id, tenant=tenant))
    if context.json:
        context.terminal.json(turn.to_dict())
        return
    calls: Sequence[Any] = turn.response.tool_calls or ()
    context.terminal.say(f"{turn.id[:_SHORT_ID]} is ended; what it did is in its conversation", "dim")
    for record in calls:
        context.terminal.say(f"{record.tool}: {record.result.explained() or 'done'}", "dim")


def _with_journal(context: CommandContext, work: Callable[[TurnJournal], Awaitable[None]]) -> None:
    async def on_the_journal() -> None:
        store, _ = conversation_store(context)
        try:
            journal = getattr(store, "journal", None)
            if journal is None:
                raise UsageError("the store of the conversations keeps no journal of turns")
            await work(journal)
        finally:
            await store.aclose()

    asyncio.run(on_the_journal())


def _in_chat(context: CommandContext, work: Callable[[FlexChat], Awaitable[Turn]]) -> Turn:
    async def in_the_chat(chat: FlexChat) -> Turn:
        store, _ = conversation_store(context)
        try:
            async with chat:
                chat.keep_in(store)
                return await work(chat)
        finally:
            await store.aclose()

    chat = context.open_chat()
    report_notes(chat, context)
    return asyncio.run(in_the_chat(chat))


def _format_step(kind: str, data: Mapping[str, Any]) -> str:
    """Format a step as one line."""
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
