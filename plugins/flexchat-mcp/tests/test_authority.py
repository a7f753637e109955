"""What is believed of an authorization server: whatever it answers, it is a token that can be sent, or an error."""

import asyncio
import contextlib
import json
import math

import httpx2
import pytest
from flexchat_mcp import authority
from flexchat_mcp.authority import Authority, AuthorityError, Refusal, token_in
from hypothesis import given
from hypothesis import strategies as some

pytestmark = pytest.mark.anyio
SERVER = "https://mcp.example/mcp"
JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = ("access_token", "token_type", "expires_in", "refresh_token", "scope", "error", "error_description")


def answered(content, status=200, **form):
    request = httpx2.Request("POST", "https://as.example/token", data=form)
    return httpx2.Response(status, content=content, request=request)


@given(some.binary() | some.dictionaries(some.sampled_from(NAMES), JSON).map(lambda it: json.dumps(it).encode()))
def test_any_answer_is_a_token_that_can_be_sent_or_an_error(content):
    try:
        token = token_in(answered(content))
    except AuthorityError:
        return
    httpx2.Request("GET", SERVER, headers={"Authorization": f"Bearer {token.access_token}"})
    assert token.access_token
    assert math.isfinite(float(token.expires_in or 0))


@given(some.binary() | some.dictionaries(some.sampled_from(NAMES), JSON).map(lambda it: json.dumps(it).encode()))
def test_any_answer_can_be_a_refusal_in_one_short_line(content):
    refusal = Refusal.of(answered(content, 400, code="c" * 40))

    assert len(refusal.text.splitlines()) == 1
    assert len(refusal.text) < 300


def test_what_was_sent_is_not_said_again():
    said = {"error": "invalid_grant", "error_description": f"{'s' * 40} is unknown, and\nso is {'c' * 40}"}
    sent = {"code": "c" * 40, "client_secret": "s" * 40}
    refusal = Refusal.of(answered(json.dumps(said).encode(), 400, **sent))

    assert refusal.text == "as.example answered 400: invalid_grant: *** is unknown, and so is ***"
    assert refusal.is_final


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, ""), (400, "server_error"), (400, "temporarily_unavailable"), (503, "maintenance"), (403, "forbidden")],
)
def test_a_server_that_has_trouble_has_not_decided(status, code):
    assert not Refusal.of(answered(json.dumps({"error": code}).encode(), status)).is_final


@pytest.mark.parametrize(
    ("server", "url", "is_good"),
    [
        (SERVER, "https://as.example/x", True),
        (SERVER, "http://as.example/x", False),
        (SERVER, "http://127.0.0.1:80/x", False),
        (SERVER, "javascript:alert(1)", False),
        (SERVER, "x", False),
        ("http://127.0.0.1:8000/mcp", "http://localhost:9000/x", True),
        ("http://localhost:8000/mcp", "http://[::1]/x", True),
        ("http://localhost:8000/mcp", "http://localhost.evil.example/x", False),
        ("http://localhost:8000/mcp", "http://127.0.0.1@evil.example/x", False),
        ("http://10.0.0.5/mcp", "http://10.0.0.5/x", False),
    ],
)
def test_codes_and_tokens_go_over_https_or_stay_on_this_machine(server, url, is_good):
    with contextlib.nullcontext() if is_good else pytest.raises(AuthorityError, match="is not https"):
        Authority(server).check_address(url)


async def test_an_answer_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(authority, "ANSWER_S", 0.05)
    request = httpx2.Request("GET", "https://as.example/metadata")

    with pytest.raises(AuthorityError, match=r"as\.example did not answer within"):
        await Authority(SERVER).ask(request, lambda _: asyncio.sleep(60))


async def test_an_answer_that_breaks_off_is_said():
    class Breaks(httpx2.AsyncByteStream):
        async def __aiter__(self):
            yield b"{"
            raise httpx2.ReadError("gone")

    async def send(request):
        assert request.extensions["confidential"]
        return httpx2.Response(200, stream=Breaks(), request=request)

    with pytest.raises(AuthorityError, match=r"the answer of as\.example broke off"):
        await Authority(SERVER).ask(httpx2.Request("GET", "https://as.example/metadata"), send)
