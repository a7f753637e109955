"""flexchat tools import: the tools a document would add, and the lines of config that add them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from flexchat.plugin import ToolSourceContext
from flexchat_cli import BYTES_PER_TOKEN, FILE_NAME, CommandContext, Terminal, UsageError, argument, tokens_of
from flexchat_sdk import clean_text, find_hidden, remove_hidden

from ..openapi.convert import Converted, OperationTool, convert
from ..openapi.library import open_library
from ..openapi.reading import DocumentError
from ..openapi.source import url_reader

_MAX_ROWS = 100
_MAX_LINE_CHARS = 110


Priced = tuple[OperationTool, int]
"""An operation, and about how many tokens it costs in each request."""


def _as_data(tool: OperationTool, tokens: int) -> dict[str, Any]:
    """Return an operation for --json, its description cut."""
    return {
        "name": tool.name,
        "method": tool.plan["method"],
        "path": remove_hidden(tool.plan["path"]),
        "effect": tool.effect,
        "tokens": tokens,
        "description": clean_text(tool.description)[:_MAX_LINE_CHARS],
    }


_WHICH = 'which operations: an id, "list*", "tag:store", "GET", "/pets/*", "GET /pets/*"; repeatable (default: all)'


@click.command
@argument(
    "document",
    metavar="DOCUMENT",
    type=FILE_NAME,
    help="path or URL of an OpenAPI document (2.0 or later), JSON or YAML",
)
@click.option("--list", "listed", is_flag=True, help="list the operations, with their tokens")
@click.option("--include", multiple=True, metavar="WHICH", help=_WHICH)
@click.option("--exclude", multiple=True, metavar="WHICH", help="and which not")
@click.option("--server", metavar="URL", help="the service's address, where the document does not name it")
@click.pass_obj
def import_document(
    context: CommandContext,
    document: str,
    listed: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    server: str | None,
) -> None:
    """Show which tools an OpenAPI document would add, and the lines of config for it.

    Nothing is kept.
    """
    terminal = context.terminal
    converted, needs_server = asyncio.run(_read(context, document, include, exclude, server))
    priced = [(tool, _tokens(tool)) for tool in converted.tools]
    if context.json:
        left_out = [
            {"name": remove_hidden(each.name), "place": remove_hidden(each.place), "why": remove_hidden(each.why)}
            for each in converted.left_out
        ]
        result = {"operations": [_as_data(*each) for each in priced], "left_out": left_out}
        terminal.json({**result, "needs_server": needs_server})
        return
    if listed:
        _list(terminal, priced)
    else:
        choices = {"include": [*include], "exclude": [*exclude]}
        table = {"document": document, **{name: chosen for name, chosen in choices.items() if chosen}}
        if server is not None or needs_server:
            table["server"] = server or f"${{{_SERVER}}}"
        file = context.config_file()
        _config(terminal, file.suffix.lower() if file is not None else ".toml", table, _credentials(converted))
    if needs_server:
        terminal.say(
            f"the document does not name its server: set {_SERVER} to the URL its paths are appended to (or --server)"
        )
    total = sum(tokens for _, tokens in priced)
    if len(priced) == 1:
        terminal.say(f"1 operation, about {total:,} tokens in each request that offers it", "dim")
    else:
        terminal.say(f"{len(priced)} operations, about {total:,} tokens in each request that offers them all", "dim")
    for each in converted.left_out[:10]:
        terminal.say(_on_a_line(f"{each.place} cannot be a tool: {each.why}"))
    if len(converted.left_out) > 10:
        terminal.say(f"and {len(converted.left_out) - 10} more cannot; --json names all")


_SERVER = "SERVER_URL"


async def _read(
    context: CommandContext, document: str, include: Sequence[str], exclude: Sequence[str], server: str | None
) -> tuple[Converted, bool]:
    """Return the operations, and whether some of them need a server from the config."""
    # Which URLs may be reached is in the config; a file is read without one, or with one that is not finished.
    chat = context.open_tools()[0] if "://" in document else None
    fetching = ToolSourceContext(name="import", fetcher=chat.tools.fetcher if chat is not None else None)
    try:
        library = await open_library(document, folder=Path.cwd(), fetch=url_reader(fetching), remote=False)
        converted = convert(library, include=[*include], exclude=[*exclude], server=server)
        if needs_server := any(each.needs_server for each in converted.left_out):
            converted = convert(library, include=[*include], exclude=[*exclude], server="http://server.invalid")
    except DocumentError as error:
        raise UsageError(str(error) if error.document else f"{document}: {error}") from None
    finally:
        if chat is not None:
            await chat.aclose()
    if converted.unused:
        raise UsageError(f"'{converted.unused[0]}' fits no operation of {document}: --list shows them")
    return converted, needs_server


def _tokens(tool: OperationTool) -> int:
    return tokens_of([{"name": tool.name, "description": tool.description, "parameters": tool.parameters}])


def _list(terminal: Terminal, priced: list[Priced]) -> None:
    rows = priced if terminal.verbose else priced[:_MAX_ROWS]
    width = max((len(tool.name) for tool, _ in rows), default=0)
    for tool, tokens in rows:
        about = _on_a_line(tool.description)
        where = _on_a_line(f"{tool.plan['method']} {tool.plan['path']}")
        line = f"{tool.name:{width}}  {where}" + (f"  {about}" if about != where else "")
        terminal.out(f"{tokens:6,}  {line if len(line) <= _MAX_LINE_CHARS else line[: _MAX_LINE_CHARS - 1] + '…'}")
    if len(rows) < len(priced):
        terminal.out(f"        and {len(priced) - len(rows)} more; -v shows all, --include chooses", "dim")
    terminal.say(f"tokens are estimates: {BYTES_PER_TOKEN} bytes of JSON each", "dim")


def _credentials(converted: Converted) -> dict[str, str]:
    """Collect the credentials of the operations, by name in the document, from the first alternative of each."""
    variables: dict[str, str] = {}
    for tool in converted.tools:
        ways = tool.plan.get("security", [])
        for scheme in ways[0] if ways and all(ways) else ():
            variables[scheme["scheme"]] = _SENT.get(scheme["type"], "which cannot be sent: see the document")
    return variables


_SENT = {"key": "a key", "bearer": "a token", "basic": "USER:PASSWORD", "oauth2": "a token, or CLIENT_ID:CLIENT_SECRET"}


def _config(terminal: Terminal, form: str, table: Mapping[str, Any], auth: Mapping[str, str]) -> None:
    """Print what to add to a config, in its form.

    Args:
        form: How the config's name ends.
        auth: What each credential is, by its name.
    """
    variables = {name: re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "KEY" for name in auth}
    values = {key: json.dumps(value, ensure_ascii=False) for key, value in table.items()}
    credentials = [(_key(name), f'"${{{variables[name]}}}"', what) for name, what in auth.items()]
    if form == ".json":
        whole = {**table, **({"auth": {name: f"${{{variables[name]}}}" for name in auth}} if auth else {})}
        has_hidden = any(map(find_hidden, auth))
        terminal.out(json.dumps({"tools": {"openapi": [whole]}}, indent=2, ensure_ascii=has_hidden))
        for name, what in auth.items():
            terminal.say(f"auth.{_key(name)}: {what}", "dim")
    elif form in (".yaml", ".yml"):
        lines = [f"{key}: {value}" for key, value in values.items()]
        lines += ["auth:", *(f"  {key}: {value}  # {what}" for key, value, what in credentials)] if credentials else []
        terminal.out("tools:\n  openapi:")
        for number, line in enumerate(lines):
            terminal.out(f"    {' ' if number else '-'} {line}")
    else:
        terminal.out("[[tools.openapi]]")
        for key, value in values.items():
            terminal.out(f"{key} = {value}")
        for key, value, what in credentials:
            terminal.out(f"auth.{key} = {value}  # {what}")
    terminal.say('a rule offers them with tools = { allowed_tools = ["openapi/*"] }', "dim")


def _key(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    text = json.dumps(name, ensure_ascii=False)  # exact, or it would not be the document's
    for each in {*find_hidden(text)}:
        text = text.replace(each, f"\\u{ord(each):04x}" if ord(each) < 2**16 else f"\\U{ord(each):08x}")
    return text


def _on_a_line(text: str) -> str:
    """Format a document's text for display: on one line, without invisible characters."""
    return " ".join(remove_hidden(text).split())
