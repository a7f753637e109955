"""The parts of a message's content in OpenAI's APIs, Chat Completions and Responses, as a text and media.

Source: platform.openai.com/docs/api-reference/chat/create ("content") and …/responses/create ("input").
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from flexchat import FlexChat, MediaPart, UnknownMediaError
from flexchat.plugin import FetchError, FetchRequest

from ..problems import ApiError
from ..uploads import MAX_FILES, MAX_FORM_BYTES, media_store
from .media import checked_part, decoded

FETCH_S = 30.0
"""How long all addresses of a request may take to be fetched."""

_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_DATA_URL = re.compile(r"data:([^,;]*)((?:;[^,;]*)*);base64,", re.IGNORECASE)
_READ = "text, image_url, input_audio and file"


@attrs.frozen
class Content:
    """What a message contains."""

    text: str
    media: tuple[MediaPart, ...]


def unread_part(content: Any, place: str) -> str | None:
    """Return the sentence that refuses the first part of a kind that is not read; None if there is none."""
    for index, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, dict) and kind not in [*KINDS]:  # it may be a list
            return f"{place}[{index}]: this server reads {_READ} parts, not {kind!r:.40}"
    return None


KINDS = frozenset({*_TEXTS, "image_url", "input_image", "input_audio", "file", "input_file"})
"""The types of parts that are read."""

MEDIA = KINDS - _TEXTS.keys()


class ContentReader:
    """Reads the contents of one request's messages. Its state: how much media they may still have.

    Args:
        chat: Its fetcher gets the content of addresses, and its store of media that of file ids, which are digests.
    """

    def __init__(self, chat: FlexChat, tenant: str) -> None:
        self._chat, self._tenant = chat, tenant
        self._left, self._bytes_left, self._seconds_left = MAX_FILES, MAX_FORM_BYTES, FETCH_S

    async def read(self, content: str | Sequence[Mapping[str, Any]], place: str) -> Content:
        """Return a content's text, its parts joined without a separator, and its media.

        Args:
            place: Of the content, for errors: "messages[0].content".

        Raises:
            ApiError: 400: a part cannot be read; it names the part.
            StorageError: The store failed.
        """
        if isinstance(content, str):
            return Content(content, ())
        if unread := unread_part(content, place):
            raise refused(*unread.split(": ", 1))
        texts, media = list[str](), list[MediaPart]()
        for index, part in enumerate(content):
            at = f"{place}[{index}]"
            if key := _TEXTS.get(part["type"]):
                texts.append(_text(part.get(key), f"{at}.{key}"))
            else:
                media.append(await self._medium(part, at))
        return Content("".join(texts), tuple(media))

    async def _medium(self, part: Mapping[str, Any], place: str) -> MediaPart:
        self._left -= 1
        if self._left < 0:
            raise refused(place, f"a request has at most {MAX_FILES} images, sounds and files")
        kind = part["type"]
        place = f"{place}.{kind}" if kind in part else place
        own = part.get(kind, part)
        if kind in ("image_url", "input_image"):
            own = part.get("image_url")
            own = {"url": own} if isinstance(own, str) else {"file_id": part.get("file_id"), **(own or {})}
        if not isinstance(own, Mapping):
            raise refused(place, "this is an object with the content of the part")
        own = {**own}
        # The request holds the text no longer: it is let go of once it is decoded, before its bytes are copied.
        for holder in (part.get(kind), part):
            if isinstance(holder, dict):
                holder.clear()
        name = own.get("filename")
        if kind == "input_audio":
            declared = f"audio/{_text(own.get('format'), f'{place}.format')}"
            data = decoded(_text(own.pop("data", None), f"{place}.data"), f"{place}.data")
        else:
            data, declared = await self._content(own, place)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise refused(place, f"the images, sounds and files of a request have more than {MAX_FORM_BYTES:,} bytes")
        checked = checked_part(data, place, name=name if isinstance(name, str) else None, declared=declared)
        if kind in ("image_url", "input_image") and checked.kind != "image":
            raise refused(place, f"this is {checked.mime_type}, not an image")
        return checked

    async def _content(self, own: dict[str, Any], place: str) -> tuple[bytes, str]:
        """Return the bytes of an image or a file, taking a text in Base64 out, and the type that is declared."""
        for key in ("url", "file_url", "file_data", "file_id"):
            value = own.get(key)
            if value is None:
                continue
            at = f"{place}.{key}"
            value = _text(value, at)
            if key == "file_id":
                return await self._read_stored(value, at), ""
            match = _DATA_URL.match(value)
            if match or key == "file_data":
                start, declared = (match.end(), match[1]) if match else (0, "")
                del value, match
                return decoded(own.pop(key), at, start=start), declared
            return await self._fetch(value, at), ""
        raise refused(place, "it has neither a URL nor data")

    async def _read_stored(self, sha256: str, place: str) -> bytes:
        store = media_store(self._chat)
        try:
            if store is None:
                raise UnknownMediaError(sha256)
            return await store.read(sha256, tenant=self._tenant)
        except UnknownMediaError:
            text = "there is no such file: the id of a file is the sha256 that POST /api/media returns"
            raise refused(place, text) from None

    async def _fetch(self, url: str, place: str) -> bytes:
        if not url.lower().startswith(("http://", "https://")):
            raise refused(place, "this is neither an http(s) address nor a data: URL in Base64")
        fetcher, most, started = (
            self._chat.fetcher,
            self._chat.config.media.max_bytes,
            asyncio.get_running_loop().time(),
        )
        if fetcher is None:
            raise refused(place, "no installed plugin fetches addresses: send the content as a data: URL")
        try:
            request = FetchRequest(url=url.partition("#")[0])
            answer = await fetcher.fetch(request, timeout_s=max(self._seconds_left, 0.001), max_bytes=most)
        except FetchError as error:
            raise refused(place, str(error)) from None
        finally:
            self._seconds_left -= asyncio.get_running_loop().time() - started
        if not 200 <= answer.status < 300:
            raise refused(place, f"the server of this address answered with status {answer.status}")
        return answer.body


def refused(place: str, text: str) -> ApiError:
    """Return the problem of a part or a message, in the form of OpenAI's API."""
    return ApiError(400, f"{place}: {text}", kind="request", param=place, code=None)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise refused(place, f"a text was expected, not {'null' if value is None else type(value).__name__}")
    return value
