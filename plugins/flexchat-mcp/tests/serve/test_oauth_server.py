"""/mcp as a resource server: tokens of an authorization server, its metadata document, and tokens to refuse."""

import pytest
from identity_provider import provider, signing_keys
from mcp_fixtures import ELICITATION, TASKS

__all__ = ["provider", "signing_keys"]

RESOURCE = "https://chat.example.com/mcp"
BOTH = {**TASKS, **ELICITATION}


@pytest.fixture
def issuer(provider):
    return provider


@pytest.fixture
def token(provider):
    """Return a function that makes access tokens."""

    def token(**changes):
        return provider.token(**{"aud": RESOURCE, "org": None, "scope": "flexchat:acme", **changes})

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
        {"sub": None},
        {"key": "k2", "header": {"kid": "k1"}},
        {"header": {"kid": "unknown"}},
        {"key": "x" * 40, "algorithm": "HS256"},
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


async def test_the_user_of_a_token_is_the_principal_of_its_calls(new_web, issuer, token):
    """Its roles decide; without a claim with roles it has none."""
    oauth = {"issuer": issuer.url, "resource": RESOURCE, "tenant_claim": "org"}
    granted = {"support": {"tools": ["add"], "rules": ["*"]}}
    web = new_web(mcp_server={"oauth": {**oauth, "roles_claim": "groups"}}, roles=granted)
    support, other = token(org="acme", groups=["support"]), token(org="acme", groups=["else"])
    tools = (await web.ask("tools/list", {}, token=support))["tools"]

    assert "add" in [tool["name"] for tool in tools]
    assert "note" not in [tool["name"] for tool in tools]
    assert (await web.call("add", {"a": 1}, token=support))["content"][0]["text"] == "3"
    assert "add" not in [tool["name"] for tool in (await web.ask("tools/list", {}, token=other))["tools"]]
    assert (await web.post({}, authorization=f"Bearer {token(org='acme', groups='support')}")).status_code == 401


async def test_prompts_and_resources_of_a_tool_are_for_those_who_may_use_it(new_web, issuer, token):
    oauth = {"issuer": issuer.url, "resource": RESOURCE, "tenant_claim": "org", "roles_claim": "groups"}
    served = {
        "prompts": [{"name": "sum", "tool": "add"}, {"name": "hello", "text": "Hello!"}],
        "resources": [
            {"uri": "shop://sum", "name": "sum", "tool": "add"},
            {"uri": "shop://sum/{a}", "name": "sums", "tool": "add"},
            {"uri": "shop://hours", "name": "hours", "text": "9 to 5"},
        ],
    }
    granted = {"support": {"tools": ["add"]}, "guest": {"tools": ["note"]}}
    web = new_web(mcp_server={"oauth": oauth, **served}, roles=granted)

    async def listed(role):
        bearer = token(org="acme", groups=[role])
        answers = [await web.ask(f"{kind}/list", {}, token=bearer) for kind in ("prompts", "resources")]
        answers.append(await web.ask("resources/templates/list", {}, token=bearer))
        kinds = zip(answers, ("prompts", "resources", "resourceTemplates"), strict=True)
        return [[each["name"] for each in answer[kind] if each["name"] != "document"] for answer, kind in kinds]

    assert await listed("support") == [["sum", "hello"], ["sum", "hours"], ["sums"]]
    assert await listed("guest") == [["hello"], ["hours"], []]
    guest = token(org="acme", groups=["guest"])
    for method, params in (("prompts/get", {"name": "sum"}), ("resources/read", {"uri": "shop://sum"})):
        answer = await web.raw(method, params, token=guest)
        assert "error" in answer
        assert "permitted" not in answer["error"]["message"]  # as unknown as what does not exist


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_the_task_of_another_principal_does_not_exist(new_web, issuer, token, method):
    oauth = {"issuer": issuer.url, "resource": RESOURCE, "tenant_claim": "org", "roles_claim": "groups"}
    granted = {"support": {"tools": ["wait"]}, "lead": {"tools": ["add"], "permissions": ["view_others"]}}
    web = new_web(mcp_server={"oauth": oauth, "tasks": {"wait": "required"}}, roles=granted)
    ann, bob, lead = (
        token(org="acme", sub=name, groups=[role])
        for name, role in (("ann", "support"), ("bob", "support"), ("c", "lead"))
    )
    task = (await web.call("wait", {"seconds": 60}, capabilities=BOTH, token=ann))["taskId"]
    params = {"taskId": task, **({"inputResponses": {}} if method == "tasks/update" else {})}

    answer = await web.raw(method, params, capabilities=BOTH, token=bob)
    unknown = await web.raw(method, {**params, "taskId": "f" * 32}, capabilities=BOTH, token=bob)

    assert answer["error"]["message"].replace(task, "f" * 32) == unknown["error"]["message"]
    for viewer in (ann, lead):
        assert (await web.ask("tasks/get", {"taskId": task}, capabilities=BOTH, token=viewer))["status"] == "working"
    await web.ask("tasks/cancel", {"taskId": task}, capabilities=BOTH, token=ann)


@pytest.mark.slow
async def test_unknown_keys_do_not_flood_the_authorization_server(web, token, issuer):
    for number in range(20):
        bearer = token(header={"kid": f"unknown {number}"})
        assert (await web.post({}, authorization=f"Bearer {bearer}")).status_code == 401

    assert issuer.requests.count("/keys") == 1


async def test_without_oauth_there_is_no_metadata(new_web):
    assert (await new_web().client.get("/.well-known/oauth-protected-resource/mcp")).status_code == 404
