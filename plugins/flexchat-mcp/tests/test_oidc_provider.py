"""Signing in with oidc-provider, an authorization server that others wrote: what it checks, and what is kept of it."""

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from flexchat import FlexChat
from flexchat_cli.main import main
from flexchat_mcp.tokens import TokenFile
from mcp.client.auth import oauth2
from oidc import Oidc, Resource, Visitor

from .conftest import until
from .test_http import made, serve  # noqa: F401  # a fixture

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
CALLER = Path(__file__).resolve().parents[3] / "tests" / "servers" / "mcp_caller.py"
OAUTH, OPENID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
COUNTED = {"result": "counted", "why": ""}
LOGIN = "it asks you to sign in: flexchat mcp login calc"


@attrs.frozen
class Setting:
    """An authorization server, an MCP server behind it, a person with a browser, and a configuration."""

    oidc: Oidc
    resource: Resource
    visitor: Visitor
    config: Path
    capsys: pytest.CaptureFixture

    @property
    def file(self):
        return TokenFile(self.resource.url)

    @property
    def tokens(self):
        return self.file.read()["tokens"]

    def configure(self, **auth):
        table = {"name": "calc", "url": self.resource.url, "auth": {"oauth": True, **auth}, "effects": {"*": "read"}}
        config = {
            "llms": {"r": {"provider": "rehearsal"}},
            "responses": [{"llm": "r", "model": "any", "tools": {"allowed_tools": ["calc/*"]}}],
            "tools": {"mcp": [table]},
            "network": {"allow": ["127.0.0.1", "localhost"]},
        }
        self.config.write_text(json.dumps(config))

    async def run(self, *words):
        """Run a command; return its status and all it writes."""
        status = await asyncio.to_thread(main, [*words, "--config", str(self.config)])
        return status, "".join(self.capsys.readouterr())

    async def login(self):
        assert (await self.run("mcp", "login", "calc"))[0] == 0

    def chat(self):
        return FlexChat.from_config(self.config)

    async def call(self, tool="add", arguments=None):
        """Call a tool as a turn does, in a program of its own."""
        async with self.chat() as chat:
            found = await chat.call_tool(tool, {"a": 1} if arguments is None else arguments)
            return found.result if found.success else "; ".join([found.error, *chat.tools.sources.missing(["calc/*"])])

    async def held_call(self):
        """Sign in, and return a call whose token is being renewed: the answer to that is held back."""
        await self.login()
        self.expire()
        self.oidc.test("set", hold="after")
        call = asyncio.create_task(self.call())
        await until(lambda: self.oidc.seen["held"])
        return call

    def expire(self):
        """Let the access token run out by the clock."""
        self.file.write({**self.file.read(), "expires_at": 1})

    def forget(self):
        """Let the authorization server forget the access token before it has run out."""
        self.oidc.test("destroy", token=self.tokens["access_token"])


@pytest.fixture
async def make(installed, serve, tmp_path, monkeypatch, capsys):  # noqa: F811
    """Set all up, with options of oidc_server.mjs."""
    with contextlib.ExitStack() as stack:

        async def make(**options):
            oidc = stack.enter_context(Oidc.running(installed, **options))
            resource, visitor = Resource(oidc), Visitor()
            resource.base = await serve(resource.guarded(made().streamable_http_app()))
            oidc.test("set", resources=[resource.url])
            monkeypatch.setattr("webbrowser.open", visitor.go)
            setting = Setting(oidc, resource, visitor, tmp_path / "chat.json", capsys)
            setting.configure()
            return setting

        yield make


@pytest.fixture
async def setting(make):
    return await make()


@pytest.mark.parametrize(
    ("path", "served"),
    [
        ("", OAUTH),
        ("", OPENID),
        ("/tenant", f"{OAUTH}/tenant"),
        ("/tenant", f"{OPENID}/tenant"),
        ("/tenant", f"/tenant{OPENID}"),
    ],
)
async def test_one_signs_in_wherever_the_metadata_is(make, path, served):
    setting = await make(path=path, served=[served])
    status, said = await setting.run("mcp", "login", "calc")

    assert (status, "signed in at calc" in said) == (0, True)
    assert await setting.call() == 3
    (grant,) = setting.oidc.seen["grants"]
    assert (grant["grant"], grant["resource"]) == ("authorization_code", setting.resource.url)
    assert setting.oidc.introspect(setting.tokens["access_token"])["aud"] == setting.resource.url
    assert stat.S_IMODE(setting.file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(setting.file.path.parent.stat().st_mode) == 0o700


class TestClients:
    async def test_one_registers_by_itself_and_once(self, setting):
        await setting.login()
        await setting.run("mcp", "call", "calc", "count")
        client = setting.file.read()["client"]

        assert [each["client"] for each in setting.oidc.seen["grants"]] == [client["client_id"]]
        assert client["issuer"] == setting.oidc.issuer

    @pytest.mark.parametrize(
        "auth", [{"client_id": "by-hand"}, {"client_id": "with-secret", "client_secret": "the secret of a client"}]
    )
    async def test_one_that_was_registered_by_hand_renews_too(self, setting, auth):
        setting.configure(**auth)
        await setting.login()
        setting.expire()

        assert await setting.call() == 3
        assert [(each["grant"], each["client"]) for each in setting.oidc.seen["grants"]] == [
            ("authorization_code", auth["client_id"]),
            ("refresh_token", auth["client_id"]),
        ]

    async def test_a_secret_that_is_wrong_does_not_cost_the_grant(self, setting):
        setting.configure(client_id="with-secret", client_secret="the secret of a client")
        await setting.login()
        setting.expire()
        setting.configure(client_id="with-secret", client_secret="the secret of yesterday")
        said = await setting.call()
        setting.configure(client_id="with-secret", client_secret="the secret of a client")

        assert "its token cannot be renewed: 127.0.0.1 answered 401: invalid_client" in said
        assert await setting.call() == 3

    async def test_a_document_is_a_client(self, setting):
        address = "https://flexchat.example/client.json"
        native = {"application_type": "native", "redirect_uris": ["http://127.0.0.1/callback"]}
        methods = {"token_endpoint_auth_method": "none", "grant_types": ["authorization_code", "refresh_token"]}
        setting.oidc.test("set", document={"client_id": address, **native, **methods})
        setting.configure(client_metadata_url=address)
        await setting.login()
        setting.expire()

        assert await setting.call() == 3
        assert [each["client"] for each in setting.oidc.seen["grants"]] == [address, address]


class TestWhatTheServerChecks:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("code_challenge=" + "x" * 43, "invalid_grant"),
            ("code_challenge=", "code_challenge must be provided"),
            ("resource=https%3A%2F%2Fother.example%2Fmcp", "resource"),
        ],
    )
    async def test_who_meddles_with_the_request_gets_nothing(self, setting, change, said):
        name = change.partition("=")[0]
        setting.visitor.changes = lambda url: re.sub(rf"(?<=[?&]){name}=[^&]*", change, url)
        status, out = await setting.run("mcp", "login", "calc")

        assert status == 2
        assert said in out
        assert "tokens" not in setting.file.read()

    async def test_a_code_is_used_once_and_who_tries_again_ends_the_grant(self, setting):
        await setting.login()
        code = next(parse_qs(urlsplit(page).query)["code"][0] for page in setting.visitor.pages if "code=" in page)
        setting.visitor.changes = lambda url: re.sub(r"(?<=[?&])code=[^&]*", f"code={code}", url)
        async with setting.chat() as chat:
            before = await chat.call_tool("add", {"a": 1})
            setting.file.path.rename(kept := setting.file.path.with_name("kept"))
            status, out = await setting.run("mcp", "login", "calc")
            kept.rename(setting.file.path)

        assert before.success
        assert (status, "invalid_grant" in out, code in out) == (2, True, False)

    async def test_a_token_for_another_server_is_refused(self, setting, serve):  # noqa: F811
        other = Resource(setting.oidc)
        other.base = await serve(other.guarded(made().streamable_http_app()))
        setting.oidc.test("set", resources=[setting.resource.url, other.url])
        await setting.login()
        stolen = setting.file.read() | {"resource": {"resource": other.url, "authorization_servers": ["https://a.b"]}}
        TokenFile(other.url).write(
            {name: value for name, value in stolen.items() if name != "url"} | {"url": other.url}
        )
        mine, setting = setting, attrs.evolve(setting, resource=other)
        setting.configure()

        assert LOGIN in await setting.call()
        assert mine.tokens["access_token"] in other.tokens
        assert set(other.asked) == {401}
        assert [each["error"] for each in setting.oidc.seen["errors"]] == ["invalid_target"]


class TestWhoAnswers:
    async def test_another_issuer_is_not_believed(self, setting):
        setting.visitor.changes = lambda url: re.sub(r"(?<=[?&])iss=[^&]*", "iss=https%3A%2F%2Fevil.example", url)
        status, out = await setting.run("mcp", "login", "calc")

        assert (status, "iss mismatch: https://evil.example" in out) == (2, True)
        assert setting.oidc.seen["grants"] == []

    async def test_metadata_of_another_issuer_is_not_believed(self, setting):
        setting.resource.metadata = {"authorization_servers": [setting.oidc.issuer.replace("127.0.0.1", "localhost")]}
        status, out = await setting.run("mcp", "login", "calc")

        assert (status, "issuer mismatch" in out) == (2, True)
        assert setting.visitor.pages == []

    async def test_a_foreign_state_and_a_replay_change_nothing(self, setting):
        def twice(url):
            if "/callback?" in url:
                with contextlib.suppress(urllib.error.HTTPError):
                    urllib.request.urlopen(re.sub(r"(?<=[?&])state=[^&]*", "state=foreign", url))
            return url

        setting.visitor.changes = twice
        await setting.login()

        assert setting.oidc.counts("authorization_code") == 1

    async def test_a_person_may_say_no(self, setting):
        setting.visitor.agrees = False
        status, out = await setting.run("mcp", "login", "calc")

        assert (status, "it was refused: the person says no" in out) == (2, True)
        assert setting.oidc.seen["grants"] == []
        assert sum("/callback?" in page for page in setting.visitor.pages) == 1, "they are asked once"


class TestRenewing:
    @pytest.mark.parametrize("how", [Setting.expire, Setting.forget])
    async def test_a_token_is_renewed_without_a_person_and_the_rotated_one_is_kept(self, setting, how):
        await setting.login()
        visits, before = len(setting.visitor.pages), setting.tokens
        how(setting)
        results = [await setting.call(), await setting.call()]
        after = setting.tokens
        how(setting)
        results.append(await setting.call())

        assert results == [3, 3, 3]
        assert setting.oidc.counts() == 2
        assert after["refresh_token"] != before["refresh_token"]
        assert {each["resource"] for each in setting.oidc.seen["grants"]} == {setting.resource.url}
        assert len(setting.visitor.pages) == visits, "nobody was asked"
        assert stat.S_IMODE(setting.file.path.stat().st_mode) == 0o600

    async def test_an_old_token_ends_the_grant_and_a_person_is_needed(self, setting):
        await setting.login()
        old = setting.file.read()
        setting.expire()
        await setting.call()
        setting.file.write(old | {"expires_at": 1})
        visits = len(setting.visitor.pages)

        assert LOGIN in await setting.call()
        assert [each["detail"] for each in setting.oidc.seen["errors"]] == ["refresh token already used"]
        assert "tokens" not in setting.file.read()
        assert len(setting.visitor.pages) == visits, "a turn does not ask"

    async def test_a_grant_that_was_revoked_names_the_command(self, setting):
        await setting.login()
        client = setting.file.read()["client"]
        setting.oidc.revoke(setting.tokens["refresh_token"], client["client_id"], client.get("client_secret"))

        assert LOGIN in await setting.call()
        await setting.login()
        assert await setting.call() == 3

    async def test_a_server_that_is_down_does_not_cost_the_grant(self, setting):
        await setting.login()
        setting.expire()
        setting.oidc.test("set", fail=503)
        said = await setting.call()
        setting.oidc.test("set", fail=0)

        assert "its token cannot be renewed: 127.0.0.1 answered 503; if that goes on: flexchat mcp login calc" in said
        assert await setting.call() == 3

    async def test_many_calls_renew_once(self, setting):
        await setting.login()
        async with setting.chat() as chat:
            await chat.call_tool("add", {"a": 1})
            for how in (setting.expire, setting.forget):
                how()
                before = setting.oidc.counts()
                found = await asyncio.gather(*(chat.call_tool("add", {"a": n}) for n in range(20)))
                assert [each.result for each in found] == [n + 2 for n in range(20)]
                assert setting.oidc.counts() == before + 1

    async def test_a_call_that_is_cancelled_does_not_lose_the_token(self, setting):
        await setting.login()
        async with setting.chat() as chat:
            await chat.call_tool("add", {"a": 1})
            setting.expire()
            setting.oidc.test("set", hold="after")
            call = asyncio.create_task(chat.call_tool("add", {"a": 1}))
            await until(lambda: setting.oidc.seen["held"])
            call.cancel()
            await asyncio.wait([call])
            setting.oidc.test("release")
            again = await chat.call_tool("add", {"a": 1})

        assert call.cancelled()
        assert again.result == 3
        assert setting.oidc.counts() == 1
        assert setting.oidc.seen["errors"] == []

    async def test_whoever_ends_waits_for_the_token(self, setting):
        call = await setting.held_call()
        call.cancel()
        await asyncio.to_thread(setting.oidc.test, "release")
        await asyncio.wait([call])

        assert await setting.call() == 3
        assert setting.oidc.seen["errors"] == []

    async def test_one_signs_out_while_a_token_is_renewed(self, setting):
        call = await setting.held_call()
        leaving = asyncio.create_task(setting.run("mcp", "logout", "calc"))
        await asyncio.wait([leaving], timeout=0.2)
        waited = not leaving.done()
        setting.oidc.test("release")
        await asyncio.wait([call, leaving])

        assert waited
        assert "signed out" in leaving.result()[1]
        assert not setting.file.path.exists()


class TestMoreRights:
    async def test_a_tool_that_needs_more_is_named_in_a_turn_and_asked_for_by_a_command(self, setting):
        await setting.login()
        setting.resource.rights = {"count": "tools:write"}
        said, visits = await setting.call("count", {}), len(setting.visitor.pages)
        await setting.run("mcp", "call", "calc", "count")
        scopes = setting.tokens["scope"].split()
        setting.expire()

        assert "it asks you to sign in with more rights: flexchat mcp login calc" in said
        assert len(setting.visitor.pages) > visits
        assert {"tools:read", "tools:write"} <= set(scopes)
        assert [await setting.call("count", {}), await setting.call()] == ["counted", 3]

    async def test_the_config_may_ask_for_them_at_once(self, setting):
        setting.resource.rights = {"count": "tools:write"}
        setting.configure(scope="tools:write")
        await setting.login()

        assert await setting.call("count", {}) == "counted"


class Caller:
    """A program of its own that calls a tool when told to."""

    def __init__(self, setting, tool="count"):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, str(CALLER), str(setting.config), tool], text=True, **pipes)

    async def said(self):
        return await asyncio.to_thread(self.process.stdout.readline)

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
async def callers(setting):
    """Start programs, which are connected when this returns."""
    started = []

    async def start(count):
        mine = [Caller(setting) for _ in range(count)]
        started.extend(mine)
        for each in mine:
            each.go()
            assert [await each.said(), json.loads(await each.said())] == ["ready\n", COUNTED]
        return mine

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


class TestPrograms:
    @pytest.mark.parametrize("count", [2, 8])
    async def test_programs_renew_one_token_once(self, setting, callers, count):
        """As often as it runs out, and however many need it at the same moment."""
        await setting.login()
        programs = await callers(count)
        for number in range(12):
            (setting.expire if number % 2 else setting.forget)()
            for each in programs:
                each.go()
            said = [json.loads(await each.said()) for each in programs]
            assert said == [COUNTED] * count
            assert setting.oidc.counts() == number + 1

        assert setting.oidc.seen["errors"] == []

    async def test_who_is_killed_while_it_renews_keeps_nobody_waiting(self, setting, callers):
        await setting.login()
        first, second = await callers(2)
        setting.expire()
        setting.oidc.test("set", hold="before")
        first.go()
        await until(lambda: setting.oidc.seen["held"])
        second.go()
        setting.oidc.test("set", hold="")
        first.process.send_signal(signal.SIGKILL)
        said = json.loads(await second.said())
        first.process.wait()
        setting.oidc.test("release")

        assert said == COUNTED
        assert setting.oidc.counts() == 1

    async def test_who_is_killed_before_it_writes_costs_the_grant_and_that_is_said(self, setting, callers):
        """The server has rotated the token, and nobody knows the new one."""
        await setting.login()
        first, second = await callers(2)
        setting.expire()
        setting.oidc.test("set", hold="after")
        first.go()
        await until(lambda: setting.oidc.seen["held"])
        setting.oidc.test("set", hold="")
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        second.go()
        said = json.loads(await second.said())

        assert "flexchat mcp login calc" in await setting.call()
        assert said["result"] is None
        assert [each["detail"] for each in setting.oidc.seen["errors"]] == ["refresh token already used"]


async def test_no_token_and_no_code_is_ever_shown(setting, caplog, monkeypatch):
    """Not with -v, not in the log of any package, not in errors, and in no file but the one."""
    secrets = {"the secret of a client"}
    pair = oauth2.PKCEParameters.generate

    def kept(cls):
        made = pair()
        secrets.add(made.code_verifier)
        return made

    monkeypatch.setattr(oauth2.PKCEParameters, "generate", classmethod(kept))
    caplog.set_level(logging.DEBUG)
    logging.getLogger("flexchat").setLevel(logging.DEBUG)
    shown = ""

    async def run(*words):
        nonlocal shown
        shown += (await setting.run(*words, "-v"))[1] + (await setting.run(*words, "--json"))[1]
        with contextlib.suppress(LookupError):
            secrets.update({setting.tokens["access_token"], setting.tokens["refresh_token"]})
            secrets.add(setting.file.read()["client"]["client_secret"])

    await run("mcp", "login", "calc")
    setting.resource.rights = {"count": "tools:write"}
    await run("mcp", "call", "calc", "count")
    for prepare in (setting.expire, setting.forget):
        prepare()
        await run("mcp", "inspect", "calc")
    setting.expire()
    setting.oidc.test("set", fail=500)
    await run("mcp", "inspect", "calc")
    setting.oidc.test("set", fail=0)
    await run("mcp", "inspect", "calc")
    setting.file.write(
        {**setting.file.read(), "expires_at": 1, "tokens": {**setting.tokens, "refresh_token": "x" * 43}}
    )
    shown += await setting.call()
    setting.visitor.changes = lambda url: re.sub(r"(?<=[?&])code_challenge=[^&]*", "code_challenge=" + "x" * 43, url)
    await run("mcp", "login", "calc")
    await run("mcp", "logout", "calc")
    shown += "".join(logging.Formatter().format(record) for record in caplog.records)
    shown += "".join(
        path.read_text("utf-8", "replace")
        for top in {Path(os.environ["FLEXCHAT_DATA"]), setting.config.parent}
        for path in top.rglob("*")
        if path.is_file()
    )
    for page in setting.visitor.pages:
        secrets.update(parse_qs(urlsplit(page).query).get("code", []))

    secrets |= setting.resource.tokens

    assert len(secrets) > 10
    assert [each for each in secrets if each in shown] == []
