"""A document's bytes to JSON data, whether they are JSON or YAML; and the errors of documents."""

from __future__ import annotations

import json
from typing import Any, ClassVar, NoReturn

from flexchat.plugin import FlexChatError


class DocumentError(FlexChatError):
    """A document is unusable.

    Attributes:
        document: Its path or URL; empty if the caller adds it.
        place: Position: ``line 3``, or a path such as ``paths./pets.get``; empty for the whole document.
        text: The problem and its remedy, in one sentence.
    """

    exit_status: ClassVar[int] = 2

    def __init__(self, document: str, place: str, text: str) -> None:
        self.document, self.place, self.text = document, place, text
        super().__init__(": ".join(part for part in (document, place, text) if part))


class Unusable(Exception):
    """A part of a document is unusable; operations that need it are skipped. The text is the reason."""


class NoServer(Unusable):
    """An operation's server is not named by the document: the config has to."""


MAX_BYTES = 64 * 2**20
MAX_YAML_BYTES = 16 * 2**20  # YAML takes some thirty times as long to read as JSON: 16 MiB are about ten seconds
MAX_DEPTH = 200


def as_table(value: Any) -> dict[str, Any]:
    """Return a value of a document that should be an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def read_document(content: bytes, name: str) -> dict[str, Any]:
    """Return a document, or a file that one refers to, as JSON data.

    Args:
        name: Its path or URL, for errors.

    Raises:
        DocumentError: It is too large, neither JSON nor YAML, nested too deeply, or not an object.
    """
    if len(content) > MAX_BYTES:
        raise DocumentError(name, "", f"it is larger than {MAX_BYTES // 2**20} MiB")
    text = _text(content, name)
    data = _json_or_yaml(text, len(content), name)
    if not isinstance(data, dict):
        raise DocumentError(name, "", f"it is not an object, but {_kind(data)}")
    if _deeper_than(data, MAX_DEPTH):
        raise DocumentError(name, "", f"it is nested more than {MAX_DEPTH} levels deep")
    return data


def _text(content: bytes, name: str) -> str:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise DocumentError(name, f"byte {error.start}", "it is not UTF-8 text") from None


def _json_or_yaml(text: str, size: int, name: str) -> Any:
    if not text.strip():
        raise DocumentError(name, "", "it is empty")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        reason, line = error.msg, error.lineno
    except (ValueError, RecursionError):
        raise DocumentError(name, "", "it is nested too deeply, or has a number that is not JSON") from None
    if text.lstrip()[0] in "<":
        raise DocumentError(name, "", "it is HTML or XML, not JSON or YAML; is this the address of a page about it?")
    if size > MAX_YAML_BYTES:
        raise DocumentError(name, f"line {line}", f"it is not JSON ({reason}), and too large to be read as YAML")
    from .yaml_reading import YamlError, read_yaml  # a few ms, which documents in JSON do not need

    try:
        return read_yaml(text)
    except YamlError as error:
        if text.lstrip()[0] in "{[":
            raise DocumentError(name, f"line {line}", f"it is not JSON: {reason}") from None
        raise DocumentError(name, f"line {error.line}", f"it is not YAML: {error}") from None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _kind(data: Any) -> str:
    return "a list" if isinstance(data, list) else "a text" if isinstance(data, str) else "a single value"


def _deeper_than(data: Any, most: int) -> bool:
    level = [data]
    for _ in range(most):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
