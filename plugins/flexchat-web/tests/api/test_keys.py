"""Idempotency-Key: a request that is sent again is answered as before, and nothing is done twice."""

import asyncio
import threading

import httpx
import pytest
from flexchat import AssistantMessage, MediaPart
from flexchat_sdk import ChatResult, ProviderConnectionError, ProviderRateLimitError, TextDelta, TextPart
from flexchat_testing import ScriptedProvider, calls, says

KEY = {"idempotency-key": "order-17"}
PAY = {
    "name": "pay",
    "description": "Pay.",
    "effect": "write",
    "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
    "implementation": {"type": "mock", "mock_response": "paid"},
}
CHAT = ("/chat/api", {"prompt": "Pay 5"})
KEPT = ("/chat/api", {"prompt": "Pay 5", "conversation": "c"})
V1 = ("/v1/chat/completions", {"model": "flexchat", "messages": [{"role": "user", "content": "Pay 5"}]})
NAMED = ("/v1/chat/completions", {**V1[1], "model": "robot/r1"})
EVERY = pytest.mark.parametrize(("path", "body"), [CHAT, KEPT, V1, NAMED], ids=["chat", "kept", "v1", "named"])


@pytest.fixture
def paying(told):
    told.tables["tools"]["registry"].append(PAY)
    told.says(calls(("pay", {"amount": 5})), says("Done."), repeat=False)
    return told


class Late(ScriptedProvider):
    """Waits before its second answer, until it may go on; on any thread's loop."""

    def __init__(self, replies):
        super().__init__(replies)
        self.go = threading.Event()

    async def generate_chat(self, *given):
        if self.requests:
            await asyncio.to_thread(self.go.wait)
        return await super().generate_chat(*given)

    async def stream_chat(self, *given):
        if self.requests:
            await asyncio.to_thread(self.go.wait)
        async for event in super().stream_chat(*given):
            yield event


@pytest.fixture
def late(paying):
    model = paying._plugin.provider = Late([calls(("pay", {"amount": 5})), says("Done.")])
    yield model
    model.go.set()


class Breaking(ScriptedProvider):
    """Breaks its first answer off after a piece."""

    async def stream_chat(self, *given):
        if self.requests:
            async for event in super().stream_chat(*given):
                yield event
        else:
            self.requests.append(given)
            for text in ("It ", "is "):
                yield TextDelta(0, text)
                for _ in range(50):  # whoever reads takes it
                    await asyncio.sleep(0)
            raise ProviderConnectionError("broke off", retryable=True, retry_after_s=0)


async def effects(client):
    return (await client.get("/api/effects")).json()["effects"]


def id_of(answer):
    data = answer.json()
    return (data.get("turn") or data["flexchat"])["id"]


@pytest.mark.slow
@EVERY
async def test_a_repeated_request_gets_the_first_answer(paying, path, body):
    client = await paying.client()
    first, again = [await client.post(path, json=body, headers=KEY) for _ in range(2)]
    assert (first.status_code, again.status_code, id_of(again)) == (200, 200, id_of(first))
    assert ("idempotent-replayed" in first.headers, again.headers.get("idempotent-replayed")) == (False, "true")
    drop = ("created",)
    assert {k: v for k, v in again.json().items() if k not in drop} == {
        k: v for k, v in first.json().items() if k not in drop
    }
    assert len(await effects(client)) == 1


async def test_a_repetition_has_the_image_that_the_model_made(told):
    """It is in the turn's last event, where the messages are not held any more."""
    del told.tables["conversations"]
    image = MediaPart(kind="image", mime_type="image/gif", data=b"GIF89a" + bytes(20))
    told.says(ChatResult(message=AssistantMessage(parts=(TextPart(text="Here."), image)), finish_reason="stop"))
    client = await told.client()

    first, again = [(await client.post(CHAT[0], json=CHAT[1], headers=KEY)).json() for _ in range(2)]

    assert first == again
    assert first["turn"]["media"][0]["data"].startswith("R0lGODlh")
    cancelled = await client.post(f"/api/turns/{first['turn']['id']}/cancel")
    assert cancelled.json()["turn"]["media"] == first["turn"]["media"]


@pytest.mark.slow
@EVERY
async def test_requests_at_once_are_one_turn(paying, path, body):
    client = await paying.client()
    answers = await asyncio.gather(*(client.post(path, json=body, headers=KEY) for _ in range(8)))
    assert len({id_of(answer) for answer in answers}) == 1
    assert ["idempotent-replayed" in answer.headers for answer in answers].count(False) == 1
    assert len(await effects(client)) == 1


@EVERY
async def test_a_repeated_stream_is_the_same_turn(paying, sse, path, body):
    client = await paying.client()
    asked = {**body, "stream": True}
    first, again = [await client.post(path, json=asked, headers=KEY) for _ in range(2)]
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    texts = ["".join(str(data) for _, data in sse(answer.text) if "Done." in str(data)) for answer in (first, again)]
    assert all(texts)
    assert len(await effects(client)) == 1


@pytest.mark.slow
@EVERY
async def test_a_client_that_gives_up_finds_its_turn(paying, late, running, path, body):
    with running(paying.app()) as server:
        async with httpx.AsyncClient(base_url=server.url) as client:
            first = asyncio.create_task(client.post(path, json=body, headers=KEY, timeout=None))
            # A time limit would end it before its turn begins, on a busy machine.
            while not late.requests:  # noqa: ASYNC110  the model runs on another thread's loop
                await asyncio.sleep(0.001)
            first.cancel()
            await asyncio.wait({first})
            late.go.set()
            answer = await client.post(path, json=body, headers=KEY, timeout=20)
            assert (answer.status_code, answer.headers["idempotent-replayed"]) == (200, "true")
            assert (len(await effects(client)), len(late.requests)) == (1, 2)


@EVERY
async def test_another_body_is_refused(paying, path, body):
    client = await paying.client()
    other = (
        {**body, "prompt": "Pay 6"} if "prompt" in body else {**body, "messages": [{"role": "user", "content": "x"}]}
    )
    await client.post(path, json=body, headers=KEY)
    refused = await client.post(path, json=other, headers=KEY)
    assert (refused.status_code, "'order-17' has been used" in refused.text) == (422, True)
    assert len(await effects(client)) == 1


@pytest.mark.parametrize("key", [b"", b" ", b'""', b"x" * 256, b"a\tb", b"\x80", b"a\x7f"])
async def test_a_hostile_key_is_refused(told, key):
    client = await told.client()
    for path, body in (CHAT, V1, ("/api/tools/call", {"name": "get_weather", "arguments": {"city": "Rome"}})):
        answer = await client.post(path, json=body, headers={b"idempotency-key": key})
        assert (answer.status_code, "Idempotency-Key" in answer.text) == (400, True)


async def test_a_key_may_be_quoted(paying):
    client = await paying.client()
    first = await client.post(CHAT[0], json=CHAT[1], headers=KEY)
    again = await client.post(CHAT[0], json=CHAT[1], headers={"idempotency-key": '"order-17"'})
    assert id_of(first) == id_of(again)


async def test_tenants_have_their_own_keys(told):
    ann = await told.client(headers={"authorization": "Bearer a"}, tokens={"a": "ann", "b": "bob"})
    first = await ann.post(CHAT[0], json=CHAT[1], headers=KEY)
    other = await ann.post(CHAT[0], json=CHAT[1], headers={**KEY, "authorization": "Bearer b"})
    assert (id_of(first) != id_of(other), "idempotent-replayed" in other.headers) == (True, False)


async def test_a_new_configuration_knows_the_keys(paying):
    client = await paying.client()
    first = await client.post(CHAT[0], json=CHAT[1], headers=KEY)
    await client._transport.app.serving.reload({**paying.tables})
    assert id_of(await client.post(CHAT[0], json=CHAT[1], headers=KEY)) == id_of(first)


@EVERY
async def test_a_turn_that_failed_and_changed_nothing_runs_again(paying, path, body):
    paying.says(ProviderRateLimitError("slow down"), says("Done."), repeat=False)
    client = await paying.client()
    answers = [await client.post(path, json=body, headers=KEY) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 200, 200]
    assert "idempotent-replayed" in answers[2].headers


async def test_a_tool_called_by_hand_runs_once_for_a_key(paying):
    client = await paying.client()
    body = {"name": "pay", "arguments": {"amount": 5}}
    first, again = [await client.post("/api/tools/call", json=body, headers=KEY) for _ in range(2)]
    assert first.json()["result"] == again.json()["result"] == "paid"
    assert ("idempotent-replayed" in first.headers, again.headers.get("idempotent-replayed")) == (False, "true")
    other = await client.post("/api/tools/call", json={**body, "arguments": {"amount": 6}}, headers=KEY)
    assert other.json()["success"] is False
    assert len(await effects(client)) == 1
    await client.post("/api/tools/call", json=body, headers={"idempotency-key": "order-18"})
    assert len(await effects(client)) == 2


async def test_the_document_says_which_operations_take_a_key(told):
    paths = (await (await told.client()).get("/openapi.json")).json()["paths"]
    takes = {
        path
        for path, methods in paths.items()
        for operation in methods.values()
        if any(each["name"] == "Idempotency-Key" for each in operation.get("parameters", ()))
    }
    assert takes == {"/chat/api", "/api/tools/call", "/v1/chat/completions", "/v1/responses"}


@EVERY
async def test_an_answer_that_breaks_off_before_anybody_reads_it_is_asked_for_again(paying, path, body):
    """The events of a turn whose client waits for the whole answer are not delivered piece by piece."""
    paying.tables["llms"]["robot"]["retries"] = 1
    model = paying._plugin.provider = Breaking(["never", "Paid."])
    client = await paying.client()

    answer = await client.post(path, json=body, headers=KEY)

    assert answer.status_code == 200
    assert "Paid." in answer.text
    assert len(model.requests) == 2


async def test_a_stream_that_breaks_off_is_not_started_again(paying):
    paying.tables["llms"]["robot"]["retries"] = 1
    model = paying._plugin.provider = Breaking(["never", "Paid."])
    client = await paying.client()

    answer = await client.post(CHAT[0], json={**CHAT[1], "stream": True}, headers=KEY)

    assert "broke off" in answer.text
    assert len(model.requests) == 1
