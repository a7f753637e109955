"""YAML 1.2 (core schema) to JSON data, from the events of PyYAML's parser.

PyYAML's own loaders read YAML 1.1: the key ``on`` is true, ``2024-01-01`` a date, ``010`` eight. They also follow
aliases without a bound. So only its parser is used; it is written in C, does not nest, and gives lines.

Source: yaml.org/spec/1.2.2 §10.3 (core schema); merge keys (``<<``) as in YAML 1.1, which documents use.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

MAX_ALIASED = 100_000
"""How many values all aliases together may stand for: "billion laughs" would be 10^9 from 300 bytes."""

MAX_DEPTH = 250  # levels of nesting; libyaml takes time in the square of it

_INT = re.compile(r"[-+]?[0-9]{1,4000}|0o[0-7]{1,4000}|0x[0-9a-fA-F]{1,4000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(ValueError):
    """The text is not YAML, or more than data. ``line`` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        self.line = line
        super().__init__(text)


def read_yaml(text: str) -> Any:
    """Return the only document of a YAML text as JSON data; keys are texts, as written.

    Raises:
        YamlError: It is not YAML, has several documents, an alias within its own value, or too many aliases.
    """
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_PARSER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(mark.line + 1 if mark else 1, str(error.problem or error.context)) from None
    except yaml.YAMLError as error:
        raise YamlError(1, str(error).splitlines()[0]) from None
    return builder.root


class _Builder:
    """Puts the events together. ``stack`` has the open collections, each with its anchor, size and pending key."""

    def __init__(self) -> None:
        self.root: Any = None
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.aliased = 0
        self.documents = 0

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        if isinstance(event, yaml.ScalarEvent):
            as_key = bool(self.stack) and self.stack[-1].wants_key
            self._add(event.value if as_key else _scalar(event), 1, event.anchor, event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._open({}, event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._open([], event)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self.stack.pop()
            self._add(done.value, done.size, done.anchor, event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise YamlError(_line(event), "this is a second YAML document; a file holds one")

    def _open(self, value: Any, event: Any) -> None:
        if self.stack and self.stack[-1].wants_key:
            raise YamlError(_line(event), "a key must be a text")
        if event.anchor is not None:
            self.anchors.pop(event.anchor, None)
        if len(self.stack) >= MAX_DEPTH:
            raise YamlError(_line(event), f"it is nested more than {MAX_DEPTH} levels deep")
        self.stack.append(_Open(value, event.anchor))

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            within = any(each.anchor == event.anchor for each in self.stack)
            why = "stands within its own value" if within else "has no anchor before it"
            raise YamlError(_line(event), f"the alias *{event.anchor} {why}")
        value, size = self.anchors[event.anchor]
        self.aliased += size
        if self.aliased > MAX_ALIASED:
            raise YamlError(_line(event), f"the aliases stand for more than {MAX_ALIASED:,} values; write fewer")
        if self.stack and self.stack[-1].wants_key and not isinstance(value, str):
            raise YamlError(_line(event), "a key must be a text")
        self._add(value, size, None, event)

    def _add(self, value: Any, size: int, anchor: str | None, event: Any) -> None:
        if anchor is not None:
            self.anchors[anchor] = (value, size)
        if not self.stack:
            self.root = value
            return
        place = self.stack[-1]
        place.size += size
        if isinstance(place.value, list):
            place.value.append(value)
        elif place.wants_key:
            place.key, place.wants_key = value, False
        else:
            place.store(value, event)


class _Open:
    """A collection that has not ended."""

    __slots__ = ("anchor", "key", "size", "value", "wants_key")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value, self.anchor, self.size = value, anchor, 1
        self.wants_key, self.key = isinstance(value, dict), ""

    def store(self, value: Any, event: Any) -> None:
        """Store a value under the pending key."""
        self.wants_key = True
        if self.key != "<<":
            self.value[self.key] = value
            return
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                raise YamlError(_line(event), "<< merges mappings only")
            self.value.update({key: part for key, part in each.items() if key not in self.value})


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    if event.style or event.tag == "tag:yaml.org,2002:str":
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text[1:2] in ("o", "x") else int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
