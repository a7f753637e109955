"""Each token sees its own tenant's conversations and runs, and no others."""

from contextlib import AsyncExitStack

import httpx
import pytest

RED, BLUE = "red-token-0123456789", "blue-token-0123456789"


@pytest.fixture
async def two(told):
    told.tables["validation"]["cases"] = [{"name": "greet", "message": "hello", "no_call": True}]
    app = told.app(tokens={RED: "red", BLUE: "blue"})
    async with AsyncExitStack() as stack:

        async def client(token):
            transport = httpx.ASGITransport(app=app)
            headers = {"authorization": f"Bearer {token}"}
            return await stack.enter_async_context(
                httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
            )

        yield await client(RED), await client(BLUE)


async def test_the_conversations_of_another_tenant_are_unknown(two):
    """Every operation: 404, with the words for an id that nobody has."""
    red, blue = two
    await red.post("/chat/api", json={"prompt": "my secret plan", "conversation": "c1"})
    assert (await blue.get("/api/conversations")).json() == {"conversations": []}
    assert (await blue.get("/api/conversations?search=secret")).json() == {"conversations": []}
    for method, path, body in [
        ("GET", "", None),
        ("PATCH", "", {"title": "mine"}),
        ("DELETE", "", None),
        ("GET", "/export", None),
    ]:
        foreign, unknown = [
            await blue.request(method, f"/api/conversations/{id}{path}", json=body) for id in ("c1", "c2")
        ]
        assert foreign.status_code == unknown.status_code == 404
        assert foreign.text == unknown.text.replace("c2", "c1")
    assert (await red.get("/api/conversations/c1")).json()["title"] == "my secret plan"


async def test_the_same_id_is_another_conversation_for_another_tenant(two):
    """A tenant that goes on with a foreign id begins a conversation of its own."""
    red, blue = two
    for client, prompt in ((red, "red says"), (blue, "blue says")):
        await client.post("/chat/api", json={"prompt": prompt, "conversation": "same"})
    shown = [(await client.get("/api/conversations/same")).json() for client in two]
    assert [info["title"] for info in shown] == ["red says", "blue says"]
    assert [info["turns"][0]["messages"][0]["content"] for info in shown] == ["red says", "blue says"]


async def test_the_runs_of_another_tenant_are_unknown(two, sse):
    """Show, watch, resume, cancel: 404; they are not listed or exported."""
    red, blue = two
    id = (await red.post("/api/validation/runs", json={})).json()["id"]
    events = sse((await red.get(f"/api/validation/runs/{id}/events")).text)
    assert events[-1][1]["state"] == "finished"
    for method, path in [("GET", ""), ("GET", "/events"), ("POST", "/resume"), ("DELETE", "")]:
        assert (await blue.request(method, f"/api/validation/runs/{id}{path}")).status_code == 404
    assert (await blue.get("/api/validation/runs")).json() == {"runs": []}
    exported = (await blue.get("/api/validation/export")).json()
    assert exported["runs"] == []
    assert [record["attempts"] for record in exported["records"]] == [[]]
    assert len((await red.get("/api/validation/runs")).json()["runs"]) == 1


async def test_the_questions_of_a_tenant_are_not_in_the_history_of_a_model(two):
    """Records are for all: with tokens they tell which tools ran, not what was asked."""
    red, blue = two
    await red.post("/api/tools/test", json={"query": "my secret plan", "model": "robot/r1"})
    history = await blue.get("/api/tools/validation")
    assert history.json()["validations"][0]["test_count"] == 1
    assert "secret" not in history.text
