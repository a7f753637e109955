"""flexchat turns …: the turns of kept conversations, their steps, and those that were interrupted."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat.conversations.export import to_the_minute
from flexchat.domain.journal_cost import cost_of_steps
from flexchat.domain.text import counted

from .context import CommandContext
from .conversations_store import SHORT_ID, open_store, tenant_option
from .opening import report_notes
from .parameters import argument, limit_option, run_async
from .usage import UsageError

if TYPE_CHECKING:
    from flexchat.app import FlexChat
    from flexchat.plugin.contracts import TurnJournal

_id = argument("id", metavar="ID", help="its id, or the start of it")


@click.command
@click.option("--interrupted", is_flag=True, help="only those that can be resumed")
@limit_option(50)
@tenant_option
@click.pass_obj
@run_async
async def list_(context: CommandContext, interrupted: bool, limit: int, tenant: str) -> None:
    """List the turns of kept conversations, newest first."""
    async with _open_journal(context) as journal:
        turns = await journal.list(tenant=tenant, states=("interrupted",) if interrupted else None, limit=limit)
    rows = []
    for turn in turns:
        text = turn.message + (f": {turn.error}" if turn.error else "")
        rows.append((turn.id[:SHORT_ID], to_the_minute(turn.began_at), turn.state, text))
    data = [attrs.asdict(turn) for turn in turns]
    empty = "no turn is interrupted" if interrupted else "no turn is kept yet"
    context.show_rows(data, ("id", "began", "state", "message"), rows, empty)
    if any(turn.state == "interrupted" for turn in turns) and not context.json:
        context.terminal.say("to continue an interrupted turn: flexchat turns resume ID", "dim")


@click.command
@_id
@tenant_option
@click.pass_obj
@run_async
async def show(context: CommandContext, id: str, tenant: str) -> None:
    """Print the steps of a turn."""
    terminal = context.terminal
    async with _open_journal(context) as journal:
        turn, entries = await journal.read(id, tenant=tenant)
    cost = cost_of_steps(turn, entries)
    if context.json:
        steps = [attrs.asdict(entry) for entry in entries]
        terminal.json({**attrs.asdict(turn), "cost": cost.to_dict(), "steps": steps})
        return
    terminal.fields(
        (
            ("turn", turn.id),
            ("state", turn.state + (f": {turn.error}" if turn.error else "")),
            ("conversation", turn.conversation),
            ("began", turn.began_at),
            ("ended", turn.ended_at),
            ("cost", cost.explained()),
        )
    )
    rows = [(f"{step.number:3}", step.at[11:23], step.kind, _format_step(step.kind, step.data)) for step in entries]
    terminal.table(("step", "at", "kind", "what"), rows)


@click.command
@_id
@tenant_option
@click.pass_obj
@run_async
async def resume(context: CommandContext, id: str, tenant: str) -> None:
    """Continue an interrupted turn where it stopped."""
    async with _open_chat(context) as chat:
        turn = await chat.resume(id, tenant=tenant)
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
@run_async
async def cancel(context: CommandContext, id: str, tenant: str) -> None:
    """End an interrupted turn, and keep its results in the conversation."""
    async with _open_chat(context) as chat:
        turn = await chat.close_turn(id, tenant=tenant)
    context.show(turn.to_dict(), f"{turn.id[:SHORT_ID]} is ended; what it did is in its conversation")
    for record in () if context.json else turn.response.tool_calls or ():
        context.terminal.say(f"{record.tool}: {record.result.explained() or 'done'}", "dim")


@contextlib.asynccontextmanager
async def _open_journal(context: CommandContext) -> AsyncIterator[TurnJournal]:
    async with open_store(context) as store:
        journal = getattr(store, "journal", None)
        if journal is None:
            raise UsageError("the store of the conversations keeps no journal of turns")
        yield journal


@contextlib.asynccontextmanager
async def _open_chat(context: CommandContext) -> AsyncIterator[FlexChat]:
    chat = context.open_chat()
    report_notes(chat, context)
    async with open_store(context) as store, chat:
        chat.keep_in(store)
        yield chat


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
            text = "".join(part["text"] for part in parts if part["type"] == "text")
            return f"{data['elapsed_ms']:.0f} ms: {text or 'calls ' + ', '.join(calls)}"
        case "tool":
            result = data["record"]["result"]
            outcome = result["error"] if "error" in result else result.get("result")
            return f"{data['record']['tool']}: {outcome}"
        case "resumed":
            return f"with configuration {data['config']}, {', '.join(data['packages'])}"
    return ""
