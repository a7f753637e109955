"""Who may speak to the server: Host, Origin, Sec-Fetch-Site, token."""

import httpx
import pytest
from flexchat_web.app import create_app
from flexchat_web.serving import Settings

TOKENS = {"a-token-of-alice-1": "alice", "b-token-of-bob-123": "bob"}


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "LOCALHOST", "localhost."]
)
async def test_loopbacks_names_are_answered(client, host):
    assert (await client.get("/api/config", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "", "a b",
     "127.0.0.1@evil", "192.168.0.7", "[::2]", "localhost:8000:8000", "localhost:x"],
)  # fmt: skip
async def test_a_foreign_host_is_refused(client, host):
    """DNS rebinding: the name is the attacker's, the address ours."""
    answer = await client.get("/api/config", headers={"host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_host_can_be_allowed(new_client):
    client = await new_client(hosts=("chat.example", "[fd00::1]"))
    assert (await client.get("/api/config", headers={"host": "chat.example:443"})).status_code == 200
    assert (await client.get("/api/config", headers={"host": "[fd00::1]"})).status_code == 200
    assert (await client.get("/api/config", headers={"host": "localhost"})).status_code == 421
    client = await new_client(hosts=("*",))
    assert (await client.get("/api/config", headers={"host": "whatever.example"})).status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://localhost:3000", "null", "http://127.0.0.1:80", "http://localhost:8000", "file://",
     "http://[", "http://127.0.0.1:8000/path", "http://127.0.0.1:99999", "ftp://127.0.0.1:8000"],
)  # fmt: skip
async def test_a_foreign_origin_is_refused_with_every_method(client, origin, method):
    answer = await client.request(method, "/api/config/validate", headers={"origin": origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


async def test_the_page_itself_may_call(client):
    answer = await client.get(
        "/api/config", headers={"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_request_that_another_site_made_without_origin_is_refused(client, site):
    """An image or a script tag sends no Origin."""
    assert (await client.get("/api/config", headers={"sec-fetch-site": site})).status_code == 403
    assert (await client.get("/", headers={"sec-fetch-site": site})).status_code == 200, "a link to the page is welcome"


async def test_an_allowed_origin_gets_cors_headers_and_no_other(new_client):
    client = await new_client(origins=("https://app.example",))
    ours = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}
    answer = await client.get("/api/config", headers=ours)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["vary"] == "Origin"
    preflight = await client.options("/api/config", headers={**ours, "access-control-request-method": "PUT"})
    assert preflight.status_code == 204
    assert "PUT" in preflight.headers["access-control-allow-methods"]
    other = await client.get("/api/config", headers={"origin": "https://app.example.evil"})
    assert other.status_code == 403


async def test_every_answer_has_the_security_headers(client):
    for path in ("/", "/api/config", "/nothing", "/static/nothing"):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
    assert (await client.get("/api/config")).headers["cache-control"] == "no-store"


async def test_without_a_token_nothing_but_the_page_and_health_is_answered(new_client):
    client = await new_client(tokens=TOKENS)
    assert (await client.get("/")).status_code == 200
    assert (await client.get("/openapi.json")).status_code == 200
    for method, path in (("GET", "/api/config"), ("POST", "/chat/api"), ("GET", "/v1/models"), ("GET", "/nowhere")):
        answer = await client.request(method, path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "given",
    ["Bearer wrong-token-123456", "Bearer ", "Basic a-token-of-alice-1", "a-token-of-alice-1", "Bearer a-token"],
)
async def test_a_wrong_token_is_none(new_client, given):
    client = await new_client(tokens=TOKENS)
    answer = await client.get("/api/config", headers={"authorization": given})
    assert answer.status_code == 401
    came = given.startswith("Bearer ") and given != "Bearer "
    assert ("does not accept this token" in answer.json()["detail"]) is came, "a missing one is told otherwise"


async def test_a_token_opens(new_client):
    client = await new_client(tokens=TOKENS)
    for token in TOKENS:
        assert (await client.get("/api/config", headers={"authorization": f"Bearer {token}"})).status_code == 200


async def test_a_link_with_a_token_becomes_a_cookie_that_scripts_cannot_read(new_client):
    client = await new_client(tokens=TOKENS)
    answer = await client.get("/?token=a-token-of-alice-1")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=Strict" in answer.headers["set-cookie"]
    assert (await client.get("/api/config")).status_code == 200, "the client keeps cookies"


async def test_a_link_with_a_wrong_token_shows_the_page_which_asks_for_another(new_client):
    """With status 401, and whatever the browser keeps of the page."""
    client = await new_client(tokens=TOKENS)
    tag = (await client.get("/")).headers["etag"]
    answer = await client.get("/?token=wrong", headers={"if-none-match": tag})
    assert answer.status_code == 401
    assert "text/html" in answer.headers["content-type"]
    assert "main.js" in answer.text
    assert "set-cookie" not in answer.headers


async def test_the_page_signs_in_and_out(new_client):
    """The token comes in a body, so that it stands in no address; a wrong one leaves the one that is kept."""
    client = await new_client(tokens=TOKENS)
    wrong = await client.post("/api/session", json={"token": "wrong"})
    assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')
    assert "does not accept this token" in wrong.json()["detail"]
    answer = await client.post("/api/session", json={"token": " a-token-of-alice-1\n"})
    assert answer.status_code == 204
    for flag in ("HttpOnly", "SameSite=Strict", "Path=/"):
        assert flag in answer.headers["set-cookie"]
    assert "Secure" not in answer.headers["set-cookie"]
    assert (await client.get("/api/config")).status_code == 200
    assert (await client.get("/api/ui-config")).json()["asks_for_token"]
    assert "set-cookie" not in (await client.post("/api/session", json={"token": "wrong"})).headers
    await client.delete("/api/session")
    assert (await client.get("/api/config")).status_code == 401


async def test_no_other_site_signs_anybody_in(new_client):
    """Else it would have one write into its own conversations."""
    client = await new_client(tokens=TOKENS)
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        for method in ("POST", "DELETE"):
            body = {"token": "a-token-of-alice-1"} if method == "POST" else None
            answer = await client.request(method, "/api/session", json=body, headers=headers)
            assert (answer.status_code, answer.headers.get("set-cookie")) == (403, None)


async def test_without_tokens_there_is_nothing_to_sign_in_to(client):
    assert (await client.post("/api/session", json={"token": "x"})).status_code == 404


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_link_on_another_sites_page_signs_nobody_in(new_client, site):
    """Else another tenant's link would have one write into his conversations."""
    client = await new_client(tokens=TOKENS)
    answer = await client.get("/?token=a-token-of-alice-1", headers={"sec-fetch-site": site})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "set-cookie" not in answer.headers
    own = await client.get("/?token=a-token-of-alice-1", headers={"sec-fetch-site": "same-origin"})
    assert "set-cookie" in own.headers


async def test_a_token_in_the_query_opens_nothing_else(new_client):
    client = await new_client(tokens=TOKENS)
    assert (await client.get("/api/config?token=a-token-of-alice-1")).status_code == 401


async def test_v1_tells_problems_of_the_guard_in_openais_form(new_client):
    client = await new_client(tokens=TOKENS)
    error = (await client.get("/v1/models")).json()["error"]
    assert error["type"] == "authentication_error"
    assert "Bearer" in error["message"]


async def test_a_web_socket_is_refused(new_app):
    """There is none, and Origin checks do not hold for them by themselves."""
    sent = []

    async def send(message):
        sent.append(message)

    await new_app()({"type": "websocket", "path": "/", "headers": []}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_settings_do_not_show_tokens():
    assert "a-token-of-alice-1" not in repr(Settings(tokens=TOKENS))


def test_who_opens_an_app_to_others_has_to_say_that_they_may_edit():
    """A mounted app that answers to a public name would else be changed by anybody."""
    assert Settings().edit
    assert not Settings(hosts=("app.example",)).edit
    assert Settings(hosts=("app.example",), edit=True).edit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("proxies", "is_secure"), [(("127.0.0.0/8",), True), (("127.0.0.1",), True), (("10.0.0.7",), False), ((), False)]
)
def test_behind_a_trusted_proxy_the_cookie_is_sent_by_tls_only(config_file, plugins, running, proxies, is_secure):
    """A proxy that is not named is not believed."""
    app = create_app(config_file, plugins=plugins, settings=Settings(tokens=TOKENS))
    forwarded = {"x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.9"}
    with running(app, proxies=proxies) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        for answer in (
            client.get("/?token=a-token-of-alice-1", headers=forwarded),
            client.post("/api/session", json={"token": "a-token-of-alice-1"}, headers=forwarded),
        ):
            assert ("; Secure" in answer.headers["set-cookie"]) is is_secure


async def test_a_page_that_was_loaded_by_tls_signs_in_with_a_secure_cookie(new_client):
    """Whether or not the proxy that ends TLS is known: the browser's Origin says so."""
    client = await new_client(tokens=TOKENS, hosts=("chat.example",))
    headers = {"host": "chat.example", "origin": "https://chat.example"}
    answer = await client.post("/api/session", json={"token": "a-token-of-alice-1"}, headers=headers)
    assert "; Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"origin": "https://chat.example"}, ["'https://chat.example'", "'127.0.0.1:8000'", "--allow-origin"]),
        ({"origin": "null"}, ["'null'", "'127.0.0.1:8000'"]),
        ({"sec-fetch-site": "cross-site"}, ["Sec-Fetch-Site", "'cross-site'"]),
        ({"host": "chat.example"}, ["'chat.example'", "localhost, 127.0.0.1, ::1", "--allow-host"]),
    ],
)
async def test_a_refusal_names_what_was_compared(client, headers, named):
    detail = (await client.get("/api/config", headers=headers)).json()["detail"]
    for each in named:
        assert each in detail
