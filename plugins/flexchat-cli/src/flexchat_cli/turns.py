"""flexchat turns … and effects …: the turns of kept conversations, and what their tools have changed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import click
from flexchat.config.model import EffectsTable
from flexchat.conversations.view import to_the_minute
from flexchat.domain import Effect, PhaseRecord, Round, Usage
from flexchat.domain.codec import value_from_dict
from flexchat.domain.journal import JournaledTurn, JournalEntry, TurnState
from flexchat.domain.prices import Cost
from flexchat.domain.text import counted
from flexchat.domain.turn import cost_of
from flexchat.errors import ConfigError

from .context import CommandContext, UsageError, report_notes, user_name
from .conversations_store import SHORT_ID, open_store, tenant_option
from .parameters import TEXT, argument, command, limit_option
from .questions import Questions
from .transcript import report_pending

if TYPE_CHECKING:
    from flexchat.app import FlexChat
    from flexchat.plugin.contracts import EffectLedger, TurnJournal

_id = argument("id", metavar="ID", help="its id, or the start of it")


@command
@click.option("--interrupted", "state", flag_value="interrupted", help="only those that can be resumed")
@click.option("--suspended", "state", flag_value="suspended", help="only those whose question has no reply yet")
@click.option("--accepted", "state", flag_value="accepted", help="only those that have not begun")
@limit_option(50)
@tenant_option
async def list_(context: CommandContext, state: TurnState | None, limit: int, tenant: str) -> None:
    """List the turns of kept conversations, newest first."""
    async with _open_journal(context) as journal:
        turns = await journal.list(tenant=tenant, states=(state,) if state else None, limit=limit)
    rows = []
    for turn in turns:
        due = f" (from {to_the_minute(turn.due_at)})" if turn.state == "accepted" and turn.due_at else ""
        text = turn.message + due + (f": {turn.error}" if turn.error else "")
        rows.append((turn.id[:SHORT_ID], to_the_minute(turn.began_at), turn.state, text))
    data = [attrs.asdict(turn) for turn in turns]
    empty = f"no turn is {state}" if state else "no turn is kept yet"
    context.show_rows(data, ("id", "began", "state", "message"), rows, empty)
    if not context.json:
        if any(turn.state == "interrupted" for turn in turns):
            context.terminal.say("to continue an interrupted turn: flexchat turns resume ID", "dim")
        if any(turn.state == "suspended" for turn in turns):
            context.terminal.say("to reply to the question of a suspended one: flexchat turns resume ID", "dim")


@command
@_id
@tenant_option
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
    state = turn.state + (f": {turn.error}" if turn.error else "")
    terminal.fields((("turn", turn.id), ("state", state), ("conversation", turn.conversation)))
    terminal.fields((("due", turn.due_at), ("priority", turn.priority), ("cancelled by", turn.cancelled_by)))
    terminal.fields((("began", turn.began_at), ("ended", turn.ended_at), ("cost", cost.explained())))
    rows = [(f"{step.number:3}", step.at[11:23], step.kind, _format_step(step.kind, step.data)) for step in entries]
    terminal.table(("step", "at", "kind", "what"), rows)


@command
@_id
@tenant_option
async def resume(context: CommandContext, id: str, tenant: str) -> int:
    """Continue an interrupted, suspended or accepted turn here.

    Its open questions are asked at the terminal. Exit status 3: it is suspended again.
    """
    terminal = context.terminal
    async with _open_chat(context) as chat:
        person = Questions(terminal, keeps=chat.questions_expire_s > 0)
        turn = await chat.resume(id, tenant=tenant, on_question=person)
    if context.json:
        terminal.json(turn.to_dict())
    elif not turn.pending:
        for record in turn.failed_calls:
            terminal.say(f"{record.tool}: {record.result.explained()}", "dim")
        terminal.out(turn.content)
    return report_pending(turn, terminal, person)


@command
@_id
@tenant_option
async def cancel(context: CommandContext, id: str, tenant: str) -> None:
    """End a turn, wherever it runs, and keep its results in the conversation."""
    async with _open_chat(context) as chat:
        turn = await chat.cancel_turn(id, tenant=tenant, by=user_name())
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
        case "accepted" | "started":
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
        case "limit":
            return str(data["why"])
        case "question":
            return f"{data['question']['id'][:SHORT_ID]}: {data['question']['message']}"
        case "reply":
            return " ".join((f"{data['id'][:SHORT_ID]}:", data["reply"]["action"], data["reply"].get("why", "")))
        case "resumed":
            return f"with configuration {data['config']}, {', '.join(data['packages'])}"
    return ""


_effect_id = argument("id", metavar="ID", help="its key, or the start of it")


@command
@click.option("--unknown", is_flag=True, help="only those a person has to check")
@limit_option(50)
@tenant_option
async def effects_list(context: CommandContext, unknown: bool, limit: int, tenant: str) -> None:
    """List the changes that tools have made, newest first."""
    async with _open_ledger(context) as ledger:
        effects = await ledger.list(tenant=tenant, states=("unknown",) if unknown else None, limit=limit)
    rows = []
    for effect in effects:
        text = f"{effect.tool}({_arguments(effect)}){f': {effect.note}' if effect.note else ''}"
        rows.append((effect.key[:SHORT_ID], to_the_minute(effect.claimed_at), effect.state, text))
    data = [_as_data(effect) for effect in effects]
    empty = "no effect is unknown" if unknown else "no tool has changed anything"
    context.show_rows(data, ("id", "began", "state", "call"), rows, empty)
    if any(effect.state == "unknown" for effect in effects) and not context.json:
        context.terminal.say("check whether it took effect, then: flexchat effects settle ID done|failed", "dim")


@command
@_effect_id
@tenant_option
async def effects_show(context: CommandContext, id: str, tenant: str) -> None:
    """Print everything known about an effect."""
    async with _open_ledger(context) as ledger:
        effect = await ledger.get(id, tenant=tenant)
    if context.json:
        context.terminal.json(_as_data(effect))
        return
    settled = f", settled by {effect.settled_by}" if effect.settled_by else ""
    fields = attrs.asdict(effect) | {
        "state": effect.state + settled,
        "claimed": effect.claimed_at,
        "ended": effect.ended_at,
    }
    names = ("key", "state", "tool", "arguments", "result", "note", "handle", "claimed", "ended")
    context.terminal.fields((name, fields[name]) for name in (*names, "conversation", "turn", "place"))


@command
@_effect_id
@argument("state", type=click.Choice(["done", "failed"]), help="done: it took effect; failed: it did not")
@click.option("--note", metavar="TEXT", type=TEXT, default="", help="how you know; the model may see it")
@tenant_option
async def effects_settle(
    context: CommandContext, id: str, state: Literal["done", "failed"], note: str, tenant: str
) -> None:
    """Record how an unknown effect ended: ID done|failed."""
    async with _open_ledger(context) as ledger:
        key = (await ledger.get(id, tenant=tenant)).key
        effect = await ledger.settle(key, tenant=tenant, state=state, by=user_name(), note=note)
    context.show(_as_data(effect), f"{effect.key[:SHORT_ID]} {effect.tool} is {effect.state}")


def _arguments(effect: Effect) -> str:
    """Format the arguments as in a call; truncated ones are shown as stored."""
    try:
        arguments = json.loads(effect.arguments or "{}")
        return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    except (ValueError, AttributeError):
        return effect.arguments


def _as_data(effect: Effect) -> dict[str, Any]:
    data = attrs.asdict(effect)
    return {**data, **{name: json.loads(data[name]) for name in ("result", "handle") if data[name] is not None}}


@contextlib.asynccontextmanager
async def _open_ledger(context: CommandContext) -> AsyncIterator[EffectLedger]:
    """Open the configured ledger, or the one in the default file.

    Raises:
        ConfigError: The table [tools.effects] has problems.
        UsageError: Effects are kept in memory only.
    """
    from flexchat.config.reading import read_config
    from flexchat.conversations.opening import open_ledger

    reading = read_config(context.read_config() or {})
    tools = reading.document.data.get("tools")
    is_written = isinstance(tools, dict) and "effects" in tools
    table = reading.settings(("tools", "effects"), (), EffectsTable) if is_written else EffectsTable()
    if table is not None and table.store == "memory":
        text = 'effects are kept in memory and end with their program: tools.effects.store = "sqlite" keeps them'
        raise UsageError(text)
    async with open_store(context) as store:
        ledger = open_ledger(reading, context.load_plugins(reading), table, store) if table is not None else None
        if ledger is None:
            raise ConfigError([problem for problem in reading.problems if problem.path.startswith("tools.effects")])
        async with contextlib.aclosing(ledger):
            yield ledger


def rounds_of(step: JournalEntry) -> tuple[Round, ...]:
    """Return the models' answers in a step; empty if it called none."""
    if step.kind == "phase":
        return value_from_dict(PhaseRecord, step.data["record"]).rounds
    if step.kind != "answer":
        return ()
    usage = step.data["result"].get("usage")
    answer = value_from_dict(Round, step.data)
    return (attrs.evolve(answer, usage=None if usage is None else value_from_dict(Usage, usage)),)


def cost_of_steps(turn: JournaledTurn, steps: Sequence[JournalEntry]) -> Cost:
    """Return the cost of a turn, as Turn.cost does: of its phases and its answers."""
    rounds = [one for step in steps for one in rounds_of(step)]
    rule = next((step.data["index"] for step in steps if step.kind == "rule"), None)
    return cost_of(rounds, (), "done" if turn.state == "done" else "failed", rule)
