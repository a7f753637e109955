"""flexchat plugins verify: tests which of the kit's laws an installed plugin keeps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from flexchat_cli import FAILED, OK, CommandContext, argument, command

if TYPE_CHECKING:
    from flexchat_cli import Style, Terminal

    from ..card import Card, Chapter, Verdict

_SIGNS = {"kept": "ok   ", "skipped": "-    ", "broken": "FAIL ", "expected": "xfail"}
_STYLES: dict[str, Style] = {"broken": "red", "skipped": "dim"}
_WORDS = {"kept": "kept", "skipped": "not applicable", "expected": "known to be broken", "broken": "broken"}


@command
@argument("name", metavar="NAME", help="a plugin as flexchat plugins lists it, or its package")
def verify(context: CommandContext, name: str) -> int:
    """Run the conformance tests on a plugin.

    It is tested without a network, and its card is printed, with -v every law. The exit status is 1 if one is broken.
    """
    from ..card import verify_plugin

    terminal = context.terminal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the verdicts report the problems
        card = verify_plugin(name)
    if context.json:
        terminal.json(card.to_dict())
    else:
        _print(card, terminal)
    return FAILED if card.count("broken") else OK


def _print(card: Card, terminal: Terminal) -> None:
    terminal.out(f"{card.plugin}  {card.package}  (kit of FlexChat {card.kit})", "bold")
    for chapter in card.chapters:
        terminal.out(f"\n{chapter.title}: {_counts(chapter.verdicts)}")
        if terminal.verbose:
            _print_all(chapter, terminal)
        else:
            _print_short(chapter, terminal)
    terminal.out()
    if card.note:
        terminal.paragraph(card.note, indent="")
    verdicts = [verdict for chapter in card.chapters for verdict in chapter.verdicts]
    terminal.out(f"laws: {_counts(verdicts, always=('kept', 'broken'))}", "red" if card.count("broken") else "bold")


def _print_all(chapter: Chapter, terminal: Terminal) -> None:
    for verdict in chapter.verdicts:
        terminal.out(f"  {_SIGNS[verdict.status]} {verdict.law}", _STYLES.get(verdict.status, "plain"))
        for line in verdict.reason.splitlines():
            terminal.paragraph(line, indent=" " * 8)


def _print_short(chapter: Chapter, terminal: Terminal) -> None:
    """Print the laws that are not kept, grouped by reason."""
    together: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in chapter.verdicts:
        if verdict.status != "kept":
            together.setdefault((verdict.status, verdict.reason.partition("\nthe law: ")[0]), []).append(verdict)
    for (status, reason), verdicts in sorted(together.items(), key=lambda item: item[0][0] == "skipped"):
        laws = ", ".join(verdict.law for verdict in verdicts)
        if status == "skipped":
            terminal.paragraph(f"- {reason.removeprefix('does not apply: ')}: {laws}", indent="  ")
            continue
        many = f"{len(verdicts)} laws: " if len(verdicts) > 1 else ""
        terminal.out(f"  {_SIGNS[status]} {many}{laws}", _STYLES.get(status, "plain"))
        for line in (reason if many else verdicts[0].reason).splitlines():
            terminal.paragraph(line, indent=" " * 8)


def _counts(verdicts: Iterable[Verdict], *, always: Sequence[str] = ("kept",)) -> str:
    statuses: list[str] = [verdict.status for verdict in verdicts]
    return ", ".join(f"{statuses.count(s)} {word}" for s, word in _WORDS.items() if s in statuses or s in always)
