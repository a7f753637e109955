"""Media of messages: sent once, kept under the SHA-256 digest of their bytes, and shown by it."""

from __future__ import annotations

import binascii
import mmap
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from flexchat import FlexChat, MediaPart, MediaQuotaError, StoredMedia, ToolResult, UnknownMediaError
from flexchat.host import attached_part, detect_type

from ..operations import Bytes, Call, Json, Operations, Reply, Upload
from ..problems import ApiError
from ..shapes import record
from ..uploads import FILE_NAME, MAX_FILES, media_store, receive_file, too_large

SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types a page shows, besides sounds: pixels only, as SVG and HTML are programs."""

DIGEST = "^[0-9a-f]{64}$"
NOT_KEPT = "media are not kept; add a [conversations] table to the configuration to keep them"

_STEP_CHARS = 4 * 2**14  # divisible by four: each step is Base64 of its own
_NAME = {"type": "string", "pattern": FILE_NAME}
ATTACHMENTS = {
    "type": ["array", "null"],
    "maxItems": MAX_FILES,
    "description": "Media of the message: kept ones, addresses that the server fetches, or bytes in Base64.",
    "items": {
        "type": "object",
        "properties": {
            "sha256": {"type": "string", "pattern": DIGEST},
            "url": {"type": "string", "pattern": "^https?://", "maxLength": 8_192},
            "data": {"type": "string", "minLength": 1},
            "name": _NAME,
        },
        "additionalProperties": False,
        "oneOf": [{"required": [key]} for key in ("sha256", "url", "data")],
    },
}

operation = Operations("media", problems=(404, 503))


def attachments_of(entries: Sequence[dict[str, Any]] | None, held: Mapping[str, bytes]) -> list[Any]:
    """Return the attachments that a request lists, as FlexChat.respond takes them, and take their data from it.

    Args:
        held: Files that came with the request, by their digest.

    Raises:
        ApiError: 422: one is not what a model can be sent.
    """
    return [_attachment(entry, held, f"attachments[{index}]") for index, entry in enumerate(entries or ())]


def _attachment(entry: dict[str, Any], held: Mapping[str, bytes], place: str) -> str | MediaPart | StoredMedia:
    name = entry.get("name")
    if "url" in entry:
        return str(entry["url"])
    digest = entry.get("sha256")
    if digest is not None and digest not in held:
        return StoredMedia(digest, name=name)
    data = held[digest] if digest is not None else decoded(entry.pop("data"), f"{place}.data", status=422)
    return checked_part(data, place, name=name, status=422)


def decoded(text: str | memoryview, place: str, *, start: int = 0, status: int = 400) -> bytes:
    """Return the bytes of a text in Base64. It is decoded in steps: as a whole, it would be copied first.

    Args:
        text: A part of a body is decoded in place, and lost.
        start: Where the Base64 begins.

    Raises:
        ApiError: It is not in Base64.
    """
    try:
        if isinstance(text, memoryview):
            return _decoded_in_place(text[start:])
        if text.find("=", start, len(text) - 2) >= 0:
            raise ValueError("padding before the end")
        # Beside the heap, whose pages the process keeps: there, the bytes then have the place of the text.
        with mmap.mmap(-1, (len(text) - start) // 4 * 3 + 3) as data:
            for at in range(start, len(text), _STEP_CHARS):
                data.write(binascii.a2b_base64(text[at : at + _STEP_CHARS], strict_mode=True))
            del text
            return data[: data.tell()]
    except ValueError:
        raise ApiError(status, f"{place}: this is not Base64", kind="request", param=place) from None


def _decoded_in_place(text: memoryview) -> bytes:
    size = 0
    for at in range(0, len(text), _STEP_CHARS):
        if size < at // 4 * 3:
            raise ValueError("padding before the end")
        data = binascii.a2b_base64(text[at : at + _STEP_CHARS], strict_mode=True)
        text[size : size + len(data)] = data
        size += len(data)
    return bytes(text[:size])


def checked_part(
    data: bytes, place: str, *, name: str | None = None, declared: str = "", status: int = 400
) -> MediaPart:
    """Return bytes as a part of a message, its type detected.

    Raises:
        ApiError: They are not what a model can be sent.
    """
    try:
        return attached_part(data, name=name, declared=declared)
    except ValueError as error:
        raise ApiError(status, f"{place}: {error}", kind="request", param=place) from None


async def keep_result(chat: FlexChat, result: ToolResult, tenant: str) -> bool:
    """Keep the media of a result that no turn has, for a day; return whether they are kept.

    Raises:
        StorageError: They cannot be kept.
    """
    store = media_store(chat)
    if store is None:
        return False
    try:
        for part in result.media:
            await store.add(part.data or b"", tenant=tenant)
    except MediaQuotaError:
        return False
    return True


async def _receive(upload: Upload) -> dict[str, Any]:
    async with upload.serving.chat() as chat:
        if media_store(chat) is None:
            raise ApiError(404, NOT_KEPT, kind="no-media")
        most = chat.config.media.max_bytes
    if upload.length is not None and upload.length > most:
        raise too_large("the file", most)
    received = await receive_file(upload, upload.pieces, declared=upload.content_type)
    part = received.part
    return {"sha256": received.sha256, "bytes": received.size, "mime_type": part.mime_type, "kind": part.kind}


@operation(
    "POST",
    "/api/media",
    uploads={"application/octet-stream": _receive, "*/*": _receive},
    answers={201: record({"sha256": str, "bytes": int, "mime_type": str, "kind": str})},
    problems=(404, 408, 413, 422, 503),
)
async def save_media(call: Call) -> Reply:
    """Keep a file, which is the body, for messages to refer to; after a day without one, it is deleted."""
    place = {"location": f"{call.base}/api/media/{call.body['sha256']}"}
    return Json(call.body, status=201, headers=place)


@operation("GET", "/api/media/{sha256}", media=("application/octet-stream",))
async def show_media(call: Call) -> Reply:
    """Return the bytes of a file that a message has, or a tool returned."""
    sha256 = call.path["sha256"]
    if not re.fullmatch(DIGEST, sha256):
        raise UnknownMediaError(sha256)
    pieces = _pieces(call, sha256)
    first = await anext(pieces, b"")
    mime_type = detect_type(first) or "application/octet-stream"
    headers = {
        "etag": f'"{sha256}"',
        "cache-control": "private, no-cache",
        "content-security-policy": "default-src 'none'; sandbox",
    }
    if mime_type not in SHOWN and not mime_type.startswith("audio/"):
        headers["content-disposition"] = "attachment"
    return Bytes(first, pieces, mime_type, headers)


async def _pieces(call: Call, sha256: str) -> AsyncGenerator[bytes, None]:
    async with call.serving.chat() as chat:
        store = media_store(chat)
        if store is None:
            raise ApiError(404, NOT_KEPT, kind="no-media")
        async with aclosing(store.pieces(sha256, tenant=call.tenant)) as pieces:
            async for piece in pieces:
                yield piece
