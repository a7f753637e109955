"""Long answers, made a piece at a time, so that short requests do not wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .sending import encoded

if TYPE_CHECKING:
    from .serving import Serving

AT_ONCE = 50
"""Items of a long list that are made or encoded before other requests get their turn."""

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


async def encoded_in_pieces(data: Mapping[str, Any]) -> bytes:
    """Encode data like ``encoded``, yielding to other requests within long lists that are values of the data."""
    members = [encoded(key) + b":" + await _value(value) for key, value in data.items()]
    return b"{" + b",".join(members) + b"}"


async def _value(value: Any) -> bytes:
    if not isinstance(value, list | tuple) or len(value) <= AT_ONCE:
        return encoded(value)
    starts = range(0, len(value), AT_ONCE)
    pieces = []
    for start in starts:
        pieces.append(encoded(value[start : start + AT_ONCE])[1:-1])
        await asyncio.sleep(0)
    return b"[" + b",".join(pieces) + b"]"
