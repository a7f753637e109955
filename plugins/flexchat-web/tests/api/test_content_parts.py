"""Images, sounds and files in the messages of OpenAI's clients."""

import base64
import hashlib

import openai
import pytest
from flexchat import UserMessage
from flexchat.plugin import Fetched, FetchError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + b"\x00\x00\x00\x01\x00\x00\x00\x01" + bytes(200)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(100)
PDF = b"%PDF-1.7\n" + bytes(50)
KEPT = hashlib.sha256(PDF).hexdigest()


def base64_of(data):
    return base64.b64encode(data).decode()


def image(url):
    return {"type": "image_url", "image_url": {"url": url}}


def data_url(data, mime_type="image/png"):
    return f"data:{mime_type};base64,{base64_of(data)}"


TEXT = {"type": "text", "text": "Look: "}
SOUND = {"type": "input_audio", "input_audio": {"data": base64_of(WAV), "format": "wav"}}
PAPER = {"type": "file", "file": {"filename": "paper.pdf", "file_data": data_url(PDF, "application/pdf")}}


class Web:
    """Answers for the addresses of a test."""

    def __init__(self):
        self.asked = []

    async def fetch(self, request, *, timeout_s, max_bytes, **_):
        self.asked.append(request.url)
        if "inside" in request.url:
            raise FetchError("10.0.0.1 is not an address of the public network")
        status = 404 if "gone" in request.url else 200
        return Fetched(status=status, body=PNG)


@pytest.fixture
async def asking(told, monkeypatch):
    """A client of OpenAI's, the model and the web behind the server: client, model, web."""
    from flexchat import FlexChat

    web = Web()
    monkeypatch.setattr(FlexChat, "fetcher", web)
    model = told.says("Nice.")
    transport = await told.client()
    await transport.post("/api/media", content=PDF)
    return (
        openai.AsyncOpenAI(api_key="-", base_url="http://127.0.0.1:8000/v1", http_client=transport, max_retries=0),
        model,
        web,
    )


async def ask(client, *messages, **more):
    return await client.chat.completions.create(model="flexchat", messages=list(messages), **more)


async def test_all_parts_reach_the_model_in_their_order(asking):
    client, model, web = asking
    parts = [TEXT, image(data_url(PNG)), image("https://a.example/x.png#top"), SOUND, PAPER]
    parts.append({"type": "file", "file": {"file_id": KEPT}})
    answer = await ask(client, {"role": "user", "content": parts})
    assert answer.choices[0].message.content == "Nice."
    question = model.requests[-1].messages[-1]
    assert question.content == "Look: "
    found = [(part.mime_type, part.data, part.name) for part in question.media]
    picture, paper = ("image/png", PNG, None), ("application/pdf", PDF)
    assert found == [picture, picture, ("audio/wav", WAV, None), (*paper, "paper.pdf"), (*paper, None)]
    assert web.asked == ["https://a.example/x.png"]


async def test_earlier_messages_have_their_media_as_well(asking):
    client, model, _ = asking
    earlier = {"role": "user", "content": [image(data_url(PNG))]}
    await ask(client, earlier, {"role": "assistant", "content": "A dot."}, {"role": "user", "content": "Which?"})
    users = [each for each in model.requests[-1].messages if isinstance(each, UserMessage)]
    assert [[part.data for part in each.media] for each in users] == [[PNG], []]


async def test_a_message_that_is_only_an_image_is_answered(asking):
    client, model, _ = asking
    await ask(client, {"role": "user", "content": [image(data_url(PNG))]}, stream=False)
    assert model.requests[-1].messages[-1].media[0].data == PNG


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "video_url", "video_url": {"url": "x"}}, "parts, not 'video_url'"),
        (image("ftp://a.example/x"), "neither an http(s) address nor a data: URL"),
        (image("/etc/passwd"), "neither an http(s) address nor a data: URL"),
        (image("data:image/png,plain"), "neither an http(s) address nor a data: URL"),
        (image("data:image/png;base64,!"), "this is not Base64"),
        (image(data_url(PDF)), "declared as image/png, but its content is application/pdf"),
        (image(data_url(PDF, "application/pdf")), "this is application/pdf, not an image"),
        (image(data_url(b"")), "it is empty"),
        (image("http://inside.example/"), "is not an address of the public network"),
        (image("http://gone.example/"), "answered with status 404"),
        ({"type": "input_audio", "input_audio": {"data": base64_of(PNG), "format": "wav"}}, "is image/png"),
        ({"type": "file", "file": {"file_id": "file-123"}}, "there is no such file"),
        ({"type": "file", "file": {"file_id": "0" * 64}}, "there is no such file"),
        ({"type": "file", "file": {}}, "it has neither a URL nor data"),
    ],
)
async def test_a_part_that_cannot_be_read_is_named(asking, part, words):
    client, model, _ = asking
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(client, {"role": "user", "content": [TEXT, part]})
    assert words in caught.value.body["message"]
    assert caught.value.param.startswith("messages[0].content")
    assert not model.requests


async def test_other_roles_have_no_media_and_their_number_is_limited(asking):
    client, _, _ = asking
    for role in ("system", "assistant"):
        with pytest.raises(openai.BadRequestError, match="only messages of the user"):
            await ask(client, {"role": role, "content": [image(data_url(PNG))]}, {"role": "user", "content": "x"})
    with pytest.raises(openai.BadRequestError, match="at most 100 images"):
        await ask(client, {"role": "user", "content": [image(data_url(PNG))] * 101})


async def test_a_repeated_request_with_an_image_is_the_same_turn(asking):
    client, model, _ = asking
    message = {"role": "user", "content": [image(data_url(PNG))]}
    await ask(client, message)
    await ask(client, message, extra_headers={"x-stainless-retry-count": "1"})
    assert len(model.requests) == 1
    await ask(client, {"role": "user", "content": [image(data_url(PNG + b"x"))]})
    assert len(model.requests) == 2
