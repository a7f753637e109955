"""Attachments of a message: files, addresses and bytes, read off the event loop and checked."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import attrs

from .domain.fetching import Fetcher, FetchRequest
from .domain.media import StoredMedia, attached_part, clean_name
from .domain.messages import MediaPart
from .domain.text import scrub
from .errors import ChatRequestError, FetchError, PathError, did_you_mean
from .files import located, read_at_most, read_file
from .plugin.contracts import MediaStore

Attachment = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | MediaPart | StoredMedia
"""A path, an http(s) address, the bytes themselves, an open file, a part, or a medium that a store keeps."""

MAX_ATTACHMENTS = 100
MAX_TOTAL_BYTES = 50_000_000  # of all attachments of a message
FETCH_TIMEOUT_S = 30.0
_MAX_NEIGHBOURS = 1_000  # files of a folder that are compared with a name that is not there

_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


def listed(attachments: Any) -> tuple[Any, ...]:
    """Return what a caller attaches, unread. Raises ChatRequestError: It cannot be attached, or is too much."""
    if _is_one(attachments):
        return (attachments,)
    try:
        items = tuple(itertools.islice(attachments, MAX_ATTACHMENTS + 1))
    except TypeError:
        items = (attachments,)
    if len(items) > MAX_ATTACHMENTS:
        raise ChatRequestError(f"a message has at most {MAX_ATTACHMENTS} attachments")
    for item in items:
        if not _is_one(item):
            raise ChatRequestError(
                f"an attachment is a path, an address, bytes, an open file, a MediaPart or a StoredMedia, not "
                f"{type(item).__name__}"
            )
    return items


def _is_one(item: Any) -> bool:
    kinds = (str, os.PathLike, bytes, bytearray, memoryview, MediaPart, StoredMedia)
    return isinstance(item, kinds) or callable(getattr(item, "read", None))


@attrs.frozen(kw_only=True)
class AttachmentReader:
    """Reads attachments.

    Args:
        max_bytes: Of one attachment.
        fetcher: The guarded client for addresses; None if no plugin offers one.
        store: Where the tenant's media are; None if they are kept nowhere.
    """

    max_bytes: int
    fetcher: Fetcher | None
    store: MediaStore | None
    tenant: str

    async def read(self, attachments: Iterable[Any]) -> tuple[MediaPart, ...]:
        """Return attachments with their bytes, in their order.

        Raises:
            ChatRequestError: One cannot be read, or is none that a model could be sent; the text names it.
            UnknownMediaError: The store has no such medium.
            StorageError: The store failed.
        """
        parts: list[MediaPart] = []
        rest = MAX_TOTAL_BYTES
        for number, item in enumerate(attachments, start=1):
            # One after another: the first that is too much ends it, before the others take memory.
            part = await self._read(item, number)
            rest -= len(part.data or b"")
            if rest < 0:
                raise ChatRequestError(f"the attachments of a message may have {MAX_TOTAL_BYTES:,} bytes together")
            parts.append(part)
        return tuple(parts)

    async def _read(self, item: Any, number: int) -> MediaPart:
        what, name, declared = _place(item, number), None, ""
        try:
            if isinstance(item, StoredMedia):
                data, name = await self._stored(item), item.name
            elif isinstance(item, MediaPart):
                name, declared = item.name, item.mime_type
                data = item.data if item.data is not None else (await self._fetch(item.url or ""))[0]
            elif isinstance(item, bytes | bytearray | memoryview):
                data = bytes(item)
            elif isinstance(item, str) and _ADDRESS.match(item):
                data, address = await self._fetch(item)
                name = unquote(urlsplit(address).path)
            elif isinstance(item, str | os.PathLike):
                path = located(os.fspath(item))
                name, data = path.name, await asyncio.to_thread(read_file, path, most=self.max_bytes)
            else:
                name = item.name if isinstance(getattr(item, "name", None), str) else None
                data = await asyncio.to_thread(read_at_most, item, self.max_bytes)
            if len(data) > self.max_bytes:
                raise ValueError(
                    f"it has {len(data):,} bytes, at most {self.max_bytes:,} are allowed (media.max_bytes)"
                )
            return attached_part(data, name=name, declared=declared)
        except (ValueError, PathError, FetchError, OSError) as error:
            reason = error.reason if isinstance(error, PathError) else getattr(error, "strerror", None) or str(error)
            hint = _near(item) if isinstance(error, FileNotFoundError) else ""
            raise ChatRequestError(f"{what}: {reason}{hint}") from None

    async def _fetch(self, address: str) -> tuple[bytes, str]:
        if not _ADDRESS.match(address):
            raise ValueError("only http:// and https:// addresses are fetched")
        if self.fetcher is None:
            raise ValueError("no installed plugin fetches addresses: attach its content")
        answer = await self.fetcher.fetch(
            FetchRequest(url=address.partition("#")[0]), timeout_s=FETCH_TIMEOUT_S, max_bytes=self.max_bytes
        )
        if not 200 <= answer.status < 300:
            raise ValueError(f"its server answered with status {answer.status}")
        return answer.body, answer.url or address

    async def _stored(self, item: StoredMedia) -> bytes:
        if self.store is None:
            raise ValueError("media are kept nowhere: add a table 'conversations' to the config")
        return await self.store.read(item.sha256, tenant=self.tenant)


def _place(item: Any, number: int) -> str:
    if isinstance(item, str | os.PathLike):
        return f"the attachment {scrub(os.fspath(item))!r:.200}"
    name = clean_name(item.name) if isinstance(getattr(item, "name", None), str) else None
    return f"the attachment {name!r}" if name else f"attachment {number}"


def _near(item: Any) -> str:
    path = Path(os.fspath(item)).expanduser()
    try:
        with os.scandir(path.parent) as entries:
            return did_you_mean(path.name, [entry.name for entry in itertools.islice(entries, _MAX_NEIGHBOURS)])
    except OSError:
        return ""
