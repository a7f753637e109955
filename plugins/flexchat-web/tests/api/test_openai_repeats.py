"""OpenAI's own client asks again on its own when an answer is lost: that is one turn, and one effect."""

import asyncio
import threading
import time

import openai
import pytest
from flexchat_testing import ScriptedProvider, calls, says
from flexchat_web.api.openai import Repeats, digest_of

PAY = {
    "name": "pay",
    "description": "Pay.",
    "effect": "write",
    "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
    "implementation": {"type": "mock", "mock_response": "paid"},
}
ASKED = {"model": "flexchat", "messages": [{"role": "user", "content": "Pay 5"}]}


class Late(ScriptedProvider):
    """Gives its last answer only once the client has asked again."""

    def __init__(self, *replies):
        super().__init__(replies)
        self.waits, self.go = threading.Event(), threading.Event()

    async def wait(self):
        if self.requests:
            self.waits.set()
            await asyncio.to_thread(self.go.wait)

    async def generate_chat(self, *given):
        await self.wait()
        return await super().generate_chat(*given)

    async def stream_chat(self, *given):
        await self.wait()
        async for event in super().stream_chat(*given):
            yield event


class Lossy:
    """An app whose first answer is lost: the client is refused in its place while the model is still at it."""

    def __init__(self, app, late):
        self.app, self.streams, self.serving = app, app.streams, app.serving
        self.late, self.counts = late, []

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        self.counts.append(dict(scope["headers"]).get(b"x-stainless-retry-count"))
        if len(self.counts) > 1:
            self.late.go.set()
            return await self.app(scope, receive, send)

        async def lose(message):
            pass

        async with asyncio.TaskGroup() as group:
            group.create_task(self.app(scope, receive, lose))
            await asyncio.to_thread(self.late.waits.wait)
            headers = [(b"content-length", b"0"), (b"retry-after-ms", b"1")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": b""})


@pytest.mark.slow
@pytest.mark.parametrize("model", ["flexchat", "robot/r1"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_request_whose_answer_is_lost_and_that_is_repeated_is_one_turn(told, running, model, stream):
    told.tables["tools"]["registry"].append(PAY)
    late = told._plugin.provider = Late(calls(("pay", {"amount": 5})), says("Done."))
    app = Lossy(told.app(), late)

    def ask(url):
        with openai.OpenAI(api_key="x", base_url=f"{url}/v1") as client:  # it repeats twice by default
            answer = client.chat.completions.create(**{**ASKED, "model": model}, stream=stream)
            if stream:
                text = "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)
            else:
                text = answer.choices[0].message.content
            return text, client.with_options(base_url=url).get("/api/effects", cast_to=object)["effects"]

    with running(app) as server:
        answer, effects = await asyncio.to_thread(ask, server.url)
    assert answer == "Done."
    assert app.counts[:2] == [b"0", b"1"]
    assert (len(effects), len(late.requests)) == (1, 2)


def test_a_first_request_is_always_a_new_one():
    repeats = Repeats(None)
    assert len({repeats.key_of(digest_of("t", ASKED), 0) for _ in range(3)}) == 3


def test_a_repeated_request_has_the_key_of_the_last_one(monkeypatch):
    repeats = Repeats(None)
    repeats.key_of(digest_of("t", ASKED), 0)
    key = repeats.key_of(digest_of("t", ASKED), 0)
    assert [repeats.key_of(digest_of("t", ASKED), n) for n in (1, 2)] == [key, key]
    assert repeats.key_of(digest_of("u", ASKED), 1) != key
    assert repeats.key_of(digest_of("t", {**ASKED, "seed": 1}), 1) != key
    later = time.monotonic() + 601
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert repeats.key_of(digest_of("t", ASKED), 1) != key
