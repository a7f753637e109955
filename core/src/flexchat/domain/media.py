"""Media of messages and of tools' results: checked once, and described where they cannot be sent."""

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
MAX_PIXELS = 250_000_000  # of an image; the largest cameras of phones have 200 million
DEFAULT_MAX_BYTES = 4_194_304  # tools.max_media_bytes, where no config sets it

_MAX_NAME_CHARS = 100
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# How the bytes of a type begin, for all types that the services of our providers accept; the first that fits decides.
# Source: the formats' specifications (PNG, JFIF, GIF89a, WebP, ISO 32000, ISO 14496-12, RIFF, …). A service answers 400
# to a broken image, in each later request too.
_BEGINNINGS = {
    mime_type: re.compile(pattern, re.DOTALL)
    for mime_type, pattern in {
        "image/png": rb"\x89PNG\r\n\x1a\n",
        "image/jpeg": rb"\xff\xd8\xff",
        "image/gif": rb"GIF8[79]a",
        "image/webp": rb"RIFF.{4}WEBP",
        "image/heic": rb".{4}ftyp(?:hei[cxms]|hev[cxms])",
        "image/heif": rb".{4}ftyp(?:mif1|msf1)",
        "application/pdf": rb"%PDF-",
        "audio/wav": rb"RIFF.{4}WAVE",
        "audio/aiff": rb"FORM.{4}AIF[FC]",
        "audio/flac": rb"fLaC",
        "audio/ogg": rb"OggS",
        "audio/aac": rb"\xff[\xf0\xf1\xf8\xf9]|ADIF",
        "audio/mpeg": rb"ID3[\x02-\x04]|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]",
        "audio/mp4": rb".{4}ftypM4A",
        "video/quicktime": rb".{4}ftypqt",
        "video/3gpp": rb".{4}ftyp3g",
        "video/mp4": rb".{4}ftyp(?:iso[m\d]|mp4\d|avc1|dash|mmp4|M4V|MSNV)",
        "video/webm": rb"\x1a\x45\xdf\xa3.{0,60}?webm",
        "video/mpeg": rb"\x00\x00\x01[\xb3\xba]",
        "video/x-flv": rb"FLV\x01",
        "video/x-msvideo": rb"RIFF.{4}AVI ",
        "video/x-ms-wmv": rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
    }.items()
}
MEDIA_TYPES = tuple(_BEGINNINGS)
"""What a message may have beside texts."""

_SAME_TYPE = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/x-aiff": "audio/aiff",
    "audio/x-flac": "audio/flac",
    "audio/x-m4a": "audio/mp4",
    "video/avi": "video/x-msvideo",
}
TEXT = "text/plain"
_NO_TYPE = frozenset({"", "application/octet-stream", "binary/octet-stream"})  # declared by clients that know none
_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})  # SOF of JPEG
_IS_ENCRYPTED = re.compile(rb"/Encrypt\s*(?:\d+\s+\d+\s+R|<<)")


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


@attrs.frozen
class StoredMedia:
    """A medium that the tenant's store of media keeps already; as an attachment, it is not sent again.

    Attributes:
        sha256: The digest of its bytes: 64 hexadecimal digits.
        name: Its file's name, for the model.
    """

    sha256: str
    name: str | None = None


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


def unshown(part: MediaPart) -> str:
    """Describe a part in place of it, for a model that it cannot be sent to."""
    return f"[{describe_media(part)}: not shown, you cannot see it here]"


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
    """Return the description of a part for a model."""
    name = {"name": part.name} if part.name else {}
    return {"kind": part.kind, "mime_type": part.mime_type, "bytes": len(part.data or b""), **name}


def record_of_media(part: MediaPart) -> dict[str, Any]:
    """Return the record of a part without its bytes, which have its digest in a MediaStore."""
    return {**about(part), "sha256": part.sha256}


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
    if mime_type in _BEGINNINGS and not _BEGINNINGS[mime_type].match(data):
        return f"{describe_media(part)}: left out, its data are not {mime_type}"
    if mime_type == TEXT:
        try:
            data.decode()
        except UnicodeDecodeError:
            return f"{describe_media(part)}: left out, it is not UTF-8"
    return part


def _one_line(text: str, longest: int) -> str:
    return _CONTROLS.sub(" ", scrub(text))[:longest].strip()


def detect_type(data: bytes) -> str | None:
    """Return the media type of data by their first bytes; text/plain for UTF-8 without NUL, None if unknown."""
    for mime_type, beginning in _BEGINNINGS.items():
        if beginning.match(data):
            return mime_type
    return TEXT if is_text(data) else None


def is_text(data: bytes) -> bool:
    """Return whether data are a text in UTF-8."""
    try:
        return b"\0" not in data and data.decode() is not None
    except UnicodeDecodeError:
        return False


def attached_part(data: bytes, *, name: str | None = None, declared: str = "") -> MediaPart:
    """Return data as a part of a message, its type detected.

    Args:
        declared: The type that their sender gives; empty if none.

    Raises:
        ValueError: They are none that a model can read, or of another type than declared; the text gives the reason.
    """
    label = clean_name(name) if name else None
    declared = declared.partition(";")[0].strip().lower()
    declared = "" if declared in _NO_TYPE else _SAME_TYPE.get(declared, declared)
    type = detect_type(data) if data else None
    # Many types are texts: text/csv, application/json, image/svg+xml.
    is_declared = not declared or declared == type or (type == TEXT and declared not in _BEGINNINGS)
    if not data:
        raise ValueError("it is empty")
    if not is_declared:
        what = f"begins with {_first_bytes(data)}" if type is None else f"is {type}"
        raise ValueError(f"it is declared as {_one_line(declared, 80)}, but its content {what}")
    if type is None:
        raise ValueError(
            f"its type is unknown, it begins with {_first_bytes(data)}: attach an image, a PDF, a sound, a video or a "
            "text in UTF-8"
        )
    if type == "application/pdf" and _IS_ENCRYPTED.search(data):
        raise ValueError("the PDF is encrypted: save a copy of it without a password")
    if (size := image_size(data)) is not None and (not all(size) or size[0] * size[1] > MAX_PIXELS):
        raise ValueError(f"the image has {size[0]:,} × {size[1]:,} pixels, at most {MAX_PIXELS:,} in all are allowed")
    return MediaPart(kind=kind_of(type), mime_type=type, data=data, name=label)


def _first_bytes(data: bytes) -> str:
    beginning = data[:8]
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in beginning)
    return f"{beginning.hex(' ')} ({text})"


def clean_name(name: str) -> str | None:
    """Return the last part of a path as the name of a file, without what a terminal or a file system might act on."""
    last = re.split(r"[/\\]", scrub(name).rstrip("/\\"))[-1]
    text = "".join(char if char.isprintable() else " " for char in last).strip(" .")
    if len(text) > _MAX_NAME_CHARS:
        stem, dot, suffix = text.rpartition(".")
        text = f"{stem[: _MAX_NAME_CHARS - 11]}.{suffix}" if dot and len(suffix) <= 10 else text[:_MAX_NAME_CHARS]
    return text or None


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height that an image's header states, without decoding it; None if there is none to read.

    Source: PNG (IHDR), GIF89a (logical screen), WebP (VP8X, VP8L, VP8), JPEG (SOFn).
    """
    if data.startswith(b"\x89PNG") and data[12:16] == b"IHDR" and len(data) >= 24:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if data.startswith(b"GIF8") and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp_size(data)
    return _jpeg_size(data) if data.startswith(b"\xff\xd8") else None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        alone = marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD8  # fill bytes, and markers without a length
        at += (1 if marker == 0xFF else 2) if alone else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
