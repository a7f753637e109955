"""A store of media in memory, for tests of a server whose conversations' store has none."""

import asyncio
import hashlib

from flexchat import UnknownMediaError
from flexchat.store import MediaQuotaError


class MediaInMemory:
    """Keeps each tenant's bytes by their digest, and counts how much it holds while pieces arrive."""

    def __init__(self, quota=None):
        self.kept = {}
        self.quota = quota

    async def add(self, data, *, tenant, max_bytes=None):
        pieces, size = [], 0
        async for piece in data:
            await asyncio.sleep(0)
            size += len(piece)
            if max_bytes is not None and size > max_bytes:
                raise MediaQuotaError(f"more than {max_bytes:,} bytes")
            pieces.append(piece)
        whole = b"".join(pieces)
        used = sum(len(each) for (owner, _), each in self.kept.items() if owner == tenant)
        if self.quota is not None and used + size > self.quota:
            raise MediaQuotaError(f"the media of {tenant} would have more than {self.quota:,} bytes")
        digest = hashlib.sha256(whole).hexdigest()
        self.kept[tenant, digest] = whole
        return digest

    async def read(self, sha256, *, tenant):
        try:
            return self.kept[tenant, sha256]
        except KeyError:
            raise UnknownMediaError(sha256) from None

    async def pieces(self, sha256, *, tenant):
        data = await self.read(sha256, tenant=tenant)
        for at in range(0, len(data), 65_536):
            yield data[at : at + 65_536]
