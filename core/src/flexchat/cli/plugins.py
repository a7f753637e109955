"""flexchat plugins: what is installed, what it brings, and what went wrong with it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from ..plugin.contracts import Command
from ..plugin.host import PluginReport
from .opening import config_file, load_plugins
from .terminal import Style, Terminal
from .usage import OK

_KINDS = ("provider", "implementation type", "tool handler", "tool", "retriever", "command")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what plugins takes: nothing of its own."""


def run(args: argparse.Namespace) -> int:
    """Print a report on every installed plugin."""
    terminal: Terminal = args.terminal
    reports = load_plugins(args, config_file(args)).reports
    if args.json:
        terminal.json([report.to_dict() for report in reports])
        return OK
    name_width = max((len(r.name) for r in reports), default=0)
    status_width = max((len(r.status) for r in reports), default=0)
    for report in reports:
        style: Style = "red" if report.status == "failed" else "bold"
        terminal.out(f"{report.name:{name_width}}  {report.status:{status_width}}  {report.package}", style)
        for line in (report.reason, *_by_kind(report.provides), *_watched(report)):
            if line:
                terminal.paragraph(line, indent=" " * (name_width + 2))
    if not reports:
        terminal.say("no plugins are installed: pip install flexchat brings the first ones")
    return OK


def _by_kind(provides: Iterable[str]) -> list[str]:
    """Return what a plugin registered, one line a kind: tools: calculator, echo."""
    lines: dict[str, list[str]] = {}
    for phrase in provides:
        kind = next((kind for kind in _KINDS if phrase.startswith(f"{kind} ")), "")
        lines.setdefault(kind, []).append(phrase.removeprefix(f"{kind} "))
    return [f"{kind}{'s' if len(names) > 1 else ''}: {', '.join(names)}" for kind, names in lines.items()]


def _watched(report: PluginReport) -> list[str]:
    events = [hook.removeprefix("flexchat_") for hook in report.hooks if not hook.startswith("flexchat_register_")]
    return [f"watches: {', '.join(events)}"] if events else []


COMMANDS = (Command(name="plugins", summary="list the installed plugins", add_arguments=add_arguments, run=run),)
