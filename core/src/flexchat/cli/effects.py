"""flexchat effects …: what tools have changed, and settling effects whose outcome is unknown."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from ..config.model import EffectsTable
from ..conversations.export import to_the_minute
from ..domain import Effect
from ..errors import ConfigError
from ..plugin.contracts import Command, ConversationStore, EffectLedger
from .conversations_store import add_tenant_argument, conversation_store
from .opening import the_config
from .terminal import one_line
from .usage import OK, UsageError

_MOST = 50
_SHORT_KEY = 8
_NARROWEST = 20  # characters of a call that are shown, however narrow the terminal is


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--unknown", action="store_true", help="only those a person has to check")
    parser.add_argument("--limit", metavar="N", type=int, default=_MOST, help=f"maximum number (default: {_MOST})")
    add_tenant_argument(parser)


async def _list(ledger: EffectLedger, args: argparse.Namespace) -> None:
    if args.limit < 1:
        raise UsageError(f"--limit is at least 1, not {args.limit}")
    states: Any = ("unknown",) if args.unknown else None
    effects = await ledger.list(tenant=args.tenant, states=states, limit=args.limit)
    if args.json:
        args.terminal.json([_as_data(effect) for effect in effects])
        return
    for effect in effects:
        note = f": {effect.note}" if effect.note else ""
        text = f"{effect.tool}({_arguments(effect)}){note}"
        columns = f"{effect.key[:_SHORT_KEY]}  {to_the_minute(effect.claimed_at)}  {effect.state:7}  "
        args.terminal.out(columns + one_line(text, max(args.terminal.width - len(columns), _NARROWEST)))
    if not effects:
        args.terminal.say("no effect is unknown" if args.unknown else "no tool has changed anything", "dim")
    elif any(effect.state == "unknown" for effect in effects):
        args.terminal.say("check whether it took effect, then: flexchat effects settle ID done|failed", "dim")


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="its key, or the start of it")
    add_tenant_argument(parser)


async def _show(ledger: EffectLedger, args: argparse.Namespace) -> None:
    effect = await ledger.get(args.id, tenant=args.tenant)
    if args.json:
        args.terminal.json(_as_data(effect))
        return
    settled = f", settled by {effect.settled_by}" if effect.settled_by else ""
    for name, value in (
        ("key", effect.key),
        ("state", effect.state + settled),
        ("tool", effect.tool),
        ("arguments", effect.arguments),
        ("result", effect.result),
        ("note", effect.note),
        ("claimed", effect.claimed_at),
        ("ended", effect.ended_at),
        ("conversation", effect.conversation),
        ("turn", effect.turn),
        ("place", effect.place),
    ):
        if value:
            args.terminal.out(f"{name + ':':14}{one_line(str(value), 2_000)}")


def _settle_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="its key, or the start of it")
    parser.add_argument("state", choices=("done", "failed"), help="done: it took effect; failed: it did not")
    parser.add_argument("--note", metavar="TEXT", default="", help="how you know; the model may see it")
    add_tenant_argument(parser)


async def _settle(ledger: EffectLedger, args: argparse.Namespace) -> None:
    found = await ledger.get(args.id, tenant=args.tenant)
    effect = await ledger.settle(found.key, tenant=args.tenant, state=args.state, by=_who(), note=args.note)
    if args.json:
        args.terminal.json(_as_data(effect))
    else:
        args.terminal.say(f"{effect.key[:_SHORT_KEY]} {effect.tool} is {effect.state}", "dim")


def _who() -> str:
    import getpass  # only when somebody settles something

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return "the command line"


def _arguments(effect: Effect) -> str:
    """Return the arguments as written in a call; if they were cut, as they are kept."""
    try:
        given = json.loads(effect.arguments or "{}")
    except ValueError:
        return effect.arguments
    if not isinstance(given, dict):
        return effect.arguments
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())


def _as_data(effect: Effect) -> dict[str, Any]:
    data = attrs.asdict(effect)
    return {**data, "result": None if effect.result is None else json.loads(effect.result)}


def _ledger(args: argparse.Namespace, store: ConversationStore) -> EffectLedger:
    """Return the configured ledger, or the one in the default file.

    Raises:
        ConfigError: The table [tools.effects] has problems.
        UsageError: Effects are kept in memory only.
    """
    from ..config.reading import read_config
    from ..conversations.opening import open_ledger

    known = the_config(args)
    reading = read_config(known if known is not None else {})
    tools = reading.document.data.get("tools")
    written = isinstance(tools, dict) and "effects" in tools
    table = reading.settings(("tools", "effects"), (), EffectsTable) if written else EffectsTable()
    if table is not None and table.store == "memory":
        text = 'effects are kept in memory and end with their program: tools.effects.store = "sqlite" keeps them'
        raise UsageError(text)
    ledger = open_ledger(reading, table, store) if table is not None else None
    if ledger is None:
        raise ConfigError([problem for problem in reading.problems if problem.path.startswith("tools.effects")])
    return ledger


def _command(
    name: str,
    summary: str,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    work: Callable[[EffectLedger, argparse.Namespace], Awaitable[None]],
) -> Command:
    async def on_the_ledger(args: argparse.Namespace) -> None:
        store, _ = conversation_store(args)
        try:
            ledger = _ledger(args, store)
            try:
                await work(ledger, args)
            finally:
                await ledger.aclose()
        finally:
            await store.aclose()

    def run(args: argparse.Namespace) -> int:
        asyncio.run(on_the_ledger(args))
        return OK

    return Command(name=f"effects {name}", summary=summary, add_arguments=add_arguments, run=run)


COMMANDS = (
    _command("list", "list what tools have changed, newest first", _list_arguments, _list),
    _command("show", "print everything known about an effect", _show_arguments, _show),
    _command("settle", "record how an unknown effect ended: ID done|failed", _settle_arguments, _settle),
)
