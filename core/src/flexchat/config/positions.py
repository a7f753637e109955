"""The line of each part of a TOML or JSON text. Parsers give no positions, so the text is read twice.

Both functions take only text a parser has accepted: they find the structure and skip the values.
"""

from __future__ import annotations

import bisect
import json
import re
import tomllib

import attrs

KeyPath = tuple[str | int, ...]
"""Where in a configuration: ("responses", 1, "model")."""

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}:,\n]|[^\s\[\]{}:,"]+')


@attrs.define
class _Frame:
    path: KeyPath
    index: int | None  # None in an object
    keys: dict[str, int] = attrs.field(factory=dict)
    wants_key: bool = True


def locate_json(text: str) -> tuple[dict[KeyPath, int], list[tuple[KeyPath, int, int]]]:
    """Return the line of every path, and the keys written twice: path, line of the first, line of the second.

    If a key is written twice, the last one counts, as for the parser.
    """
    lines: dict[KeyPath, int] = {}
    twice: list[tuple[KeyPath, int, int]] = []
    stack: list[_Frame] = []
    line, path = 1, ()  # type: int, KeyPath
    for token in _JSON_TOKEN.findall(text):
        top = stack[-1] if stack else None
        if token == "\n":
            line += 1
        elif token in "]}":
            stack.pop()
        elif token == ",":
            if top is not None and top.index is not None:
                top.index += 1
            elif top is not None:
                top.wants_key = True
        elif top is not None and top.index is None and top.wants_key and token[0] == '"':
            key = json.loads(token)
            path = (*top.path, key)
            if key in top.keys:
                twice.append((path, top.keys[key], line))
            top.keys[key] = lines[path] = line
            top.wants_key = False
        elif token != ":":
            if top is not None and top.index is not None:
                path = (*top.path, top.index)
                lines[path] = line
            if token in "[{":
                stack.append(_Frame(path, 0 if token == "[" else None))
    return lines, twice


_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*+")
_SPACE = re.compile(r"[ \t]*+")
_KEY = re.compile(r'"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\'|[^\s.=\[\]{}#,"\']++')
_VALUE = re.compile(
    r'"""[^"\\]*+(?:(?:\\.|"{1,2}+(?!"))[^"\\]*+)*+"{3,5}'
    r"|'''[^']*+(?:'{1,2}+(?!')[^']*+)*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'"
    r"|[^,\]}#\n\"'\[{]++",  # a date may contain a space
    re.DOTALL,
)


def locate_toml(text: str) -> dict[KeyPath, int]:
    """Return the line of every path: where a key, a header or an element is first written."""
    scanner = _TomlScanner(text.replace("\r\n", "\n"))
    try:
        scanner.document()
    except _LostError:
        pass  # a problem further down gets the line of the nearest path before it
    return scanner.lines


class _LostError(Exception):
    """The scanner lost its place in a text that no parser would accept."""


class _TomlScanner:
    """A single scan of a TOML text. Its state: its position, and the paths so far."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text = text
        self._at = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._tables: dict[KeyPath, int] = {}  # arrays of tables: how many tables so far

    def document(self) -> None:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            table = self._header() if self._text[self._at] == "[" else self._pair(table)
            self._skip(_BLANK)

    def _header(self) -> KeyPath:
        """Read [a.b] or [[a.b]]; return the path of the table it opens."""
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        start = self._at
        self._at += brackets
        path: KeyPath = ()
        keys = self._dotted()
        for key in keys[:-1]:
            path = self._mark((*path, key), start)
            if path in self._tables:
                path = (*path, self._tables[path] - 1)
        path = self._mark((*path, keys[-1]), start)
        if brackets == 2:
            number = self._tables.get(path, 0)
            self._tables[path] = number + 1
            path = self._mark((*path, number), start)
        for _ in range(brackets):
            self._expect("]")
        return path

    def _pair(self, table: KeyPath) -> KeyPath:
        """Read a.b = value; return the table it is in."""
        start, path = self._at, table
        for key in self._dotted():
            path = self._mark((*path, key), start)
        self._expect("=")
        self._skip(_SPACE)
        self._value(path)
        return table

    def _dotted(self) -> list[str]:
        keys: list[str] = []
        while True:
            self._skip(_SPACE)
            keys.append(_key(self._take(_KEY)))
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        opening = self._text[self._at : self._at + 1]
        if opening not in ("[", "{"):
            self._take(_VALUE)
            return
        self._at += 1
        self._skip(_BLANK)
        index, closing = 0, "]" if opening == "[" else "}"
        while not self._text.startswith(closing, self._at):
            if opening == "[":
                self._value(self._mark((*path, index), self._at))
                index += 1
            else:
                self._pair(path)
            self._skip(_BLANK)
            if self._text.startswith(",", self._at):
                self._at += 1
                self._skip(_BLANK)
            elif not self._text.startswith(closing, self._at):
                raise _LostError
        self._at += 1

    def _mark(self, path: KeyPath, at: int) -> KeyPath:
        if path not in self.lines:
            self.lines[path] = bisect.bisect_left(self._newlines, at) + 1
        return path

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _LostError
        self._at = match.end()
        return match.group()

    def _expect(self, mark: str) -> None:
        self._skip(_SPACE)
        if not self._text.startswith(mark, self._at):
            raise _LostError
        self._at += 1


def _key(token: str) -> str:
    if token[0] == '"' and "\\" in token:
        try:
            return str(_toml_text(token))
        except ValueError:
            raise _LostError from None
    return token[1:-1] if token[0] in "\"'" else token


def _toml_text(token: str) -> object:
    try:
        import tomli
    except ImportError:
        return tomllib.loads(f"key = {token}")["key"]
    return tomli.loads(f"key = {token}")["key"]
