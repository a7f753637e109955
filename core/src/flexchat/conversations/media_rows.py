"""What the stores of media share: pieces of bytes, their checks, and the reasons for refusals."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence

from ..domain.conversation import move_media_in_json
from ..errors import MediaQuotaError, StorageError, UnknownMediaError
from .effect_rows import time_text

PIECE_BYTES = 512 * 1024

HELD_S = 24 * 3600.0
"""How long an upload is kept that no turn has."""


def held_until() -> str:
    """Return the time until which a medium that is kept now is kept without a turn."""
    return time_text(time.time() + HELD_S)


def split(data: bytes) -> Sequence[memoryview]:
    """Split bytes into pieces, without copying them; one piece if there are none."""
    view = memoryview(data)
    return [view[at : at + PIECE_BYTES] for at in range(0, len(view) or 1, PIECE_BYTES)]


async def in_pieces(data: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield bytes in pieces of one size, whatever arrives; the last one is smaller, and may be empty."""
    gathered = bytearray()
    async for arrived in data:
        gathered += arrived
        while len(gathered) >= PIECE_BYTES:
            yield bytes(gathered[:PIECE_BYTES])
            del gathered[:PIECE_BYTES]
    yield bytes(gathered)


class Joining:
    """The pieces of a medium while they are read: its bytes are in memory once, and one piece more."""

    def __init__(self, sha256: str) -> None:
        self._sha256, self._digest, self._data = sha256, hashlib.sha256(), io.BytesIO()

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        self._digest.update(piece)
        self._data.write(piece)

    def whole(self) -> bytes:
        """Return the bytes. Raises StorageError if they are not those of the digest."""
        if self._digest.hexdigest() != self._sha256:
            raise _damaged(self._sha256)
        return self._data.getvalue()


async def read_pieces(sha256: str, read_piece: Callable[[int], Awaitable[bytes | None]]) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a medium; read_piece returns None after the last. See MediaStore.pieces.

    The last one is yielded only once all are known to be right: a reader of damaged bytes sees that the end is missing.
    """
    digest, last, place = hashlib.sha256(), None, 0
    while (piece := await read_piece(place)) is not None:
        if last is not None:
            yield last
        last, place = piece, place + 1
        digest.update(piece)
    if last is None:
        raise UnknownMediaError(sha256)
    if digest.hexdigest() != sha256:
        raise _damaged(sha256)
    yield last


def _damaged(sha256: str) -> StorageError:
    return StorageError(f"media: the bytes of '{sha256:.64}' are damaged: restore a copy of the database")


def check_size(size: int, max_bytes: int | None) -> None:
    """Raise MediaQuotaError for a medium that is too large."""
    if max_bytes is not None and size > max_bytes:
        raise MediaQuotaError(f"the medium has more than {max_bytes:,} bytes")


def check_quota(size: int, used: int, quota_bytes: int) -> None:
    """Raise MediaQuotaError for a medium beside which a tenant's others leave too little room."""
    if used + size > quota_bytes:
        raise MediaQuotaError(
            f"the medium has {size:,} bytes, and of the {quota_bytes:,} of media.quota_bytes {used:,} are in use: "
            "delete conversations with media"
        )


def move_media(texts: Sequence[str | None]) -> tuple[list[str | None], dict[str, bytes]]:
    """Return a stored turn's texts with their media apart, and those; none of a turn that cannot be read."""
    media: dict[str, bytes] = {}
    try:
        return [move_media_in_json(text, media) for text in texts], media
    except ValueError:
        return [*texts], {}
