"""YAML 1.2 read as JSON data, with the line of each part.

The data is put together from the parser's events: so aliases are bounded, keys written twice are found, nothing but
data is ever made, and nesting ends where a configuration's does.

Source: yaml.org/spec/1.2.2 §10.3 (core schema); merge keys (``<<``) as in YAML 1.1, which people use.
"""

from __future__ import annotations

import math
import re
from typing import Any

import attrs

from .positions import KeyPath

MAX_BYTES = 1024 * 1024  # of a YAML text: its parser is written in Python and takes seconds for this much

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WORDS |= {sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")}
_WORDS |= dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan)
_INT = re.compile(r"[-+]?[0-9]{1,4000}|0o[0-7]{1,4000}|0x[0-9a-fA-F]{1,4000}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_HINTS = {
    "mapping values are not allowed here": "put a text that contains ': ' in quotes",
    "that cannot start any token": "indent with spaces, and put a text that begins with a special character in quotes",
    "unknown escape character": "put a text with backslashes in single quotes",
    "expected <block end>": "the keys of a table begin in the same column",
    "found unexpected end of stream": "a closing quote is missing",
}
_OWN_TAGS = "tag:yaml.org,2002:"
_NO_KEY = "a key is a text, not a table or a list; put a text that begins with { or [ in quotes"
_BREAK = re.compile("\r\n|\r|\n")
_SEPARATOR = re.compile("[\x85\u2028\u2029]")
"""Invisible characters that end a line in YAML 1.1 and for ruamel.yaml, and none in YAML 1.2."""


class YamlError(ValueError):
    """The text is not YAML, or more than data.

    Attributes:
        line: Where, from 1; None if unknown.
    """

    def __init__(self, line: int | None, text: str) -> None:
        self.line = line
        super().__init__(text)


def read_yaml(
    text: str, *, max_depth: int, max_values: int
) -> tuple[Any, dict[KeyPath, int], list[tuple[KeyPath, int, int]]]:
    """Return the only document of a text: its data, the lines of its paths, and the keys written twice.

    The parts of a value that an alias stands for are at the line of the alias, and count among the values. An empty
    text is an empty table. Raises YamlError for what is not YAML, has tags or several documents, or is too large or too
    deep; ImportError without ruamel.yaml.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if separator := _SEPARATOR.search(text):
        escape = repr(separator[0])[1:-1]
        line = len(_BREAK.findall(text, 0, separator.start())) + 1
        raise YamlError(line, f'there is an invisible character ({escape}): delete it, or write "{escape}" in quotes')
    builder = _Builder(max_depth, max_values)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except YamlError:
        raise
    except MarkedYAMLError as error:
        message = " ".join(str(part) for part in (error.context, error.problem) if part)
        begun = error.context_mark if "end of stream" in message else None  # the start of the construct without an end
        mark = begun or error.problem_mark or error.context_mark
        hint = next((f" ({hint})" for part, hint in _HINTS.items() if part in message), "")
        raise YamlError(mark.line + 1 if mark else None, message + hint) from None
    except YAMLError as error:
        at = getattr(error, "position", None)  # of a character that no YAML text may have
        place = None if at is None else len(_BREAK.findall(text, 0, at)) + 1
        raise YamlError(place, str(error).splitlines()[0]) from None
    except (ValueError, OverflowError):  # "\UFFFFFFFF"
        raise YamlError(builder.line, "no character has the number that stands here after \\U") from None
    return builder.root, builder.lines, builder.twice


@attrs.define
class _Open:
    """A table or list that has not ended.

    Attributes:
        size: The values in it so far, itself included.
        key: In a table, the key whose value comes next; None if a key comes next.
    """

    value: Any
    path: KeyPath
    anchor: str | None
    size: int = 1
    key: str | None = None
    keys: dict[str, int] = attrs.field(factory=dict)
    merged: dict[str, Any] = attrs.field(factory=dict)


class _Builder:
    """A builder of a document from events; ``line`` is where the last one began."""

    def __init__(self, max_depth: int, max_values: int) -> None:
        self.root: Any = {}
        self.lines: dict[KeyPath, int] = {}
        self.twice: list[tuple[KeyPath, int, int]] = []
        self.line = 1
        self._max_depth, self._max_values = max_depth, max_values
        self._values = self._documents = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}

    def take(self, event: Any) -> None:
        """Take the next event."""
        # By their names: the classes would load ruamel.yaml together with this module.
        kind, self.line = type(event).__name__, event.start_mark.line + 1
        tag = getattr(event, "tag", None)
        if tag is not None:
            tag_text = _escape(str(tag).replace(_OWN_TAGS, "!!"))
            raise YamlError(self.line, f"tags are not allowed: write the value without {tag_text}")
        if kind == "DocumentStartEvent":
            self._begin(event.version)
        elif kind == "ScalarEvent":
            value = _joined(event.value) if event.style or self._is_key_next else _plain(event.value)
            self._add(value, 1, event.anchor)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            self._collection({} if kind == "MappingStartEvent" else [], event.anchor)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._end()
        elif kind == "AliasEvent":
            self._alias(event.anchor)

    def _begin(self, version: tuple[int, int] | None) -> None:
        self._documents += 1
        if self._documents > 1:
            raise YamlError(self.line, "a second document begins here; a configuration is one")
        if version is not None and tuple(version) != (1, 2):
            raise YamlError(self.line, f"%YAML {version[0]}.{version[1]}: only YAML 1.2 is read")

    @property
    def _is_key_next(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _add(self, value: Any, size: int, anchor: str | None) -> None:
        """Add a text, a number or an alias's value: the next key, or the next value."""
        if not self._is_key_next:
            self._append(value, size, anchor)
            return
        if not isinstance(value, str):
            raise YamlError(self.line, _NO_KEY)
        top = self._open[-1]
        top.key = value
        if value == "<<":
            return
        path = (*top.path, value)
        if value in top.keys:
            self.twice.append((path, top.keys[value], self.line))
        top.keys[value] = self.lines[path] = self.line

    def _collection(self, value: Any, anchor: str | None) -> None:
        if self._is_key_next:
            raise YamlError(self.line, _NO_KEY)
        if len(self._open) >= self._max_depth:
            raise YamlError(self.line, f"tables and lists are nested more than {self._max_depth} deep")
        if anchor is not None:
            self._anchors.pop(anchor, None)  # an alias of it inside of it has no value yet
        path: KeyPath = ()
        if self._open and isinstance(self._open[-1].value, dict):
            path = (*self._open[-1].path, self._open[-1].key or "")
        elif self._open:
            path = (*self._open[-1].path, len(self._open[-1].value))
            self.lines[path] = self.line
        self._open.append(_Open(value, path, anchor))

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.value, dict):
            for key, value in done.merged.items():
                done.value.setdefault(key, value)
        self._append(done.value, done.size, done.anchor)

    def _alias(self, anchor: str) -> None:
        if anchor not in self._anchors:
            inside = any(each.anchor == anchor for each in self._open)
            why = "stands within its own value" if inside else "has no anchor before it"
            raise YamlError(self.line, f"the alias *{_escape(anchor)} {why}")
        self._add(*self._anchors[anchor], None)

    def _append(self, value: Any, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self.root = {} if value is None else value
            return
        top = self._open[-1]
        top.size += size
        if top.size > self._max_values:
            raise YamlError(self.line, f"there are more than {self._max_values:,} values, those of aliases included")
        if isinstance(top.value, list):
            self.lines.setdefault((*top.path, len(top.value)), self.line)
            top.value.append(value)
            return
        key, top.key = top.key or "", None
        if key != "<<":
            top.value[key] = value
            return
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                raise YamlError(self.line, "<< takes a table, or a list of tables")
            for name, part in each.items():
                self.lines.setdefault((*top.path, name), self.line)
                top.merged.setdefault(name, part)


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text[1:2] in ("o", "x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _joined(text: str) -> str:
    """Replace each surrogate pair in a text, which JSON writes as two escapes, with its character."""
    if not any("\ud800" <= c <= "\udbff" for c in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escape(text: str) -> str:
    return text[:40].encode("unicode_escape").decode("ascii")
