"""ASGI apps that plugins mount: behind the same guard, tokens and tenants."""

import httpx
import pytest
from flexchat.host import installed_plugins
from flexchat.plugin import hookimpl
from flexchat_web import create_app
from flexchat_web.serving import Settings

CONFIG = {"llms": {"bot": {"provider": "rehearsal"}}, "responses": [{"llm": "bot", "model": "m"}]}
TOKENS = {"acme-token-0123456789": "acme"}


class Mounts:
    """A plugin that mounts an app which answers with its tenant."""

    FLEXCHAT_API = (0, 1)

    def __init__(self, path="/acme"):
        self.path = path

    @hookimpl(optionalhook=True)
    def flexchat_web_apps(self, web):
        async def handle(serving, scope, receive, send):
            if scope["path"].endswith("/refuse"):
                raise web.ApiError(409, "not now")
            body = scope["flexchat.tenant"].encode()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": body})

        async def admit(serving, bearer):
            return web.Admission(tenant="guest" if bearer == "guest" else None, challenge='Bearer realm="acme"')

        yield web.MountedApp(path=self.path, handle=handle, open_paths=("/.well-known/acme",), admit=admit)


@pytest.fixture
async def get():
    """Return a function that sends a request to an app with a mounted one."""
    opened = []

    async def get(path, *, token=None, tokens=TOKENS, mounted="/acme", **headers):
        host = installed_plugins()
        assert host.register(Mounts(mounted), "acme").status == "active"
        app = create_app(CONFIG, plugins=host, settings=Settings(tokens=tokens))
        opened.append(app)
        headers |= {"authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path, headers=headers)

    yield get
    for app in opened:
        await app.aclose()


@pytest.mark.parametrize(
    ("token", "tenant"), [("acme-token-0123456789", "acme"), ("guest", "guest")], ids=["the server's", "the app's"]
)
async def test_an_app_gets_the_tenant_of_the_token(get, token, tenant):
    for path in ("/acme", "/acme/below"):
        response = await get(path, token=token)
        assert (response.status_code, response.text) == (200, tenant)


@pytest.mark.parametrize("tokens", [TOKENS, {}], ids=["tokens", "no tokens"])
@pytest.mark.parametrize("token", [None, "unknown"])
async def test_without_a_token_the_app_challenges_the_client(get, token, tokens):
    response = await get("/acme", token=token, tokens=tokens)

    assert (response.status_code, response.headers["www-authenticate"]) == (401, 'Bearer realm="acme"')


async def test_tokens_of_the_app_are_for_the_app_only(get):
    assert (await get("/api/turns", token="guest")).status_code == 401
    assert (await get("/acmes", token="guest")).status_code == 401
    assert (await get("/api/tools/list", tokens={})).status_code == 200


async def test_an_open_path_needs_no_token(get):
    assert (await get("/.well-known/acme")).text == "default"


async def test_the_guard_is_in_front_of_it(get):
    assert (await get("/acme", token="guest", host="evil.example")).status_code == 421
    assert (await get("/acme", token="guest", origin="https://evil.example")).status_code == 403


async def test_its_problems_are_those_of_operations(get):
    response = await get("/acme/refuse", token="guest")

    assert (response.status_code, response.json()["detail"]) == (409, "not now")


@pytest.mark.parametrize("mounted", ["/api/chat", "/static/", "/"])
async def test_an_app_takes_the_place_of_nothing_else(get, mounted, caplog):
    assert (await get("/", mounted=mounted)).headers["content-type"].startswith("text/html")


async def test_of_two_apps_at_one_path_the_first_is_mounted(caplog):
    host = installed_plugins()
    for name in ("one", "two"):
        host.register(Mounts(), name)

    app = create_app(CONFIG, plugins=host)

    assert [each.path for each in app._apps if each.path == "/acme"] == ["/acme"]
    assert "another plugin has mounted an app at /acme" in caplog.text
    await app.aclose()
