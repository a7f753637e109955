"""A request is sent with the call's key, in the tool's time, and repetitions come out of a budget."""

import json
import logging
from urllib.parse import quote, unquote

import pytest
from flexchat.plugin import Fetched, FetchRequest, ToolContext, ToolDefinition
from flexchat_http.sending import Sending
from flexchat_http.settings import Auth

from .conftest import entry, reply


async def test_attempts_have_the_same_key_and_the_first_success_counts(serve, opened):
    """Two failures of a service that takes a key; one effect, done."""

    async def third_time_lucky(service, request, writer):
        status = 503 if len(service.got) < 3 else 200
        await reply(json.dumps(len(service.got)), status)(service, request, writer)

    service = await serve(third_time_lucky)
    retry = {"max_attempts": 3, "backoff_ms": 0}
    chat = opened(entry(service.url, method="POST", idempotency_header="Idempotency-Key", retry=retry))

    result = await chat.call_tool("call", {"q": "x"})

    assert result.result == 3
    assert len({request.headers["idempotency-key"] for request in service.got}) == 1
    assert [effect.state for effect in await chat.effects()] == ["done"]


@pytest.mark.slow
async def test_a_lost_answer_of_a_keyed_call_is_asked_for_again_with_the_same_key(serve, opened):
    """The service acts once for each key, so the effect is done, and not unknown."""
    orders = {}

    async def once_per_key(service, request, writer):
        key = request.headers["idempotency-key"]
        is_first = key not in orders
        orders.setdefault(key, len(orders) + 1)
        if is_first:
            return False  # it has acted, and closes without a word
        await reply(json.dumps(orders[key]))(service, request, writer)

    service = await serve(once_per_key)
    chat = opened(entry(service.url, method="POST", idempotency_header="Idempotency-Key"))

    results = [await chat.call_tool("call", {"q": "x"}) for _ in range(2)]

    assert [result.result for result in results] == [1, 2]
    assert [len(service.got), len(orders)] == [4, 2]
    assert {effect.state for effect in await chat.effects()} == {"done"}


async def test_a_lost_answer_without_a_key_is_unknown_and_not_asked_for_again(serve, opened):
    async def acts_and_closes(service, request, writer):
        return False

    service = await serve(acts_and_closes)
    chat = opened(entry(service.url, method="POST"))

    result = await chat.call_tool("call", {"q": "x"})

    assert not result.success
    assert len(service.got) == 1
    assert [effect.state for effect in await chat.effects()] == ["unknown"]


async def test_a_read_is_sent_again_after_a_failure_of_the_service(serve, opened):
    """TC-54, TC-55: after a status of 500 and more, and after a broken connection."""

    async def third_time_lucky(service, request, writer):
        if len(service.got) == 1:
            await reply(b"", 500)(service, request, writer)
        elif len(service.got) == 2:
            return False  # closes without a word
        else:
            await reply(b"3")(service, request, writer)

    service = await serve(third_time_lucky)
    chat = opened(entry(service.url, retry={"max_attempts": 3, "backoff_ms": 0}))

    assert (await chat.call_tool("call", {"q": "x"})).result == 3
    assert len(service.got) == 3


@pytest.mark.parametrize(("status", "times"), [(400, 1), (401, 1), (404, 1), (422, 1), (429, 3), (500, 3), (503, 3)])
async def test_a_refused_read_is_not_sent_again(serve, opened, status, times):
    """TC-55: a service that says no says it once; the last error is the result."""

    async def refusing(service, request, writer):
        await reply(json.dumps({"detail": f"no. {len(service.got)}"}), status)(service, request, writer)

    service = await serve(refusing)
    chat = opened(entry(service.url, retry={"max_attempts": 3, "backoff_ms": 0}))

    result = await chat.call_tool("call", {"q": "x"})

    assert f"answered {status}" in result.error
    assert f"no. {times}" in result.error
    assert len(service.got) == times


@pytest.mark.parametrize("key", ["s3cr3t-42-plain", "s3cr/3t+42==x"])
@pytest.mark.parametrize(
    "auth",
    [
        {"type": "api_key", "name": "k", "place": "query", "api_key": "${K}"},
        {"type": "api_key", "name": "k", "api_key": "${K}"},
        {"type": "basic", "username": "me", "password": "${K}"},
        {"type": "oauth2", "client_id": "me", "client_secret": "${K}", "client_auth": "body"},
        {"type": "oauth2", "client_id": "me", "client_secret": "${K}"},
    ],
    ids=lambda auth: "-".join([auth["type"], *map(auth.get, {"place", "client_auth"} & auth.keys())]),
)
async def test_requests_and_answers_are_logged_without_keys(serve, opened, caplog, monkeypatch, auth, key):
    """TC-61: neither the operator's, as it is or as URLs have it, nor an access token."""

    async def answer(service, request, writer):
        token = b'{"access_token": "issued-77"}' if request.target == "/token" else b'{"echo": "issued"}'
        await reply(token)(service, request, writer)

    monkeypatch.setenv("K", key)
    service = await serve(answer)
    urls = {"token_url": f"{service.url}/token"} if auth["type"] == "oauth2" else {}
    chat = opened(entry(service.url, auth={**auth, **urls}))

    with caplog.at_level(logging.DEBUG):
        result = await chat.call_tool("call", {"q": "x"})

    assert result.result == {"echo": "issued"}
    assert f"GET {service.url}/?q=x" in caplog.text
    assert "answered 200" in caplog.text
    assert not any(form in caplog.text for form in (key, quote(key), quote(key, safe=""), "issued-77"))


async def test_a_write_without_a_key_is_sent_once(serve, opened):
    """However often its tool may try; what came of it is unknown."""
    service = await serve(reply(b"", 503))
    chat = opened(entry(service.url, method="POST", retry={"max_attempts": 3, "backoff_ms": 0}))

    result = await chat.call_tool("call", {"q": "x"})

    assert "answered 503" in result.error
    assert "unknown" in result.hint
    assert len(service.got) == 1
    assert [effect.state for effect in await chat.effects()] == ["unknown"]


async def test_repetitions_come_out_of_a_budget(serve, opened):
    """A service that fails does not get many times its load: after ten repetitions, errors come at once."""
    service = await serve(reply(b"", 429))
    chat = opened(entry(service.url, retry={"max_attempts": 10, "backoff_ms": 0}))

    results = [await chat.call_tool("call", {"q": "x"}) for _ in range(3)]

    assert len(service.got) <= 14
    assert "repeated already" in results[-1].error


async def test_the_service_gets_less_time_than_the_tool():
    """So that what is said is what the client knows: whether there was a connection. All requests share that time."""
    limits = []

    class Fetcher:
        async def fetch(self, request, *, timeout_s, **rest):
            limits.append(timeout_s)
            body = b'{"access_token": "t"}' if request.method == "POST" else b""
            return Fetched(status=200, body=body, url=request.url)

    definition = entry("http://x.example/", tool={"timeout_ms": 200})
    context = ToolContext(tool=ToolDefinition.from_dict(definition), fetcher=Fetcher())
    auth = Auth(type="oauth2", token_url="http://id.example/", client_id="me", client_secret="secret-1")

    await Sending(auth=auth).send(FetchRequest(url="http://x.example/"), context)

    assert 0 < limits[1] < limits[0] <= 0.19


async def test_arguments_arrive_within_their_segment(serve, opened):
    """What is on the wire, after every client on the way has read the address."""
    service = await serve()
    chat = opened(entry(f"{service.url}/users/{{q}}/posts"))
    hostile = [
        "../admin",
        "..%2fadmin",
        "%2e%2e",
        "a/../b",
        "a?b=c",
        "a#b",
        "a\\b",
        "\x00",
        "a\r\nHost: b",
        "☃",
        "...",
        " ",
    ]
    for value in hostile:
        assert (await chat.call_tool("call", {"q": value})).success
        start, users, segment, posts = service.got[-1].target.split("/")
        assert (start, users, unquote(segment), posts) == ("", "users", value, "posts")
        assert service.got[-1].headers["host"] == service.address
    sent = len(service.got)
    for value in (".", "..", ""):
        assert not (await chat.call_tool("call", {"q": value})).success
    assert len(service.got) == sent
