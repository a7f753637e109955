"""Output of commands: answers to standard output, everything else to standard error; colours only on a terminal."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TextIO

from flexchat.errors import FlexChatError

if TYPE_CHECKING:
    from .rich_text import MarkdownWriter, ProgressLine

Style = Literal["plain", "dim", "bold", "red"]
"""How a text looks on a terminal."""

_MAX_CELL_CHARS = 2_000
_MIN_COLUMNS = 20  # characters of the last column that are shown, however narrow the terminal is
_ERASE = "\r\x1b[K"
_CODES = {"dim": "2", "bold": "1", "red": "31"}

# A model or a tool may write sequences that move the cursor, rename the window or fill the clipboard.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class StreamError(FlexChatError):
    """A standard stream is closed or cannot be written."""


class Terminal:
    """The streams that are standard output and standard error at its creation.

    All of a command's output goes through it; text printed by other code goes to standard error (see ``alone``).

    Args:
        color: Whether colours and, with rich, formatted text may be used, on a terminal that can show them and
            without NO_COLOR.

    Attributes:
        verbose: Whether to show tracebacks and the log.
    """

    def __init__(self, *, color: bool = True, verbose: bool = False) -> None:
        self.verbose = verbose
        self._markdown: MarkdownWriter | None = None
        self._progress: ProgressLine | None = None
        self._color = color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._line_open = False
        self._status = ""
        self._has_warned_about_encoding = False
        self._stdout: TextIO | None = sys.stdout  # None: closed by the caller
        self._stderr: TextIO | None = sys.stderr
        for stream in (self._stdout, self._stderr):
            with contextlib.suppress(AttributeError, ValueError):  # a stream that is not a file accepts any text
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Redirect what other code prints to standard error: a tool or plugin must not mix its output into an answer.

        Raises:
            StreamError: Standard output is closed.
        """
        if self._stdout is None:
            raise StreamError("standard output is closed")
        with contextlib.redirect_stdout(self._stderr):
            yield

    @contextlib.contextmanager
    def lend_stdout(self) -> Iterator[None]:
        """Redirect print to standard output for code that must use it: input(), a prompt, a plugin's command."""
        self.end_line()
        with contextlib.redirect_stdout(self._stdout):
            try:
                yield
            finally:
                self._to_stdout("")

    def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question; the end of the input counts as no."""
        import click  # only where something is asked

        with self.lend_stdout():
            try:
                return click.confirm(question, default=False)
            except click.Abort as abort:
                if isinstance(abort.__context__, EOFError):
                    return False
                raise

    @property
    def width(self) -> int:
        """Columns of the terminal; 100 if there is none."""
        return shutil.get_terminal_size((100, 24)).columns

    def interactive(self) -> bool:
        """Return whether a person is there: input and output are a terminal."""
        return _is_terminal(sys.stdin) and _is_terminal(self._stdout)

    def is_shown_on_terminal(self) -> bool:
        """Return whether standard output is shown on a terminal."""
        return _is_terminal(self._stdout)

    def write(self, text: str) -> None:
        """Write a piece of the answer to standard output, at once."""
        self._to_stdout(_replace_control(text) if _is_terminal(self._stdout) else text)

    def write_markdown(self, text: str) -> None:
        """Write a piece of an answer to standard output, formatted on a terminal if rich is installed.

        JSON is never formatted. ``end_line`` ends the answer.
        """
        if self._markdown is None and not self._begins_markdown(text):
            self.write(text)
        elif self._markdown is not None or text.strip():
            from .rich_text import MarkdownWriter

            assert self._stdout is not None
            self.status("")
            with self._writing():
                self._markdown = self._markdown or MarkdownWriter(self._stdout)
                self._markdown.write(_replace_control(text))
            self._line_open = True

    def end_line(self) -> None:
        """End the line, or the answer, on standard output, if one is open."""
        if self._markdown is not None:
            answer, self._markdown, self._line_open = self._markdown, None, False
            with self._writing():
                answer.end()
        elif self._line_open:
            self.write("\n")

    def out(self, text: str = "", style: Style = "plain") -> None:
        """Write a line to standard output."""
        self.end_line()
        self._to_stdout(self._styled(text, style, self._stdout) + "\n")

    def paragraph(self, text: str, *, indent: str) -> None:
        """Write a text to standard output, indented and wrapped at the terminal's width."""
        width = min(self.width, 120) if _is_terminal(self._stdout) else 120
        words = " ".join(text.split())
        lines = textwrap.fill(words, width - len(indent), break_on_hyphens=False, break_long_words=False)
        self.out(textwrap.indent(lines, indent))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write rows of texts to standard output, in columns; a narrow terminal cuts the last column.

        Args:
            head: Names of the columns, shown where rich is installed and a person reads; the last column then wraps.
            rows: As many texts each. A column without any text is left out.
        """
        used = [number for number in range(len(head)) if any(row[number] for row in rows)]
        head = [head[number] for number in used]
        rows = [[one_line(_replace_control(row[number]), _MAX_CELL_CHARS) for number in used] for row in rows]
        if rows and self._stdout is not None and self._is_rich(self._stdout):
            from .rich_text import print_table

            self.end_line()
            self.status("")
            with self._writing():
                print_table(self._stdout, head, rows)
            return
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
        for row in rows:
            columns = "".join(f"{text:{width}}  " for text, width in zip(row, widths, strict=False))
            room = max(self.width - len(columns), _MIN_COLUMNS) if _is_terminal(self._stdout) else _MAX_CELL_CHARS
            self.out((columns + one_line(row[-1], room)).rstrip())

    def fields(self, values: Iterable[tuple[str, object]]) -> None:
        """Write names and values to standard output, one line each, without empty values."""
        for name, value in values:
            if value:
                self.out(f"{name + ':':14}{one_line(str(value), _MAX_CELL_CHARS)}")

    def json(self, data: Any, *, one_line: bool = False) -> None:
        """Write data to standard output as JSON."""
        text = json.dumps(data, ensure_ascii=not self._takes_all(), indent=None if one_line else 2, default=str)
        self._to_stdout(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")

    def say(self, text: str, style: Style = "plain") -> None:
        """Write a line to standard error."""
        self._to_stderr(self._styled(text, style, self._stderr))

    def error(self, text: str) -> None:
        """Write an error to standard error, with the program's name before it."""
        self._to_stderr(f"{self._styled('flexchat:', 'red', self._stderr)} {_replace_control(text)}")

    def status(self, text: str) -> None:
        """Show how far something is, in a line on standard error that the next one replaces; empty: no line.

        Shows nothing if standard error is not a terminal, or while a line of the answer is being written there.
        """
        if not text and not self._status:
            return
        if self._stderr is None or not self.shows_status() or (text and self._line_open and _is_terminal(self._stdout)):
            return
        self._show_status(one_line(_replace_control(text), self.width - 1))

    def progress(self, done: int, total: int, what: str) -> None:
        """Show how much is done, as ``status`` does: "3 of 10 answered"; with a bar and the time left if there is rich.

        Args:
            what: What follows the numbers.
        """
        if self._stderr is None or not self._is_rich(self._stderr) or (self._line_open and _is_terminal(self._stdout)):
            self.status(f"{done:,} of {total:,} {what}")
            return
        if self._progress is None:
            from .rich_text import ProgressLine

            self._progress = ProgressLine(self._stderr)
        self._show_status(self._progress.text(done, total, _replace_control(what)))

    def _show_status(self, line: str) -> None:
        if self._stderr is not None and line != self._status:
            with contextlib.suppress(OSError):
                self._stderr.write(f"{_ERASE if self._status else ''}{line}")
                self._stderr.flush()
            self._status = line

    def shows_status(self) -> bool:
        """Return whether ``status`` shows anything: standard error is a terminal that can take a line back."""
        return _is_terminal(self._stderr) and os.environ.get("TERM") != "dumb"

    def symbol(self, character: str, plain: str) -> str:
        """Return a character if standard error can show it, otherwise ``plain``."""
        try:
            character.encode(getattr(self._stderr, "encoding", None) or "utf-8")
        except (UnicodeEncodeError, LookupError):
            return plain
        return character

    def silence(self) -> None:
        """Stop writing, even at exit: the reader of standard output has closed it."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stdout.fileno())  # type: ignore[union-attr]

    def _is_rich(self, stream: TextIO) -> bool:
        return self._color and _is_terminal(stream) and find_spec("rich") is not None

    def _begins_markdown(self, text: str) -> bool:
        is_new = self._stdout is not None and not self._line_open and self._is_rich(self._stdout)
        return is_new and not text.lstrip().startswith(("{", "["))

    def _to_stdout(self, text: str) -> None:
        if self._stdout is None:
            return
        self.status("")
        with self._writing():
            self._stdout.write(text)
            self._stdout.flush()
        if not text.isascii() and not self._takes_all():
            self._warn_about_encoding(text)
        self._line_open = not text.endswith("\n") if text else self._line_open

    def _to_stderr(self, line: str) -> None:
        if (self._line_open or self._markdown is not None) and _is_terminal(self._stdout):
            self.end_line()
        self.status("")
        if self._stderr is not None:
            with contextlib.suppress(OSError):  # there is nowhere left to report it
                self._stderr.write(line + "\n")
                self._stderr.flush()

    def _takes_all(self) -> bool:
        """Return whether standard output's encoding has every character."""
        return (getattr(self._stdout, "encoding", None) or "utf-8").lower().startswith("utf")

    def _warn_about_encoding(self, text: str) -> None:
        encoding = self._stdout.encoding if self._stdout is not None else ""
        with contextlib.suppress(UnicodeEncodeError, LookupError):
            text.encode(encoding)
            return
        if not self._has_warned_about_encoding:
            self._has_warned_about_encoding = True
            self.say(f"note: standard output is {encoding}: others become ?; set PYTHONIOENCODING=utf-8", "dim")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            self.silence()
            raise StreamError(f"standard output cannot be written: {error.strerror or error}") from None

    def _styled(self, text: str, style: Style, stream: TextIO | None) -> str:
        text = _replace_control(text)
        if style == "plain" or not self._color or not _is_terminal(stream):
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _replace_control(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, width: int) -> str:
    """Return the text on one line of at most width characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: max(width - 2, 1)] + " …"


# Tool calls and left-out plugins are reported anyway. Also important: failing watchers, waiting for a service, what
# slows every command, errors in the server, and a damaged store.
_MATTERS = (
    *("flexchat.plugin.hooks", "flexchat.llms", "flexchat.endpoints", "flexchat.config", "flexchat.assembly"),
    *("flexchat_cli", "flexchat_sdk", "flexchat_sqlite", "flexchat_web"),
)


class Handler(logging.Handler):
    """Writes records to standard error.

    Args:
        formatter: Makes their lines; without one, they are notes for the person at the terminal.
    """

    def __init__(self, terminal: Terminal, formatter: logging.Formatter | None = None) -> None:
        super().__init__(logging.DEBUG if terminal.verbose or formatter is not None else logging.WARNING)
        self._terminal = terminal
        self.setFormatter(formatter)
        if not terminal.verbose and formatter is None:
            self.addFilter(lambda record: record.name.startswith(_MATTERS))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        if self.formatter is not None:
            text = self.formatter.format(record)
        elif self._terminal.verbose:
            text = f"{record.levelname.lower()} {record.name}: {record.getMessage()}"
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
        else:
            text = f"note: {record.getMessage()}"
        self._terminal.say(text, "dim")


@contextlib.contextmanager
def limit_retry_notes() -> Iterator[None]:
    """Report only the first retry of a service that does not answer; its errors contain the rest."""
    services: set[object] = set()

    def is_new(record: logging.LogRecord) -> bool:
        service = record.args[0] if isinstance(record.args, tuple) and record.args else None
        is_known = service in services
        services.add(service)
        return not is_known

    retries, breakers = map(logging.getLogger, ("flexchat.llms.llm", "flexchat.endpoints"))
    retries.addFilter(is_new)
    breakers.addFilter(_nothing)
    try:
        yield
    finally:
        retries.removeFilter(is_new)
        breakers.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


@contextlib.contextmanager
def log_to_stderr(terminal: Terminal) -> Iterator[None]:
    """Write FlexChat's log, and with -v the warnings of all packages, to standard error for a while."""
    root, handler = logging.getLogger(), Handler(terminal)
    ours = [logging.getLogger(name) for name in ("flexchat", "flexchat_cli", "flexchat_sdk", "flexchat_sqlite")]
    levels = [logger.level for logger in ours]
    root.addHandler(handler)
    if terminal.verbose:
        for logger in ours:
            logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in zip(ours, levels, strict=True):
            logger.setLevel(level)
