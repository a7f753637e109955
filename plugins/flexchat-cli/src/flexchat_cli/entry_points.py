"""Commands that installed packages offer: entry points, found without importing any of their code."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import importlib.util
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from flexchat.errors import PluginConflictError
from flexchat.plugin.records import Records

COMMANDS_GROUP = "flexchat.commands"
"""Entry points of commands: the command's words as name, "rag add"; module:command as value, a click command."""

_PLUGIN_GROUPS = ("flexchat", "flexchat.gates")


def installed_commands(block: Collection[str] = (), prefer: Sequence[str] = ()) -> Records:
    """Return the entry points of installed commands, by the command's words.

    A command belongs to the plugins of its package: it is left out if they all are. If two packages offer one name,
    neither gets it, unless a plugin of one of them is preferred.

    Args:
        block: Names of plugins to leave out. FLEXCHAT_BLOCK_PLUGINS (comma-separated names) adds to them.
        prefer: Names of plugins that win over others offering the same name.
    """
    named = os.environ.get("FLEXCHAT_BLOCK_PLUGINS", "")
    blocked = {*block, *(name.strip() for name in named.split(","))}
    found = importlib.metadata.entry_points()
    plugins: dict[int, list[str]] = {}
    for group in _PLUGIN_GROUPS:
        for entry in found.select(group=group):
            plugins.setdefault(id(entry.dist), []).append(entry.name)
    records = Records("command", {}, prefer)
    order = {name: place for place, name in enumerate(prefer)}
    offers = {}
    for entry in found.select(group=COMMANDS_GROUP):
        owners = plugins.get(id(entry.dist)) if entry.dist is not None else None
        if owners and blocked.issuperset(owners):
            continue
        owner = min(
            owners or [entry.dist.name if entry.dist is not None else ""], key=lambda n: order.get(n, len(order))
        )
        offers[owner, " ".join(entry.name.split()), entry.value] = entry  # an editable install can appear twice
    for (owner, name, _), entry in sorted(
        offers.items(), key=lambda offer: (order.get(offer[0][0], len(order)), offer[0])
    ):
        try:
            records.add(name, entry, owner)
        except PluginConflictError:
            pass  # reported when the command is used: the others must work
    return records


def summary_of(value: str) -> str:
    """Return the first line of the docstring of an entry point's function; empty if it cannot be read.

    The file is read and not run: nothing of the package is imported.

    Args:
        value: "package.module:function".
    """
    module, _, function = value.partition(":")
    for node in _parsed(module.strip()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function.strip():
            line = (ast.get_docstring(node) or "").partition("\n")[0].strip().removesuffix(".")
            return line[:1].lower() + line[1:]
    return ""


@functools.cache
def _parsed(module: str) -> ast.Module:
    try:
        top, *below = module.split(".")
        found = importlib.util.find_spec(top)  # a module without a dot: nothing is imported to find it
        if found is None or found.origin is None:
            return ast.Module([], [])
        path = Path(found.origin)
        if below:
            folder = path.parent.joinpath(*below)
            path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        return ast.parse(path.read_bytes())
    except (ImportError, OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])
