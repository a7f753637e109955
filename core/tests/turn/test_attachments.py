"""Media of a message: they reach the model, are kept with it, and are refused where their data are something else."""

from __future__ import annotations

import pytest
from flexchat import ChatRequestError, FlexChat, MediaPart, StoredMedia, UnknownMediaError, UserMessage
from flexchat.attachments import AttachmentReader
from flexchat.domain.fetching import Fetched

PNG = MediaPart(kind="image", mime_type="image/png", data=b"\x89PNG\r\n\x1a\n" + b"x" * 20, name="photo.png")
CONFIG = {"llms": {"m": {"provider": "rehearsal"}}, "responses": [{"llm": "m", "model": "any"}]}


async def test_an_attachment_is_part_of_the_message_and_of_the_conversation(tmp_path):
    async with FlexChat.from_config({**CONFIG, "conversations": {"path": str(tmp_path / "c.db")}}) as chat:
        turn = await chat.respond("Look.", attachments=PNG, conversation="c")
        (kept,) = await chat.conversations.turns("c")
    assert turn.response.messages[0] == kept.messages[0] == UserMessage("Look.", media=(PNG,))


async def test_a_message_of_an_attachment_alone():
    async with FlexChat.from_config(CONFIG) as chat:
        turn = await chat.respond("", attachments=[PNG, PNG])
        assert turn.response.messages[0].media == (PNG, PNG)
        with pytest.raises(ChatRequestError, match="the message is empty"):
            await chat.respond("", attachments=[])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "attachment 1: it is empty"),
        (b"GIF89a....", "declared as image/png, but its content is image/gif"),
        (b"\x89PN\x00", r"declared as image/png, but its content begins with 89 50 4e 00 \(\.PN\.\)"),
        (b"hello", "declared as image/png, but its content is text/plain"),
    ],
)
async def test_data_of_another_type_are_refused(data, reason):
    part = MediaPart(kind="image", mime_type="image/png", data=data)
    async with FlexChat.from_config(CONFIG) as chat:
        with pytest.raises(ChatRequestError, match=reason):
            await chat.respond("Look.", attachments=part)


async def sent(attachments, **config):
    """The media of the message that a turn with these attachments keeps."""
    async with FlexChat.from_config({**CONFIG, **config}) as chat:
        turn = await chat.respond("Look.", attachments=attachments)
        return turn.response.messages[0].media


@pytest.mark.parametrize("shape", ["path", "text", "bytes", "file", "part", "undeclared part", "list"])
async def test_a_file_is_attached_in_many_ways(tmp_path, shape):
    path = tmp_path / "photo.png"
    path.write_bytes(PNG.data)
    with path.open("rb") as file:
        attached = {
            "path": path,
            "text": str(path),
            "bytes": bytearray(PNG.data),
            "file": file,
            "part": PNG,
            "undeclared part": MediaPart(
                kind="document", mime_type="application/octet-stream", data=PNG.data, name="../photo.png"
            ),
            "list": iter([path]),
        }[shape]
        (part,) = await sent(attached)
    assert (part.mime_type, part.kind, part.data) == ("image/png", "image", PNG.data)
    assert part.name == {"bytes": None, "part": PNG.name}.get(shape, "photo.png")


@pytest.mark.parametrize("method", ["respond", "stream", "start", "join", "explain", "preview"])
async def test_every_call_reads_attachments_and_reports_a_missing_file(tmp_path, method):
    (tmp_path / "photo.png").write_bytes(PNG.data)
    (tmp_path / "other.pdf").write_bytes(b"%PDF-1.7")

    async def call(path):
        async with FlexChat.from_config(CONFIG) as chat:
            match method:
                case "stream":
                    return [event async for event in chat.stream("Look.", attachments=path)][-1].turn
                case "start":
                    return await chat.start("Look.", attachments=path).result()
                case "join":
                    return await (await chat.join("Look.", attachments=path, idempotency_key="k")).handle.result()
                case _:
                    return await getattr(chat, method)("Look.", attachments=path)

    with pytest.raises(ChatRequestError, match=r"phto\.png.*no such file \(did you mean 'photo\.png'\?\)"):
        await call(tmp_path / "phto.png")
    turn = await call(tmp_path / "photo.png")
    if method not in ("explain", "preview"):
        assert turn.response.messages[0].media[0].data == PNG.data
    if method == "preview":
        assert turn.messages[-1].media[0].data == PNG.data


async def test_a_submitted_turn_keeps_its_attachments(tmp_path):
    (tmp_path / "photo.png").write_bytes(PNG.data)
    async with FlexChat.from_config({**CONFIG, "conversations": {"path": str(tmp_path / "c.db")}}) as chat:
        await chat.submit("Look.", attachments=tmp_path / "photo.png", conversation="c")
        (handle,) = await chat.resume_interrupted()
        turn = await handle.result()
    assert turn.response.messages[0] == UserMessage("Look.", media=(PNG,))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: folder, "this is a folder"),
        (lambda folder: folder / "empty", "it is empty"),
        (lambda folder: folder / "large", r"larger than 1 KiB"),
        (lambda folder: bytes(2000), "has 2,000 bytes, at most 1,024 are allowed"),
        (lambda folder: "a\0b", "NUL"),
        (
            lambda folder: b"PK\x03\x04\xff\xff\xff\xff\xff",
            r"type is unknown, it begins with 50 4b 03 04 ff ff ff ff \(PK",
        ),
        (lambda folder: b"%PDF-1.7\ntrailer <</Encrypt 5 0 R>>", "encrypted: save a copy of it without a password"),
        (lambda folder: [PNG] * 1000, "at most 100 attachments"),
        (lambda folder: 7, "not int"),
        (lambda folder: [None], "not NoneType"),
        (lambda folder: MediaPart(kind="image", mime_type="image/png", url="file:///etc/passwd"), "only http"),
        (lambda folder: "http://127.0.0.1:9/x.png", "127.0.0.1"),
        (lambda folder: StoredMedia("0" * 64), "media are kept nowhere"),
    ],
)
async def test_what_cannot_be_attached_is_an_error_that_names_it(tmp_path, make, reason):
    (tmp_path / "empty").touch()
    (tmp_path / "large").write_bytes(b"x" * 2000)
    with pytest.raises(ChatRequestError, match=reason):
        await sent(make(tmp_path), media={"max_bytes": 1024})


async def test_a_billion_pixels_are_refused_undecoded():
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (31623).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    with pytest.raises(ChatRequestError, match="31,623 × 31,623 pixels"):
        await sent(header + bytes(20_000))


async def test_together_they_may_have_50_million_bytes():
    part = b"x" * 30_000_000
    with pytest.raises(ChatRequestError, match="50,000,000 bytes together"):
        await sent([part, part])


async def test_an_address_is_fetched_by_the_guarded_client():
    seen = []

    class Fetcher:
        async def fetch(self, request, **limits):
            seen.append((request.url, limits["max_bytes"]))
            return Fetched(status=200 if "photo" in request.url else 404, body=PNG.data, url=request.url)

    reader = AttachmentReader(max_bytes=100, fetcher=Fetcher(), store=None, tenant="t")
    address = "https://example.com/a%20b/photo.png#top"
    by_part = MediaPart(kind="image", mime_type="image/png", url="https://example.com/photo.png")
    assert [part.name for part in await reader.read([address, by_part])] == ["photo.png", None]
    with pytest.raises(ChatRequestError, match=r"https://example\.com/x.*status 404"):
        await reader.read(["https://example.com/x"])
    assert seen[0] == ("https://example.com/a%20b/photo.png", 100)


async def test_a_stored_medium_is_read_from_the_tenants_store():
    class Store:
        async def read(self, sha256, *, tenant):
            if tenant != "t":
                raise UnknownMediaError(sha256)
            return PNG.data

    (part,) = await AttachmentReader(max_bytes=100, fetcher=None, store=Store(), tenant="t").read(
        [StoredMedia("0" * 64, "photo.png")]
    )
    assert part == PNG
    with pytest.raises(UnknownMediaError):
        await AttachmentReader(max_bytes=100, fetcher=None, store=Store(), tenant="u").read([StoredMedia("0" * 64)])
