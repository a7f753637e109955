"""The encoding of a text file, and whether it is text at all."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from .sections import UnreadableFileError

LONGEST_LINE = 65_536
"""Characters of a line that are read at once; a longer one comes in pieces."""

_BLOCK = 1 << 20
_SAMPLE = 1 << 16
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def encoding_of(path: Path) -> str:
    """Return the encoding of a text file: what its first bytes say, else UTF-8 if it is, else what is likeliest.

    Raises:
        UnreadableFileError: It is no text.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        head = file.read(_SAMPLE)
        marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
        if marked is not None:
            return marked
        if b"\0" in head or len(_CONTROL.findall(head)) > len(head) // 100:
            raise UnreadableFileError("is no text: it holds binary data")
        block, place = head, 0
        try:
            while block:
                decoder.decode(block)
                place += len(block)
                block = file.read(_BLOCK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            file.seek(max(0, place - _SAMPLE // 2))
            return likely_encoding(head if place == 0 else file.read(_SAMPLE + len(block))[:_BLOCK])
    return "utf-8"


def likely_encoding(sample: bytes) -> str:
    """Return the likeliest encoding of bytes that are not UTF-8.

    Raises:
        UnreadableFileError: They are in none.
    """
    from charset_normalizer import from_bytes

    best = from_bytes(sample[:_SAMPLE]).best() if b"\0" not in sample else None
    if best is None:
        raise UnreadableFileError("is no text: it is neither UTF-8 nor in any other known encoding")
    return best.encoding


def lines_of(path: Path) -> Iterator[str]:
    r"""Yield the lines of a text file with their "\n", of at most LONGEST_LINE characters each.

    Raises:
        UnreadableFileError: It is no text.
    """
    with path.open(encoding=encoding_of(path), errors="replace") as file:
        while line := file.readline(LONGEST_LINE):
            yield line
