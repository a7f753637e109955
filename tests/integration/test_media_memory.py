"""How much memory a turn with a large image takes: its bytes are held once, and its Base64 never as a whole."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import tracemalloc

import httpx
import pytest
from flexchat import FlexChat, MediaPart
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.provider import GeminiProvider
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.provider import OllamaProvider
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_testing import ScriptedProvider
from flexchat_web import create_app

MAX_COPIES = 1.5
"""Bytes in use at once, as a multiple of the image's: those of caller, turn, adapter and connection together."""

MAX_TEXT_COPIES = 2.9
"""Where the image arrives in Base64, a third longer: the body, and the text in it."""

MAX_BODY_COPIES = 2.6
"""Where that Base64 is decoded in the place of the body: the body, as it grew, and the bytes."""

MAX_LEFT_COPIES = 0.3
"""What a server holds after a request."""

SIZE = 5_000_000
IMAGE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0a\0\0\0\x0a".ljust(SIZE, b"\x9f")
MODELS = {
    "anthropic": "claude-opus-4-5",
    "gemini": "gemini-2.5-flash",
    "ollama": "m",
    "openai": "gpt-4o",
    "responses": "gpt-5.2",
}
_TEXT = {"type": "text", "text": "Seen."}
ANSWERS = {
    "anthropic": {
        **{"id": "i", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn"},
        **{"content": [_TEXT], "usage": {"input_tokens": 1, "output_tokens": 1}},
    },
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Seen."}]}, "finishReason": "STOP"}]},
    "ollama": {"message": {"role": "assistant", "content": "Seen."}, "done": True, "done_reason": "stop"},
    "openai": {"choices": [{"message": {"role": "assistant", "content": "Seen."}, "finish_reason": "stop"}]},
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Seen."}]}],
    },
}


def provider(name, address):
    match name:
        case "anthropic":
            return AnthropicProvider(AnthropicConfig(api_key="k", base_url=address))
        case "gemini":
            return GeminiProvider(GeminiConfig(api_key="k", base_url=address))
        case "ollama":
            return OllamaProvider(OllamaConfig(base_url=address))
        case "openai":
            return OpenAIProvider(OpenAIConfig(api_key="k", base_url=address, api="chat"))
    return OpenAIProvider(OpenAIConfig(api_key="k", base_url=address, api="responses"))


@contextlib.asynccontextmanager
async def service(name):
    """A service at an address of its own that counts the bytes of requests, and keeps none."""
    received = []

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().lower().splitlines()
                left = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
                received.append(left)
                while left:
                    left -= len(await reader.read(min(left, 65_536)))
                facts = {"capabilities": ["completion", "vision"]}
                answer = json.dumps(facts if "/show" in lines[0] else ANSWERS[name]).encode()
                start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer)
                writer.write(start + answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", received


@pytest.mark.slow
@pytest.mark.parametrize("way", ["completions", "responses"])
async def test_a_server_keeps_no_media_after_a_request(tmp_path, monkeypatch, way):
    """Neither in what it remembers nor in a context, and a repetition has its answer all the same."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    path, make, size = BODIES[way]
    async with service("openai") as (address, received):
        (tmp_path / "flexchat.toml").write_text(TOML.format(address=address))
        app = create_app(tmp_path / "flexchat.toml", watch=False)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", timeout=60) as client:

            async def post(size):
                kind, pieces = make(size)
                headers = {"content-type": kind, "idempotency-key": f"of {size}"}
                answer = await client.post(path, content=pieces, headers=headers)
                assert answer.status_code == 200, answer.text

            await post(200_000)
            gc.collect()
            tracemalloc.start()
            try:
                for less in (0, 100_000, 200_000):
                    await post(size - less)
                gc.collect()
                left = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
            assert left / size <= MAX_LEFT_COPIES, f"{left / size:.2f} copies are left"
            count = len(received)
            await post(size)
            assert len(received) == count
        await app.aclose()


@contextlib.contextmanager
def copies_at_most(limit, size):
    gc.collect()
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / size <= limit, f"{peak / size:.2f} copies at the peak"


class Timed(ScriptedProvider):
    """Makes a timer during each request, as a pooled connection does."""

    def stream_chat(self, messages, model, options):
        self.timer = asyncio.get_running_loop().call_later(600, print)
        return super().stream_chat(messages, model, options)


async def test_what_outlives_a_turn_does_not_keep_its_media():
    """Timers and connections keep the context that they were made in, even cancelled ones until their time."""
    config = {"llms": {"m": {"provider": "scripted"}}, "responses": [{"llm": "m", "model": "m"}]}
    provider, data = Timed(["Seen."]), b"kept by a turn"

    async with FlexChat.from_config(config, providers={"m": provider}) as chat:
        assert [event async for event in chat.stream("Look", attachments=data)][-1].turn.content == "Seen."
        provider.timer.cancel()
        provider.requests.clear()
        gc.collect()

        assert [each for each in gc.get_objects() if isinstance(each, MediaPart) and each.data == data] == []


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("name", MODELS)
async def test_a_turn_with_an_image_holds_few_copies_of_it(tmp_path, name, streamed):
    """From a file, through the store, to the service; and again in the next turn, which has it from the store."""
    size = SIZE if name != "anthropic" else 3_900_000
    (tmp_path / "photo.png").write_bytes(IMAGE[:size])
    config = {
        "llms": {"m": {"provider": "openai"}},
        "responses": [{"llm": "m", "model": MODELS[name]}],
        "conversations": {"path": str(tmp_path / "c.db")},
    }
    async with service(name) as (address, received):

        async def ask(**options):
            async with FlexChat.from_config(config, providers={"m": provider(name, address)}) as chat:
                await chat.respond("Warm up.", conversation="other")
                received.clear()
                with copies_at_most(MAX_COPIES, size):
                    if streamed:
                        async for _ in chat.stream("Look.", conversation="c", **options):
                            pass
                    else:
                        await chat.respond("Look.", conversation="c", **options)
                assert max(received) > size * 4 / 3

        await ask(attachments=tmp_path / "photo.png")
        await ask()


TOML = """
[llms.m]
provider = "openai"
base_url = "{address}"
api = "chat"

[[responses]]
llm = "m"
model = "gpt-4o"
"""
KEPT = '[conversations]\npath = "kept.db"\n'
LONG = "Look at this: " * 6_000


async def in_pieces(*parts):
    """Yield a body as it arrives: the image's Base64 in steps, and nothing of it held."""
    for part in parts:
        if isinstance(part, range):
            for at in part:
                yield base64.b64encode(IMAGE[at : at + part.step])
        elif isinstance(part, int):
            for at in range(0, part, 65_536):
                yield IMAGE[at : min(at + 65_536, part)]
        else:
            yield part.encode()


def json_body(before, after):
    def make(size):
        return "application/json", in_pieces(before, range(0, size // 49_152 * 49_152, 49_152), after)

    return make


def form(size):
    head = '--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nLook.\r\n--x\r\n'
    file = 'Content-Disposition: form-data; name="attachments"; filename="photo.png"\r\nContent-Type: image/png\r\n\r\n'
    return "multipart/form-data; boundary=x", in_pieces(head + file, size, "\r\n--x--\r\n")


_PART = '{"type":"image_url","image_url":{"url":"data:image/png;base64,'
_MESSAGE = '{"model":"m/gpt-4o","messages":[{"role":"user","content":[{"type":"text","text":"%s"},' + _PART
_INPUT = '{"model":"m/gpt-4o","input":[{"role":"user","content":['
_INPUT += '{"type":"input_image","image_url":"data:image/png;base64,'
BODIES = {
    "form": ("/chat/api", form, SIZE),
    "json": ("/chat/api", json_body('{"prompt":"Look.","attachments":[{"data":"', '"}]}'), 2_900_000),
    "completions": ("/v1/chat/completions", json_body(_MESSAGE % "Look.", '"}}]}]}'), SIZE),
    "completions, a long text": ("/v1/chat/completions", json_body(_MESSAGE % LONG, '"}}]}]}'), SIZE),
    "responses": ("/v1/responses", json_body(_INPUT, '"}]}]}'), SIZE),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [False, True], ids=["", "kept"])
@pytest.mark.parametrize("way", BODIES)
async def test_an_upload_holds_few_copies_of_an_image(tmp_path, monkeypatch, way, is_kept):
    """From the connection to the service: the body as it arrives, what is read of it, the turn, and its request."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    path, make, size = BODIES[way]
    async with service("openai") as (address, received):
        (tmp_path / "flexchat.toml").write_text(TOML.format(address=address) + KEPT * is_kept)
        app = create_app(tmp_path / "flexchat.toml", watch=False)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", timeout=60) as client:
            for is_measured in (False, True):
                kind, pieces = make(size if is_measured else 200_000)
                received.clear()
                limit = {"form": MAX_COPIES, "json": MAX_BODY_COPIES}.get(way, MAX_TEXT_COPIES)
                with copies_at_most(limit, size) if is_measured else contextlib.nullcontext():
                    answer = await client.post(path, content=pieces, headers={"content-type": kind})
                assert answer.status_code == 200, answer.text
            assert max(received) > (size - 50_000) * 4 / 3
        await app.aclose()
