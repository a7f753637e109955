"""per_tenant over HTTP: a connection and OAuth tokens of one's own. No request of a tenant ever has another's token."""

import asyncio
import contextlib
import http.client
import json
import random
import shutil
import unicodedata
from urllib.parse import parse_qs, urlsplit

import pytest
from flexchat import FlexChat
from flexchat.plugin import ToolSourceContext
from flexchat_mcp.http import GuardedTransport
from flexchat_mcp.oauth import SignIn
from flexchat_mcp.settings import McpAuth, McpConfig
from flexchat_mcp.source import McpSource
from flexchat_mcp.tokens import TokenFile
from hypothesis import given
from hypothesis import strategies as st
from mcp.client.auth import AuthorizationCodeResult
from oauth_server import Authority

from .conftest import until
from .test_http import made, serve  # noqa: F401  # a fixture
from .test_oauth import command  # noqa: F401  # a fixture

pytestmark = pytest.mark.anyio

TENANTS = ("default", "a", "A", "b")


class Place:
    """A guarded server, the chat that uses it, and every request that was sent to it: whose it was, and its tokens."""

    def __init__(self, authority, folder):
        self.authority, self.folder, self.sent = authority, folder, []

    @property
    def url(self):
        return f"{self.authority.base}/mcp"

    def file(self, tenant):
        return TokenFile(self.url, tenant)

    def write(self, **rest):
        server = {"name": "calc", "url": self.url, "auth": {"oauth": True}, "effects": {"*": "read"}}
        config = {
            "llms": {"r": {"provider": "rehearsal"}},
            "responses": [{"llm": "r", "model": "any"}],
            "tools": {"mcp": [{**server, "per_tenant": True, "restarts": 1_000, **rest}]},
            "network": {"allow": ["127.0.0.1"]},
        }
        (self.folder / "chat.json").write_text(json.dumps(config))
        return self.folder / "chat.json"

    def seen(self):
        """Return whose requests had whose tokens."""
        owners = self.authority.owners.items()
        return {(tenant, owner) for tenant, words in self.sent for token, owner in owners if token in words}


@pytest.fixture
async def place(serve, tmp_path, monkeypatch):  # noqa: F811
    authority = Authority()
    authority.base = await serve(authority.guarded(made().streamable_http_app()))
    place = Place(authority, tmp_path)
    send = GuardedTransport._send

    class Known(SignIn):
        def __init__(self, name, url, auth, person, tenant):
            super().__init__(name, url, auth, person, tenant)
            self.tenant = tenant

    async def noted(self, request):
        tenant = self._sign_in.tenant
        body = (await request.aread()).decode()
        place.sent.append((tenant, f"{request.url} {[*request.headers.items()]} {body}"))
        return await send(self, request)

    monkeypatch.setattr("flexchat_mcp.http.SignIn", Known)
    monkeypatch.setattr(GuardedTransport, "_send", noted)
    place.write()
    return place


class Visitor:
    """Who signs in, at once: a browser that does not follow the page it is sent back to."""

    redirect_uri = "http://127.0.0.1:7/callback"
    problem = ""

    async def sign_in(self, url):
        def sent_to():
            parts = urlsplit(url)
            asking = http.client.HTTPConnection(parts.netloc)
            with contextlib.closing(asking):
                asking.request("GET", f"{parts.path}?{parts.query}")
                return asking.getresponse().headers["location"]

        came = {name: values[0] for name, values in parse_qs(urlsplit(await asyncio.to_thread(sent_to)).query).items()}
        return AuthorizationCodeResult(code=came["code"], state=came["state"], iss=came["iss"])


async def signed_in(place, fetcher, tenant):
    """Let a tenant sign in, as the command does, and then with the rights that the server wants."""
    authority = place.authority
    authority.person, wanted, authority.scope = tenant, authority.scope, ""
    place.file(tenant).delete()
    config = McpConfig(url=place.url, auth=McpAuth(oauth=True), per_tenant=True)
    source = McpSource(config, ToolSourceContext(name="calc", fetcher=fetcher), Visitor(), tenant)
    try:
        await source.listing(fresh=True)
        authority.scope = wanted
        await source.listing(fresh=True)
    finally:
        await source.aclose()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
async def test_no_request_has_a_token_of_another_tenant(place, seed):
    """In calls of several at once, between sign-ins, sign-outs, renewals and wishes for more rights, at random."""
    chance, authority = random.Random(seed), place.authority
    rights = {}  # by tenant that is signed in
    async with FlexChat.from_config(place.folder / "chat.json") as chat:
        fetcher = chat.tools.fetcher

        async def sign_in(tenant):
            await signed_in(place, fetcher, tenant)
            rights[tenant] = authority.scope

        async def call(tenant):
            found = await chat.call_tool("add", {"a": 1}, tenant=tenant)
            if tenant in rights and authority.scope in ("", rights[tenant]):
                assert found.result == 3, found.error
            else:
                assert f": flexchat mcp login calc{'' if tenant == 'default' else f' --tenant {tenant}'}" in found.error

        for tenant in TENANTS:
            await sign_in(tenant)
            await call(tenant)
        for _ in range(40):
            tenant = chance.choice(TENANTS)
            match chance.choice(["call"] * 4 + ["sign in", "sign out", "expire", "rights"]):
                case "sign in":
                    await sign_in(tenant)
                case "sign out":
                    place.file(tenant).delete()
                    rights.pop(tenant, None)
                case "expire" if tenant in rights:
                    place.file(tenant).write(place.file(tenant).read() | {"expires_at": 1})
                    await call(tenant)
                case "rights":
                    authority.scope = chance.choice(["", "count:write"])
                case _:
                    await asyncio.gather(*(call(each) for each in chance.choices(TENANTS, k=chance.randint(1, 6))))

    assert place.seen() == {(tenant, tenant) for tenant in TENANTS}
    assert len(authority.clients) >= len(TENANTS), "each is registered for itself"


@pytest.mark.slow
async def test_commands_sign_a_tenant_in_and_out(place, command):  # noqa: F811
    said = []
    for tenant in ("default", "a"):
        place.authority.person = tenant
        said.append(await command("mcp", "login", "calc", *(["--tenant", "a"] if tenant == "a" else [])))
    async with FlexChat.from_config(place.folder / "chat.json") as chat:
        first = [await chat.call_tool("add", {"a": 1}, tenant=tenant) for tenant in ("default", "a", "b")]
        said.append(await command("mcp", "logout", "calc", "--tenant", "a"))
        second = [await chat.call_tool("add", {"a": 1}, tenant=tenant) for tenant in ("default", "a", "b")]

    assert [status for status, *_ in said] == [0, 0, 0]
    assert [each.success for each in (*first, *second)] == [True, True, False, True, False, False]
    assert "it asks you to sign in: flexchat mcp login calc --tenant a" in second[1].error
    assert place.seen() == {("default", "default"), ("a", "a")}
    assert not place.file("a").path.exists()
    assert place.file("default").read()["tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [("login", "calc"), ("logout", "calc"), ("call", "calc", "add", "a=1")])
async def test_a_tenant_of_a_server_that_all_share_is_refused(place, command, words):  # noqa: F811
    place.write(per_tenant=False)
    status, _, err = await command("mcp", *words, "--tenant", "a")

    assert (status, "calc has no per_tenant = true, so all tenants share it; leave out --tenant" in err) == (2, True)
    assert place.sent == []


async def test_without_per_tenant_all_have_the_one_token(place, command):  # noqa: F811
    place.write(per_tenant=False)
    place.authority.person = "default"
    await command("mcp", "login", "calc")
    async with FlexChat.from_config(place.folder / "chat.json") as chat:
        assert [(await chat.call_tool("add", {"a": 1}, tenant=tenant)).result for tenant in TENANTS] == [3] * 4

    assert place.authority.grants == ["authorization_code"]


@pytest.mark.slow
async def test_an_unused_connection_is_closed(place, command):  # noqa: F811
    place.write(idle_ms=50)
    await command("mcp", "login", "calc")
    await command("mcp", "login", "calc", "--tenant", "a")
    async with FlexChat.from_config(place.folder / "chat.json") as chat:
        await chat.call_tool("add", {"a": 1}, tenant="a")
        own = chat.tools.sources.by_name["calc"]._source._tenants._places["a"].source.server
        await until(lambda: own.state.status == "stopped")

        assert (await chat.call_tool("add", {"a": 1}, tenant="a")).result == 3


# ---- the files

NAMES = st.text(st.characters(codec=None, exclude_categories=()), max_size=30) | st.sampled_from(
    ["a/b", "../a", "a\0", "a", "A", "x" * 10_000, "é", "e\u0301", "\ud83d\ude00", "\U0001f600", "\udcc3\udca9", "\n"]
)
URLS = st.sampled_from(
    ["https://a.example/mcp", "https://a.example/mcp?b", "https://b.example/mcp", "https://a.example"]
)


@given(st.tuples(URLS, NAMES), st.tuples(URLS, NAMES))
def test_no_two_share_a_file(one, other):
    def named(url, tenant):
        return url, tenant or "default"

    first, second = TokenFile(*one).path, TokenFile(*other).path

    assert (first == second) == (named(*one) == named(*other))
    assert first.parent == second.parent
    assert (first.name.casefold() == second.name.casefold()) == (named(*one) == named(*other))


@pytest.mark.parametrize("name", ["a/b", "../a", "a\0", "A", "x" * 10_000, "é", "e\u0301", "\udcff", "\n"])
def test_what_a_tenant_keeps_it_alone_reads(name):
    """Also if somebody puts its file in another's place."""
    files = {
        each: TokenFile("https://a.example", each)
        for each in (name, "default", "a", unicodedata.normalize("NFD", name))
    }
    files[name].write({"tokens": {"access_token": "mine"}})
    for each, file in files.items():
        if each != name:
            assert file.read() == {}
            shutil.copy(files[name].path, file.path)
            assert file.read() == {}

    assert TokenFile("https://a.example", name).read()["tokens"] == {"access_token": "mine"}
    assert files[name].delete()


def test_the_default_tenants_file_is_that_of_a_server_all_share():
    """So whoever was signed in before per_tenant still is."""
    paths = {TokenFile("https://a.example", *tenant).path for tenant in [(), ("default",), ("",)]}

    assert len(paths) == 1
