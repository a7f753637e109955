"""Recorded traffic is served again, and a request that differs is told where."""

import json
import os
from pathlib import Path

import httpx
import pytest
from flexchat_testing import ReplayTransport

CHAT = {
    "request": {
        "method": "POST",
        "path": "/v1/chat",
        "query": {"v": "2"},
        "headers": {"authorization": "Bearer old"},
        "body": {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "a/b": True},
    },
    "response": {"status": 200, "headers": {"content-type": "application/json"}, "body": {"text": "Grüße"}},
}
MODELS = {"request": {"method": "GET", "path": "/v1/models"}, "response": {"status": 404, "body": "nothing here"}}
SAID = CHAT["request"]["body"]


async def ask(transport, body=SAID, method="POST", path="/v1/chat?v=2"):
    async with httpx.AsyncClient(transport=transport, base_url="https://service.example") as client:
        return await client.request(method, path, json=body)


async def test_exchanges_are_served_in_order():
    """JSON as JSON, a text as it is; absent keys of a request are not compared."""
    transport = ReplayTransport([CHAT, MODELS])

    assert (await ask(transport)).json() == {"text": "Grüße"}
    answer = await ask(transport, None, "GET", "/v1/models?page=1")

    assert (answer.status_code, answer.text) == (404, "nothing here")
    transport.assert_complete()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"body": {**SAID, "model": "n"}}, '/body/model: expected "m", got "n"'),
        ({"body": {**SAID, "a/b": 1}}, "/body/a~1b: expected true, got 1"),
        ({"body": {**SAID, "more": None}}, "/body/more: expected nothing, got null"),
        ({"body": {**SAID, "messages": []}}, "/body/messages/0: expected {"),
        ({"path": "/v1/chat?v=3"}, '/query/v: expected "2", got "3"'),
        ({"path": "/v2/chat?v=2"}, '/path: expected "/v1/chat", got "/v2/chat"'),
        ({"method": "PUT"}, '/method: expected "POST", got "PUT"'),
    ],
)
async def test_a_request_that_differs_is_told_where(changed, told):
    """A JSON pointer, what was expected, what came."""
    with pytest.raises(AssertionError) as caught:
        await ask(ReplayTransport([CHAT]), **changed)

    assert told in str(caught.value)


async def test_what_is_ignored_may_differ_and_all_below_it():
    """Headers are ignored unless one says otherwise; then only recorded ones count."""
    transport = ReplayTransport([CHAT, CHAT], ignore=("/headers", "/body/messages", "/body/model"))
    await ask(transport, {**SAID, "model": "n", "messages": [1, 2]})

    with pytest.raises(AssertionError, match='/headers/authorization: expected "Bearer old", got nothing'):
        await ask(ReplayTransport([CHAT], ignore=()))


async def test_more_requests_than_recorded_and_fewer_are_told():
    transport = ReplayTransport([CHAT])
    with pytest.raises(AssertionError, match="1 of 1 recorded exchanges"):
        transport.assert_complete()

    await ask(transport)

    with pytest.raises(AssertionError, match=r"nothing is recorded for request 2, POST /v1/chat"):
        await ask(transport)


@pytest.mark.parametrize("piece_bytes", [0, 1, 3])
async def test_a_body_comes_in_pieces_of_any_size(piece_bytes):
    """Recordings have lost where the network cut."""
    text = "data: é\n\ndata: [DONE]\n\n"
    exchange = {"request": {}, "response": {"body": text, "headers": {"content-type": "text/event-stream"}}}
    transport = ReplayTransport([exchange], piece_bytes=piece_bytes)

    response = await transport.handle_async_request(httpx.Request("GET", "https://service.example/"))
    pieces = [piece async for piece in response.stream]

    assert b"".join(pieces).decode() == text
    assert all(len(piece) <= (piece_bytes or 100) for piece in pieces)


async def test_a_recording_is_read_from_a_file(tmp_path):
    """A list of exchanges, or an object that holds one."""
    for data in ([CHAT], {"id": "x", "exchanges": [CHAT]}):
        (tmp_path / "one.json").write_text(json.dumps(data))
        assert (await ask(ReplayTransport.from_file(tmp_path / "one.json"))).status_code == 200


@pytest.fixture
def recording():
    """A recorded exchange with a real service: in FLEXCHAT_SHARED, or in a folder ``shared`` beside the project."""
    shared = os.environ.get("FLEXCHAT_SHARED") or Path(__file__).resolve().parents[3].parent / "shared"
    found = sorted(Path(shared, "recordings", "openai").glob("openai-chat.*.json"))
    if not found:
        pytest.skip("no recordings: set FLEXCHAT_SHARED to the folder that holds recordings/openai")
    return found[0]


async def test_a_recorded_exchange_with_a_real_service_is_served_again(recording):
    """The format is the one recordings are kept in."""
    recorded = json.loads(recording.read_text("utf-8"))["exchanges"][0]["request"]

    answer = await ask(ReplayTransport.from_file(recording), recorded["body"], recorded["method"], recorded["path"])

    assert answer.status_code == 200
