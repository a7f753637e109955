"""Results of tools besides JSON: images, sounds and files, checked once, and described where they cannot be sent."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal

import attrs

from .messages import MediaPart, ToolMessage
from .text import scrub

MAX_PARTS = 32  # most media of one result; the rest is only described
DEFAULT_MAX_BYTES = 4_194_304  # tools.max_media_bytes, where no config sets it

_MAX_NAME_CHARS = 100
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# How the bytes of a type begin, and what follows at byte 8 in a RIFF file. Source: the formats' specifications (PNG,
# JFIF, GIF89a, WebP, ISO 32000, RIFF WAVE). A service answers 400 to a broken image, in each later request too.
_BEGINNINGS: dict[str, tuple[tuple[bytes, ...], bytes]] = {
    "image/png": ((b"\x89PNG\r\n\x1a\n",), b""),
    "image/jpeg": ((b"\xff\xd8\xff",), b""),
    "image/gif": ((b"GIF87a", b"GIF89a"), b""),
    "image/webp": ((b"RIFF",), b"WEBP"),
    "application/pdf": ((b"%PDF-",), b""),
    "audio/wav": ((b"RIFF",), b"WAVE"),
}
_SAME_TYPE = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "audio/x-wav": "audio/wav"}


def _parts(media: MediaPart | Iterable[MediaPart]) -> tuple[MediaPart, ...]:
    return (media,) if isinstance(media, MediaPart) else tuple(media)


@attrs.frozen
class WithMedia:
    """A tool's result with more than JSON: a value, and media that models may be shown.

    Attributes:
        value: As any tool returns it.
        media: A part, or several. Their bytes are in ``data``: a part with a ``url`` is only described, since it is
            never fetched.
    """

    value: Any
    media: tuple[MediaPart, ...] = attrs.field(converter=_parts)


def split_media(value: Any) -> WithMedia | None:
    """Return a tool's value apart from its media; None if it has none."""
    kind = type(value)
    if kind is WithMedia:
        return value  # type: ignore[no-any-return]
    is_list = (kind is list or kind is tuple) and value and all(type(item) is MediaPart for item in value)
    return WithMedia(None, value) if kind is MediaPart or is_list else None


def checked_media(media: Iterable[Any], max_bytes: int) -> tuple[tuple[MediaPart, ...], tuple[str, ...]]:
    """Return the media whose bytes match their type, and a sentence for each of the others.

    The kind follows the type. A part with a url is among the others: it is not fetched, and a service that cannot fetch
    it either would refuse the conversation from then on.

    Args:
        max_bytes: How many they may have together; the first ones are kept first.
    """
    accepted: list[MediaPart] = []
    words: list[str] = []
    size, left_over = 0, 0
    for number, item in enumerate(media):
        if number >= MAX_PARTS:
            left_over += 1
            continue
        part = _normal(item)
        if isinstance(part, str):
            words.append(part)
        elif size + len(part.data or b"") > max_bytes:
            words.append(f"{describe_media(part)}: left out, the media of a result may have {max_bytes:,} bytes")
        else:
            size += len(part.data or b"")
            accepted.append(part)
    if left_over:
        words.append(f"{left_over} more: left out, a result may have {MAX_PARTS}")
    return tuple(accepted), tuple(words)


def with_accepted_media(message: ToolMessage, takes: Callable[[MediaPart], bool]) -> ToolMessage:
    """Return a result with only the media that are taken; sentences in its text describe the others.

    The same message is returned each time, so that its memo is found again. A failure is a text.
    """
    is_accepted = tuple([not message.is_error and takes(part) for part in message.media])
    if all(is_accepted):
        return message
    reduced: ToolMessage | None = message.memo.get(("shown", is_accepted))
    if reduced is None:
        media = tuple(itertools.compress(message.media, is_accepted))
        others = [part for part, is_taken in zip(message.media, is_accepted, strict=True) if not is_taken]
        words = [f"{describe_media(part)}: not shown, you cannot see it here" for part in others]
        content = _with_words(message.content, media, words)
        reduced = message.memo["shown", is_accepted] = attrs.evolve(message, content=content, media=media)
    return reduced


def _with_words(content: str, media: tuple[MediaPart, ...], words: list[str]) -> str:
    """Return a result's text with sentences added: inside its envelope if it is one, otherwise after it."""
    try:
        envelope = json.loads(content)
        if isinstance(envelope, dict) and isinstance(envelope.get("success"), bool):
            envelope.pop("media", None)
            envelope |= {"media": [about(part) for part in media]} if media else {}
            earlier = envelope.pop("left_out", None)
            envelope["left_out"] = [*(earlier if isinstance(earlier, list) else ()), *words]
            return _encode(envelope)
    except (ValueError, RecursionError):
        pass
    return "\n".join([content, *(f"[{each}]" for each in words)] if content else [f"[{each}]" for each in words])


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def describe_media(part: MediaPart) -> str:
    """Describe a part with its name, type and exact size: chart.png (image/png, 12,345 bytes)."""
    facts = part.mime_type if part.data is None else f"{part.mime_type}, {_size_text(len(part.data))}"
    return f"{part.name} ({facts})" if part.name else facts


def in_brief(part: MediaPart) -> str:
    """Describe a part for a line at a terminal: [image/png, 12 kB]."""
    size = len(part.data or b"")
    scale = next(((n, unit) for n, unit in ((10**6, "MB"), (1000, "kB")) if size >= n), None)
    if scale is None:
        return f"[{part.mime_type}, {_size_text(size)}]"
    return f"[{part.mime_type}, {size / scale[0]:.{1 if size < 10 * scale[0] else 0}f} {scale[1]}]"


def _size_text(size: int) -> str:
    return "1 byte" if size == 1 else f"{size:,} bytes"


def kind_of(mime_type: str) -> Literal["image", "audio", "video", "document"]:
    """Return the kind of a media type: all but images, sounds and films are documents."""
    kind = mime_type.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"  # type: ignore[return-value]


def about(part: MediaPart) -> dict[str, Any]:
    """Return the record of a part without its bytes."""
    name = {"name": part.name} if part.name else {}
    return {"kind": part.kind, "mime_type": part.mime_type, "bytes": len(part.data or b""), **name}


def _normal(item: Any) -> MediaPart | str:
    """Return a part in its stored form, or a sentence with the reason it is left out."""
    if not isinstance(item, MediaPart):
        return f"a {type(item).__name__}: left out, media are MediaParts"
    name = _one_line(item.name, _MAX_NAME_CHARS) if isinstance(item.name, str) else None
    type_text = item.mime_type if isinstance(item.mime_type, str) else ""
    mime_type = type_text.partition(";")[0].strip().lower()
    mime_type = _SAME_TYPE.get(mime_type, mime_type)
    what = f"{name} ({type_text[:60]!r})" if name else f"{type_text[:60]!r}"
    if not _TYPE.fullmatch(mime_type):
        return f"{scrub(what)}: left out, that is not a media type such as image/png"
    data = item.data
    if data is None:
        address = f" at {_one_line(item.url, 200)}" if isinstance(item.url, str) and item.url else ""
        return f"{name or mime_type}{address}: left out, only its address was given"
    if not isinstance(data, (bytes, bytearray, memoryview)):
        return f"{name or mime_type}: left out, its data are not bytes"
    data = bytes(data)
    part = MediaPart(kind=kind_of(mime_type), mime_type=mime_type, data=data, name=name or None)
    if not data:
        return f"{describe_media(part)}: left out, it is empty"
    if mime_type in _BEGINNINGS:
        beginnings, later = _BEGINNINGS[mime_type]
        if not data.startswith(beginnings) or data[8 : 8 + len(later)] != later:
            return f"{describe_media(part)}: left out, its data are not {mime_type}"
    if mime_type == "text/plain":
        try:
            data.decode()
        except UnicodeDecodeError:
            return f"{describe_media(part)}: left out, it is not UTF-8"
    return part


def _one_line(text: str, longest: int) -> str:
    return _CONTROLS.sub(" ", scrub(text))[:longest].strip()
