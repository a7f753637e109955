"""flexchat effects …: what tools have changed, and settling effects whose outcome is unknown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import attrs
import click
from flexchat.config.model import EffectsTable
from flexchat.conversations.export import to_the_minute
from flexchat.domain import Effect
from flexchat.errors import ConfigError

from .context import CommandContext
from .conversations_store import conversation_store, tenant_option
from .parameters import TEXT, argument
from .terminal import one_line
from .usage import UsageError

if TYPE_CHECKING:
    from flexchat.plugin.contracts import ConversationStore, EffectLedger

_MOST = 50
_SHORT_KEY = 8
_id = argument("id", metavar="ID", help="its key, or the start of it")


@click.command
@click.option("--unknown", is_flag=True, help="only those a person has to check")
@click.option("--limit", metavar="N", type=int, default=_MOST, help=f"maximum number (default: {_MOST})")
@tenant_option
@click.pass_obj
def list_(context: CommandContext, unknown: bool, limit: int, tenant: str) -> None:
    """List what tools have changed, newest first."""
    terminal = context.terminal
    if limit < 1:
        raise UsageError(f"--limit is at least 1, not {limit}")

    async def work(ledger: EffectLedger) -> None:
        states: Any = ("unknown",) if unknown else None
        effects = await ledger.list(tenant=tenant, states=states, limit=limit)
        if context.json:
            terminal.json([_as_data(effect) for effect in effects])
            return
        rows = []
        for effect in effects:
            note = f": {effect.note}" if effect.note else ""
            text = f"{effect.tool}({_arguments(effect)}){note}"
            rows.append((effect.key[:_SHORT_KEY], to_the_minute(effect.claimed_at), effect.state, text))
        terminal.table(("id", "began", "state", "call"), rows)
        if not effects:
            terminal.say("no effect is unknown" if unknown else "no tool has changed anything", "dim")
        elif any(effect.state == "unknown" for effect in effects):
            terminal.say("check whether it took effect, then: flexchat effects settle ID done|failed", "dim")

    _with_ledger(context, work)


@click.command
@_id
@tenant_option
@click.pass_obj
def show(context: CommandContext, id: str, tenant: str) -> None:
    """Print everything known about an effect."""

    async def work(ledger: EffectLedger) -> None:
        effect = await ledger.get(id, tenant=tenant)
        if context.json:
            context.terminal.json(_as_data(effect))
            return
        settled = f", settled by {effect.settled_by}" if effect.settled_by else ""
        for name, value in (
            ("key", effect.key),
            ("state", effect.state + settled),
            ("tool", effect.tool),
            ("arguments", effect.arguments),
            ("result", effect.result),
            ("note", effect.note),
            ("handle", effect.handle),
            ("claimed", effect.claimed_at),
            ("ended", effect.ended_at),
            ("conversation", effect.conversation),
            ("turn", effect.turn),
            ("place", effect.place),
        ):
            if value:
                context.terminal.out(f"{name + ':':14}{one_line(str(value), 2_000)}")

    _with_ledger(context, work)


@click.command
@_id
@argument("state", type=click.Choice(["done", "failed"]), help="done: it took effect; failed: it did not")
@click.option("--note", metavar="TEXT", type=TEXT, default="", help="how you know; the model may see it")
@tenant_option
@click.pass_obj
def settle(context: CommandContext, id: str, state: Literal["done", "failed"], note: str, tenant: str) -> None:
    """Record how an unknown effect ended: ID done|failed."""

    async def work(ledger: EffectLedger) -> None:
        found = await ledger.get(id, tenant=tenant)
        effect = await ledger.settle(found.key, tenant=tenant, state=state, by=_who(), note=note)
        if context.json:
            context.terminal.json(_as_data(effect))
        else:
            context.terminal.say(f"{effect.key[:_SHORT_KEY]} {effect.tool} is {effect.state}", "dim")

    _with_ledger(context, work)


def _with_ledger(context: CommandContext, work: Callable[[EffectLedger], Awaitable[None]]) -> None:
    async def on_the_ledger() -> None:
        store, _ = conversation_store(context)
        try:
            ledger = _ledger(context, store)
            try:
                await work(ledger)
            finally:
                await ledger.aclose()
        finally:
            await store.aclose()

    asyncio.run(on_the_ledger())


def _who() -> str:
    import getpass  # needed by this command only

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return "the command line"


def _arguments(effect: Effect) -> str:
    """Format the arguments as in a call; truncated ones are shown as stored."""
    try:
        given = json.loads(effect.arguments or "{}")
    except ValueError:
        return effect.arguments
    if not isinstance(given, dict):
        return effect.arguments
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())


def _as_data(effect: Effect) -> dict[str, Any]:
    data = attrs.asdict(effect)
    return {**data, **{name: json.loads(data[name]) for name in ("result", "handle") if data[name] is not None}}


def _ledger(context: CommandContext, store: ConversationStore) -> EffectLedger:
    """Return the configured ledger, or the one in the default file.

    Raises:
        ConfigError: The table [tools.effects] has problems.
        UsageError: Effects are kept in memory only.
    """
    from flexchat.config.reading import read_config
    from flexchat.conversations.opening import open_ledger

    known = context.read_config()
    reading = read_config(known if known is not None else {})
    tools = reading.document.data.get("tools")
    written = isinstance(tools, dict) and "effects" in tools
    table = reading.settings(("tools", "effects"), (), EffectsTable) if written else EffectsTable()
    if table is not None and table.store == "memory":
        text = 'effects are kept in memory and end with their program: tools.effects.store = "sqlite" keeps them'
        raise UsageError(text)
    ledger = open_ledger(reading, context.load_plugins(reading), table, store) if table is not None else None
    if ledger is None:
        raise ConfigError([problem for problem in reading.problems if problem.path.startswith("tools.effects")])
    return ledger
