"""Effects over HTTP: listed, shown, and settled by a person; each tenant's own."""

import pytest
from web_leftovers import leave_effect


def ledger(app):
    return app.serving._current.chat.tools.effects.ledger


@pytest.fixture(params=["sqlite", "memory"])
async def client(request, told):
    """A client of an app that keeps effects in this store."""
    if request.param == "memory":
        del told.tables["conversations"]
    made = await told.client()
    made.ledger = ledger(made._transport.app)
    return made


async def test_effects_are_listed_by_state_and_conversation_a_page_at_a_time(client):
    """The newest first, and without results, which may be long."""
    keys = [
        await leave_effect(client.ledger, place=f"{at}.0", conversation=conversation, why=why)
        for at, (conversation, why) in enumerate([(None, "timed out"), ("c", "timed out"), ("c", None)])
    ]
    await client.ledger.finish(keys[1], 1, state="done", result=None)

    async def listed(query=""):
        return [each["key"] for each in (await client.get(f"/api/effects{query}")).json()["effects"]]

    assert await listed() == [keys[2], keys[1], keys[0]]
    assert await listed("?state=unknown") == [keys[2], keys[0]]
    assert await listed("?conversation=c&state=done") == [keys[1]]
    assert await listed("?limit=1") == [keys[2]]
    assert await listed(f"?limit=1&before={keys[2]}") == [keys[1]]
    (effect,) = (await client.get("/api/effects?limit=1")).json()["effects"]
    told = {name: effect[name] for name in ("state", "tool", "arguments", "conversation", "note")}
    assert told == {
        "state": "unknown",
        "tool": "pay",
        "arguments": '{"amount": 5}',
        "conversation": "c",
        "note": "the process that ran it has died",
    }
    assert "result" not in effect


async def test_an_effect_is_found_by_the_beginning_of_its_key(client):
    key = await leave_effect(client.ledger)
    await client.ledger.finish(key, 1, state="done", result='{"success": true, "tool_name": "pay", "result": "ok"}')
    shown = (await client.get(f"/api/effects/{key[:8]}")).json()
    assert (shown["key"], shown["state"], shown["result"]["result"]) == (key, "done", "ok")


async def test_a_person_settles_what_is_unknown_once(client):
    """A second time is a conflict that says who was faster."""
    key = await leave_effect(client.ledger, why="the bank did not answer")
    settled = await client.post(f"/api/effects/{key[:10]}/settle", json={"state": "done", "note": " receipt 118 "})
    assert settled.status_code == 200
    told = {name: settled.json()[name] for name in ("state", "settled_by", "note")}
    assert told == {"state": "done", "settled_by": "web", "note": "receipt 118"}
    again = await client.post(f"/api/effects/{key}/settle", json={"state": "failed"})
    assert (again.status_code, again.json()["type"]) == (409, "urn:flexchat:problem:cannot-settle")
    assert "settled by web" in again.json()["detail"]
    assert (await client.get(f"/api/effects/{key}")).json()["state"] == "done"


async def test_an_effect_whose_tool_runs_cannot_be_settled(client):
    key = await leave_effect(client.ledger)
    client.ledger.renew("dead", 30)
    answer = await client.post(f"/api/effects/{key}/settle", json={"state": "failed"})
    assert answer.status_code == 409
    assert "still running" in answer.json()["detail"]


@pytest.mark.parametrize("id", ["nobody", "0" * 64, "%00", "%F0%9F%98%80", "%ff", "'%20OR%201=1", "x" * 900])
async def test_an_unknown_key_is_404_whatever_it_looks_like(client, id):
    await leave_effect(client.ledger)
    assert (await client.get(f"/api/effects/{id}")).status_code == 404
    assert (await client.post(f"/api/effects/{id}/settle", json={"state": "done"})).status_code == 404
    assert (await client.get(f"/api/effects?before={id[:128]}")).status_code in (400, 404)


@pytest.mark.parametrize(
    "body", [{}, {"state": "unknown"}, {"state": "done", "by": "ann"}, {"state": "done", "note": "x" * 2001}, []]
)
async def test_a_body_that_makes_no_sense_changes_nothing(client, body):
    key = await leave_effect(client.ledger)
    assert (await client.post(f"/api/effects/{key}/settle", json=body)).status_code == 400
    assert (await client.get(f"/api/effects/{key}")).json()["state"] == "unknown"


@pytest.mark.parametrize("query", ["state=open", "limit=0", "limit=501", "limit=x", "conversation=a/b", "tenant=x"])
async def test_a_query_that_makes_no_sense_is_refused(client, query):
    assert (await client.get(f"/api/effects?{query}")).status_code == 400


async def test_the_effects_of_another_tenant_are_unknown(told, client_of):
    """Not listed, not shown, not settled; who settles is known by the token."""
    app = told.app(tokens={"red-token-0123456789": "red", "blue-token-0123456789": "blue"})
    key = await leave_effect(ledger(app), tenant="red")
    red, blue = ({"authorization": f"Bearer {name}-token-0123456789"} for name in ("red", "blue"))
    async with client_of(app, headers=blue) as client:
        assert (await client.get("/api/effects")).json() == {"effects": []}
        for id in (key, "0" * 64):
            assert (await client.get(f"/api/effects/{id}")).status_code == 404
            assert (await client.post(f"/api/effects/{id}/settle", json={"state": "done"})).status_code == 404
        assert (await client.get(f"/api/effects?before={key}")).status_code == 404
        client.headers = red
        assert len((await client.get("/api/effects")).json()["effects"]) == 1
        settled = await client.post(f"/api/effects/{key}/settle", json={"state": "failed"})
        assert settled.json()["settled_by"] == "red"
        client.headers = {}
        assert (await client.get("/api/effects")).status_code == 401
