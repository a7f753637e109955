"""flexchat plugins: the installed plugins, what they provide, and their errors."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from flexchat.assembly import SLOW_LOAD_MS
from flexchat.installing import how_to_install
from flexchat.plugin.host import CHAT_HOOKS
from flexchat.plugin.records import PluginReport, Records

from .context import CommandContext
from .parameters import command
from .terminal import Style


@command
def plugins(context: CommandContext) -> None:
    """List the installed plugins.

    Each with what it provides, and with what went wrong.
    """
    terminal = context.terminal
    host, commands = context.load_plugins(context.read_config()), context.installed_commands()
    records = [*(value for value in vars(host).values() if isinstance(value, Records)), commands]
    kinds = sorted([*(each.kind for each in records), "step"], key=len, reverse=True)  # "tool handler" before "tool"
    withheld = _withheld(records)
    reports = []
    for report in host.reports:
        names = [f"{commands.kind} {entry.name}" for owner, entry in commands.by_plugin() if owner == report.name]
        offers = (offer for offer in (*report.provides, *names) if offer not in withheld.get(report.name, {}))
        reports.append(attrs.evolve(report, provides=tuple(offers)))
    if context.json:
        terminal.json([report.to_dict() | {"withheld": [*withheld.get(report.name, ())]} for report in reports])
        return
    name_width = max((len(r.name) for r in reports), default=0)
    status_width = max((len(r.status) for r in reports), default=0)
    for report in reports:
        style: Style = "red" if report.status == "failed" else "bold"
        terminal.out(f"{report.name:{name_width}}  {report.status:{status_width}}  {report.package}", style)
        lines = [report.reason, *_remarks(report), *_by_kind(report.provides, kinds)]
        for line in (*lines, *withheld.get(report.name, {}).values(), *_watched(report)):
            if line:
                terminal.paragraph(line, indent=" " * (name_width + 2))
    if not reports:
        terminal.say(f"no plugins are installed: {how_to_install('flexchat')} installs the first ones")


def _withheld(records: Iterable[Records]) -> dict[str, dict[str, str]]:
    """List, for each plugin, the names withheld because another plugin registers them as well, with a sentence each."""
    offers: dict[str, dict[str, str]] = {}
    for each in records:
        for key, rivals in each.conflicts.items():
            offer = f"{each.kind} {key if isinstance(key, str) else ' '.join(key)}"
            for plugin in rivals:
                others = " and ".join(f"'{name}'" for name in rivals if name != plugin) or "it, a second time,"
                offers.setdefault(plugin, {})[offer] = f"withheld: {offer}, which {others} offers too"
        for key, (preferred, plugin) in each.replaced.items():
            offer = f"{each.kind} {key if isinstance(key, str) else ' '.join(key)}"
            offers.setdefault(plugin, {})[offer] = f"withheld: {offer}, for that of '{preferred}' (plugins.prefer)"
    return offers


def _remarks(report: PluginReport) -> list[str]:
    gate = ["gate: nothing starts without it"] if report.gate else []
    return gate + ([f"took {report.load_ms / 1000:.1f} s to load"] if report.load_ms > SLOW_LOAD_MS else [])


def _by_kind(provides: Iterable[str], kinds: Iterable[str]) -> list[str]:
    """Format the registrations of a plugin, one line per kind: tools: calculator, echo."""
    lines: dict[str, list[str]] = {}
    for phrase in provides:
        kind = next((kind for kind in kinds if phrase.startswith(f"{kind} ")), "")
        lines.setdefault(kind, []).append(phrase.removeprefix(f"{kind} "))
    return [f"{kind}{'s' if len(names) > 1 else ''}: {', '.join(names)}" for kind, names in lines.items()]


def _watched(report: PluginReport) -> list[str]:
    events = [hook.removeprefix("flexchat_") for hook in report.hooks if not hook.startswith("flexchat_register_")]
    gates = [event for event in events if event.startswith("before_")]
    watched = [event for event in events if event not in gates]
    of_chats = ["makes hooks of its own for each chat"] if CHAT_HOOKS in report.hooks else []
    lines = [f"{verb}: {', '.join(names)}" for verb, names in (("decides", gates), ("watches", watched)) if names]
    return lines + of_chats
