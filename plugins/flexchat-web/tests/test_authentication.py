"""Identity from tokens of an identity provider, from a proxy's headers, and from a token file that changes."""

import asyncio
import base64
import importlib.abc
import importlib.util
import json
import logging
import sys
import time

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from flexchat import ConfigError
from flexchat.assembly import installed_plugins
from flexchat.host import current_principal
from flexchat.plugin import hookimpl
from flexchat_cli import check_config
from flexchat_web import access_tokens, authentication
from flexchat_web.app import create_app
from flexchat_web.serving import Settings
from flexchat_web.token_file import TokenFileError
from identity_provider import provider, signing_keys

__all__ = ["provider", "signing_keys"]

TOKEN = "a-token-of-the-file"


class Who:
    """Answers with the tenant and the principal of a request, at once and as a stream."""

    def __init__(self):
        self.pieces = asyncio.Queue()

    @hookimpl(optionalhook=True)
    def flexchat_web_apps(self, web):
        async def handle(serving, scope, receive, send):
            if scope["path"] == "/who/stream":
                head = {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", b"text/event-stream")],
                }
                await send(head)
                while (piece := await self.pieces.get()) is not None:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            else:
                principal = current_principal.get()
                who = [scope["flexchat.tenant"], principal and principal.name, principal and [*principal.roles]]
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": json.dumps(who).encode()})

        yield web.MountedApp(path="/who", handle=handle)


class Opened:
    """An app with a client whose connection comes from an address.

    Attributes:
        peer: The address; None as of an app that another server mounts.
    """

    def __init__(self, folder, serve, settings):
        host, self.who = installed_plugins(), Who()
        assert host.register(self.who, "who").status == "active"
        lines = [f"{name} = {json.dumps(value)}" for table in serve.values() for name, value in table.items()]
        (table,) = serve or ("jwt",)
        text = f"[serve.{table}]\n" + "\n".join(lines) if serve else ""
        (folder / "flexchat.toml").write_text(
            f'{text}\n[llms.r]\nprovider = "rehearsal"\n[[responses]]\nllm = "r"\nmodel = "rehearsal"\n'
        )
        self.app = create_app(folder / "flexchat.toml", plugins=host, settings=Settings(**settings))
        self.peer = None
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=self._called), base_url="http://127.0.0.1:8000"
        )

    async def _called(self, scope, receive, send):
        if self.peer is not None:
            scope[authentication.PEER] = self.peer
        await self.app(scope, receive, send)

    async def ask(self, token=None, *headers):
        """Return the status and who the server takes the client for."""
        headers = [*headers, *([("authorization", f"Bearer {token}")] if token else [])]
        answer = await self.client.get("/who", headers=headers)
        return (200, *answer.json()) if answer.status_code == 200 else (answer.status_code,)


@pytest.fixture
async def open_app(tmp_path):
    opened = []

    def open_app(serve=None, **settings):
        opened.append(Opened(tmp_path, serve or {}, settings))
        return opened[-1]

    yield open_app
    for each in opened:
        await each.client.aclose()
        await each.app.aclose()


@pytest.fixture
def open_jwt(open_app, provider):
    """Return a function that opens an app with [serve.jwt]."""

    def open_jwt(**changes):
        table = {"issuer": provider.url, "audience": "flexchat", "tenant_claim": "org", "roles_claim": "realm.roles"}
        table |= changes
        return open_app({"jwt": {name: value for name, value in table.items() if value is not None}})

    return open_jwt


@pytest.fixture
def clock(monkeypatch):
    """Return a list with the monotonic time that keys have."""
    now = [1_000.0]
    monkeypatch.setattr(access_tokens, "monotonic", lambda: now[0])
    return now


def roles(*names):
    return {"realm": {"roles": [*names]}}


async def test_a_token_of_the_provider_is_a_principal(open_jwt, provider):
    app = open_jwt()

    assert await app.ask(provider.token(**roles("support", "ops"))) == (200, "acme", "ann", ["support", "ops"])
    assert await app.ask(provider.token(realm={"roles": "support ops"})) == (200, "acme", "ann", ["support", "ops"])
    assert await app.ask() == (401,)
    assert provider.requests == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize("path", ["/chat/api", "/v1/models", "/api/tools/list", "/api/conversations"])
async def test_it_is_needed_and_counts_at_every_entrance(open_jwt, provider, path):
    app = open_jwt()
    method = "POST" if path == "/chat/api" else "GET"
    body = {"prompt": "hello"} if method == "POST" else None

    refused = await app.client.request(method, path, json=body)
    admitted = await app.client.request(
        method, path, json=body, headers={"authorization": f"Bearer {provider.token(**roles())}"}
    )

    assert (refused.status_code, admitted.status_code != 401) == (401, True)


def public_pem(key):
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def part(data):
    return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


def forged_with_public_key(provider):
    """Sign with HS256, with the public key as the secret, as PyJWT refuses to."""
    import hashlib
    import hmac

    claims = {"iss": provider.url, "aud": "flexchat", "exp": time.time() + 60, "sub": "ann", "org": "acme", **roles()}
    signed = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{part(claims)}"
    mac = hmac.new(public_pem(provider.keys["k1"]), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


REFUSED = {
    "another issuer": lambda p: p.token(iss="https://evil.example", **roles()),
    "the issuer with a slash": lambda p: p.token(iss=p.url + "/", **roles()),
    "an issuer that is a list": lambda p: p.token(iss=None, **roles()),
    "wrong audience": lambda p: p.token(aud="another", **roles()),
    "no audience": lambda p: p.token(aud=None, **roles()),
    "expired": lambda p: p.token(exp=time.time() - 60, **roles()),
    "no expiry": lambda p: p.token(exp=None, **roles()),
    "an expiry that is endless": lambda p: p.token(exp=float("inf"), **roles()),
    "an expiry that is a text": lambda p: p.token(exp="tomorrow", **roles()),
    "not yet valid": lambda p: p.token(nbf=time.time() + 60, **roles()),
    "issued in the future": lambda p: p.token(iat=time.time() + 60, **roles()),
    "alg none": lambda p: p.token(algorithm="none", **roles()),
    "HS256 with the public key": forged_with_public_key,
    "HS256": lambda p: p.token(key="x" * 40, algorithm="HS256", **roles()),
    "an algorithm that is not listed": lambda p: p.token(algorithm="RS512", **roles()),
    "no user": lambda p: p.token(sub=None, **roles()),
    "an empty user": lambda p: p.token(sub="", **roles()),
    "a user with a line break": lambda p: p.token(sub="ann\nbob", **roles()),
    "no tenant": lambda p: p.token(org=None, **roles()),
    "a tenant that is a number": lambda p: p.token(org=7, **roles()),
    "no roles": lambda p: p.token(),
    "roles of the wrong type": lambda p: p.token(realm={"roles": {"admin": True}}),
    "a role of the wrong type": lambda p: p.token(realm={"roles": ["support", 7]}),
    "an unknown kid": lambda p: p.token(header={"kid": "k9"}, **roles()),
    "a kid that is a list": lambda p: f"{part({'alg': 'RS256', 'kid': ['k1']})}.{part({'iss': p.url})}.AAAA",
    "another key with the kid": lambda p: p.token(key="k2", header={"kid": "k1"}, **roles()),
    "a critical extension": lambda p: p.token(header={"crit": ["x"], "x": 1}, **roles()),
    "oversized": lambda p: p.token(pad="x" * 20_000, **roles()),
    "nested deeply": lambda p: f"{part({'alg': 'RS256'})}.{base64.urlsafe_b64encode(b'[' * 9_000).decode()}.AAAA",
    "no object": lambda p: f"{part({'alg': 'RS256'})}.{part([1])}.AAAA",
    "garbage": lambda p: "a.b.c",
    "a changed claim": lambda p: ".".join([*p.token(**roles()).split(".")[:1], part({"iss": p.url}), "AAAA"]),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_token_that_is_not_for_us_is_refused_with_one_sentence(open_jwt, provider, kind):
    """The answer is the same for all, so that it reveals nothing."""
    app = open_jwt()
    answer = await app.client.get("/who", headers={"authorization": f"Bearer {REFUSED[kind](provider)}"})

    assert answer.status_code == 401
    assert answer.json()["detail"] == "the server does not accept this token: ask whoever runs the server"
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'


async def test_clocks_may_differ_by_the_leeway(open_jwt, provider):
    late = provider.token(exp=time.time() - 10, **roles())

    assert (await open_jwt().ask(late))[0] == 200
    assert (await open_jwt(leeway_s=1).ask(late))[0] == 401


async def test_a_key_that_is_rotated_works_at_once_and_a_withdrawn_one_ends(open_jwt, provider, clock):
    app = open_jwt()
    old, new = provider.token(**roles()), provider.token(key="k2", **roles())
    assert [(await app.ask(token))[0] for token in (old, new)] == [200, 401]
    provider.published = ["k2"]
    clock[0] += access_tokens.REFETCH_S

    assert [(await app.ask(token))[0] for token in (new, old)] == [200, 401]


async def test_unknown_keys_do_not_flood_the_provider(open_jwt, provider, clock):
    app = open_jwt()
    tokens = [provider.token(header={"kid": f"unknown {number}"}, **roles()) for number in range(20)]
    statuses = await asyncio.gather(*(app.ask(token) for token in tokens))
    foreign = await app.ask(provider.token(iss="https://evil.example"))

    assert {*statuses, foreign} == {(401,)}
    assert provider.requests.count("/keys") == 1


async def test_while_the_provider_is_away_the_last_keys_are_used_for_hours(open_jwt, provider, clock):
    app = open_jwt()
    token = provider.token(**roles())
    assert (await app.ask(token))[0] == 200
    provider.is_down = True
    clock[0] += access_tokens.MAX_AGE_S
    assert (await app.ask(token))[0] == 200
    clock[0] += access_tokens.RETRY_S

    answer = await app.client.get("/who", headers={"authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "the identity provider does not answer" in answer.json()["detail"]
    asked = len(provider.requests)
    assert (await app.ask(token)) == (503,)
    assert len(provider.requests) == asked

    provider.is_down = False
    clock[0] += access_tokens.RETRY_S
    assert (await app.ask(token))[0] == 200


async def test_while_the_provider_is_away_the_page_and_probes_are_answered(open_jwt, provider):
    provider.is_down = True
    app = open_jwt()
    headers = {"authorization": f"Bearer {provider.token(**roles())}"}

    assert [(await app.client.get(path, headers=headers)).status_code for path in ("/", "/health")] == [200, 200]


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example"},
        {"jwks_uri": "http://192.0.2.1/keys"},
        {"jwks_uri": "https://10.0.0.1/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
    ],
    ids=str,
)
async def test_metadata_that_lead_elsewhere_are_not_followed(open_jwt, provider, changes, caplog):
    provider.changes = changes
    app = open_jwt()

    assert await app.ask(provider.token(**roles())) == (503,)
    assert "the keys of the identity provider cannot be fetched" in caplog.text


async def test_keys_of_a_file_need_no_service_and_are_read_again(open_jwt, provider, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(authentication, "POLL_SECONDS", 0.01)
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(provider.jwks()))
    app = open_jwt(jwks="keys.json")
    new = provider.token(key="k2", **roles())
    assert [(await app.ask(token))[0] for token in (provider.token(**roles()), new)] == [200, 401]

    file.write_text('{\n"keys": oops}')
    await until(lambda: "keys.json:2: it is not JSON" in caplog.text)
    assert (await app.ask(provider.token(**roles())))[0] == 200
    provider.published = ["k2"]
    file.write_text(json.dumps(provider.jwks()))
    await until(lambda: "keys.json has been read again" in caplog.text)

    assert [(await app.ask(token))[0] for token in (provider.token(**roles()), new)] == [401, 200]
    assert provider.requests == []


@pytest.mark.parametrize("content", [None, "{", "[]", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "eA"}]}', "{}"])
async def test_a_file_of_keys_that_cannot_be_used_keeps_the_server_from_starting(open_jwt, tmp_path, content):
    if content is not None:
        (tmp_path / "keys.json").write_text(content)
    with pytest.raises(ConfigError, match=r"serve\.jwt\.jwks: .*keys\.json"):
        open_jwt(jwks="keys.json")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tenant": "a"}, "tenant or tenant_claim: one of them is required"),
        ({"tenant_claim": None}, "tenant or tenant_claim: one of them is required"),
        ({"issuer": "http://login.example.com"}, "issuer is an https address"),
        ({"issuer": "https://"}, "issuer is not the address of a server"),
        ({"jwks": "http://login.example.com/keys"}, "jwks is an https address"),
        ({"jwks": "https://login.example.com:99999/keys"}, "jwks is not the address of a server"),
        ({"algorithms": ["HS256"]}, "HS256"),
        ({"algorithms": ["none"]}, "none"),
        ({"algorithms": []}, "algorithms is empty"),
        ({"leeway_s": -1}, "leeway_s"),
        ({"leeway_s": 9_999}, "leeway_s"),
        ({"audiences": "x"}, "audience"),
        ({"audience": None}, "audience"),
        ({"audience": ""}, "audience is empty"),
        ({"user_claim": " "}, "user_claim is empty"),
    ],
)
async def test_a_table_that_cannot_be_used_keeps_the_server_from_starting(open_jwt, changes, reason):
    with pytest.raises(ConfigError, match=reason):
        open_jwt(**changes)


def test_check_reports_all_problems_of_the_table_with_their_lines(tmp_path):
    file = tmp_path / "flexchat.toml"
    file.write_text("""[llms.r]
provider = "rehearsal"
[[responses]]
llm = "r"
model = "rehearsal"
[serve.jwt]
isuer = "https://login.example.com"
audience = ""
jwks = "http://login.example.com/keys"
algorithms = ["none"]
tenant = "a"
tenant_claim = "org"
[serve.proxy]
identity_header = "Cookie"
roles_header = "X Roles"
""")
    problems, _ = check_config(file)

    assert [(each.line, each.path.removeprefix("serve.")) for each in problems] == [
        (6, "jwt.issuer"),
        (7, "jwt"),
        (8, "jwt.audience"),
        (9, "jwt.jwks"),
        (10, "jwt.algorithms[0]"),
        (11, "jwt.tenant"),
        (13, "proxy.tenant"),
        (14, "proxy.identity_header"),
        (15, "proxy.roles_header"),
    ]
    assert "did you mean 'issuer'?" in problems[1].text


@pytest.mark.parametrize("text", ["[serve.jtw]\nissuer = 'x'", "[server.jwt]\nissuer = 'x'", "[serve]\nproxi = {}"])
def test_a_misspelt_table_keeps_the_server_from_starting(tmp_path, text):
    (tmp_path / "flexchat.toml").write_text(
        f'{text}\n[llms.r]\nprovider = "rehearsal"\n[[responses]]\nllm = "r"\nmodel = "rehearsal"\n'
    )
    with pytest.raises(ConfigError, match="did you mean"):
        create_app(tmp_path / "flexchat.toml")


async def test_without_the_package_the_server_does_not_start(open_jwt, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jwt.algorithms", None)
    with pytest.raises(ConfigError, match=r"pip install 'flexchat-web\[jwt\]'"):
        open_jwt()


async def test_a_configuration_cannot_change_who_is_admitted(open_jwt, provider):
    app = open_jwt()
    source = app.app.serving.source
    headers = {"authorization": f"Bearer {provider.token(**roles())}"}
    tables = {"llms": {"r": {"provider": "rehearsal"}}, "responses": [{"llm": "r", "model": "rehearsal"}]}
    answer = await app.client.post("/api/config/reload", json=tables, headers=headers)
    text = source.read_text()
    source.write_text(text[text.index("[llms.r]") :])

    assert (answer.status_code, "how users are identified cannot be changed here" in answer.text) == (400, True)
    with pytest.raises(ConfigError, match="start the server again"):
        await app.app.serving.reload()
    assert await app.ask() == (401,)


# A proxy's headers


@pytest.fixture
def open_proxy(open_app):
    def open_proxy(*, trusted=("10.0.0.7", "10.1.0.0/24", "127.0.0.1"), **changes):
        table = {
            "identity_header": "X-Forwarded-User",
            "roles_header": "X-Forwarded-Groups",
            "tenant": "acme",
        } | changes
        table = {name: value for name, value in table.items() if value is not None}
        return open_app({"proxy": table}, trusted_proxies=trusted, tokens={TOKEN: "other"})

    return open_proxy


@pytest.mark.parametrize("peer", ["10.0.0.7", "10.1.0.200", "::ffff:10.0.0.7"])
async def test_a_trusted_proxy_names_the_user(open_proxy, peer):
    app = open_proxy()
    app.peer = peer

    assert await app.ask(None, ("x-forwarded-user", "ann"), ("X-Forwarded-Groups", "support, on call,")) == (
        200, "acme", "ann", ["support", "on call"],
    )  # fmt: skip
    assert await app.ask(None, ("x-forwarded-user", "ann")) == (200, "acme", "ann", [])
    assert await app.ask(TOKEN) == (200, "other", None, None)
    assert await app.ask() == (401,)


@pytest.mark.parametrize("peer", [None, "", "10.0.0.8", "203.0.113.9", "unix", "testclient"])
async def test_from_others_its_headers_identify_nobody(open_proxy, peer):
    app = open_proxy()
    app.peer = peer
    headers = [("x-forwarded-user", "ann"), ("x-forwarded-for", "10.0.0.7"), ("x-forwarded-groups", "admin")]

    assert await app.ask(None, *headers) == (401,)
    assert await app.ask(TOKEN, *headers) == (200, "other", None, None)


@pytest.mark.parametrize(
    "headers",
    [
        [("x-forwarded-user", "ann"), ("x-forwarded-user", "root")],
        [("x-forwarded-user", "ann"), ("X-FORWARDED-USER", "ann")],
        [("x-forwarded-user", "ann, root")],
        [("x-forwarded-user", "ann"), ("x-forwarded-groups", "a"), ("x-forwarded-groups", "admin")],
        [("x-forwarded-user", "ann"), ("x-forwarded-groups", "a,b\x01")],
        [("x-forwarded-user", "a\x00b")],
        [("x-forwarded-user", "a\tb")],
        [("x-forwarded-user", b"a\xff")],
        [("x-forwarded-user", "a\u202eb".encode())],
        [("x-forwarded-user", "x" * 201)],
        [("x_forwarded_user", "ann")],
        [("x-forwarded-user ", "ann")],
        [("x-forwarded-user", "")],
        [("x-forwarded-user", "   ")],
    ],
    ids=str,
)
async def test_headers_that_name_no_one_user_are_refused(open_proxy, headers):
    app = open_proxy()
    app.peer = "10.0.0.7"
    pairs = [tuple(each.encode() if isinstance(each, str) else each for each in pair) for pair in headers]

    assert await app.ask(None, *pairs) == (401,)


async def test_a_proxy_may_name_the_tenant(open_proxy):
    app = open_proxy(tenant=None, tenant_header="X-Org")
    app.peer = "10.0.0.7"
    user = ("x-forwarded-user", "ann")

    assert await app.ask(None, user, ("x-org", "blue")) == (200, "blue", "ann", [])
    for tenants in ([], [("x-org", "")], [("x-org", "a"), ("x-org", "b")], [("x-org", "a,b")]):
        assert await app.ask(None, user, *tenants) == (401,)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trusted": ()}, "no proxy is trusted"),
        ({"trusted": ("10.0.0.7", "0.0.0.0/0")}, "trusts every address"),
        ({"trusted": ("::/0",)}, "trusts every address"),
        ({"tenant": None}, "tenant or tenant_header: one of them is required"),
        ({"identity_header": "X_User"}, "is the name of a header"),
        ({"identity_header": "Authorization"}, "a header that only the proxy uses"),
        ({"roles_header": "X Roles"}, "is the name of a header"),
    ],
)
async def test_a_proxy_that_would_admit_anyone_keeps_the_server_from_starting(open_proxy, changes, reason):
    with pytest.raises(ConfigError, match=reason):
        open_proxy(**changes)


@pytest.mark.slow
@pytest.mark.parametrize(("trusted", "status"), [(("127.0.0.1",), 200), (("10.0.0.7",), 401)])
def test_the_proxy_is_the_peer_of_the_connection_whatever_headers_say(config_file, plugins, running, trusted, status):
    """A client that is forwarded keeps the address that X-Forwarded-For names, and the proxy's own counts here."""
    config_file.write_text(
        config_file.read_text() + '[serve.proxy]\nidentity_header = "X-Forwarded-User"\ntenant = "acme"\n'
    )
    app = create_app(config_file, plugins=plugins, settings=Settings(trusted_proxies=trusted))
    headers = {"x-forwarded-user": "ann", "x-forwarded-for": "10.0.0.7"}
    with running(app, proxies=trusted) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        assert client.get("/api/tools/list", headers=headers).status_code == status


# The token file, while it changes


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  a file is watched
            await asyncio.sleep(0.01)


@pytest.fixture
def tokens(tmp_path, monkeypatch):
    monkeypatch.setattr(authentication, "POLL_SECONDS", 0.01)
    file = tmp_path / "tokens"
    file.write_text(f"acme {TOKEN} support user=ann\n")
    return file


async def test_a_changed_token_file_counts_at_once(open_app, tokens, caplog):
    app = open_app(token_file=tokens)
    other = "another-token-of-it"
    assert await app.ask(TOKEN) == (200, "acme", "ann", ["support"])
    assert (await app.client.post("/api/session", json={"token": TOKEN})).status_code == 204
    assert (await app.ask())[0] == 200  # by its session
    tokens.write_text(f"beta {other}\n")
    await until(lambda: "has been read again" in caplog.text)

    assert (await app.ask(other))[:2] == (200, "beta")
    assert [await app.ask(TOKEN), await app.ask()] == [(401,), (401,)]


async def test_a_hash_admits_its_token_and_is_none_itself(open_app, tokens):
    digest = authentication.digest_of(TOKEN)
    tokens.write_text(f"acme sha256:{digest}\n")
    app = open_app(token_file=tokens)

    assert (await app.ask(TOKEN))[0] == 200
    assert [await app.ask(each) for each in (digest, f"sha256:{digest}")] == [(401,), (401,)]


@pytest.mark.parametrize("text", ["acme short\n", "# a comment\nacme\n", None], ids=["short", "no token", "gone"])
async def test_a_token_file_that_cannot_be_used_any_more_leaves_the_old_one(open_app, tokens, caplog, text):
    app = open_app(token_file=tokens)
    await app.ask()
    tokens.unlink() if text is None else tokens.write_text(text)
    await until(lambda: "stays in use" in caplog.text)
    await asyncio.sleep(0.1)

    assert (await app.ask(TOKEN))[0] == 200
    (record,) = [record for record in caplog.records if record.name == "flexchat_web.authentication"]
    assert record.levelno == logging.ERROR
    assert f"{tokens}{'' if text is None else f':{text.count(chr(10))}'}:" in record.getMessage()


async def test_an_empty_token_file_admits_nobody(open_app, tokens, caplog):
    app = open_app(token_file=tokens)
    await app.ask()
    tokens.write_text("")
    await until(lambda: "has been read again" in caplog.text)

    assert [await app.ask(TOKEN), await app.ask()] == [(401,), (401,)]


@pytest.mark.parametrize("kind", ["gone", "a folder", "not text"])
async def test_a_token_file_that_cannot_be_read_keeps_the_server_from_starting(open_app, tmp_path, kind):
    file = tmp_path / "tokens"
    {"gone": lambda: None, "a folder": file.mkdir, "not text": lambda: file.write_bytes(b"\xff\xfe")}[kind]()
    with pytest.raises(TokenFileError, match="tokens: "):
        open_app(token_file=file)


@pytest.mark.parametrize("line", ["beta another-token-of-it", f"acme {TOKEN} support user=ann expires=2001-01-01"])
async def test_an_open_stream_ends_when_its_token_is_removed_or_expires(open_app, tokens, caplog, line):
    app = open_app(token_file=tokens)
    received = []

    async def read():
        async with app.client.stream("GET", "/who/stream", headers={"authorization": f"Bearer {TOKEN}"}) as answer:
            received.extend([piece async for piece in answer.aiter_raw()])

    reading = asyncio.create_task(read())
    app.who.pieces.put_nowait(b"one")
    app.who.pieces.put_nowait(b"two")
    await until(app.who.pieces.empty)
    tokens.write_text(f"{line}\n")
    await until(lambda: "has been read again" in caplog.text)
    app.who.pieces.put_nowait(b"three")
    await asyncio.wait_for(reading, 30)

    assert b"".join(received) == b"onetwo"
    assert "incident" not in caplog.text


async def test_a_token_that_expires_is_none_by_the_systems_clock(open_app, tokens, monkeypatch):
    tokens.write_text(f"acme {TOKEN} expires=2100-01-01\n")
    app = open_app(token_file=tokens)
    end = 4_102_444_800  # 2100-01-01
    statuses = []
    for now in (end - 1, end, end + 60, end - 60):
        monkeypatch.setattr("flexchat_web.identity.time.time", lambda now=now: now)
        statuses.append((await app.ask(TOKEN))[0])

    assert statuses == [200, 401, 401, 200]


def test_the_provider_of_these_tests_signs_what_others_can_verify(provider):
    key = jwt.PyJWKSet.from_dict(provider.jwks()).keys[0]
    assert jwt.decode(provider.token(), key, algorithms=["RS256"], audience="flexchat")["sub"] == "ann"


SERVED = '[llms.r]\nprovider = "rehearsal"\n[[responses]]\nllm = "r"\nmodel = "rehearsal"\n'
IDENTITY = {
    "jwt": '[serve.jwt]\nissuer = "https://login.example.com"\naudience = "a"\ntenant = "t"\n',
    "proxy": '[serve.proxy]\nidentity_header = "X-Forwarded-User"\ntenant = "t"\n',
}


class Broken(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, whose code fails."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def exec_module(self, module):
        compile("def", self.name, "exec")


def test_with_its_plugin_blocked_a_table_keeps_the_server_from_starting(tmp_path):
    file = tmp_path / "flexchat.toml"
    file.write_text(SERVED + IDENTITY["jwt"] + '[plugins]\nblock = ["web"]\n')
    with pytest.raises(ConfigError, match="serve: this table is not read"):
        create_app(file)


@pytest.mark.parametrize("module", ["flexchat_web.plugin", "flexchat_web.serve_settings", "jwt"])
@pytest.mark.parametrize("table", IDENTITY)
def test_a_module_that_cannot_be_imported_admits_no_request(tmp_path, monkeypatch, table, module):
    """Without the plugin the table would not be read, and anyone let in."""
    file = tmp_path / "flexchat.toml"
    file.write_text(SERVED + IDENTITY[table])
    settings = Settings(trusted_proxies=("10.0.0.7",))
    for each in [each for each in sys.modules if each == module or each.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.setattr(sys, "meta_path", [Broken(module), *sys.meta_path])
    if module == "jwt" and table == "proxy":
        create_app(file, settings=settings)
        return
    with pytest.raises(ConfigError, match="serve"):
        create_app(file, settings=settings)
