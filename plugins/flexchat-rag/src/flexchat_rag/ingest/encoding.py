"""Text files: detection of encodings and of binary content, and decoding with a count of invalid bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from .sections import Reading, Trouble, UnreadableFileError

# Encodings in use for text, most common first: the order breaks ties.
ENCODINGS = (
    *("cp1252", "cp1250", "cp1251", "cp932", "gb18030", "cp949", "big5", "euc_jp", "koi8_r", "cp1253", "cp1254"),
    *("cp1255", "cp1256", "cp1257", "cp1258", "cp874", "iso8859_2", "iso8859_15", "mac_roman", "cp850", "cp866"),
)
MAX_SAMPLE_BYTES = 1 << 16
"""Bytes."""

_EQUAL_MESS, _EQUAL_LANGUAGE = 0.02, 0.03
_COMMONEST = 10
"""Prior weight of the first encoding relative to the others, for texts without evidence."""


@attrs.frozen(kw_only=True)
class Guess:
    """An encoding a text may be in.

    Attributes:
        certainty: Its weight among all plausible encodings, 0 to 1.
        note: The assumption, with a word of the text that the runner-up reads differently.
    """

    encoding: str
    certainty: float
    note: str


def guessed(sample: bytes) -> Guess:
    """Return the likeliest encoding of bytes that are not UTF-8.

    Raises:
        UnreadableFileError: They are in none.
    """
    from charset_normalizer import from_bytes

    sample = sample[:MAX_SAMPLE_BYTES]
    # By encoding that makes sense: mess (0 to 1, lower is better) and likeness to a language (0 to 1).
    readings: dict[str, tuple[float, float]] = {}
    for match in from_bytes(sample, cp_isolation=list(ENCODINGS), enable_fallback=False):
        for name in match.could_be_from_charset:
            if name in ENCODINGS:
                readings.setdefault(name, (match.chaos, match.coherence))
    if not readings:
        raise UnreadableFileError("is not text: it is neither UTF-8 nor in any other known encoding")
    least = min(mess for mess, _ in readings.values())
    tidy = {name: language for name, (mess, language) in readings.items() if mess <= least + _EQUAL_MESS}
    most = max(tidy.values())
    best = min((name for name in tidy if tidy[name] >= most - _EQUAL_LANGUAGE), key=ENCODINGS.index)
    weights: dict[str, float] = {}
    names: dict[str, str] = {}
    for name in sorted(readings, key=ENCODINGS.index):
        text = sample.decode(name, "replace")
        mess, language = readings[name]
        weight = (1 - mess) * (1 + language) * (_COMMONEST if name == best else 1)
        weights[text] = max(weights.get(text, 0), weight)
        names.setdefault(text, name)
    mine = sample.decode(best, "replace")
    certainty = min(0.99, weights[mine] / sum(weights.values()))
    note = f"was read as {best}, a guess ({certainty:.0%} certain)"
    others = [text for text in weights if text != mine]
    if others:
        other = names[max(others, key=lambda text: weights[text])]
        example, other_example = _examples(sample, best, other)
        note += f": '{example}', which is '{other_example}' in {other}"
    return Guess(encoding=best, certainty=certainty, note=note)


def _examples(sample: bytes, one: str, other: str) -> tuple[str, str]:
    """Return the first word that two encodings read differently, as each of them does."""
    for word in re.finditer(rb"[^\s,;|]*[\x80-\xff][^\s,;|]*", sample):
        texts = word[0].decode(one, "replace")[:30], word[0].decode(other, "replace")[:30]
        if texts[0] != texts[1]:
            return texts
    return "", ""


MAX_LINE_CHARS = 65_536
"""Characters of a line that are read at once; a longer one comes in pieces."""

SETTLES = "--encoding settles it"

COMMON_ENCODINGS = ("utf-8", "cp1252", "latin-1", "utf-16", "cp1250", "cp1251", "shift_jis")

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
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE)
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")

# Source: WHATWG Encoding Standard, 4.2 Names and labels: what pages mean by these labels.
_MEANT = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030"}
_MEANT |= {"shift_jis": "cp932", "euc_kr": "cp949", "iso8859-11": "cp874"}


@attrs.frozen(kw_only=True)
class Decoding:
    """The encoding of a text file.

    Attributes:
        note: The assumption made, for the report; empty if there was none.
        is_proven: All bytes were checked and are valid.
    """

    encoding: str
    note: str = ""
    is_proven: bool = False


def encoding_named(label: str) -> str | None:
    """Return Python's name of a text encoding; None if it is unknown."""
    try:
        codec = codecs.lookup(label.strip())
        codec.decode(b"")
    except (LookupError, ValueError, UnicodeError, TypeError):
        return None
    return codec.name if codec._is_text_encoding else None


def decoding_of(path: Path, requested: str | None = None, label: str | None = None) -> Decoding:
    """Determine the encoding of a text file.

    In order of precedence: *requested*, a byte-order mark, UTF-8 if the whole file is valid UTF-8, *label*, and a
    guess, which is reported in the note.

    Args:
        requested: The encoding chosen by the user.
        label: The encoding declared in the file, for example by a meta element.

    Raises:
        UnreadableFileError: The file is not text.
    """
    with path.open("rb") as file:
        head = file.read(_SAMPLE)
    if requested is not None:
        other = requested != "utf-8" and not head.isascii() and _sample_beyond_utf8(path) is None
        note = f"is UTF-8, but was read as {requested}, which --encoding says" if other else ""
        return Decoding(encoding="utf-8-sig" if requested == "utf-8" else requested, note=note)
    if label is None and (declared := _XML.match(head)):
        label = declared[1].decode()
    name = encoding_named(label) if label else None
    declared_name = _MEANT.get(name, name) if name is not None else None
    unknown = f"names an unknown encoding ('{label[:40]}')" if label and declared_name is None else ""
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    if marked is not None:
        other = declared_name is not None and not marked.startswith(declared_name)
        note = f"names {label}, but its byte-order mark says {marked.removesuffix('-sig')}, which was used"
        return Decoding(encoding=marked, note=note if other else "")
    wide = _wide(head)
    if wide is not None:
        return Decoding(encoding=wide, note=f"has no byte-order mark and was read as {wide}, a guess; {SETTLES}")
    if b"\0" in head or len(_CONTROL.findall(head)) > len(head) // 100:
        raise UnreadableFileError("is not text: it holds binary data")
    sample = _sample_beyond_utf8(path)
    if sample is None:
        other = declared_name not in (None, "utf-8", "cp1252" if _is_ascii(path) else None)
        note = f"names {label}, but is UTF-8, and was read so; {SETTLES}"
        return Decoding(encoding="utf-8", note=note if other and not _is_ascii(path) else unknown, is_proven=True)
    if declared_name is not None:
        return Decoding(encoding=declared_name)
    if _is_mostly_utf8(sample):
        return Decoding(encoding="utf-8", note=unknown)
    guess = guessed(sample)
    return Decoding(encoding=guess.encoding, note="; ".join(filter(None, (unknown, f"{guess.note}; {SETTLES}"))))


class TextFile:
    """A text file open for reading. Invalid bytes become U+FFFD and are counted."""

    def __init__(self, path: Path, reading: Reading, *, newline: str | None = None, label: str | None = None) -> None:
        self.decoding = decoding_of(path, reading.encoding, label)
        if self.decoding.note:
            reading.note(self.decoding.note)
        self._reading = reading
        self._file = path.open(encoding=self.decoding.encoding, errors="replace", newline=newline)
        self._line, self._replaced, self._first = 1, 0, 0

    def __enter__(self) -> TextFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[str]:
        """Yield lines, however long."""
        while line := self.readline():
            yield line

    def read(self, size: int = -1) -> str:
        """Read *size* characters, fewer only at the end of the file."""
        return self._counted(self._file.read(size))

    def readline(self, size: int = -1) -> str:
        r"""Read a line with its "\n", or its first *size* characters; an empty string at the end."""
        return self._counted(self._file.readline(size))

    def troubles(self) -> Iterator[Trouble]:
        """Yield the problems found in the text read so far."""
        if not self._replaced:
            return
        count = f"{self._replaced:,} character{'s' if self._replaced > 1 else ''}"
        if self.decoding.is_proven:
            self._reading.note(f"holds {count} U+FFFD (the first in line {self._first}): it was damaged before")
            return
        yield Trouble(
            f"{count} cannot be read as {self.decoding.encoding} and became U+FFFD, the first in line {self._first}; "
            f"{SETTLES}"
        )

    def _counted(self, text: str) -> str:
        if "\ufffd" in text:
            if not self._replaced:
                self._first = self._line + text.count("\n", 0, text.index("\ufffd"))
            self._replaced += text.count("\ufffd")
        if not self._replaced:
            self._line += text.count("\n")
        return text


def lines_of(path: Path, reading: Reading) -> Iterator[str | Trouble]:
    r"""Yield the lines of a text file with their "\n", of at most MAX_LINE_CHARS characters each, and troubles last.

    Raises:
        UnreadableFileError: It is not text.
    """
    with TextFile(path, reading) as file:
        while line := file.readline(MAX_LINE_CHARS):
            yield line
        yield from file.troubles()


def _wide(head: bytes) -> str | None:
    """Detect UTF-16 or UTF-32 without a byte-order mark by the position of zero bytes."""
    some = head[: len(head) // 4 * 4]
    if len(some) < 4 or b"\0" not in some:
        return None
    share = [some[n::4].count(0) * 4 / len(some) for n in range(4)]
    for encoding, zeros, others in (
        ("utf-32-le", (1, 2, 3), (0,)),
        ("utf-32-be", (0, 1, 2), (3,)),
        ("utf-16-le", (1, 3), (0, 2)),
        ("utf-16-be", (0, 2), (1, 3)),
    ):
        if all(share[n] > 0.7 for n in zeros) and all(share[n] == 0 for n in others):
            return encoding
    return None


def _sample_beyond_utf8(path: Path) -> bytes | None:
    """Return a sample around the first bytes that are not UTF-8; None if the whole file is valid."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        place = 0
        try:
            while block := file.read(_BLOCK):
                decoder.decode(block)
                place += len(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            file.seek(max(0, place + error.start - _SAMPLE // 2))
            return file.read(_SAMPLE)
    return None


def _is_mostly_utf8(sample: bytes) -> bool:
    """Return True for UTF-8 with a few invalid bytes; text in other encodings hardly ever looks like that."""
    good = _UTF8.findall(sample)
    return len(good) > len(_BEYOND_ASCII.findall(sample)) - sum(map(len, good))


def _is_ascii(path: Path) -> bool:
    with path.open("rb") as file:
        return all(block.isascii() for block in iter(lambda: file.read(_BLOCK), b""))
