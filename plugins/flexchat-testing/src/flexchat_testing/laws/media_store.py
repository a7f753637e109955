"""The laws of a conversation store that keeps the bytes of media apart from the messages."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import attrs
from flexchat import MediaPart, UserMessage
from flexchat.store import (
    ConversationTurn,
    JournalEntry,
    JournalingStore,
    KeepingMedia,
    MediaQuotaError,
    StorageError,
    TurnEnd,
    UnknownConversationError,
    UnknownMediaError,
)

from .kept_samples import LIVES
from .law import Conformance, expect, law, opened_in, refused, require
from .turn_journal import turn as begun_turn

MB = 1024 * 1024
LARGE = bytes(range(256)) * (9 * MB // 512) + b"the end"  # 4.5 MB, which is no multiple of a piece


class MediaKeeper(JournalingStore, KeepingMedia, Protocol):
    """A store with a journal and media."""


class MediaConformance(Conformance):
    """The laws of every store of media: bytes once per tenant, for as long as a turn has them.

    Define make_store and ``supports``.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "durable": "make_store with a closed store's folder opens the same media again",
        "shared": "two stores with one folder may be open at once, as in two processes, and see each other's media",
        "damage": "the class writes damage, which changes the bytes of a medium behind the store's back",
    }

    def make_store(self, folder: Path) -> MediaKeeper:
        """Return a store with media; an empty one for every new folder. Same folder, same media."""
        raise NotImplementedError(f"{type(self).__name__} must write make_store")

    async def damage(self, store: MediaKeeper, sha256: str) -> None:
        """Change the bytes of a medium behind the store's back."""
        raise NotImplementedError(f"{type(self).__name__} must write damage")

    def opened(self, folder: Path | None = None) -> AbstractAsyncContextManager[MediaKeeper]:
        """Open a store for the length of a law: an empty one, or that of a folder."""
        return opened_in(self.make_store, folder)

    @law(draw=lambda: _sizes(), examples=10)
    async def test_bytes_come_back(self, store: MediaKeeper, sizes: list[int]) -> None:
        """However they are split, whole and in pieces, under their SHA-256 digest."""
        pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
        data = b"".join(pieces)
        digest = await store.media.add(_arriving(*pieces), tenant="t")
        expect(digest, hashlib.sha256(data).hexdigest(), "the digest")
        expect(await store.media.add(data, tenant="t"), digest, "the digest of the same bytes")
        require(await store.media.read(digest, tenant="t") == data, "the bytes came back changed")
        require(await _in_pieces(store, digest) == data, "the pieces are not the bytes")

    @law()
    async def test_large_media_are_read_in_pieces(self, store: MediaKeeper) -> None:
        """None of which is as large as the medium."""
        digest = await store.media.add(LARGE, tenant="t")
        pieces = [piece async for piece in store.media.pieces(digest, tenant="t")]
        require(b"".join(pieces) == LARGE, "the pieces are not the bytes")
        require(max(map(len, pieces)) <= MB, f"the largest piece has {max(map(len, pieces))} bytes")

    @law()
    async def test_tenants_do_not_see_each_other(self, store: MediaKeeper) -> None:
        """Another tenant's digest is unknown, as is one that nobody has, and what is no digest."""
        digest = await store.media.add(b"secret", tenant="t")
        for sha256, tenant in [(digest, "u"), ("0" * 64, "t"), ("", "t"), ("../\0", "t"), (digest.upper(), "t")]:
            await refused(store.media.read(sha256, tenant=tenant), UnknownMediaError, f"{sha256!r} of {tenant}")
            await refused(_in_pieces(store, sha256, tenant), UnknownMediaError, f"pieces of {sha256!r} of {tenant}")
        for name in ("", "a\0", "\ud800"):
            await refused(store.media.add(b"x", tenant=name), StorageError, f"the tenant {name!r}")

    @law()
    async def test_a_turn_is_read_with_its_media(self, store: MediaKeeper) -> None:
        """The bytes of one digest are one object, in the turns and in the history; the same of two tenants are kept
        for each."""
        for tenant in ("t", "u"):
            for number in ("a", "b"):
                await store.append("c", _turn(number, b"photo" * 1000), tenant=tenant)
        await store.delete("c", tenant="u")
        turns = await store.turns("c", tenant="t")
        require([*turns] == [_turn("a", b"photo" * 1000), _turn("b", b"photo" * 1000)], "the turns came back changed")
        objects = {id(turn.messages[0].media[0].data) for turn in turns if isinstance(turn.messages[0], UserMessage)}
        expect(len(objects), 1, "the objects with the bytes of one digest")

    @law()
    async def test_media_go_with_the_last_turn(self, store: MediaKeeper) -> None:
        """That has them, stored or journaled; not with an earlier one."""
        digest = _digest(b"photo")
        for conversation in ("c", "d"):
            await store.append(conversation, _turn("a", b"photo"), tenant="t")
        await store.journal.write(begun_turn("b1", conversation="e"), [_step(1, b"photo")], lease_s=LIVES)
        for conversation in ("c", "d"):
            require(await _is_there(store, digest), f"it is gone before {conversation} is deleted")
            await store.delete(conversation, tenant="t")
        require(await _is_there(store, digest), "it is gone, and a journaled turn has it")
        await _end(store, "b1", "e", _turn("b1", b"photo"))
        require(await _is_there(store, digest), "it is gone with the end of a turn that has it")
        await store.delete("e", tenant="t")
        require(not await _is_there(store, digest), "it is there, and no turn has it")

    @law()
    async def test_a_step_has_its_media(self, store: MediaKeeper) -> None:
        """They are there once the step is; a turn that is forgotten takes them with it."""
        await store.journal.write(begun_turn("a1"), [_step(1, b"photo")], lease_s=LIVES)
        require(await store.journal.media.read(_digest(b"photo"), tenant="t") == b"photo", "the bytes of a step")  # type: ignore[attr-defined]
        await store.append("c", _turn("a1"), tenant="t", end=TurnEnd(turn=begun_turn("a1"), entries=(), state="done"))
        await store.journal.forget(older_than_s=-60, events_older_than_s=-60)
        require(not await _is_there(store, _digest(b"photo")), "it is there, and its only turn is forgotten")

    @law()
    async def test_a_turn_that_is_refused_leaves_no_media(self, store: MediaKeeper) -> None:
        """They are written with it, in one transaction."""
        await store.append("c", _turn("a"), tenant="t")
        after = attrs.evolve(_step(1, b"photo"), data={**_step(1, b"photo").data, "after": "a"})
        await store.journal.write(begun_turn("b1"), [after], lease_s=LIVES)
        await store.delete("c", tenant="t")
        await refused(_end(store, "b1", "c", _turn("b1", b"photo")), UnknownConversationError, "a deleted conversation")
        require(not await _is_there(store, _digest(b"photo")), "the media of a turn that is added nowhere are there")

    @law()
    async def test_uploads_are_kept_for_a_day(self, store: MediaKeeper) -> None:
        """One that no turn has yet is not forgotten before, and one that a turn has goes with that."""
        unused, used = [await store.media.add(data, tenant="t") for data in (b"unused", b"used")]
        await store.append("c", _turn("a", b"used"), tenant="t")
        await store.journal.forget(older_than_s=-60, events_older_than_s=-60)
        require(await _is_there(store, unused), "an upload was forgotten within a day")
        await store.delete("c", tenant="t")
        require(not await _is_there(store, used), "an upload is there after its only turn was deleted")

    @law()
    async def test_a_quota_is_kept(self, store: MediaKeeper) -> None:
        """Of each tenant; a medium that the tenant has costs nothing, and what is refused leaves nothing."""
        store.media.quota_bytes = 1000
        first = await store.media.add(b"a" * 600, tenant="t")
        for data in (b"b" * 401, _arriving(b"b" * 300, b"b" * 101)):
            await refused(store.media.add(data, tenant="t"), MediaQuotaError, "more than the quota")
        await store.media.add(b"b" * 400, tenant="t")
        expect(await store.media.add(b"a" * 600, tenant="t"), first, "a medium that is there")
        expect(await store.media.add(_arriving(b"a" * 600), tenant="t"), first, "a medium that is there, in pieces")
        await store.media.add(b"a" * 600, tenant="u")
        await store.append("c", _turn("a", b"c" * 500), tenant="t")  # a turn that has begun is not lost
        require(await _is_there(store, _digest(b"c" * 500)), "a turn's medium was left out")

    @law()
    async def test_a_limit_is_kept(self, store: MediaKeeper) -> None:
        """Of one medium, and a source that breaks off leaves nothing."""
        for data in (b"12345", _arriving(b"123", b"45")):
            await refused(store.media.add(data, tenant="t", max_bytes=4), MediaQuotaError, "more than max_bytes")
        await store.media.add(b"1234", tenant="t", max_bytes=4)
        await refused(store.media.add(_breaking(b"123"), tenant="t"), ZeroDivisionError, "a source that breaks off")
        require(not await _is_there(store, _digest(b"123")), "what a broken source has sent is there")

    @law("shared")
    async def test_of_two_writers_one_keeps_the_bytes(self, folder: Path) -> None:
        """Both succeed, and so do those who begin and delete turns with a medium at the same time."""
        async with self.opened(folder) as first, self.opened(folder) as second:
            digest = _digest(LARGE)
            added = [first.media.add(LARGE, tenant="t"), second.media.add(_arriving(LARGE), tenant="t")]
            expect([*await asyncio.gather(*added)], [digest, digest], "the digests")
            require(await second.media.read(digest, tenant="t") == LARGE, "the bytes of two writers")
            for number in range(20):
                await first.append("old", _turn("a", b"shared"), tenant="t")
                await asyncio.gather(
                    first.delete("old", tenant="t"), second.append(f"c{number}", _turn("a", b"shared"), tenant="t")
                )
                turns = await first.turns(f"c{number}", tenant="t")
                require([*turns] == [_turn("a", b"shared")], "a turn lost its medium to a deletion")
                await asyncio.gather(
                    first.delete(f"c{number}", tenant="t"), second.append("old", _turn("a", b"shared"), tenant="t")
                )
                await second.delete("old", tenant="t")
                require(not await _is_there(first, _digest(b"shared")), "it is there, and no turn has it")

    @law("shared")
    async def test_two_writers_keep_the_quota(self, folder: Path) -> None:
        """Of many uploads at once, as many as fit are kept."""
        async with self.opened(folder) as first, self.opened(folder) as second:
            first.media.quota_bytes = second.media.quota_bytes = 1000
            uploads = [each.media.add(bytes([n]) * 300, tenant="t") for n in range(4) for each in (first, second)]
            uploads += [each.media.add(_arriving(bytes([n]) * 300), tenant="t") for n in (5, 6) for each in (first,)]
            results = await asyncio.gather(*uploads, return_exceptions=True)
            digests = {result for result in results if isinstance(result, str)}
            others = [result for result in results if not isinstance(result, str | MediaQuotaError)]
            expect((len(digests), others), (3, []), "the digests of 300 bytes each that a quota of 1,000 admits")

    @law("durable")
    async def test_media_survive_closing(self, folder: Path) -> None:
        """They are there when the store is opened again."""
        async with self.opened(folder) as store:
            digest = await store.media.add(LARGE, tenant="t")
            await store.append("c", _turn("a", b"photo"), tenant="t")
        async with self.opened(folder) as store:
            require(await store.media.read(digest, tenant="t") == LARGE, "the upload")
            require([*await store.turns("c", tenant="t")] == [_turn("a", b"photo")], "the turn")

    @law("damage")
    async def test_damaged_media_are_reported(self, store: MediaKeeper) -> None:
        """Bytes that are not those of their digest are never returned whole."""
        digest = await store.media.add(LARGE, tenant="t")
        await self.damage(store, digest)
        await refused(store.media.read(digest, tenant="t"), StorageError, "damaged bytes")
        await refused(_in_pieces(store, digest), StorageError, "damaged bytes in pieces")

    @law()
    async def test_there_is_nothing_to_migrate(self, store: MediaKeeper) -> None:
        """In a store whose turns were written with their media apart; steps come to an end."""
        for number in range(3):
            await store.append("c", _turn(f"{number}", b"photo"), tenant="t")
        for _ in range(10):
            if not await store.media.migrate():
                break
        else:
            require(False, "migrate finds more after 10 steps over 3 turns")
        expect(len(await store.turns("c", tenant="t")), 3, "the turns")


def _sizes() -> Mapping[str, Any]:
    from hypothesis import strategies as st

    return {"sizes": st.lists(st.integers(0, 700_000), max_size=5)}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _part(data: bytes) -> MediaPart:
    return MediaPart(kind="image", mime_type="image/png", data=data, name="a.png")


def _turn(id: str, *media: bytes) -> ConversationTurn:
    message = UserMessage("Look.", media=tuple(map(_part, media)))
    return ConversationTurn(id=id, messages=(message,), at="2026-01-02T03:04:05+00:00")


def _step(number: int, data: bytes) -> JournalEntry:
    request = {"attachments": [{"type": "media", "sha256": _digest(data), "bytes": len(data)}]}
    return JournalEntry(number=number, kind="started", data={"request": request}, media={_digest(data): data})


async def _end(store: MediaKeeper, id: str, conversation: str, turn: ConversationTurn) -> None:
    end = TurnEnd(turn=begun_turn(id, conversation=conversation), entries=(), state="done")
    await store.append(conversation, turn, tenant="t", end=end)


async def _arriving(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


async def _breaking(piece: bytes) -> AsyncIterator[bytes]:
    yield piece
    raise ZeroDivisionError("the source broke off")


async def _in_pieces(store: MediaKeeper, sha256: str, tenant: str = "t") -> bytes:
    return b"".join([piece async for piece in store.media.pieces(sha256, tenant=tenant)])


async def _is_there(store: MediaKeeper, sha256: str) -> bool:
    try:
        await store.media.read(sha256, tenant="t")
    except UnknownMediaError:
        return False
    return True
