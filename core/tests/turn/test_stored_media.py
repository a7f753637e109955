"""Media of kept conversations are stored once: turns, journals and keys have their digests."""

import asyncio
import sqlite3
from contextlib import closing

import attrs
import pytest
from flexchat import (
    ChatRequestError,
    FlexChat,
    InterruptedTurnError,
    KeyReusedError,
    MediaPart,
    MediaQuotaError,
    StorageError,
    StoredMedia,
    SyncFlexChat,
    UnknownMediaError,
    WithMedia,
    tool,
)
from flexchat_testing import ScriptedProvider, calls, says

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
PART = MediaPart(kind="image", mime_type="image/png", data=PNG, name="photo.png")


@tool
def draw() -> WithMedia:
    """Draw a picture."""
    return WithMedia({"sha256": "0" * 64, "data": {"type": "media", "sha256": PART.sha256}}, PART)


class Seeing(ScriptedProvider):
    """A model that is shown the media of results."""

    def takes_in_results(self, model, part):
        return True


def chat_with(path, *script, tools=(), **config):
    provider = Seeing(script)
    chat = FlexChat.from_config(
        {
            "llms": {},
            "conversations": {"path": str(path)},
            "responses": [{"llm": "m", "model": "any", "tools": {"enabled": True}}],
            **config,
        },
        tools=tools,
        providers={"m": provider},
    )
    return chat, provider


def rows(path, query):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def media_sent(request):
    return [part for message in request.messages for part in getattr(message, "media", ())]


async def test_a_picture_that_is_shown_in_every_turn_is_stored_once(tmp_path):
    path = tmp_path / "c.db"
    chat, provider = chat_with(path, *[says("I see.") for _ in range(5)])
    async with chat:
        for number in range(5):
            await chat.respond(f"Look {number}.", attachments=PART, conversation="c")
    assert rows(path, "SELECT count(*), sum(length(data)) FROM media_pieces") == [(1, len(PNG))]
    assert media_sent(provider.requests[-1]) == [PART] * 5
    earlier = media_sent(provider.requests[-1])[:-1]
    assert len({id(part.data) for part in earlier}) == 1
    texts = rows(path, "SELECT turn || history FROM turns UNION ALL SELECT data FROM journal_entries")
    assert not [text for (text,) in texts if '"data":"' in text]


async def test_a_turn_that_was_killed_sends_the_same_bytes_when_it_is_resumed(tmp_path):
    """Of its message, and of a tool that has run."""
    path = tmp_path / "c.db"
    is_asked = asyncio.Event()

    async def hang(messages, options):
        is_asked.set()
        await asyncio.Event().wait()

    chat, _ = chat_with(path, calls(("draw", {})), hang, tools=[draw])
    async with chat:
        handle = chat.start("Look.", attachments=PART, conversation="c")
        await is_asked.wait()
        handle.interrupt()
        with pytest.raises(InterruptedTurnError):
            await handle.result()
    chat, provider = chat_with(path, says("Nice."), tools=[draw])
    async with chat:
        (turn,) = await chat.turns(states=["interrupted"])
        resumed = await chat.resume(turn.id)
    assert media_sent(provider.requests[0]) == [PART, PART]
    assert resumed.response.content == "Nice."
    assert resumed.response.tool_calls[0].result.media == (PART,)


async def test_an_accepted_turn_has_its_media(tmp_path):
    chat, provider = chat_with(tmp_path / "c.db", says("Nice."))
    async with chat:
        id = await chat.submit("Look.", attachments=PART, conversation="c")
        assert (await chat.read_media(PART.sha256)) == PNG
        await chat.resume(id)
    assert media_sent(provider.requests[0]) == [PART]


async def test_requests_with_a_key_are_compared_by_their_media(tmp_path):
    chat, provider = chat_with(tmp_path / "c.db", says("One."))
    async with chat:
        request = {"conversation": "c", "idempotency_key": "k"}
        await chat.respond("Look.", attachments=PART, **request)
        assert (await chat.respond("Look.", attachments=attrs.evolve(PART), **request)).is_repeat
        with pytest.raises(KeyReusedError):
            await chat.respond("Look.", attachments=PNG + b"more", **request)
    assert len(provider.requests) == 1


async def test_what_exceeds_the_quota_ends_the_turn_before_a_model_is_asked(tmp_path):
    path = tmp_path / "c.db"
    chat, provider = chat_with(path, says("Yes."), media={"quota_bytes": len(PNG) - 1})
    async with chat:
        with pytest.raises(MediaQuotaError, match="quota_bytes"):
            await chat.respond("Look.", attachments=PART, conversation="c")
        with pytest.raises(MediaQuotaError, match="quota_bytes"):
            await chat.submit("Look.", attachments=PART, conversation="c")
        assert await chat.turns() == []
        await chat.respond("Hello.", conversation="c")
    assert len(provider.requests) == 1
    assert rows(path, "SELECT count(*) FROM media") == [(0,)]


async def test_a_stored_medium_is_attached_and_deleted_with_its_turn(tmp_path):
    chat, provider = chat_with(tmp_path / "c.db", says("I see."), says("No."))
    async with chat:
        stored = await chat.save_media(PNG, tenant="a", name="photo.png")
        assert stored == StoredMedia(PART.sha256, name="photo.png")
        await chat.respond("Look.", attachments=stored, conversation="c", tenant="a")
        assert media_sent(provider.requests[0]) == [PART]
        with pytest.raises(UnknownMediaError):
            await chat.respond("Look.", attachments=stored, conversation="c", tenant="b")
        with pytest.raises(UnknownMediaError):
            await chat.read_media(stored.sha256, tenant="b")
        await chat.conversations.of("a").delete("c")
        with pytest.raises(UnknownMediaError):
            await chat.read_media(stored.sha256, tenant="a")


async def test_each_look_for_interrupted_turns_moves_some_old_media(tmp_path, caplog):
    """Until there are none left, or the store fails: then turns are resumed nevertheless."""
    chat, _ = chat_with(tmp_path / "c.db")
    async with chat:
        steps = [True, True, StorageError("the disk is full")]

        async def migrate():
            step = steps.pop(0)
            if isinstance(step, Exception):
                raise step
            return step

        chat.media.migrate = migrate
        for _ in range(5):
            assert await chat.resume_interrupted() == []
        assert (steps, caplog.text.count("the disk is full")) == ([], 1)


async def test_media_are_kept_only_with_conversations():
    async with FlexChat.from_model("rehearsal/any") as chat:
        with pytest.raises(ChatRequestError, match="no media are kept"):
            await chat.save_media(PNG)


def test_media_without_an_event_loop(tmp_path):
    with SyncFlexChat(chat_with(tmp_path / "c.db")[0]) as chat:
        assert chat.read_media(chat.save_media(PNG).sha256) == PNG
