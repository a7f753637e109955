"""Files of messages: sent once, referred to by digest, or along with the message; and what is refused."""

import base64
import contextlib
import hashlib
import sqlite3

import pytest

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + b"\x00\x00\x00\x01\x00\x00\x00\x01" + bytes(200)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(100)
PDF = b"%PDF-1.7\n" + bytes(50)
RED, BLUE = "red-token-0123456789", "blue-token-0123456789"


def digest(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def number_kept(tmp_path):
    """Count the media in the store."""

    def count():
        with contextlib.closing(sqlite3.connect(tmp_path / "conversations.db")) as database:
            return database.execute("SELECT count(*) FROM media").fetchone()[0]

    return count


def sent(model):
    """The media of the last message that the model was sent."""
    return [(part.mime_type, part.data, part.name) for part in model.requests[-1].messages[-1].media]


async def test_a_file_is_kept_once_and_returned_by_its_digest(told, number_kept):
    client = await told.client()
    for _ in range(2):
        answer = await client.post("/api/media", content=PNG, headers={"content-type": "image/png"})
        assert answer.status_code == 201
        expected = {"sha256": digest(PNG), "bytes": len(PNG), "mime_type": "image/png", "kind": "image"}
        assert answer.json() == expected
        assert answer.headers["location"] == f"/api/media/{digest(PNG)}"
    assert number_kept() == 1

    shown = await client.get(f"/api/media/{digest(PNG)}")
    assert (shown.status_code, shown.content, shown.headers["content-type"]) == (200, PNG, "image/png")
    head = await client.head(f"/api/media/{digest(PNG)}")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", shown.headers["etag"])
    known = await client.get(f"/api/media/{digest(PNG)}", headers={"if-none-match": shown.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize(
    ("data", "mime_type", "is_inline"),
    [
        (PNG, "image/png", True),
        (b"GIF89a\x01\x00\x01\x00" + bytes(20), "image/gif", True),
        (WAV, "audio/wav", True),
        (PDF, "application/pdf", False),
        (b"<html><script>alert(1)</script></html>", "text/plain", False),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "text/plain", False),
    ],
)
async def test_only_pixels_and_sounds_are_shown_within_a_page(told, data, mime_type, is_inline):
    """What could be a program is downloaded, under a type that runs nothing."""
    client = await told.client()
    assert (await client.post("/api/media", content=data)).json()["mime_type"] == mime_type
    shown = await client.get(f"/api/media/{digest(data)}")
    assert shown.content == data
    assert shown.headers["content-type"].partition(";")[0] == mime_type
    assert ("content-disposition" not in shown.headers) == is_inline
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert shown.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert shown.headers["cache-control"] == "private, no-cache"


async def test_media_of_another_tenant_do_not_exist(told, client_of):
    app = told.app(tokens={RED: "red", BLUE: "blue"})
    clients = [client_of(app, headers={"authorization": f"Bearer {token}"}) for token in (RED, BLUE)]
    red, blue = clients
    await red.post("/api/media", content=PNG)
    foreign, unknown = [await blue.get(f"/api/media/{digest(data)}") for data in (PNG, PDF)]
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.text.replace(digest(PNG), digest(PDF)) == unknown.text
    assert (await blue.head(f"/api/media/{digest(PNG)}")).status_code == 404
    etag = {"if-none-match": f'"{digest(PNG)}"'}
    assert (await blue.get(f"/api/media/{digest(PNG)}", headers=etag)).status_code == 404
    body = {"prompt": "Look", "attachments": [{"sha256": digest(PNG)}]}
    refused = await blue.post("/chat/api", json=body)
    assert 400 <= refused.status_code < 500
    for client in clients:
        await client.aclose()


@pytest.mark.parametrize("name", ["x", "0" * 63, "F" * 64, "..", "0" * 65])
async def test_what_is_no_digest_is_unknown(told, name):
    client = await told.client()
    assert (await client.get(f"/api/media/{name}")).status_code == 404


@pytest.mark.parametrize(
    ("data", "declared", "status", "words"),
    [
        (b"", "image/png", 422, "it is empty"),
        (bytes(100), "", 422, "its type is unknown"),
        (PDF, "image/png", 422, "it is declared as image/png, but its content is application/pdf"),
        (PNG + bytes(2000), "image/png", 413, "more than 1,024 bytes"),
    ],
)
async def test_a_file_that_no_model_can_be_sent_is_refused(told, number_kept, data, declared, status, words):
    told.tables["media"] = {"max_bytes": 1024}
    client = await told.client()

    async def pieces():
        for at in range(0, len(data), 100):
            yield data[at : at + 100]

    for content in (data, pieces()):
        answer = await client.post("/api/media", content=content, headers={"content-type": declared})
        assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text
    assert number_kept() == 0


async def test_the_quota_of_a_tenant_is_kept(told):
    told.tables["media"] = {"quota_bytes": 1000}
    client = await told.client()
    assert (await client.post("/api/media", content=PNG)).status_code == 201
    refused = await client.post("/api/media", content=b"a text " * 200)
    assert (refused.status_code, refused.json()["type"]) == (413, "urn:flexchat:problem:media-quota")


async def test_a_text_whose_character_is_cut_where_its_type_is_detected_is_a_text(told):
    client = await told.client()
    for shift in range(4):
        data = b"a" * shift + "€".encode() * 40_000
        assert (await client.post("/api/media", content=data)).json()["mime_type"] == "text/plain"


async def test_a_message_refers_to_kept_media_or_brings_them_in_base64(told):
    model = told.says("A picture.")
    client = await told.client()
    await client.post("/api/media", content=PNG)
    attachments = [
        {"sha256": digest(PNG), "name": "photo.png"},
        {"data": base64.b64encode(PDF).decode(), "name": "paper.pdf"},
    ]
    answer = await client.post("/chat/api", json={"prompt": "Look", "attachments": attachments})
    assert answer.status_code == 200, answer.text
    assert sent(model) == [("image/png", PNG, "photo.png"), ("application/pdf", PDF, "paper.pdf")]


async def test_a_form_brings_fields_and_files(told):
    """Texts as they are, other fields as JSON; the message may be empty."""
    model = told.says("A picture.")
    client = await told.client()
    files = [("a", ("photo.png", PNG, "image/png")), ("a", ("Übung.wav", WAV, "audio/wav"))]
    fields = {"conversation": "c1", "stream": "false", "options": '{"temperature": 0}'}
    answer = await client.post("/chat/api", data={"prompt": "Look", **fields}, files=files)
    assert answer.status_code == 200, answer.text
    assert sent(model) == [("image/png", PNG, "photo.png"), ("audio/wav", WAV, "Übung.wav")]
    assert model.requests[-1].options.temperature == 0
    assert (await client.get("/api/conversations/c1")).json()["turns"][0]["messages"][0]["content"] == "Look"

    answer = await client.post("/chat/api", files=files)
    assert answer.status_code == 200, answer.text
    assert model.requests[-1].messages[-1].content == ""


async def test_without_a_store_a_form_still_brings_files(told):
    del told.tables["conversations"]
    model = told.says("A picture.")
    client = await told.client()
    answer = await client.post("/chat/api", data={"prompt": "Look"}, files={"f": ("p.png", PNG, "image/png")})
    assert answer.status_code == 200, answer.text
    assert sent(model) == [("image/png", PNG, "p.png")]
    brought = {"prompt": "Look", "attachments": [{"data": base64.b64encode(PNG).decode(), "name": "p.png"}]}
    assert (await client.post("/chat/api", json=brought)).status_code == 200
    assert sent(model) == [("image/png", PNG, "p.png")]


async def test_without_a_store_kept_files_are_refused_in_a_sentence(told):
    del told.tables["conversations"]
    client = await told.client()
    for answer in (await client.post("/api/media", content=PNG), await client.get(f"/api/media/{digest(PNG)}")):
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:flexchat:problem:no-media")
        assert answer.json()["detail"].startswith("media are not kept; add a [conversations] table")
    named = {"prompt": "Look", "attachments": [{"sha256": digest(PNG)}]}
    refused = await client.post("/chat/api", json=named)
    assert refused.status_code == 422
    assert "media are kept nowhere: add a table 'conversations'" in refused.json()["detail"]


def form(*parts, boundary="b", end="--b--\r\n"):
    text = "".join(f"--{boundary}\r\n{head}\r\n\r\n{body}\r\n" for head, body in parts)
    return (text + end).encode()


FIELD = 'Content-Disposition: form-data; name="prompt"'
FILE = 'Content-Disposition: form-data; name="f"; filename="{}"'


@pytest.mark.parametrize(
    ("body", "kind", "status", "words"),
    [
        (form((FIELD, "Hi")), "multipart/form-data", 400, "no valid boundary"),
        (form((FIELD, "Hi")), "multipart/form-data; boundary=" + "x" * 100, 400, "no valid boundary"),
        (form((FIELD, "Hi"), end=""), None, 400, "ends before its last boundary"),
        (b"", None, 400, "ends before its last boundary"),
        (b"--b\r\nno header", None, 400, "the form"),
        (b"no form at all", None, 400, "the form cannot be read"),
        (form(("Content-Disposition: attachment", "Hi")), None, 400, 'a Content-Disposition "form-data" with a name'),
        (form(("X: " + "y" * 9000, "Hi")), None, 400, "the form cannot be read"),
        (form(("\r\n".join(["X: y"] * 100), "Hi")), None, 400, "the form cannot be read"),
        (form((FIELD, "Hi"), (FIELD, "Ho")), None, 400, "'prompt' is given more than once"),
        (form((FIELD, "Hi"), ('Content-Disposition: form-data; name="stream"', "yes")), None, 400, "'stream'"),
        (form((FIELD, "Hi"), ('Content-Disposition: form-data; name="colour"', "1")), None, 400, "colour"),
        (form((FIELD, "x" * 2_000_000)), None, 413, "the fields of the form have more than"),
        (form((FILE.format("../../etc/passwd"), "text")), None, 400, "attachments[0]: a file's name"),
        (form((FILE.format("..\\a"), "text")), None, 400, "attachments[0]: a file's name"),
        (form((FILE.format("a\x07b"), "text")), None, 400, "attachments[0]: a file's name"),
        (form((FILE.format("a" * 300), "text")), None, 400, "attachments[0]: a file's name"),
        (form((FIELD, "Hi"), (FILE.format("a.txt"), "")), None, 422, "attachments[0]: it is empty"),
        (form((FIELD, "Hi"), *[(FILE.format("a.txt"), "text")] * 1000), None, 413, "at most 100 attachments"),
        (form((FIELD, " ")), None, 400, "prompt is required"),
        (form((FILE.format("a.txt") + "\r\nContent-Type: image/png", "text")), None, 422, "declared as image/png"),
    ],
)
async def test_a_form_that_is_broken_is_refused_in_a_sentence(told, body, kind, status, words):
    client = await told.client()
    headers = {"content-type": kind or "multipart/form-data; boundary=b"}
    answer = await client.post("/chat/api", content=body, headers=headers)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text
    assert "\n" not in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "attachment",
    [
        {},
        {"sha256": "x"},
        {"sha256": "0" * 64, "data": "aGk="},
        {"url": "file:///etc/passwd"},
        {"url": "/etc/passwd"},
        {"data": "aGk=", "name": "../x"},
        {"data": "aGk=", "name": "a\nb"},
        {"data": "not Base64"},
        {"data": base64.b64encode(bytes(10)).decode()},
        {"sha256": "0" * 64},
        {"url": "http://127.0.0.1:9/x"},
        {"path": "/etc/passwd"},
    ],
)
async def test_attachments_that_cannot_be_used_are_refused(told, attachment):
    client = await told.client()
    answer = await client.post("/chat/api", json={"prompt": "Look", "attachments": [attachment]})
    assert 400 <= answer.status_code < 500, answer.text
    many = await client.post("/chat/api", json={"prompt": "Look", "attachments": [{"data": "aGk="}] * 1000})
    assert many.status_code == 400


async def test_a_repeated_form_with_a_key_is_the_same_turn(told):
    model = told.says("One.", "Two.", repeat=False)
    client = await told.client()

    async def ask(data):
        files = {"f": ("a.txt", data, "text/plain")}
        headers = {"idempotency-key": "k1"}
        fields = {"prompt": "Look", "conversation": "c1"}
        return await client.post("/chat/api", data=fields, files=files, headers=headers)

    first, again, other = await ask(b"one"), await ask(b"one"), await ask(b"two")
    assert (first.json()["response"], again.json()["response"]) == ("One.", "One.")
    assert again.headers["idempotent-replayed"] == "true"
    assert other.status_code == 422
    assert len(model.requests) == 1
