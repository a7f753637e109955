"""Bodies that are read while they arrive, and never held as a whole: files, and forms with files."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Collection
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import attrs
from flexchat.host import attached_part
from flexchat.store import MediaQuotaError
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from .checking import read_json
from .operations import Upload
from .problems import ApiError

if TYPE_CHECKING:
    from flexchat import FlexChat, MediaPart
    from flexchat.store import MediaStore

HEAD_BYTES = 64 * 1024
"""Of a file, with which its type is detected."""

MAX_FILES = 100
MAX_FIELDS = 50
MAX_FIELD_BYTES = 1024 * 1024
"""Of all fields of a form that are not files, together."""

MAX_FORM_BYTES = 64 * 1024 * 1024
"""Of a form with its files; that of each file is media.max_bytes."""

FILE_NAME = r"^[^/\\\x00-\x1f\x7f]{1,200}$"


def media_store(chat: FlexChat) -> MediaStore | None:
    """Return the store that keeps media; None if none does."""
    return None if chat.conversations is None else chat.conversations.media


@attrs.frozen(kw_only=True)
class Received:
    """A file that has arrived: the digest of its bytes, how many they are, and what their beginning shows."""

    sha256: str
    size: int
    part: MediaPart


async def receive_file(
    upload: Upload, pieces: AsyncIterable[bytes], *, what: str = "the file", declared: str = "", name: str = ""
) -> Received:
    """Pass a file on to the store of media while it arrives; without a store, hold it.

    Args:
        what: For errors: which file it is.
        declared: Its media type, as its sender gives it.

    Raises:
        ApiError: 413: it is too large; 422: it is not what a model can be sent.
        FlexChatError: It cannot be stored.
    """
    async with upload.serving.chat() as chat:
        store, most = media_store(chat), chat.config.media.max_bytes
        reading = _Reading(pieces, what=what, declared=declared, name=name, most=most)
        if store is None:
            gathered = io.BytesIO()
            async for piece in reading:
                gathered.write(piece)
            data = gathered.getvalue()
            digest = hashlib.sha256(data).hexdigest()
            upload.files[digest] = data
        else:
            try:
                digest = await store.add(reading, tenant=upload.tenant, max_bytes=most)
            except MediaQuotaError as error:
                raise ApiError(413, f"{what}: {error}", kind="media-quota", headers={"connection": "close"}) from None
    return Received(sha256=digest, size=reading.size, part=reading.part)


class _Reading:
    """The pieces of a file, checked as they pass: an error ends the transaction that stores them."""

    def __init__(self, pieces: AsyncIterable[bytes], *, what: str, declared: str, name: str, most: int) -> None:
        self._pieces, self._what, self._declared, self._name, self._most = pieces, what, declared, name, most
        self.size = 0
        self.part: MediaPart

    async def __aiter__(self) -> AsyncIterator[bytes]:
        head, is_known = b"", False
        async for piece in self._pieces:
            self.size += len(piece)
            if self.size > self._most:
                raise too_large(self._what, self._most)
            if not is_known:
                head += piece
                if len(head) < HEAD_BYTES:
                    continue
                self._detect(head)
                piece, is_known = head, True
            yield piece
        if not is_known:
            self._detect(head, is_whole=True)
            yield head

    def _detect(self, head: bytes, *, is_whole: bool = False) -> None:
        if not is_whole:
            head = _whole_characters(head)
        try:
            self.part = attached_part(head, name=self._name or None, declared=self._declared)
        except ValueError as error:
            text = f"{self._what}: {error}"
            raise ApiError(422, text, kind="media-type", headers={"connection": "close"}) from None


def _whole_characters(data: bytes) -> bytes:
    """Return the beginning of a text without a character of UTF-8 that is cut at its end."""
    for cut in range(1, 4):
        if data[-cut] >= 0xC0:
            return data[:-cut]
    return data


def too_large(what: str, most: int) -> ApiError:
    """Return the problem of a file with too many bytes."""
    text = f"{what} has more than {most:,} bytes (media.max_bytes): send a smaller one"
    return ApiError(413, text, headers={"connection": "close"})


async def read_form(upload: Upload, texts: Collection[str]) -> dict[str, Any]:
    """Return the fields of a form, JSON data, and under "attachments" the digests and names of its files.

    Args:
        texts: Fields whose values are texts; those of others are JSON.

    Raises:
        ApiError: 400: it is no form, or broken off; 413, 422: a file cannot be accepted.
        FlexChatError: A file cannot be stored.

    Source: RFC 7578.
    """
    boundary = parse_options_header(upload.content_type)[1].get(b"boundary", b"")
    if not re.fullmatch(rb"[0-9A-Za-z'()+_,./:=? -]{1,70}", boundary):
        raise ApiError(400, "the form cannot be read: its Content-Type has no valid boundary")
    body, files, rest = dict[str, Any](), list[dict[str, str]](), MAX_FIELD_BYTES
    async with aclosing(_parts(upload.pieces, boundary)) as events:
        async for part in events:
            assert isinstance(part, _Part)
            if part.file_name is not None:
                if len(files) == MAX_FILES:
                    raise _refused(f"a message has at most {MAX_FILES} attachments", 413)
                what = f"attachments[{len(files)}]"
                if part.file_name and not re.fullmatch(FILE_NAME, part.file_name):
                    raise _refused(f"{what}: a file's name has up to 200 characters, no slashes and no controls")
                received = await receive_file(
                    upload, _data(events), what=what, declared=part.media_type, name=part.file_name
                )
                files.append({"sha256": received.sha256} | ({"name": part.file_name} if part.file_name else {}))
                continue
            if part.name in body or len(body) == MAX_FIELDS:
                why = "given more than once" if part.name in body else f"one of more than {MAX_FIELDS}"
                raise _refused(f"the field {part.name[:80]!r} is {why}")
            value = bytearray()
            async for piece in _data(events):
                value += piece
                rest -= len(piece)
                if rest < 0:
                    raise _refused(f"the fields of the form have more than {MAX_FIELD_BYTES:,} bytes", 413)
            body[part.name] = _field(part.name, bytes(value), is_text=part.name in texts)
    if files:
        body["attachments"] = [*_listed(body.get("attachments")), *files]
    return body


def _listed(attachments: Any) -> list[Any]:
    if not isinstance(attachments, list | None):
        raise _refused("attachments is a list, or files")
    return attachments or []


def _field(name: str, value: bytes, *, is_text: bool) -> Any:
    try:
        return value.decode() if is_text else read_json(value)
    except UnicodeDecodeError:
        raise _refused(f"the field {name[:80]!r} is not UTF-8") from None
    except ApiError as error:
        raise _refused(f"the field {name[:80]!r}: {error.detail}", error.status) from None


def _refused(text: str, status: int = 400) -> ApiError:
    return ApiError(status, text, headers={"connection": "close"})


@attrs.frozen
class _Part:
    """The beginning of a part of a form; file_name is None for a field."""

    name: str
    file_name: str | None
    media_type: str


async def _data(events: AsyncIterator[_Part | bytes | None]) -> AsyncIterator[bytes]:
    """Yield the bytes of the part that has begun."""
    async for event in events:
        if event is None:
            return
        assert isinstance(event, bytes)
        yield event


async def _parts(pieces: AsyncIterable[bytes], boundary: bytes) -> AsyncGenerator[_Part | bytes | None, None]:
    """Yield each part of a form, its bytes, and None after them.

    Raises:
        ApiError: 400: it is not in the format of forms, or ends early; 413: it is too large.
    """
    reader, size = _FormReader(boundary), 0
    async for piece in pieces:
        size += len(piece)
        if size > MAX_FORM_BYTES:
            raise _refused(f"the form has more than {MAX_FORM_BYTES:,} bytes", 413)
        for event in reader.read(piece):
            yield event
    if not reader.is_ended:
        raise _refused("the form ends before its last boundary: a part of it is missing")


class _FormReader:
    """Turns the parser's callbacks into what happened, in order."""

    def __init__(self, boundary: bytes) -> None:
        self._happened: list[_Part | bytes | None] = []
        self._headers: dict[bytes, bytes] = {}
        self._name = self._value = b""
        self.is_ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._headers.clear,
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._begin,
                "on_part_data": lambda data, start, end: self._happened.append(data[start:end]),
                "on_part_end": lambda: self._happened.append(None),
                "on_end": self._end,
            },
        )

    def read(self, piece: bytes) -> list[_Part | bytes | None]:
        """Return what a piece of the form adds.

        Raises:
            ApiError: 400.
        """
        self._happened = []
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise _refused(f"the form cannot be read: {error}") from None
        return self._happened

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name = self._value = b""

    def _begin(self) -> None:
        try:
            disposition = self._headers.get(b"content-disposition", b"").decode("latin-1")
            kind, options = parse_options_header(disposition)
            name, file_name = (options[key].decode() if key in options else None for key in (b"name", b"filename"))
            media_type = self._headers.get(b"content-type", b"").decode("latin-1")
        except UnicodeDecodeError:
            raise _refused("the form cannot be read: a name in it is not UTF-8") from None
        if kind != b"form-data" or not name:
            raise _refused('the form cannot be read: each part has a Content-Disposition "form-data" with a name')
        self._happened.append(_Part(name, file_name, media_type))

    def _end(self) -> None:
        self.is_ended = True
