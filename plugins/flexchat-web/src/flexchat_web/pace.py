"""Long answers, made a piece at a time, so that short requests do not wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .operations import Json, Reply, Written
from .sending import encoded

if TYPE_CHECKING:
    from flexchat import Turn

    from .serving import Serving

AT_ONCE = 20
"""Items of a long list that are made or encoded before other requests get their turn."""

MAX_CHARACTERS = 64 * 1024
"""Of a long text, encoded before other requests get their turn."""

T = TypeVar("T")


class LongAnswers(asyncio.Lock):
    """Held while a long answer is made: many at once would together take the event loop from all others."""

    @classmethod
    def of(cls, serving: Serving) -> LongAnswers:
        """Return a server's instance."""
        return serving.shared(cls, cls)


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield items, with a turn for other requests after each AT_ONCE."""
    for number, item in enumerate(items, 1):
        yield item
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


async def encoded_in_pieces(value: Any) -> bytes:
    """Encode data like ``encoded``, yielding to other requests within long texts and lists."""
    return b"".join([piece async for piece in _pieces(value)])


async def _pieces(value: Any) -> AsyncIterator[bytes]:
    if isinstance(value, Mapping):
        opening = b"{"
        for key, item in value.items():
            yield opening + encoded(key) + b":"
            opening = b","
            async for piece in _pieces(item):
                yield piece
        yield b"}" if value else b"{}"
        return
    step = MAX_CHARACTERS if isinstance(value, str) else AT_ONCE
    if not isinstance(value, str | list | tuple) or len(value) <= step:
        yield encoded(value)
        return
    opening, between, closing = (b'"', b"", b'"') if isinstance(value, str) else (b"[", b",", b"]")
    for start in range(0, len(value), step):
        yield opening + encoded(value[start : start + step])[1:-1]
        opening = between
        await asyncio.sleep(0)
    yield closing


async def turn_reply(serving: Serving, turn: Turn, data: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
    """Make the answer that *data* of a turn is; encoded in pieces if the turn's text is long."""
    if len(turn.content) <= MAX_CHARACTERS:
        return Json(data, headers=headers)
    async with LongAnswers.of(serving):
        return Written(await encoded_in_pieces(data), headers=headers)
