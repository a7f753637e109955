"""A connection to a service: keys, requests, answers, refusals."""

import json

import attrs
import httpx
import pytest
from flexchat_sdk import (
    AnswerEnd,
    AnswerParts,
    Body,
    HttpSettings,
    Key,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRequestError,
    Refusals,
    Reported,
    Service,
    WrongShape,
)


@attrs.frozen(kw_only=True)
class Settings(HttpSettings):
    base_url: str = "http://h.example/v1"


class Word:
    """An answer of one word."""

    def __init__(self):
        self.parts, self.is_over = AnswerParts("s", "o"), False

    def take(self, value, name):
        self.is_over = True
        yield self.parts.text(value["word"])

    def whole(self, value):
        yield from self.take(value, "")
        yield from self.end()

    def end(self):
        yield from self.parts.end("stop")


WORD = {"word": "yes"}
BODY = Body.of({"model": "m"}, warnings=("no seed",))


def service(*replies, **given):
    """A service with these replies, and the requests it got."""
    asked, waiting = [], [*replies]

    def handler(request):
        asked.append(request)
        reply = waiting.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, httpx.Response) else httpx.Response(200, json=reply)

    given = {"refusals": Refusals(provider="acme"), "config": Settings(), **given}
    return Service("acme", transport=httpx.MockTransport(handler), **given), asked


async def both(made, body=BODY):
    """Ask for an answer whole and in pieces; return both results."""
    whole = await made.answer("/chat", body, Word(), model="m")
    last = [event async for event in made.pieces("/chat", body, Word(), model="m")][-1]
    assert isinstance(last, AnswerEnd)
    return whole, last.result


async def test_an_answer_is_read_whole_and_in_pieces():
    """Warnings of the request are in the result; a stream where JSON was asked for is read too."""
    stream = httpx.Response(200, text='data: {"word": "yes"}\n\n', headers={"content-type": "text/event-stream"})
    made, asked = service(WORD, stream, stream)

    for result in (*await both(made), await made.answer("/chat", BODY, Word(), model="m")):
        assert (result.content, result.warnings) == ("yes", ("no seed",))
    assert [(r.method, str(r.url), json.loads(r.content)) for r in asked] == [
        ("POST", "http://h.example/v1/chat", {"model": "m"})
    ] * 3


async def test_keys_stand_in_their_headers_and_extra_headers_win():
    keys = (Key("authorization", "k", "Bearer {}"), Key("x-key", "k2"), Key("x-none", None))
    made, asked = service(WORD, keys=keys, config=Settings(extra_headers={"X-Key": "mine"}))
    await made.answer("/chat", BODY, Word(), model="m")

    assert [asked[0].headers.get(name) for name in ("authorization", "x-key", "x-none")] == ["Bearer k", "mine", None]


@pytest.mark.parametrize("host", ["h.example", "other.example"])
async def test_a_key_is_missed_before_anything_is_sent(host):
    """At the hosts that need one; the text says where it belongs."""
    made, asked = service(WORD, keys=(Key("authorization", None),), key_needed_at={host: "ACME_KEY"})
    if host == "other.example":
        await made.answer("/chat", BODY, Word(), model="m")
        return
    for ask in (both(made), made.get("/models", dict, what="models")):
        with pytest.raises(ProviderAuthError, match=r"no key for h\.example: .* variable ACME_KEY, or api_key"):
            await ask
    assert asked == []


async def test_a_refusal_may_be_answered_by_another_request():
    """The writer sees it, and returns another body or None; it may be asynchronous."""
    seen = []

    async def write(refusal):
        seen.append(refusal and (refusal.status, refusal.body))
        return Body.of({"try": len(seen)}) if len(seen) % 2 or refusal.status == 400 else None

    refusal = httpx.Response(400, json={"error": "no"})
    made, asked = service(refusal, WORD, refusal, WORD)
    await both(made, write)

    assert seen == [None, (400, {"error": "no"})] * 2
    assert [json.loads(request.content) for request in asked] == [{"try": n} for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_is_an_error_that_knows_its_model(stream):
    made, _ = service(httpx.Response(503, json={"error": "full"}))
    pieces = made.pieces("/chat", BODY, Word(), model="m")
    ask = anext(pieces) if stream else made.answer("/chat", BODY, Word(), model="m")
    with pytest.raises(ProviderOverloadedError, match="full") as caught:
        await ask
    assert (caught.value.model, caught.value.provider, caught.value.status) == ("m", "acme", 503)


async def test_a_body_that_cannot_be_written_is_an_error_that_knows_its_model():
    """It is sent by a writer, or by post."""
    made, asked = service()
    for ask in (
        made.answer("/chat", lambda refusal: Body.of({"x": object()}), Word(), model="m"),
        made.post("/embed", {"x": object()}, dict, what="vectors", model="m"),
    ):
        with pytest.raises(ProviderRequestError, match="written as JSON") as caught:
            await ask
        assert (caught.value.model, caught.value.provider) == ("m", "acme")
    assert asked == []


async def test_get_and_post_return_what_is_read():
    made, asked = service({"data": [1]}, {"data": [2]})

    assert await made.get("/models", lambda body: body["data"], what="models") == [1]
    assert await made.post("/embed", {"a": 1}, lambda body: body["data"], what="vectors") == [2]
    assert [(request.method, request.content) for request in asked] == [("GET", b""), ("POST", b'{"a":1}')]


@pytest.mark.parametrize("error", [WrongShape("data", "a list", 5), ValueError("no list")])
async def test_what_cannot_be_read_is_a_protocol_error(error):
    """It says what was asked for. A wrong type may be a matter of this answer."""

    def read(body):
        raise error

    with pytest.raises(ProviderProtocolError, match="sent a list of models that cannot be read") as caught:
        await service({})[0].get("/models", read, what="a list of models")
    assert caught.value.retryable == isinstance(error, WrongShape)
    with pytest.raises(ProviderProtocolError, match="not JSON"):
        await service(httpx.Response(200, text="hi"))[0].get("/models", read, what="a list of models")


async def test_an_error_may_come_with_status_200():
    def read(body):
        raise Reported(body)

    with pytest.raises(ProviderOverloadedError, match="boom") as caught:
        await service({"error": "boom"})[0].get("/models", read, what="models", model="m")
    assert (caught.value.model, caught.value.status) == ("m", None)


async def test_a_provider_may_say_more_of_an_error():
    """In place, with the endpoint: all of its errors come by."""

    def explain(error, endpoint):
        error.args = (f"is it running at {endpoint}?",)

    away = httpx.ConnectError("refused")
    made, _ = service(away, away, away, explain=explain)
    for ask in (both(made), made.get("/models", dict, what="models"), made.post("/x", {}, dict, what="x")):
        with pytest.raises(ProviderConnectionError, match=r"running at http://h.example\?"):
            await ask
