"""flexchat mcp add: servers into the config, after a person has seen what will run, and their first list accepted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import attrs
import click
from flexchat import FlexChat, ToolChangedError
from flexchat.host import copied
from flexchat.plugin import ToolSourceError
from flexchat.store import replacing
from flexchat_cli import FAILED, OK, CommandContext, Terminal, UsageError, argument, one_line
from flexchat_sdk import changed_config, find_hidden, toml_table

from ..inspect import findings
from ..listing import select_tools, to_sourced_tool
from ..settings import McpConfig, hidden, is_secret, secrets_in
from ..source import McpSource
from .entries import Entry
from .inspect_ import show
from .opening import open_server, servers


@click.command
@argument("name", metavar="NAME", help="what to call it: letters, digits, _ and -")
@argument("target", metavar="URL|COMMAND", nargs=-1, required=True, help="its URL; or -- and its command")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="a variable of the command; repeatable")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="a header for the URL; repeatable")
@click.option("--sse", is_flag=True, help="the URL is that of an older SSE server")
@click.option("--oauth", is_flag=True, help="sign in at the URL, with a browser")
@click.option("--yes", is_flag=True, help="do not ask")
@click.option("--later", is_flag=True, help="do not start it now: its tools are accepted when somebody needs them")
@click.pass_obj
def add(
    context: CommandContext,
    name: str,
    target: tuple[str, ...],
    env: tuple[str, ...],
    header: tuple[str, ...],
    sse: bool,
    oauth: bool,
    yes: bool,
    later: bool,
) -> int:
    """Add an MCP server to the configuration, and accept its tools.

    What will run is shown first. Then the server is started once, to list its tools.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise UsageError(f"'{name}' is not 1 to 64 letters, digits, _ and -")
    is_url = target[0].startswith(("http://", "https://"))
    if not is_url and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", target[0]):
        raise UsageError(f"'{target[0]}' is no URL that can be reached: it begins with http:// or https://")
    if is_url and (len(target) > 1 or env):
        raise UsageError("a URL has neither arguments nor variables")
    if not is_url and (header or sse or oauth):
        raise UsageError("--header, --sse and --oauth are for a URL")
    table: dict[str, Any] = {"url": target[0]} if is_url else {"command": [*target]}
    table |= {"transport": "sse"} if sse else {}
    table |= {"auth": {"oauth": True}} if oauth else {}
    table |= {"env": _pairs(env, "--env")} if env else {}
    table |= {"headers": _pairs(header, "--header")} if header else {}
    return add_entries(context, [Entry(name=name, table=table)], is_agreed=yes, starts=not later)


def _pairs(words: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} {word}: write NAME=VALUE")
        pairs[name] = value
    return pairs


def accept_first(context: CommandContext, names: Sequence[str]) -> int:
    """Start the servers, show what they list, and accept it; a person has to look at what is suspicious first.

    Raises:
        ConfigError: The config, which now has the servers, cannot be used.
        ToolsLockError: What is accepted cannot be kept.
    """
    terminal, chat = context.terminal, attrs.evolve(context).open_tools()[0]  # a copy has read no config yet
    if not {*names} <= {*servers(chat)}:
        terminal.say("tools.enabled is false, so nothing was started", "dim")
        return OK
    works = asyncio.run(_accept_all(chat, names, terminal))
    offered = {name for rule in chat.config.responses for name in chat.tools.offered_to(rule)}
    tools = [tool for tool in chat.tools.get_registry().list() if tool.source in names]
    if tools and not any(tool.name in offered for tool in tools):
        patterns = ", ".join(f'"{name}/*"' for name in names)
        terminal.say(f"no rule offers their tools yet; one does with tools = {{ allowed_tools = [{patterns}] }}", "dim")
    return OK if works else FAILED


async def _accept_all(chat: FlexChat, names: Sequence[str], terminal: Terminal) -> bool:
    works = True
    async with chat:
        for name in names:
            try:
                works = await _accept(chat, name, terminal) and works
            except (ToolSourceError, ToolChangedError) as error:
                terminal.error(f"{name}: {error}")
                terminal.say(f"it is in the config all the same; flexchat mcp doctor {name} tries it again", "dim")
                works = False
    return works


async def _accept(chat: FlexChat, name: str, terminal: Terminal) -> bool:
    """Accept what a server lists; return False, and leave it, if something in it is suspicious.

    Raises:
        ToolSourceError: The server cannot be started, or does not list its tools, or not the same ones twice.
        ToolsLockError: What is accepted cannot be kept.
    """
    sources = chat.tools.sources
    config: McpConfig = sources.by_name[name].settings
    tools = await _list_tools(chat, name, terminal)
    suspicious = findings(tools, others=sources.others(name))
    show(terminal, name, tools, config, suspicious)
    if suspicious:
        terminal.say(f"none of its tools were accepted; if they are as they should be: flexchat tools accept {name}")
        return False
    digests = {tool["name"]: to_sourced_tool(tool, config).digest for tool in tools}
    state = await sources.look(name, accept_first=False)
    now = {change.name: change.now.digest for change in state.changes if change.now is not None}
    if any(digests.get(tool) != digest for tool, digest in now.items()):
        raise ToolSourceError("it lists something else than it did a moment ago, so nothing was accepted")
    await sources.accept(name, seen=now)
    for tool, why in state.left_out.items():
        terminal.say(f"{tool} is left out: {why}")
    terminal.say(f"accepted into {sources.lock_path.name}", "dim")
    return True


async def _list_tools(chat: FlexChat, name: str, terminal: Terminal) -> Sequence[Mapping[str, Any]]:
    live = chat.tools.sources.by_name[name]
    config: McpConfig = live.settings
    if config.auth is not None and config.auth.oauth and terminal.interactive():
        async with open_server(chat, name, terminal) as signed_in:
            return select_tools((await signed_in.listing()).tools, config)
    source = cast(McpSource, await live.opened())  # the one that is looked at afterwards: it is started once
    return select_tools((await source.listing()).tools, config)


_MAX_NOTE_CHARS = 500


def add_entries(context: CommandContext, entries: Sequence[Entry], *, is_agreed: bool, starts: bool) -> int:
    """Show what servers will run or reach, ask, add them to the config, and start them to accept their tools.

    Args:
        is_agreed: Whether the person has agreed beforehand.
        starts: False: their tools are accepted on first use.

    Raises:
        UsageError: There is no config, no terminal for the question, or the config cannot be changed.
    """
    terminal, config = context.terminal, context.read_config()
    path = config.path if config is not None else None
    if config is None or path is None:
        raise UsageError("no configuration: flexchat init writes one, --config names one")
    names = _names_in(config.document.data)
    new = [entry for entry in entries if entry.name not in names]
    for entry in entries:
        if entry.name in names:
            terminal.say(f"{entry.name} is left out: {path.name} has a server of that name")
    if not new:
        terminal.say("nothing to add")
        return OK
    for entry in new:
        _show(context, entry)
    if not is_agreed:
        if not terminal.interactive():
            raise UsageError("a person must agree to what will run: run this at a terminal, or with --yes")
        what = "it" if len(new) == 1 else "them"
        question = f"Add {what} to {path.name}, and start {what} once?" if starts else f"Add {what} to {path.name}?"
        if not terminal.confirm(question):
            terminal.say("nothing was added")
            return FAILED
    _write(path, _with(new, path.read_text(encoding="utf-8-sig"), path))
    terminal.out(f"added to {path.name}: {', '.join(entry.name for entry in new)}")
    if starts:
        return accept_first(context, [entry.name for entry in new])
    if any("auth" in entry.table for entry in new):
        terminal.say("flexchat mcp login NAME signs in", "dim")
    terminal.say("flexchat mcp inspect shows what a server has, flexchat tools accept NAME accepts it", "dim")
    return OK


def _show(context: CommandContext, entry: Entry) -> None:
    terminal = context.terminal
    values = {**entry.table.get("env", {}), **entry.table.get("headers", {})}
    secret = {name: value for name, value in values.items() if is_secret(name)}
    in_runs = secrets_in(entry.table.get("command", ()), entry.table.get("url"))
    secrets = [*in_runs, *(value for value in secret.values() if value and "${" not in value)]
    what = "reaches" if "url" in entry.table else "runs on this machine, with your permissions"
    terminal.out(f"{entry.name} {what}:", "bold")
    terminal.out(f"  {escape(hidden(entry.runs, secrets))}")
    for name in values:
        value = "***" if name in secret and "${" not in secret[name] else hidden(values[name], secrets)
        terminal.out(f"  {escape(name)} = {escape(value)}")
    for note in entry.notes:
        terminal.out(f"  {one_line(escape(note), _MAX_NOTE_CHARS)}")
    if in_runs:
        terminal.out("  *** will stand in the config; ${NAME} takes it from the environment")
    if literal := [name for name, value in secret.items() if "${" not in value]:
        owner = f"{entry.name}_" if "url" in entry.table else ""  # as flexchat check proposes it
        variable = re.sub(r"\W+", "_", owner + literal[0]).strip("_").upper()
        terminal.out(
            f"  {escape(', '.join(literal))} will stand in the config; ${{{variable}}} takes it from the environment"
        )


def escape(text: str) -> str:
    """Return a text of a server's table on one line, with each character that nobody sees as its escape.

    A person agrees to what is shown, so nothing of it may be left out.
    """
    ours = {*find_hidden(text)}
    return "".join(
        each.encode("unicode_escape").decode() if each in ours or not each.isprintable() else each for each in text
    )


def _names_in(data: Mapping[str, Any]) -> set[str]:
    tools = data.get("tools")
    tables = tools.get("mcp", []) if isinstance(tools, dict) else []
    return {str(table.get("name", "mcp")) for table in tables if isinstance(table, dict)}


def _with(entries: Sequence[Entry], text: str, path: Path) -> str:
    """Return a config's text with servers added to its tools.mcp; everything else means what it meant.

    Raises:
        ConfigError: It would not be TOML any more: its tools.mcp is written in another way.
        UsageError: It cannot be changed in place.
    """
    tables = [{"name": entry.name, **entry.table} for entry in entries]

    def add_to(data: Any) -> None:
        tools = data.setdefault("tools", {})
        tools.setdefault("mcp", []).extend(copied({"mcp": tables})["mcp"])

    try:
        return changed_config(text, path, add_to, "\n".join(toml_table("[[tools.mcp]]", table) for table in tables))
    except ValueError:
        why = "its tools.mcp is not a list, or an alias (*) stands there"
        raise UsageError(f"{path.name} cannot be changed in place: {why}; add the servers by hand") from None


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, or not at all.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        with replacing(path) as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
