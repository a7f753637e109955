"""flexchat effects …: the changes tools have made, and settling effects whose outcome is unknown."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal

import attrs
import click
from flexchat.config.model import EffectsTable
from flexchat.conversations.export import to_the_minute
from flexchat.domain import Effect
from flexchat.errors import ConfigError

from .context import CommandContext
from .conversations_store import SHORT_ID, open_store, tenant_option
from .parameters import TEXT, argument, limit_option, run_async
from .usage import UsageError

if TYPE_CHECKING:
    from flexchat.plugin.contracts import EffectLedger

_id = argument("id", metavar="ID", help="its key, or the start of it")


@click.command
@click.option("--unknown", is_flag=True, help="only those a person has to check")
@limit_option(50)
@tenant_option
@click.pass_obj
@run_async
async def list_(context: CommandContext, unknown: bool, limit: int, tenant: str) -> None:
    """List what tools have changed, newest first."""
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


@click.command
@_id
@tenant_option
@click.pass_obj
@run_async
async def show(context: CommandContext, id: str, tenant: str) -> None:
    """Print everything known about an effect."""
    async with _open_ledger(context) as ledger:
        effect = await ledger.get(id, tenant=tenant)
    if context.json:
        context.terminal.json(_as_data(effect))
        return
    settled = f", settled by {effect.settled_by}" if effect.settled_by else ""
    names = ("tool", "arguments", "result", "note", "handle")
    places = ("conversation", "turn", "place")
    context.terminal.fields(
        [
            ("key", effect.key),
            ("state", effect.state + settled),
            *((name, getattr(effect, name)) for name in names),
            ("claimed", effect.claimed_at),
            ("ended", effect.ended_at),
            *((name, getattr(effect, name)) for name in places),
        ]
    )


@click.command
@_id
@argument("state", type=click.Choice(["done", "failed"]), help="done: it took effect; failed: it did not")
@click.option("--note", metavar="TEXT", type=TEXT, default="", help="how you know; the model may see it")
@tenant_option
@click.pass_obj
@run_async
async def settle(context: CommandContext, id: str, state: Literal["done", "failed"], note: str, tenant: str) -> None:
    """Record how an unknown effect ended: ID done|failed."""
    async with _open_ledger(context) as ledger:
        key = (await ledger.get(id, tenant=tenant)).key
        effect = await ledger.settle(key, tenant=tenant, state=state, by=_user_name(), note=note)
    context.show(_as_data(effect), f"{effect.key[:SHORT_ID]} {effect.tool} is {effect.state}")


def _user_name() -> str:
    import getpass  # needed by this command only

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return "the command line"


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
