"""Where commands write: answers to standard output, everything else to standard error; colours only on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Literal, TextIO

from ..errors import FlexChatError

Style = Literal["plain", "dim", "bold", "red"]
"""How a text looks on a terminal."""

_ERASE = "\r\x1b[K"
_CODES = {"dim": "2", "bold": "1", "red": "31"}

# A model or a tool may write sequences that move the cursor, rename the window or fill the clipboard.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class StreamError(FlexChatError):
    """A standard stream is closed or cannot be written."""


class Terminal:
    """Standard output and standard error, as they are when it is created.

    It is the only way to standard output: anything else printed meanwhile goes to standard error (see ``alone``).

    Args:
        color: Whether colours may be used; they are only if a stream is a terminal and NO_COLOR is not set.

    Attributes:
        verbose: Whether to show tracebacks and the log.
    """

    def __init__(self, *, color: bool = True, verbose: bool = False) -> None:
        self.verbose = verbose
        self._color = color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._line_open = False
        self._status = ""
        self._said_what_is_lost = False
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
    def lent(self) -> Iterator[None]:
        """Lend standard output to code meant to print: input(), a prompt, a plugin's command."""
        with contextlib.redirect_stdout(self._stdout):
            try:
                yield
            finally:
                self._to_stdout("")

    def confirm(self, question: str) -> bool:
        """Ask a person yes or no, and return whether the answer is yes; no if their input ends."""
        import click  # only where something is asked

        with self.lent():
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

    def is_read_by_a_person(self) -> bool:
        """Return whether standard output is shown on a terminal."""
        return _is_terminal(self._stdout)

    def write(self, text: str) -> None:
        """Write a piece of the answer to standard output, at once."""
        self._to_stdout(_harmless(text) if _is_terminal(self._stdout) else text)

    def end_line(self) -> None:
        """End the line on standard output, if one is open."""
        if self._line_open:
            self.write("\n")

    def out(self, text: str = "", style: Style = "plain") -> None:
        """Write a line to standard output."""
        self.end_line()
        self._to_stdout(self._styled(text, style, self._stdout) + "\n")

    def paragraph(self, text: str, *, indent: str) -> None:
        """Write a text to standard output, indented and wrapped at the terminal's width."""
        width = min(self.width, 120) if _is_terminal(self._stdout) else 120
        words = " ".join(text.split())
        lines = textwrap.wrap(
            words,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )
        self.out("\n".join(lines))

    def json(self, data: Any, *, one_line: bool = False) -> None:
        """Write data to standard output as JSON."""
        text = json.dumps(data, ensure_ascii=not self._takes_all(), indent=None if one_line else 2, default=str)
        self._to_stdout(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")

    def say(self, text: str, style: Style = "plain") -> None:
        """Write a line to standard error."""
        self._to_stderr(self._styled(text, style, self._stderr))

    def error(self, text: str) -> None:
        """Write an error to standard error, with the program's name before it."""
        self._to_stderr(f"{self._styled('flexchat:', 'red', self._stderr)} {_harmless(text)}")

    def status(self, text: str) -> None:
        """Show how far something is, in a line on standard error that the next one replaces; empty: no line.

        Shows nothing if standard error is not a terminal, or while a line of the answer is being written there.
        """
        if self._stderr is None or not self.shows_status() or (text and self._line_open and _is_terminal(self._stdout)):
            return
        line = one_line(_harmless(text), self.width - 1)
        if line != self._status:
            with contextlib.suppress(OSError):
                self._stderr.write(f"{_ERASE if self._status else ''}{line}")
                self._stderr.flush()
            self._status = line

    def shows_status(self) -> bool:
        """Return whether ``status`` shows anything: standard error is a terminal that can take a line back."""
        return _is_terminal(self._stderr) and os.environ.get("TERM") != "dumb"

    def symbol(self, wanted: str, plain: str) -> str:
        """Return a character if standard error can show it, otherwise ``plain``."""
        try:
            wanted.encode(getattr(self._stderr, "encoding", None) or "utf-8")
        except (UnicodeEncodeError, LookupError):
            return plain
        return wanted

    def fall_silent(self) -> None:
        """Stop writing, even at exit: nobody reads standard output."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stdout.fileno())  # type: ignore[union-attr]

    def _to_stdout(self, text: str) -> None:
        if self._stdout is None:
            return
        self.status("")
        with self._writing():
            self._stdout.write(text)
            self._stdout.flush()
        if not text.isascii() and not self._takes_all():
            self._say_what_is_lost(text)
        self._line_open = not text.endswith("\n") if text else self._line_open

    def _to_stderr(self, line: str) -> None:
        if _is_terminal(self._stdout):
            self.end_line()
        self.status("")
        if self._stderr is not None:
            with contextlib.suppress(OSError):  # there is nowhere left to report it
                self._stderr.write(line + "\n")
                self._stderr.flush()

    def _takes_all(self) -> bool:
        """Return whether standard output's encoding has every character."""
        return (getattr(self._stdout, "encoding", None) or "utf-8").lower().startswith("utf")

    def _say_what_is_lost(self, text: str) -> None:
        encoding = self._stdout.encoding if self._stdout is not None else ""
        with contextlib.suppress(UnicodeEncodeError, LookupError):
            text.encode(encoding)
            return
        if not self._said_what_is_lost:
            self._said_what_is_lost = True
            self.say(f"note: standard output is {encoding}: others become ?; set PYTHONIOENCODING=utf-8", "dim")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            self.fall_silent()
            raise StreamError(f"standard output cannot be written: {error.strerror or error}") from None

    def _styled(self, text: str, style: Style, stream: TextIO | None) -> str:
        text = _harmless(text)
        if style == "plain" or not self._color or not _is_terminal(stream):
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _harmless(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, width: int) -> str:
    """Return the text on one line of at most width characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: max(width - 2, 1)] + " …"
