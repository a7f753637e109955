"""JSON with media, whose Base64 is made only while it is sent.

A medium is held once, as its bytes. As text it would stand in a message's memo, in the body that is assembled from
memos, and in the connection's buffer, each a third longer than the bytes.
"""

from __future__ import annotations

import binascii
import json
import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from .wire_json import utf8

# Stands for Base64 until the JSON is split there. Random, so that no text of a conversation can contain it.
_MARK = secrets.token_hex(16)
_STEP = 3 * 2**14  # bytes; divisible by three, as Base64 is only then joined without padding


@attrs.frozen(eq=False)
class Base64:
    """Bytes that stand in a message as a text in Base64.

    Attributes:
        prefix: Text before it: "data:image/png;base64,".
    """

    data: bytes
    prefix: str = ""


class Pieces:
    """JSON in UTF-8 that is never in memory as a whole: iterating yields its bytes, as often as needed.

    Has the operations of bytes that assembling a request needs.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Iterable[bytes | Base64]) -> None:
        self._parts = tuple(parts)

    def __len__(self) -> int:
        return sum(map(_size, self._parts))

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
            else:
                view = memoryview(part.data)
                for at in range(0, len(view), _STEP):
                    yield binascii.b2a_base64(view[at : at + _STEP], newline=False)

    def __bytes__(self) -> bytes:
        return b"".join(self)

    def __add__(self, other: bytes | Pieces) -> Pieces:
        return Pieces((*self._parts, *_parts_of(other)))

    def __radd__(self, other: bytes) -> Pieces:
        return Pieces((other, *self._parts))

    def startswith(self, prefix: bytes | tuple[bytes, ...]) -> bool:
        """Return whether the text before the first medium starts with *prefix*, or with one of several."""
        return _text(self._parts[0]).startswith(prefix)

    def removesuffix(self, suffix: bytes) -> Pieces:
        """Return the JSON without *suffix*, which must be after the last medium."""
        return Pieces((*self._parts[:-1], _text(self._parts[-1]).removesuffix(suffix)))


Json = bytes | Pieces
"""Encoded JSON: in pieces if it has media."""


def encode_with_media(value: Any) -> Json:
    """Return JSON data in which Base64 may stand for texts.

    Raises:
        TypeError, ValueError, RecursionError: It is not JSON data.
    """
    media: list[Base64] = []

    def mark(item: object) -> str:
        if type(item) is not Base64:
            raise TypeError(f"Object of type {type(item).__name__} is not JSON serializable")
        media.append(item)
        return item.prefix + _MARK

    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=mark)
    first, *texts = utf8(encoder.encode(value)).split(_MARK.encode())
    if not media:
        return first
    parts: list[bytes | Base64] = [first]
    for medium, text in zip(media, texts, strict=True):
        parts += (medium, text)
    return Pieces(parts)


def join(separator: bytes, pieces: Iterable[Json]) -> Json:
    """Join encoded JSON, as ``separator.join`` does."""
    pieces = [*pieces]
    try:
        return separator.join(pieces)  # type: ignore[arg-type]  # or else TypeError
    except TypeError:
        parts: list[bytes | Base64] = []
        for piece in pieces:
            parts += (separator, *_parts_of(piece)) if parts else _parts_of(piece)
        return Pieces(parts)


def _parts_of(json: Json) -> tuple[bytes | Base64, ...]:
    return json._parts if isinstance(json, Pieces) else (json,)


def _text(part: bytes | Base64) -> bytes:
    return part if isinstance(part, bytes) else b""


def _size(part: bytes | Base64) -> int:
    return len(part) if isinstance(part, bytes) else (len(part.data) + 2) // 3 * 4
