"""What five services are sent of generated media, against the rules of their documents, stated here a second time."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re

import httpx
import pytest
from flexchat import AssistantMessage, FlexChat, MediaPart, ToolMessage, UserMessage
from flexchat.domain import ToolCall
from flexchat.errors import MediaLimitError, ProviderError
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.provider import GeminiProvider
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.provider import OllamaProvider
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MODELS = {
    "anthropic": "claude-opus-4-5",
    "gemini": "gemini-2.5-flash",
    "openai": "gpt-4o",
    "responses": "gpt-5.2",
    "ollama": "m",
}
IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
TYPES = {
    "anthropic": {*IMAGES, "application/pdf"},
    "gemini": {
        *("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf"),
        *("audio/wav", "audio/mp3", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"),
        *("video/mp4", "video/mpeg", "video/mov", "video/avi", "video/x-flv", "video/webm", "video/wmv", "video/3gpp"),
    },
    "openai": {*IMAGES, "application/pdf"},
    "responses": {*IMAGES, "application/pdf"},
    "ollama": {"image/png", "image/jpeg", "audio/wav"},
}


ANSWERS = {
    "anthropic": lambda text: {
        **{"id": "i", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn"},
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "openai": lambda text: {
        **{"id": "i", "object": "chat.completion", "created": 1, "model": "x"},
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
    },
}


def provider(name, bodies, says=""):
    """A provider of this name whose service notes the bodies of requests, and refuses them unless it has an answer."""

    def answer(request):
        if request.url.path.endswith("/show"):
            return httpx.Response(200, json={"capabilities": ["completion", "vision", "audio", "tools"]})
        bodies.append(json.loads(request.content))
        if says:
            return httpx.Response(200, json=ANSWERS[name](says))
        return httpx.Response(400, json={"error": {"message": "no"}})

    transport = httpx.MockTransport(answer)
    match name:
        case "anthropic":
            return AnthropicProvider(AnthropicConfig(api_key="k"), transport=transport)
        case "gemini":
            return GeminiProvider(GeminiConfig(api_key="k"), transport=transport)
        case "ollama":
            return OllamaProvider(OllamaConfig(media_in_results=True), transport=transport)
        case _:
            return OpenAIProvider(OpenAIConfig(api_key="k"), transport=transport)


def media_of(body):
    """The type and the bytes of each medium in a request's body, wherever a service has it."""
    found, waiting = [], [body]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += [value for key, value in item.items() if key != "images"]
            if item.get("type") == "base64":
                found.append((item["media_type"], item["data"]))
            if "inlineData" in item:
                found.append((item["inlineData"]["mimeType"], item["inlineData"]["data"]))
            found += [(None, data) for data in item.get("images", ())]
        elif isinstance(item, str) and (match := re.match(r"data:([^;]+);base64,(.*)", item, re.DOTALL)):
            found.append((match[1], match[2]))
    return [(mime_type, base64.b64decode(data), len(data)) for mime_type, data in found]


async def requests(name, attachments, *, history=()):
    """The bodies that a service gets, and the error that nothing was sent for."""
    bodies = []
    rule = {"llm": "m", "model": MODELS[name]}
    config = {"llms": {"m": {"provider": "openai", "retries": 0}}, "responses": [rule]}
    refused = None
    async with FlexChat.from_config(config, providers={"m": provider(name, bodies)}) as chat:
        try:
            await chat.respond("Look.", attachments=attachments, history=history)
        except MediaLimitError as error:
            refused = error
        except ProviderError:
            pass
    return bodies, refused


def png(width, height, size=100):
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return header + bytes(size - len(header))


def pdf(pages):
    return b"%PDF-1.7\n" + b"<</Type /Page>>\n" * pages


sides = st.sampled_from([1, 1999, 2000, 2001, 7999, 8000, 8001])
sizes = st.sampled_from([100, 100, 100, 3_932_160, 3_932_161])
media = st.one_of(
    st.builds(png, sides, sides, sizes),
    st.builds(lambda n: b"\xff\xd8\xff\xe0" + bytes(n), sizes),
    st.builds(lambda w, h: b"GIF89a" + w.to_bytes(2, "little") + h.to_bytes(2, "little") + bytes(9), sides, sides),
    st.sampled_from(
        [
            *(b"RIFF\0\0\0\0WEBP" + bytes(30), b"\0\0\0\x18ftypheic" + bytes(9), b"RIFF\0\0\0\0WAVE" + bytes(9)),
            *(b"ID3\x04" + bytes(9), b"OggS" + bytes(9), b"fLaC" + bytes(9), b"\0\0\0\x20ftypisom" + bytes(9)),
            *(b"\0\0\0\x14ftypqt  " + bytes(9), b"\0\0\0\x20ftypM4A " + bytes(9), b"FLV\x01" + bytes(9), b"a text"),
        ]
    ),
)
documents = st.builds(pdf, st.sampled_from([1, 99, 100]))  # more pages are counted by a program of its own


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_no_service_is_sent_what_its_document_refuses(name, data):
    """Each request that leaves is within the rules; each that does not is refused with the limit and its source."""
    kinds = media if name == "ollama" else st.one_of(media, documents)  # to Ollama, a PDF goes as text
    attached = data.draw(st.one_of(st.lists(kinds, min_size=1, max_size=4), st.lists(kinds, min_size=21, max_size=22)))
    bodies, refused = asyncio.run(requests(name, attached))
    assert bool(bodies) is (refused is None)
    if refused is not None:
        assert "cannot be sent to m/" in str(refused)
        return
    sent = media_of(bodies[0])
    images = 0
    for mime_type, content, encoded in sent:
        if mime_type is None:
            mime_type = {b"\x89": "image/png", b"\xff": "image/jpeg", b"R": "audio/wav"}[content[:1]]
        assert mime_type in TYPES[name]
        images += mime_type.startswith("image/")
        if name == "anthropic" and mime_type.startswith("image/"):
            assert encoded <= 5 * 1024 * 1024
    if name == "anthropic":
        assert sum(encoded for _, _, encoded in sent) < 32_000_000
        most = 2000 if images > 20 else 8000
        for mime_type, content, _ in sent:
            if mime_type == "image/png":
                assert max(int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")) <= most
    if name in ("openai", "responses"):
        assert sum(encoded for _, _, encoded in sent) <= 50_000_000
    assert len(sent) == len([each for each in attached if each != b"a text"])


PHOTO = MediaPart(kind="image", mime_type="image/png", data=png(10, 10), name="photo.png")
PAPER = MediaPart(kind="document", mime_type="application/pdf", data=pdf(1), name="paper.pdf")
CHART = MediaPart(kind="image", mime_type="image/jpeg", data=b"\xff\xd8\xff\xe0chart", name="chart.jpg")
CALL = ToolCall.from_object("draw", {}, id="call_1")
EARLIER = (
    UserMessage("A photo and a paper.", media=(PHOTO, PAPER)),
    AssistantMessage((CALL,)),
    ToolMessage(tool_call_id="call_1", name="draw", content="drawn", media=(CHART,)),
    AssistantMessage("Seen."),
)


def b64(part):
    return base64.b64encode(part.data).decode()


@pytest.mark.parametrize("name", ["anthropic", "gemini", "openai", "responses"])
async def test_a_photo_a_paper_and_a_tools_image_are_sent_in_the_services_own_form(name):
    """The conversation began elsewhere: its media go along, in full."""
    (body,), _ = await requests(name, (), history=EARLIER)
    text = json.dumps(body)
    assert sorted(content for _, content, _ in media_of(body)) == sorted([PHOTO.data, PAPER.data, CHART.data])
    first = {
        "anthropic": lambda: body["messages"][0]["content"],
        "gemini": lambda: body["contents"][0]["parts"],
        "openai": lambda: body["messages"][0]["content"],
        "responses": lambda: body["input"][0]["content"],
    }[name]()
    image, paper = b64(PHOTO), b64(PAPER)
    assert (
        first
        == {
            "anthropic": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": paper},
                    "title": "paper.pdf",
                },
                {"type": "text", "text": "A photo and a paper."},
            ],
            "gemini": [
                {"text": "A photo and a paper."},
                {"inlineData": {"mimeType": "image/png", "data": image}},
                {"inlineData": {"mimeType": "application/pdf", "data": paper}},
            ],
            "openai": [
                {"type": "text", "text": "A photo and a paper."},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
                {
                    "type": "file",
                    "file": {"filename": "paper.pdf", "file_data": f"data:application/pdf;base64,{paper}"},
                },
            ],
            "responses": [
                {"type": "input_text", "text": "A photo and a paper."},
                {"type": "input_image", "image_url": f"data:image/png;base64,{image}"},
                {
                    "type": "input_file",
                    "filename": "paper.pdf",
                    "file_data": f"data:application/pdf;base64,{paper}",
                },
            ],
        }[name]
    )
    assert "not shown" not in text


async def test_a_paper_of_pictures_is_described_to_a_model_that_sees_only_images():
    from pypdf import PdfWriter

    writer, file = PdfWriter(), io.BytesIO()
    writer.add_blank_page(100, 100)
    writer.write(file)
    blank = MediaPart(kind="document", mime_type="application/pdf", data=file.getvalue(), name="blank.pdf")
    (body,), _ = await requests("ollama", (), history=(UserMessage("Both.", media=(PHOTO, blank)), *EARLIER[1:]))
    first = body["messages"][0]
    assert first["images"] == [b64(PHOTO)]
    words = f"[blank.pdf (application/pdf, {len(blank.data):,} bytes): not shown, you cannot see it here]"
    assert first["content"] == f"Both.\n\n{words}"
    assert [b64(CHART)] in [message.get("images") for message in body["messages"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name"),
    [("gpt-3.5-turbo", "openai"), ("claude-2.1", "anthropic"), ("gemini-2.5-flash-preview-tts", "gemini")],
)
async def test_a_model_that_reads_text_only_gets_words_of_earlier_media_and_no_new_ones(monkeypatch, name, model):
    monkeypatch.setitem(MODELS, name, model)
    (body,), _ = await requests(name, (), history=(EARLIER[0], EARLIER[3]))
    assert media_of(body) == []
    assert "photo.png (image/png, 100 bytes): not shown, you cannot see it here" in json.dumps(body)

    bodies, refused = await requests(name, PHOTO)
    assert bodies == []
    assert "photo.png (image/png, 100 bytes)" in str(refused)


async def test_a_kept_conversation_moves_between_services_and_still_has_its_photo(tmp_path):
    """From Anthropic to OpenAI, and to a model that reads text only."""
    steps = [("anthropic", "claude-opus-4-5", PHOTO), ("openai", "gpt-4o", ()), ("openai", "gpt-3.5-turbo", ())]
    sent = []
    for name, model, attached in steps:
        bodies = []
        config = {
            "llms": {"m": {"provider": "openai", "retries": 0}},
            "responses": [{"llm": "m", "model": model}],
            "conversations": {"path": str(tmp_path / "c.db")},
        }
        async with FlexChat.from_config(config, providers={"m": provider(name, bodies, says="Seen.")}) as chat:
            await chat.respond("Look.", attachments=attached, conversation="c")
        sent.append([content for _, content, _ in media_of(bodies[0])])
    assert sent == [[PHOTO.data], [PHOTO.data], []]
