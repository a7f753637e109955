"""Adds servers to a config, after a person has seen what will run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flexchat.host import copied, parse_document
from flexchat.store import replacing
from flexchat_cli import FAILED, OK, CommandContext, UsageError, one_line
from flexchat_sdk import changed_yaml, find_hidden

from ..secrets_in import hidden, is_secret, secrets_in
from .entries import Entry, toml_of
from .first_list import accept_first

_MAX_NOTE_CHARS = 500


def add(context: CommandContext, entries: Sequence[Entry], *, is_agreed: bool, starts: bool) -> int:
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
    what = "reaches" if "url" in entry.table else "runs on this machine, with your rights"
    terminal.out(f"{entry.name} {what}:", "bold")
    terminal.out(f"  {escape(hidden(entry.runs, secrets))}")
    for name in values:
        value = "***" if name in secret and "${" not in secret[name] else hidden(values[name], secrets)
        terminal.out(f"  {escape(name)} = {escape(value)}")
    for note in entry.notes:
        terminal.out(f"  {one_line(escape(note), _MAX_NOTE_CHARS)}")
    if in_runs:
        terminal.out("  *** will stand in the config; ${NAME} takes it from the environment")
    literal = [name for name, value in secret.items() if "${" not in value]
    if literal:
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

    target = copied(parse_document(text, path).data)
    try:
        add_to(target)
        whole = _changed(text, path.suffix.lower(), entries, target, add_to)
    except (AttributeError, TypeError, ValueError, RecursionError):
        whole = ""
    if not whole or parse_document(whole, path).data != target:
        why = "its tools.mcp is not a list, or an alias (*) stands there"
        raise UsageError(f"{path.name} cannot be changed in place: {why}; add the servers by hand")
    return whole


def _changed(text: str, suffix: str, entries: Sequence[Entry], target: Any, add_to: Any) -> str:
    if suffix == ".json":
        line = next((line for line in text.splitlines()[1:] if line.strip()), "")
        return json.dumps(target, indent=len(line) - len(line.lstrip(" ")) or 2, ensure_ascii=False) + "\n"
    if suffix in (".yaml", ".yml"):
        return changed_yaml(text, add_to)
    return text + ("" if text.endswith("\n") or not text else "\n") + "".join("\n" + toml_of(each) for each in entries)


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
