"""Adds servers to a config, after a person has seen what will run."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flexchat.host import FAILED, OK, CommandContext, Mask, UsageError, is_secret_name, parse_document

from .entries import Entry, toml_of


def add(context: CommandContext, entries: Sequence[Entry], *, is_agreed: bool) -> int:
    """Show what servers will run or reach, ask, and add them to the config.

    Args:
        is_agreed: Whether the person has said yes beforehand.

    Raises:
        UsageError: There is no config, nobody can be asked, or the config cannot be changed.
    """
    terminal, config = context.terminal, context.read_config()
    path = config.path if config is not None else None
    if config is None or path is None:
        raise UsageError("no configuration: flexchat init writes one, --config names one")
    known = _known(config.document.data)
    new = [entry for entry in entries if entry.name not in known]
    for entry in entries:
        if entry.name in known:
            terminal.say(f"{entry.name} is left out: {path.name} has a server of that name")
    if not new:
        terminal.say("nothing to add")
        return OK
    for entry in new:
        _show(context, entry)
    if path.suffix != ".toml":
        tables = [{"name": entry.name, **entry.table} for entry in new]
        terminal.out(f'Add this to "tools" of {path.name} by hand:')
        terminal.out(json.dumps({"mcp": tables}, indent=2, ensure_ascii=False))
        return OK
    if not is_agreed:
        if not terminal.interactive():
            raise UsageError("a person must agree to what will run: run this at a terminal, or with --yes")
        if not terminal.confirm(f"Add {'it' if len(new) == 1 else 'them'} to {path.name}?"):
            terminal.say("nothing was added")
            return FAILED
    _append(path, "".join("\n" + toml_of(entry) for entry in new))
    names = ", ".join(f'"{entry.name}/*"' for entry in new)
    terminal.out(f"added to {path.name}: {', '.join(entry.name for entry in new)}")
    terminal.say(f"a rule offers their tools with tools = {{ allowed_tools = [{names}] }}", "dim")
    terminal.say("flexchat mcp inspect shows what they have, flexchat tools accept NAME accepts it", "dim")
    return OK


def _show(context: CommandContext, entry: Entry) -> None:
    terminal = context.terminal
    given = {**entry.table.get("env", {}), **entry.table.get("headers", {})}
    secret = {name: value for name, value in given.items() if is_secret_name(name) or name == "Authorization"}
    mask = Mask([value for value in secret.values() if "${" not in value])
    what = "reaches" if "url" in entry.table else "runs on this machine, with your rights"
    terminal.out(f"{entry.name} {what}:", "bold")
    terminal.out(f"  {mask(entry.runs)}")
    for name in given:
        terminal.out(f"  {name} = {'***' if name in secret and '${' not in secret[name] else mask(given[name])}")
    for note in entry.notes:
        terminal.out(f"  {note}")
    literal = [name for name, value in secret.items() if "${" not in value]
    if literal:
        terminal.out(
            f"  {', '.join(literal)} will stand in the config; ${{{literal[0]}}} takes it from the environment"
        )


def _known(data: Mapping[str, Any]) -> set[str]:
    tools = data.get("tools")
    tables = tools.get("mcp", []) if isinstance(tools, dict) else []
    return {str(table.get("name", "mcp")) for table in tables if isinstance(table, dict)}


def _append(path: Path, lines: str) -> None:
    """Add lines at the end of a TOML file; the file is replaced as a whole, or not at all.

    Raises:
        ConfigError: It would not be TOML any more: its tools.mcp is written in another way.
        UsageError: It cannot be written.
    """
    text = path.read_text(encoding="utf-8")
    whole = text + ("" if text.endswith("\n") or not text else "\n") + lines
    parse_document(whole, path)
    try:
        mode = path.stat().st_mode & 0o777
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write(whole)
        os.chmod(file.name, mode)
        os.replace(file.name, path.resolve())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
