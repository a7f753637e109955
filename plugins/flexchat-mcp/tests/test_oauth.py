"""Signing in at a server over HTTP: by a person in a command, and never in a turn."""

import asyncio
import contextlib
import json
import os
import stat
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from flexchat import FlexChat
from flexchat.config.structure import structure_mapping
from flexchat_cli import Terminal
from flexchat_cli.main import main
from flexchat_mcp.commands.answers import browser
from flexchat_mcp.oauth import SignIn
from flexchat_mcp.settings import McpAuth
from flexchat_mcp.tokens import TokenFile, TokensError
from mcp.client.auth import AuthorizationCodeResult, OAuthFlowError
from oauth_server import Authority

from .test_http import made, serve  # noqa: F401  # a fixture

pytestmark = pytest.mark.anyio


@pytest.fixture
async def guarded(serve, tmp_path):  # noqa: F811
    """A server that lets nobody in without a token; its config is in the folder."""
    authority = Authority()
    authority.base = await serve(authority.guarded(made().streamable_http_app()))
    config = {
        "llms": {"r": {"provider": "rehearsal"}},
        "responses": [{"llm": "r", "model": "any", "tools": {"allowed_tools": ["calc/*"]}}],
        "tools": {
            "mcp": [{"name": "calc", "url": f"{authority.base}/mcp", "auth": {"oauth": True}, "effects": {"*": "read"}}]
        },
        "network": {"allow": ["127.0.0.1"]},
    }
    (tmp_path / "chat.json").write_text(json.dumps(config))
    return authority


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command in a thread; the person's browser goes where it is sent."""
    monkeypatch.setattr("webbrowser.open", go)

    async def run(*words):
        status = await asyncio.to_thread(main, [*words, "--config", str(tmp_path / "chat.json")])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def go(url):
    """Visit a page, and the page it sends one to."""
    with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url) as page:
        return page.read().decode()


def kept(authority):
    return TokenFile(f"{authority.base}/mcp")


@pytest.mark.slow
@pytest.mark.quick
async def test_one_signs_in_once_and_turns_use_it(guarded, command, tmp_path):
    status, _, err = await command("mcp", "login", "calc")
    async with FlexChat.from_config(tmp_path / "chat.json") as chat:
        found = await chat.call_tool("add", {"a": 1})

    assert (status, found.result) == (0, 3)
    assert "signed in at calc" in err
    assert guarded.grants == ["authorization_code"]
    assert stat.S_IMODE(kept(guarded).path.stat().st_mode) == 0o600


async def test_a_turn_says_which_command_signs_in(guarded, tmp_path):
    async with FlexChat.from_config(tmp_path / "chat.json") as chat:
        await chat.call_tool("add", {"a": 1})
        (why,) = chat.tools.sources.missing(["calc/*"])

    assert "it asks you to sign in: flexchat mcp login calc" in why
    assert not any("register" in path for path in guarded.asked), "nobody is there to sign in"


async def test_a_token_that_has_run_out_is_renewed_by_another_program(guarded, command, tmp_path):
    await command("mcp", "login", "calc")
    file = kept(guarded)
    file.write(file.read() | {"expires_at": 1})
    async with FlexChat.from_config(tmp_path / "chat.json") as chat:
        found = [await chat.call_tool("add", {"a": n}) for n in (1, 2)]

    assert [each.result for each in found] == [3, 4]
    assert guarded.grants == ["authorization_code", "refresh_token"]


async def test_a_token_that_was_taken_back_is_said(guarded, command, tmp_path):
    await command("mcp", "login", "calc")
    async with FlexChat.from_config(tmp_path / "chat.json") as chat:
        before = await chat.call_tool("add", {"a": 1})
        guarded.revoke()
        after = await chat.call_tool("add", {"a": 1})

    assert before.success
    assert after.error == "the MCP server 'calc' cannot be used: it asks you to sign in: flexchat mcp login calc"


async def test_more_rights_are_asked_for_by_a_command_and_not_in_a_turn(guarded, command, tmp_path):
    await command("mcp", "login", "calc")
    guarded.scope = "count:write"
    async with FlexChat.from_config(tmp_path / "chat.json") as chat:
        await chat.call_tool("count", {})
        (why,) = chat.tools.sources.missing(["calc/*"])
    status, out, _ = await command("mcp", "call", "calc", "count")

    assert "it asks you to sign in with more rights: flexchat mcp login calc" in why
    assert (status, "counted" in out) == (0, True)


async def test_rights_that_are_only_named_after_signing_in_are_asked_for_at_once(guarded, command):
    guarded.scope = "count:write"
    await command("mcp", "login", "calc")
    status, out, _ = await command("mcp", "call", "calc", "count")

    assert (status, "counted" in out) == (0, True)
    assert guarded.grants == ["authorization_code"] * 2


async def test_a_server_that_is_never_content_asks_twice(guarded, command):
    guarded.scope = "no such right"
    status, _, err = await command("mcp", "login", "calc")

    assert status == 2
    assert "after signing in, still it asks you to sign in with more rights" in err
    assert guarded.grants == ["authorization_code"] * 2


async def test_a_port_that_is_taken_meanwhile_is_replaced(guarded, command):
    """The server knows the client by its port, so it is registered again."""
    await command("mcp", "login", "calc")
    port = int(kept(guarded).read()["client"]["redirect_uris"][0].split(":")[2].split("/")[0])
    guarded.revoke()
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", port):
        status, out, _ = await command("mcp", "call", "calc", "count")

    assert (status, "counted" in out) == (0, True)
    assert len(guarded.clients) == 2


async def test_a_login_that_is_refused_is_said(guarded, command):
    guarded.refuses = True
    status, _, err = await command("mcp", "login", "calc")

    assert status == 2
    assert "signing in failed: it was refused: not today" in err
    assert kept(guarded).read().get("tokens") is None


async def test_one_can_sign_out(guarded, command):
    await command("mcp", "login", "calc")
    first, second = await command("mcp", "logout", "calc"), await command("mcp", "logout", "calc")

    assert not kept(guarded).path.exists()
    assert ("signed out of calc" in first[2], "nobody was signed in" in second[2]) == (True, True)


async def test_a_token_goes_to_its_own_server_alone(guarded, command, tmp_path):
    """Another address of the same server has nothing."""
    await command("mcp", "login", "calc")
    path = tmp_path / "chat.json"
    path.write_text(path.read_text().replace("/mcp", "/mcp?tenant=b"))
    async with FlexChat.from_config(path) as chat:
        await chat.call_tool("add", {"a": 1})
        (why,) = chat.tools.sources.missing(["calc/*"])

    assert "it asks you to sign in" in why


@pytest.mark.skipif(os.name == "nt", reason="rights there come from the folder")
async def test_tokens_that_others_may_read_are_not_used(guarded, command, tmp_path):
    await command("mcp", "login", "calc")
    kept(guarded).path.chmod(0o644)
    async with FlexChat.from_config(tmp_path / "chat.json") as chat:
        await chat.call_tool("add", {"a": 1})
        (why,) = chat.tools.sources.missing(["calc/*"])

    assert "may be read by others: remove it and sign in again" in why


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": "https://other.example/mcp", "tokens": {}}', '"x"'])
async def test_a_file_that_says_nothing_is_no_file(guarded, content):
    file = kept(guarded)
    file.write({})
    file.path.write_text(content)

    assert file.read() == {}


async def test_a_client_that_cannot_be_used_is_said(guarded, command, tmp_path):
    await command("mcp", "login", "calc")
    found = kept(guarded).read()
    client = {**found["client"], "token_endpoint_auth_method": "riddle"}
    kept(guarded).write({**found, "client": client, "expires_at": 1})
    async with FlexChat.from_config(tmp_path / "chat.json") as chat:
        await chat.call_tool("add", {"a": 1})
        (why,) = chat.tools.sources.missing(["calc/*"])

    assert "its token cannot be renewed: " in why
    assert "riddle" in why


async def test_a_link_in_the_tokens_place_is_not_followed(guarded, tmp_path):
    file = kept(guarded)
    file.write({})
    file.path.unlink()
    (tmp_path / "theirs.json").write_text("{}")
    file.path.symlink_to(tmp_path / "theirs.json")

    with pytest.raises(TokensError, match="cannot be used"):
        file.read()


async def test_a_server_without_oauth_in_its_table_says_what_is_missing(guarded, tmp_path):
    path = tmp_path / "chat.json"
    path.write_text(path.read_text().replace('"auth": {"oauth": true}, ', ""))
    async with FlexChat.from_config(path) as chat:
        await chat.call_tool("add", {"a": 1})
        (why,) = chat.tools.sources.missing(["calc/*"])

    assert "it needs a token: set auth = { oauth = true } in its table" in why


async def test_a_server_that_needs_no_login_is_said(guarded, command, tmp_path):
    path = tmp_path / "chat.json"
    path.write_text(path.read_text().replace('{"oauth": true}', '{"bearer": "a-token"}'))
    status, _, err = await command("mcp", "login", "calc")

    assert status == 2
    assert "calc needs no signing in" in err


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("https://10.1.2.3/metadata", "10.1.2.3"),
        ("http://169.254.169.254/latest", "http://169.254.169.254 is not https"),
        ("http://mcp.example/metadata", "http://mcp.example is not https"),
        ("http://127.0.0.1:1/metadata", "127.0.0.1"),
        ("file:///etc/passwd", "is not https"),
        ("/metadata", "is not https"),
        ("http://[::bad", "signing in failed"),
        ("https://a.example/" + "x" * 5_000, "signing in failed"),
        ("{base}/flood", "127.0.0.1 answered with more than 131,072 bytes"),
    ],
)
async def test_a_server_cannot_send_one_anywhere(guarded, command, where, said):
    guarded.where = where.replace("{base}", guarded.base)
    status, out, err = await command("mcp", "login", "calc")

    assert (status, out) == (2, "")
    assert said in err
    assert "/authorize" not in guarded.asked


async def test_an_authorization_server_behind_the_guard_is_not_reached(guarded, command, tmp_path):
    path = tmp_path / "chat.json"
    port = guarded.base.rpartition(":")[2]
    path.write_text(path.read_text().replace('"allow": ["127.0.0.1"]', f'"allow": ["127.0.0.1:{port}"]'))
    guarded.says["resource"] = {"authorization_servers": ["http://127.0.0.1:9/"]}
    status, _, err = await command("mcp", "login", "calc")

    assert status == 2
    assert "127.0.0.1:9" in err
    assert "network" in err


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ({"code_challenge_methods_supported": None}, "does not say that it checks who comes for a token (PKCE, S256)"),
        ({"code_challenge_methods_supported": ["plain"]}, "(PKCE, S256)"),
        ({"authorization_endpoint": "http://evil.example/authorize"}, "http://evil.example is not https"),
        ({"token_endpoint": "http://evil.example/token"}, "http://evil.example is not https"),
        ({"registration_endpoint": "http://evil.example/register"}, "http://evil.example is not https"),
        ({"token_endpoint": "https://10.1.2.3/token"}, "10.1.2.3"),
    ],
)
async def test_what_an_authorization_server_says_of_itself_is_checked(guarded, command, says, said):
    guarded.says["metadata"] = says
    status, _, err = await command("mcp", "login", "calc")

    assert status == 2
    assert said in err
    assert guarded.grants == []


@pytest.mark.parametrize(
    "says",
    [
        {"token_type": "mac"},
        {"access_token": "a\r\nX-Evil: 1"},
        {"access_token": ""},
        {"access_token": "x" * 20_000},
        {"refresh_token": "\u00e9"},
        {"expires_in": "soon"},
        {"error": "invalid_grant"},
    ],
)
async def test_a_token_that_is_none_is_refused(guarded, command, says):
    guarded.says["token"] = says
    status, _, err = await command("mcp", "login", "calc")

    assert status == 2
    assert "signing in failed: " in err
    assert "X-Evil" not in err
    assert kept(guarded).read().get("tokens") is None


@pytest.mark.parametrize("seconds", [10**30, -(10**30), 0, None])
async def test_a_token_may_live_as_long_as_it_likes(guarded, command, seconds):
    guarded.says["token"] = {"expires_in": seconds}
    status, _, err = await command("mcp", "login", "calc")

    assert status == 0, err


async def test_an_endpoint_may_have_a_query(guarded, command, monkeypatch):
    pages = []
    monkeypatch.setattr("webbrowser.open", lambda url: (pages.append(url), go(url)))
    guarded.says["metadata"] = {"authorization_endpoint": f"{guarded.base}/authorize?tenant=b"}
    status, _, err = await command("mcp", "login", "calc")

    assert status == 0, err
    assert "/authorize?tenant=b&response_type=code&" in pages[0]


async def test_a_port_of_the_config_that_is_taken_is_said(guarded, command, tmp_path):
    path = tmp_path / "chat.json"
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as taken:
        port = taken.sockets[0].getsockname()[1]
        path.write_text(path.read_text().replace('"oauth": true', f'"oauth": true, "redirect_port": {port}'))
        status, _, err = await command("mcp", "call", "calc", "count")

    assert status == 2
    assert f"port {port} of 127.0.0.1, where the browser comes back to, cannot be used" in err
    assert "change auth.redirect_port" in err


async def test_requests_at_once_send_the_person_to_one_page(guarded):
    """A second page would take the first one's place, and both would fail."""
    asked = []

    class Person:
        redirect_uri = "http://127.0.0.1:1/callback"

        async def sign_in(self, url):
            asked.append(url)
            back = await client.get(url)
            query = parse_qs(urlsplit(back.headers["location"]).query)
            return AuthorizationCodeResult(**{name: query[name][0] for name in ("code", "state", "iss")})

    url = f"{guarded.base}/mcp"
    sign_in = SignIn("calc", url, McpAuth(oauth=True), Person())
    async with httpx2.AsyncClient() as client:
        requests = [httpx2.Request("POST", url, json={}) for _ in range(5)]
        answers = await asyncio.gather(*(sign_in.send(request, client.send) for request in requests))

    assert len(asked) == 1
    assert 401 not in [answer.status_code for answer in answers]


async def test_a_request_does_not_wait_for_the_answer_to_another():
    """The SDK's own provider sends one at a time: a long call would hold up all others."""
    second_is_sent = asyncio.Event()

    async def send(request):
        if request.url.path == "/first":
            await second_is_sent.wait()
        else:
            second_is_sent.set()
        return httpx2.Response(200, request=request)

    sign_in = SignIn("calc", "https://mcp.example/mcp", McpAuth(oauth=True), None)
    requests = [httpx2.Request("POST", f"https://mcp.example/{name}") for name in ("first", "second")]
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*(sign_in.send(request, send) for request in requests))

    assert [answer.status_code for answer in answers] == [200, 200]


class TestBrowser:
    URL = "https://as.example/authorize?state=s1"

    @pytest.fixture
    async def person(self):
        async with browser(Terminal(), opens=False) as person:
            task = asyncio.create_task(person.sign_in(self.URL))
            await asyncio.sleep(0)
            yield person, task
            task.cancel()

    async def visit(self, person, query, path="/callback"):
        base = person.redirect_uri.removesuffix("/callback")
        return await asyncio.to_thread(go, f"{base}{path}{query}")

    async def test_what_was_not_asked_for_is_ignored(self, person):
        person, task = person
        for query in ("?code=evil&state=other", "?code=evil", "?state=s1", "", "?error=x&state=other"):
            await self.visit(person, query)
        await self.visit(person, "?code=evil&state=s1", "/favicon.ico")
        assert not task.done()
        page = await self.visit(person, "?code=mine&state=s1&iss=https://as.example")
        await self.visit(person, "?code=replayed&state=s1")

        result = await task
        assert (result.code, result.iss) == ("mine", "https://as.example")
        assert "You are signed in" in page

    async def test_a_refusal_is_said(self, person):
        person, task = person
        await self.visit(person, "?error=access_denied&state=s1")

        with pytest.raises(OAuthFlowError, match="access_denied"):
            await task

    @pytest.mark.parametrize("sent", [b"", b"\r\n\r\n", b"GET\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"x" * 40_000])
    async def test_nonsense_does_not_end_it(self, person, sent):
        person, task = person
        port = int(person.redirect_uri.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        assert not task.done()
        await self.visit(person, "?code=mine&state=s1")

        assert (await task).code == "mine"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"oauth": True, "bearer": "a-token"}, "either a bearer token or oauth"),
        ({"oauth": True, "client_metadata_url": "http://x.example/a"}, "an https address with a path"),
        ({"oauth": True, "client_metadata_url": "https://x.example"}, "an https address with a path"),
        ({"oauth": True, "redirect_port": 70_000}, "65535"),
        ({"oauth": "yes"}, "true or false"),
        ({"oatuh": True}, "did you mean 'oauth'"),
    ],
)
def test_wrong_credentials_are_said(table, said):
    _, problems = structure_mapping(table, McpAuth)

    assert any(said in str(problem) for problem in problems)
