"""Each token sees its own tenant's conversations and runs, and no others."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from flexchat_testing import calls

RED, BLUE = "red-token-0123456789", "blue-token-0123456789"


@pytest.fixture
def tenants(told, client_of):
    """Clients of two tenants: async with tenants() as (red, blue)."""

    @asynccontextmanager
    async def made():
        told.tables["validation"]["cases"] = [{"name": "greet", "message": "hello", "no_call": True}]
        app = told.app(tokens={RED: "red", BLUE: "blue"})
        async with AsyncExitStack() as stack:
            bearers = ({"authorization": f"Bearer {token}"} for token in (RED, BLUE))
            yield [await stack.enter_async_context(client_of(app, headers=bearer)) for bearer in bearers]

    return made


@pytest.fixture
async def two(tenants):
    async with tenants() as clients:
        yield clients


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


async def test_what_tools_answered_a_tenant_is_not_in_the_history_either(told, tenants):
    """The error of a tool repeats what it was called with."""
    told.tables["tools"]["registry"][0]["parameters"]["properties"]["city"]["enum"] = ["Rome"]
    told.says(calls(("get_weather", {"city": "my secret town"})), "sorry", repeat=False)
    async with tenants() as (red, blue):
        answer = await red.post("/api/tools/test", json={"query": "x", "model": "robot/r1"})
        assert "secret" in str(answer.json()["tool_calls"][0]["result"])
        told_all = (await blue.get("/api/tools/validation")).text + (await blue.get("/api/validation/attempts")).text
        assert "failed: get_weather" in told_all
        assert "secret" not in told_all


async def test_a_run_that_another_tenant_has_under_way_is_told_without_its_id(told, tenants):
    """Whose run it is learns which; the others learn that there is one."""
    may_answer = asyncio.Event()

    async def slow(*_):
        await may_answer.wait()
        return "hello"

    told.says(slow)
    async with tenants() as (red, blue):
        id = (await red.post("/api/validation/runs", json={})).json()["id"]
        refusals = [await client.post("/api/validation/runs", json={}) for client in (red, blue)]
        assert [refusal.status_code for refusal in refusals] == [409, 409]
        assert [id in refusal.text for refusal in refusals] == [True, False]
        await red.delete(f"/api/validation/runs/{id}")
