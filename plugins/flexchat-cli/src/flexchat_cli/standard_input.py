"""Text from standard input, from files, and from addresses."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flexchat.domain.masking import Mask
from flexchat.errors import FetchError, PathError
from flexchat.files import located, read_file

from .context import FAILED, UsageError
from .terminal import StreamError, Terminal

MAX_BYTES = 8 * 1024 * 1024
PATIENCE_S = 5.0
"""How long input that only adds to a message may stay silent before it is ignored."""

_SILENCE_S = 1.0
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # starts like UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def is_given() -> bool:
    """Return whether standard input is a pipe, a socket or a file, not a terminal or device."""
    if sys.stdin is None or sys.stdin.isatty():
        return False
    with contextlib.suppress(OSError, ValueError):
        return not stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)  # /dev/null: none
    return True  # not a file at all: something a test or a program put in its place


def is_shared() -> bool:
    """Return whether another process, such as a surrounding loop, reads the file on standard input."""
    with contextlib.suppress(OSError, ValueError):
        number = sys.stdin.fileno()
        status = os.fstat(number)
        return stat.S_ISREG(status.st_mode) and 0 < os.lseek(number, 0, os.SEEK_CUR) < status.st_size
    return False


def is_silent(terminal: Terminal) -> bool:
    """Return whether nothing arrives for PATIENCE_S: a pipe that a parent process left open, and never writes to."""
    with contextlib.suppress(OSError, ValueError):  # not a file, or Windows, where pipes cannot be polled
        limit = f"standard input, {PATIENCE_S:g} seconds at most; --no-stdin ignores it, a - waits for its end"
        with announce_wait(terminal, limit):
            return not select.select([sys.stdin], [], [], PATIENCE_S)[0]
    return False


def read_text(terminal: Terminal) -> str:
    """Read standard input to its end; after a second without data, print a note that the command is waiting.

    The encoding is that of a byte order mark, or UTF-8, or Python's encoding of standard input.

    Raises:
        UsageError: The input is not text, or too long.
        StreamError: The input cannot be read.
    """
    buffer: Any = getattr(sys.stdin, "buffer", None)
    if buffer is None:  # text that a program put in its place
        return sys.stdin.read()
    content = io.BytesIO()
    try:
        while True:
            with announce_wait(terminal, "the end of standard input; --no-stdin ignores it"):
                piece = buffer.read1(1 << 20)
            if piece is None:  # nothing yet, and the stream is non-blocking
                select.select([sys.stdin], [], [])
                continue
            if not piece:
                break
            content.write(piece)
            if content.tell() > MAX_BYTES:
                raise UsageError(f"standard input is larger than {MAX_BYTES // 1024 // 1024} MiB: too much to ask")
    except OSError as error:
        raise StreamError(f"standard input cannot be read: {error.strerror or error}") from None
    return decoded(content.getvalue())


def expect_utf8() -> None:
    """Read standard input as UTF-8 in every locale, without a byte order mark."""
    if sys.stdin is not None and not sys.stdin.isatty():
        with contextlib.suppress(AttributeError, ValueError):  # not a file
            sys.stdin.reconfigure(encoding="utf-8-sig")  # type: ignore[union-attr]


@contextlib.contextmanager
def announce_wait(terminal: Terminal, what: str) -> Iterator[None]:
    """Report on standard error that the command is waiting, if it takes longer than a second."""
    timer = threading.Timer(_SILENCE_S, lambda: terminal.say(f"waiting for {what}", "dim"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def read_text_file(name: str | Path, what: str, *, most: int) -> str:
    """Read a file of text, whose encoding is found as that of standard input.

    Args:
        what: How errors begin.
        most: Largest size in bytes.

    Raises:
        UsageError: It cannot be read, or is not text.
    """
    try:
        return decoded(read_file(located(name), most=most), what)
    except (OSError, PathError) as error:
        reason = error.reason if isinstance(error, PathError) else error.strerror or error
        raise UsageError(f"{what}: {reason}") from None


def decoded(content: bytes, what: str = "standard input") -> str:
    """Decode bytes as their first ones indicate, as UTF-8, or as Python reads standard input.

    Raises:
        UsageError: They are not text.
    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "")
    if not encoding and b"\0" in content:
        raise UsageError(f"{what} is not text: it contains binary data")
    usual = getattr(sys.stdin, "encoding", None) or "utf-8"
    try:
        return content.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        if not encoding and codecs.lookup(usual).name not in ("utf-8", "ascii"):
            return content.decode(usual, "replace")
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{what} is not {(encoding or 'utf-8').removesuffix('-sig').upper()}: see line {line} "
            f"(byte {error.start + 1}); iconv -t UTF-8 converts it"
        ) from None


MAX_FRAGMENT_BYTES = 32 * 1024 * 1024
_TIMEOUT_S = 30.0


class FragmentError(UsageError):
    """An address did not answer with a text."""

    exit_status = FAILED


async def read_fragments(names: Sequence[str], terminal: Terminal) -> list[str]:
    """Return the texts of files, of http(s) addresses, and of standard input for "-".

    Raises:
        UsageError: A file is missing, or not text.
        FragmentError: An address does not answer with a text.
    """
    texts = []
    for name in names:
        if name == "-":
            texts.append(read_text(terminal))
        elif name.lower().startswith(("http://", "https://")):
            texts.append(decoded(await _fetch(name), f"-f {name}"))
        else:
            texts.append(read_text_file(name, f"-f {name}", most=MAX_FRAGMENT_BYTES))
    return [text.strip() for text in texts]


async def _fetch(url: str) -> bytes:
    from flexchat.domain.fetching import FetchRequest
    from flexchat_sdk.plugin import LateFetcher

    # The address was typed by the user, so it need not be public; what it redirects to must be.
    fetcher = LateFetcher((urlsplit(url).netloc.rpartition("@")[2],), None, Mask())
    try:
        answer = await fetcher.fetch(
            FetchRequest(url=url.partition("#")[0]), timeout_s=_TIMEOUT_S, max_bytes=MAX_FRAGMENT_BYTES
        )
    except FetchError as error:
        raise FragmentError(f"-f {url}: {error}") from None
    finally:
        await fetcher.aclose()
    if not 200 <= answer.status < 300:
        raise FragmentError(f"-f {url}: the server answered with status {answer.status}")
    return answer.body
