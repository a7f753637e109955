"""The line of each part of a TOML or JSON text. Parsers give no positions, so the text is read twice.

Both functions take only text a parser has accepted: they find the structure and skip the values. A JSON text is read as
an inline table of TOML with colons in place of the equals signs.
"""

from __future__ import annotations

import bisect
import json
import re
from typing import Any

KeyPath = tuple[str | int, ...]  # where in a configuration: ("responses", 1, "model")

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*+")
_KEY = re.compile(r'"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\'|[^\s.=\[\]{}#,"\']++')
_VALUE = re.compile(
    r'"""[^"\\]*+(?:(?:\\.|"{1,2}+(?!"))[^"\\]*+)*+"{3,5}'
    r"|'''[^']*+(?:'{1,2}+(?!')[^']*+)*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'"
    r"|[^,\]}#\n\"'\[{]++",  # a date may contain a space
    re.DOTALL,
)


def locate_json(text: str) -> tuple[dict[KeyPath, int], list[tuple[KeyPath, int, int]]]:
    """Return the line of every path, and the keys written twice: path, line of the first, line of the second.

    If a key is written twice, the last one counts, as for the parser.
    """
    scanner = _Scanner(text, is_json=True)
    scanner.value(())
    return scanner.lines, scanner.twice


def locate_toml(text: str) -> dict[KeyPath, int]:
    """Return the line of every path: where a key, a header or an element is first written."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    try:
        scanner.document()
    except _LostError:
        pass  # a problem further down gets the line of the nearest path before it
    return scanner.lines


def parse_toml(text: str) -> dict[str, Any]:
    """Parse with core's extra "toml", which reads TOML 1.1, or else tomllib; raise ValueError for anything else."""
    try:
        import tomli as toml
    except ImportError:
        import tomllib as toml  # type: ignore[no-redef]
    return toml.loads(text)


class _LostError(Exception):
    """The scanner lost its place in a text that no parser would accept."""


class _Scanner:
    """A single scan of a text. Its state: its position, and the paths so far."""

    def __init__(self, text: str, *, is_json: bool = False) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.twice: list[tuple[KeyPath, int, int]] = []
        self._text = text
        self._is_json = is_json
        self._at = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._tables: dict[KeyPath, int] = {}  # arrays of tables: how many tables so far
        self._skip()

    def document(self) -> None:
        table: KeyPath = ()
        while self._at < len(self._text):
            if self._starts_with("["):
                table = self._header()
            else:
                self._pair(table)
            self._skip()

    def value(self, path: KeyPath) -> None:
        is_list = self._starts_with("[")
        if not is_list and not self._starts_with("{"):
            self._take(_VALUE)
            return
        index, closing, keys = 0, "]" if is_list else "}", dict[str, int]()
        self._skip(1)
        while not self._starts_with(closing):
            if is_list:
                self.value(self._mark((*path, index), self._at))
                index += 1
            elif self._is_json:
                self._member(path, keys)
            else:
                self._pair(path)
            self._skip()
            if self._starts_with(","):
                self._skip(1)
            elif not self._starts_with(closing):
                raise _LostError
        self._at += 1

    def _header(self) -> KeyPath:
        """Read [a.b] or [[a.b]]; return the path of the table it opens."""
        brackets = 2 if self._starts_with("[[") else 1
        start = self._at
        self._at += brackets
        path: KeyPath = ()
        *parents, last = self._dotted()
        for key in parents:
            path = self._mark((*path, key), start)
            if path in self._tables:
                path = (*path, self._tables[path] - 1)
        path = self._mark((*path, last), start)
        if brackets == 2:
            number = self._tables.get(path, 0)
            self._tables[path] = number + 1
            path = self._mark((*path, number), start)
        self._expect("]" * brackets)
        return path

    def _pair(self, table: KeyPath) -> None:
        """Read a.b = value."""
        start, path = self._at, table
        for key in self._dotted():
            path = self._mark((*path, key), start)
        self._expect("=")
        self.value(path)

    def _member(self, table: KeyPath, keys: dict[str, int]) -> None:
        """Read "key": value, in a table with these keys, and their lines, so far."""
        start = self._at
        key = json.loads(self._take(_KEY))
        path = self._mark((*table, key), start)
        if key in keys:
            self.twice.append((path, keys[key], self.lines[path]))
        keys[key] = self.lines[path]
        self._expect(":")
        self.value(path)

    def _dotted(self) -> list[str]:
        keys: list[str] = []
        while not keys or self._starts_with("."):
            self._skip(1 if keys else 0)
            keys.append(_key(self._take(_KEY)))
            self._skip()
        return keys

    def _mark(self, path: KeyPath, at: int) -> KeyPath:
        if self._is_json or path not in self.lines:
            self.lines[path] = bisect.bisect_left(self._newlines, at) + 1
        return path

    def _skip(self, count: int = 0) -> None:
        """Pass some characters, and the blanks, line ends and comments after them."""
        match = _BLANK.match(self._text, self._at + count)
        self._at = match.end() if match else self._at

    def _starts_with(self, mark: str) -> bool:
        return self._text.startswith(mark, self._at)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _LostError
        self._at = match.end()
        return match.group()

    def _expect(self, mark: str) -> None:
        self._skip()
        if not self._starts_with(mark):
            raise _LostError
        self._skip(len(mark))


def _key(token: str) -> str:
    if token[0] == '"' and "\\" in token:
        try:
            return str(parse_toml(f"key = {token}")["key"])
        except ValueError:
            raise _LostError from None
    return token[1:-1] if token[0] in "\"'" else token
