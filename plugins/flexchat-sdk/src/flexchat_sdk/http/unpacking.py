"""Unpacks gzip and deflate while an answer arrives: some proxies pack what was asked for unpacked."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

# A few KiB may contain many MiB.
_STEP_BYTES = 2**18
# The unread rest is copied for each compressed member: with many in one piece, that would take quadratic time.
_SLICE_BYTES = 2**12
_WBITS = 47  # 32 + 15: detects gzip and zlib headers


class Unpacker:
    """Unpacks one answer, piece by piece.

    Attributes:
        is_whole: Whether nothing is missing at the end.
    """

    is_whole = True

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=_WBITS)

    def steps(self, piece: bytes) -> Iterator[bytes]:
        """Yield what a piece contains, in steps of at most 256 KiB.

        Raises:
            zlib.error: The data is damaged.
        """
        for start in range(0, len(piece), _SLICE_BYTES):
            packed = piece[start : start + _SLICE_BYTES]
            step = b""
            # After a full step there may be more, even if all of the input is consumed.
            while packed or len(step) == _STEP_BYTES:
                # There may be several members in a row (RFC 1952, section 2.2): some proxies pack each piece.
                if self._inflate.eof and packed:
                    self._inflate = zlib.decompressobj(wbits=_WBITS)
                step = self._inflate.decompress(packed, _STEP_BYTES)
                packed = self._inflate.unused_data or self._inflate.unconsumed_tail
                yield step
            self.is_whole = self._inflate.eof


def unpacker(encoding: str) -> Unpacker | None:
    """Return the unpacker for a content-encoding; None if nothing is packed.

    Raises:
        ValueError: It is another one. The text is a predicate whose subject is the host.
    """
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return None
    if kind in ("gzip", "x-gzip", "deflate"):
        return Unpacker()
    raise ValueError(f"sent content-encoding {kind[:40]!r}, which was not asked for")
