"""flexchat plugins verify: which of the kit's laws an installed plugin keeps."""

from __future__ import annotations

import argparse

from ..plugin.contracts import Command
from .terminal import Style, Terminal
from .usage import FAILED, OK, UsageError

_SIGNS = {"kept": "ok  ", "skipped": "-   ", "broken": "FAIL", "expected": "xfail"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what plugins verify takes."""
    parser.add_argument("name", metavar="NAME", help="a plugin as flexchat plugins lists it, or its package")


def run(args: argparse.Namespace) -> int:
    """Try the plugin, without a network, and print its card. Status 1 if a law is broken."""
    from ..testing.card import Card, UnknownPluginError, verify_plugin

    terminal: Terminal = args.terminal
    try:
        card: Card = verify_plugin(args.name)
    except UnknownPluginError as error:
        raise UsageError(str(error)) from None
    if args.json:
        terminal.json(card.to_dict())
        return FAILED if card.count("broken") else OK
    terminal.out(f"{card.plugin}  {card.package}  (kit of FlexChat {card.kit})", "bold")
    for chapter in card.chapters:
        terminal.out(f"\n{chapter.title}")
        for verdict in chapter.verdicts:
            style: Style = {"broken": "red", "skipped": "dim"}.get(verdict.status, "plain")  # type: ignore[assignment]
            terminal.out(f"  {_SIGNS[verdict.status]:5} {verdict.law}", style)
            for line in verdict.reason.splitlines() if verdict.status != "skipped" or terminal.verbose else ():
                terminal.paragraph(line, indent=" " * 8)
    terminal.out()
    if card.note:
        terminal.paragraph(card.note, indent="")
    counts = [f"{card.count('kept')} laws kept", f"{card.count('skipped')} do not apply"]
    counts += [f"{card.count('expected')} known to be broken"] if card.count("expected") else []
    terminal.out(", ".join([*counts, f"{card.count('broken')} broken"]), "red" if card.count("broken") else "bold")
    return FAILED if card.count("broken") else OK


COMMANDS = (
    Command(name="plugins verify", summary="try which laws a plugin keeps", add_arguments=add_arguments, run=run),
)
