"""What of a conversation's media a model is shown: within its limits, as text, or described."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from .. import media_process
from ..domain import MediaPart, Message, ToolMessage, UserMessage
from ..domain.history import MIN_REMEMBERED, keep_walk, take_walk
from ..domain.media import TEXT, describe_media, image_size, kind_of, unshown, with_accepted_media
from ..errors import MediaLimitError
from ..media_process import MediaProcessError
from ..plugin.contracts import MediaLimits

if TYPE_CHECKING:
    from ..llms.llm import LLM
    from .active import ActiveTurn

T = TypeVar("T")

PDF = "application/pdf"
_PAGE = re.compile(rb"/Type\s*/Page\b")
_KINDS = {"image": "images", "audio": "sounds", "video": "videos", "document": "documents"}


def has_media(messages: tuple[Message, ...]) -> bool:
    """Return whether a message of a user or a tool has media."""
    is_long = len(messages) >= MIN_REMEMBERED
    count, found = take_walk(messages, "has media") if is_long else (0, False)
    for each in messages[count:]:
        if (type(each) is UserMessage or type(each) is ToolMessage) and each.media:
            found = True
    if is_long:
        keep_walk(messages, "has media", found)
    return bool(found)


async def shown_messages(turn: ActiveTurn, messages: tuple[Message, ...], llm: LLM, model: str) -> tuple[Message, ...]:
    """Return the messages with the media that a model can be sent.

    Texts, and PDFs where the model reads none, become part of the message's text. What it cannot be sent of earlier
    messages, or of tools' results, is described. The same messages are returned each time, so that their memo is found
    again.

    Raises:
        MediaLimitError: The turn's own message has what the model cannot be sent.
    """
    limits_of: Callable[[str], MediaLimits] | None = getattr(llm.provider, "media_limits", None)
    limits = None if limits_of is None else limits_of(model)
    if limits is not None and limits.many_images is not None:
        media = [each.media for each in messages if type(each) is UserMessage or type(each) is ToolMessage]
        if sum(part.kind == "image" for parts in media for part in parts) > limits.many_images:
            limits = attrs.evolve(limits, max_side=limits.max_side_of_many)
    takes = getattr(llm.provider, "takes_in_results", None)
    showing = _Showing(turn, limits, f"{llm.name}/{model}", None if takes is None else lambda part: takes(model, part))
    results = list(messages)
    # The newest first: where there are too many, the oldest are left out.
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if type(message) is UserMessage and message.media:
            results[at] = await showing.of_user(message, is_own=any(message is own for own in turn.begins_with))
        elif type(message) is ToolMessage and message.media:
            results[at] = with_accepted_media(message, showing.fits_result)
    return tuple(results)


@attrs.define
class _Showing:
    """The media of one request so far: their number and bytes."""

    turn: ActiveTurn
    limits: MediaLimits | None
    model: str
    takes: Callable[[MediaPart], bool] | None
    count: int = 0
    size: int = 0

    def fits_result(self, part: MediaPart) -> bool:
        if self.takes is None or part.data is None or not self.takes(part):
            return False
        return self._problem(part) is None and self._room(part) is None

    async def of_user(self, message: UserMessage, *, is_own: bool) -> UserMessage:
        texts, media = [message.content] if message.content else [], []
        for number, part in enumerate(message.media):
            piece = await self._part(message.memo, number, part, is_own=is_own)
            texts.append(piece) if isinstance(piece, str) else media.append(piece)
        if media == [*message.media]:
            return message
        key = ("shown", tuple(texts), tuple(map(id, media)))
        reduced: UserMessage | None = message.memo.get(key)
        if reduced is None:
            reduced = message.memo[key] = UserMessage("\n\n".join(texts), media=tuple(media))
        return reduced

    async def _part(self, memo: dict[Any, Any], number: int, part: MediaPart, *, is_own: bool) -> MediaPart | str:
        """Return what a model is sent of a part: the part, a smaller one, or a text."""
        if part.mime_type == TEXT and part.data is not None:
            return _as_text(part, part.data.decode("utf-8", "replace").removeprefix("\ufeff"))
        if self.limits is None or part.data is None:
            return part
        try:
            if part.mime_type == PDF and PDF not in self.limits.types:
                text = await _remembered(memo, ("text", number), media_process.pdf_text, part.data)
                self._warn(f"{describe_media(part)} was sent to {self.model} as text: it reads no PDFs")
                return _as_text(part, text)
            problem = self._problem(part)
            if problem is None and part.mime_type == PDF and self.limits.max_pages is not None:
                problem = await self._too_long(memo, number, part.data, self.limits.max_pages)
            if problem is not None and self.turn.parts.shrinks_media and self._can_shrink(part):
                part, problem = await self._shrunk(memo, number, part), None
            problem = problem or self._room(part)
            if problem is not None and self.limits.source:
                problem = f"{problem} ({self.limits.source})"
        except MediaProcessError as error:
            problem = str(error)
        if problem is None:
            return part
        if is_own:
            raise MediaLimitError(f"{describe_media(part)} cannot be sent to {self.model}: {problem}")
        return unshown(part)

    def _problem(self, part: MediaPart) -> str | None:
        """Return the limit that a part exceeds on its own."""
        limits, size = self.limits, len(part.data or b"")
        if limits is None:
            return None
        if part.mime_type not in limits.types:
            kinds = dict.fromkeys(_KINDS[kind_of(each)] for each in limits.types)
            return f"it reads {', '.join(limits.types)}" if kinds else "it reads text only"
        most = limits.types[part.mime_type]
        if most is not None and size > most:
            return f"one of type {part.mime_type} may have {most:,} bytes"
        sides = image_size(part.data or b"")
        if sides is None:
            return None
        side = limits.max_side
        if side is not None and max(sides) > side:
            return f"it has {sides[0]:,} × {sides[1]:,} pixels, the longer side may have {side:,}"
        if limits.max_pixels is not None and sides[0] * sides[1] > limits.max_pixels:
            return f"it has {sides[0]:,} × {sides[1]:,} pixels, {limits.max_pixels:,} in all are allowed"
        return None

    def _room(self, part: MediaPart) -> str | None:
        """Count a part in, or return the limit of the request that it exceeds."""
        limits, size = self.limits, len(part.data or b"")
        if limits is None:
            return None
        if limits.max_count is not None and self.count >= limits.max_count:
            return f"a request may have {limits.max_count} media"
        if limits.max_total_bytes is not None and self.size + size > limits.max_total_bytes:
            return f"the media of a request may have {limits.max_total_bytes:,} bytes together"
        self.count, self.size = self.count + 1, self.size + size
        return None

    async def _too_long(self, memo: dict[Any, Any], number: int, data: bytes, most: int) -> str | None:
        # Without object streams each page is written out, and nothing need be unpacked to count them.
        if (b"/ObjStm" not in data and len(_PAGE.findall(data)) <= most) or not media_process.reads_pdfs():
            return None
        pages = await _remembered(memo, ("pages", number), media_process.count_pages, data)
        return f"it has {pages:,} pages, {most:,} are allowed" if pages > most else None

    def _can_shrink(self, part: MediaPart) -> bool:
        assert self.limits is not None
        return part.kind == "image" and any(kind_of(each) == "image" for each in self.limits.types)

    async def _shrunk(self, memo: dict[Any, Any], number: int, part: MediaPart) -> MediaPart:
        assert self.limits is not None
        limits = self.limits
        bounds = [size for each, size in limits.types.items() if kind_of(each) == "image" and size is not None]
        options = {"max_bytes": min(bounds, default=None), "max_side": limits.max_side, "max_pixels": limits.max_pixels}
        key = ("shrunk", number, *options.values())
        smaller: MediaPart | None = memo.get(key)
        if smaller is None:
            data, mime_type = await media_process.shrunk_image(part.data or b"", **options)
            smaller = memo[key] = attrs.evolve(part, data=data, mime_type=mime_type)
        self._warn(f"{describe_media(part)} was made smaller for {self.model}: {len(smaller.data or b''):,} bytes")
        return smaller

    def _warn(self, text: str) -> None:
        if text not in self.turn.warnings:
            self.turn.warnings.append(text)


async def _remembered(
    memo: dict[Any, Any], key: tuple[str, int], work: Callable[[bytes], Awaitable[T]], data: bytes
) -> T:
    """Work on data once for each message, which lives as long as its conversation is in memory."""
    if key not in memo:
        memo[key] = await work(data)
    value: T = memo[key]
    return value


def _as_text(part: MediaPart, text: str) -> str:
    return f'<file name="{part.name or "attachment"}">\n{text}\n</file>'
