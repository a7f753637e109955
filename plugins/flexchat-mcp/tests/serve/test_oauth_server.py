"""/mcp as a resource server: tokens of an authorization server, its metadata document, and tokens to refuse."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

RESOURCE = "https://chat.example.com/mcp"


@pytest.fixture(scope="module")
def keys():
    return {name: rsa.generate_private_key(public_exponent=65_537, key_size=2_048) for name in ("ours", "theirs")}


@pytest.fixture
def issuer(keys):
    """An authorization server, with its metadata and its keys; it counts how often they are fetched."""
    fetched = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            fetched.append(self.path)
            url = f"http://127.0.0.1:{server.server_port}"
            if self.path == "/.well-known/oauth-authorization-server":
                document = {"issuer": url, "jwks_uri": f"{url}/keys"}
            else:
                document = {"keys": [{**RSAAlgorithm.to_jwk(keys["ours"].public_key(), as_dict=True), "kid": "k1"}]}
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.url, server.fetched = f"http://127.0.0.1:{server.server_port}", fetched
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def token(issuer, keys):
    """Return a function that makes access tokens."""

    def token(key="ours", kid="k1", algorithm="RS256", **changes):
        claims = {"iss": issuer.url, "aud": RESOURCE, "exp": time.time() + 60, "sub": "ann", "scope": "flexchat:acme"}
        claims |= changes
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(claims, keys[key] if algorithm != "HS256" else "x" * 32, algorithm, headers={"kid": kid})

    return token


@pytest.fixture
def web(new_web, issuer):
    oauth = {
        "issuer": issuer.url,
        "resource": RESOURCE,
        "scopes": {"flexchat:acme": "acme", "flexchat:other": "other"},
    }
    return new_web({"own-token-0123456789": "own"}, mcp_server={"oauth": oauth})


async def test_a_token_works_for_the_tenant_of_its_scope(web, token, ran):
    for bearer in (token(), token(scope="x flexchat:other"), "own-token-0123456789"):
        answer = await web.call("pay", {"amount": 1}, token=bearer, capabilities={})
        assert "waits for a person" in answer["content"][0]["text"]

    async with web.app.serving.chat() as chat:
        assert [len(await chat.pending(tenant=tenant)) for tenant in ("acme", "other", "own", "default")] == [
            1,
            1,
            1,
            0,
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        {"aud": "https://other.example.com/mcp"},
        {"aud": None},
        {"iss": "https://evil.example.com"},
        {"exp": 1},
        {"exp": None},
        {"nbf": 4e9},
        {"scope": "unrelated"},
        {"scope": "flexchat:acme flexchat:other"},
        {"scope": None},
        {"scope": {"flexchat:acme": 1}},
        {"key": "theirs"},
        {"kid": "unknown"},
        {"algorithm": "HS256"},
    ],
    ids=str,
)
async def test_a_token_that_is_not_for_us_is_refused(web, token, wrong):
    response = await web.post({}, authorization=f"Bearer {token(**wrong)}")

    assert response.status_code == 401
    challenge = response.headers["www-authenticate"]
    assert 'resource_metadata="https://chat.example.com/.well-known/oauth-protected-resource/mcp"' in challenge
    assert 'scope="flexchat:acme flexchat:other"' in challenge


@pytest.mark.slow
@pytest.mark.parametrize("bearer", ["x", "a.b.c", "e30.e30.e30", "x" * 100_000, "eyJhbGciOiJub25lIn0.e30."])
async def test_garbage_is_no_token(web, bearer):
    assert (await web.post({}, authorization=f"Bearer {bearer}")).status_code == 401


async def test_a_token_of_the_authorization_server_is_for_mcp_only(web, token):
    response = await web.client.get("/api/turns", headers={"authorization": f"Bearer {token()}"})

    assert response.status_code == 401


async def test_without_a_token_the_metadata_say_where_to_get_one(web, issuer):
    response = await web.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    metadata = (await web.client.get("/.well-known/oauth-protected-resource/mcp")).json()

    assert response.status_code == 401
    assert (metadata["resource"], metadata["authorization_servers"]) == (RESOURCE, [issuer.url])
    assert metadata["scopes_supported"] == ["flexchat:acme", "flexchat:other"]


async def test_oauth_alone_closes_mcp_and_nothing_else(new_web, issuer, token):
    oauth = {"issuer": issuer.url, "resource": RESOURCE, "tenant_claim": "org"}
    web = new_web(mcp_server={"oauth": oauth})

    assert (await web.post({})).status_code == 401
    assert (await web.client.get("/api/turns")).status_code == 200
    assert (await web.call("add", {"a": 1}, token=token(org="acme")))["content"][0]["text"] == "3"
    assert (await web.post({}, authorization=f"Bearer {token(org='')}")).status_code == 401


@pytest.mark.slow
async def test_unknown_keys_do_not_flood_the_authorization_server(web, token, issuer):
    for number in range(20):
        await web.post({}, authorization=f"Bearer {token(kid=f'unknown {number}')}")

    assert issuer.fetched.count("/keys") == 1


async def test_without_oauth_there_is_no_metadata(new_web):
    assert (await new_web().client.get("/.well-known/oauth-protected-resource/mcp")).status_code == 404
