"""Markdown, tables and a progress bar as rich shows them: imported only where rich is installed and a person reads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment, SegmentLines
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

_THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "none"})  # no background: it may be dark or light
_MIN_WAIT_S = 0.08
_MAX_SHARE_OF_TIME = 0.1  # that may go into drawing what will be drawn again


def console_on(stream: TextIO) -> Console:
    """Return a console that writes to a terminal and changes nothing of a text."""
    return Console(file=stream, theme=_THEME, highlight=False, markup=False, emoji=False)


class MarkdownWriter:
    """Writes a Markdown text to a terminal while it arrives.

    A block, such as a paragraph or a list, is final when the next one begins. The last block is redrawn as it grows;
    if it is higher than the terminal, only its end is shown until it is complete.
    """

    def __init__(self, stream: TextIO) -> None:
        self._console = console_on(stream)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._rest = ""
        self._has_written = False
        self._due = 0.0
        self._live.start()

    def write(self, text: str) -> None:
        """Write the next piece."""
        self._rest += text
        began = time.monotonic()
        if began < self._due:
            return
        blocks = _blocks_of(self._rest)
        for block in blocks[:-1]:
            self._console.print(self._drawn(block))
            self._has_written = True
        self._rest = blocks[-1]
        self._live.update(self._drawn(self._rest, most=max(self._console.height - 1, 1)), refresh=True)
        ended = time.monotonic()
        self._due = ended + max(_MIN_WAIT_S, (ended - began) / _MAX_SHARE_OF_TIME)

    def end(self) -> None:
        """Write the rest."""
        self._live.stop()
        if self._rest.strip():
            self._console.print(self._drawn(self._rest))

    def _drawn(self, text: str, most: int | None = None) -> SegmentLines:
        """Return a block as it looks, with an empty line before it if it is not the first: the last lines of it."""
        lines = self._console.render_lines(_Markdown(text, hyperlinks=False), pad=False)
        lines = [_without_blank_end(line) for line in lines]
        lines = lines[1:] if lines and not lines[0] else lines  # rich puts an empty line before a list
        lines = lines[:-1] if lines and not lines[-1] else lines  # and after a rule
        return SegmentLines(([[]] * self._has_written + lines)[-(most or 0) :], new_lines=True)


def _blocks_of(text: str) -> list[str]:
    """Return the blocks of a text in Markdown; only the last may still grow."""
    tokens = Markdown(text).parsed
    begins = [token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
    lines = text.split("\n")
    return ["\n".join(lines[begin:end]) for begin, end in pairwise([0, *begins[1:], len(lines)])]


def _without_blank_end(line: list[Segment]) -> list[Segment]:
    """Return a line without the spaces that fill it up to the terminal's width."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], line[-1]._replace(text=line[-1].text.rstrip())] if line else line


def print_table(stream: TextIO, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, its last column wrapped at the terminal's width."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in head[:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(head[-1], overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console_on(stream).print(table)


class ProgressLine:
    """A line with a bar, how many are done and the time that is left; counts from the first call on."""

    def __init__(self, stream: TextIO) -> None:
        self._console = console_on(stream)
        columns = (
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=self._console, auto_refresh=False)
        self._task = self._progress.add_task("", total=None)

    def text(self, done: int, total: int, what: str) -> str:
        """Return the line, with the terminal's codes."""
        self._progress.update(self._task, completed=done, total=total, description=what)
        with self._console.capture() as captured:
            self._console.print(self._progress.get_renderable(), end="")
        return captured.get().rstrip("\n")


class _Code(CodeBlock):
    """A code block without rich's margin, which would be copied along."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme="ansi_dark", word_wrap=True)


class _Heading(Heading):
    """A heading at the left, also one of the first level."""

    LEVEL_ALIGN: ClassVar = {}


class _Table(TableElement):
    """A table without empty lines around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False
            yield table


class _Markdown(Markdown):
    elements: ClassVar = Markdown.elements | {
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
        "table_open": _Table,
    }
