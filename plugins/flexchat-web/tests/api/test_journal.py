"""The turns of kept conversations over HTTP: listed, shown with their steps, and ended; each tenant's own."""

import pytest
from flexchat_testing import calls
from web_leftovers import answered, leave_turn

PAY = answered(("pay", {"amount": 5}))


def journal(app):
    return app.serving._current.chat.conversations.store.journal


@pytest.fixture
async def client(told):
    made = await told.client(resume=False)
    made.journal = journal(made._transport.app)
    return made


async def test_turns_are_listed_by_state_and_conversation_a_page_at_a_time(client):
    await client.post("/chat/api", json={"prompt": "Rome?", "conversation": "a"})
    waiting = await leave_turn(client.journal, "Pay\nfor the tea", conversation="b")

    async def listed(query=""):
        return [each["id"] for each in (await client.get(f"/api/turns{query}")).json()["turns"]]

    first, second = await listed()
    assert first == waiting
    assert await listed("?state=interrupted") == await listed("?conversation=b") == await listed("?limit=1") == [first]
    assert await listed("?state=done") == await listed(f"?before={first[:9]}") == [second]
    (turn,) = (await client.get("/api/turns?limit=1")).json()["turns"]
    assert (turn["state"], turn["message"], turn["ended_at"]) == ("interrupted", "Pay for the tea", "")


async def test_a_turn_is_shown_with_its_steps(told):
    """What was asked, answered and run; the beginning of its id is enough."""
    told.says(calls(("get_weather", {"city": "Rome"})), "warm")
    client = await told.client()
    id = (await client.post("/chat/api", json={"prompt": "Rome?", "conversation": "c"})).json()["turn"]["id"]
    turn = (await client.get(f"/api/turns/{id[:8]}")).json()
    assert (turn["id"], turn["state"]) == (id, "done")
    assert [step["number"] for step in turn["steps"]] == [*range(1, len(turn["steps"]) + 1)]
    kinds = [step["kind"] for step in turn["steps"]]
    assert kinds[0] == "started"
    assert kinds[-4:] == ["answer", "tool", "request", "answer"]
    tool = turn["steps"][-3]["data"]["record"]
    assert (tool["tool"], tool["params"], tool["result"]["result"]) == (
        "get_weather",
        {"city": "Rome"},
        {"celsius": 21},
    )
    (kept,) = (await client.get("/api/conversations/c")).json()["turns"]
    assert turn["cost"] == kept["cost"]
    assert turn["steps"][-2]["data"] == {"llm": "robot", "model": "r1", "messages": 3}


async def test_a_turn_and_its_steps_say_what_they_cost(client):
    """Also one that was interrupted: what is priced counts, and what is missing is said."""
    kind, data = PAY
    priced = {**data, "price": {"input": "100", "output": "50", "source": "config"}}
    id = await leave_turn(client.journal, steps=[("rule", {"index": 0}), (kind, priced), (kind, data)])

    turn = (await client.get(f"/api/turns/{id}")).json()

    unknown = "no price is known for r1 of robot"
    costs = [step["cost"] for step in turn["steps"]]
    assert costs[:2] == [None, None]
    assert costs[2:] == [
        {"amount": "0.0129", "currency": "USD", "unpriced": []},
        {"amount": None, "currency": "USD", "unpriced": [unknown]},
    ]
    assert turn["cost"]["amount"] == "0.0129"
    assert turn["cost"]["unpriced"][0] == unknown
    assert "did not end" in turn["cost"]["unpriced"][1]


async def test_what_only_its_provider_reads_is_left_out_of_the_steps(client):
    kind, data = PAY
    data["result"]["message"]["parts"].insert(0, {"type": "reasoning", "text": "hm", "provider_data": {"a": "opaque!"}})
    id = await leave_turn(client.journal, steps=[(kind, data)])
    answer = await client.get(f"/api/turns/{id}")
    assert answer.json()["steps"][1]["data"]["result"]["message"]["parts"][0] == {"type": "reasoning", "text": "hm"}
    assert "opaque!" not in answer.text


async def test_an_interrupted_turn_is_ended_and_its_conversation_has_what_it_did(client):
    """And stays so."""
    id = await leave_turn(client.journal)
    turn = (await client.post(f"/api/turns/{id[:8]}/cancel")).json()["turn"]
    assert (turn["id"], turn["status"]) == (id, "cancelled")
    (kept,) = (await client.get("/api/conversations/c")).json()["turns"]
    assert (kept["id"], kept["messages"][0]["content"]) == (id, "Pay for the tea")
    again = await client.post(f"/api/turns/{id}/cancel")
    assert (again.status_code, again.json()["turn"]["status"]) == (200, "cancelled")


@pytest.mark.parametrize("id", ["nobody", "0" * 32, "%00", "%F0%9F%98%80", "%ff", "'%20OR%201=1", "x" * 900])
async def test_an_unknown_turn_is_404_whatever_it_looks_like(client, id):
    await leave_turn(client.journal)
    assert (await client.get(f"/api/turns/{id}")).status_code == 404
    assert (await client.post(f"/api/turns/{id}/cancel")).status_code == 404
    assert (await client.get(f"/api/turns?before={id[:128]}")).status_code in (400, 404)


@pytest.mark.parametrize("query", ["state=open", "limit=0", "limit=501", "conversation=a/b", "tenant=x"])
async def test_a_query_that_makes_no_sense_is_refused(client, query):
    assert (await client.get(f"/api/turns?{query}")).status_code == 400


async def test_without_kept_conversations_the_answer_says_so(told):
    del told.tables["conversations"]
    client = await told.client()
    for path in ("/api/turns", "/api/turns/x"):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:flexchat:problem:no-journal")
        assert "no conversations are kept" in answer.json()["detail"]
    assert (await client.post("/api/turns/x/cancel")).status_code == 404


async def test_the_turns_of_another_tenant_are_unknown(told, client_of):
    app = told.app(tokens={"red-token-0123456789": "red", "blue-token-0123456789": "blue"}, resume=False)
    id = await leave_turn(journal(app), tenant="red")
    async with client_of(app, headers={"authorization": "Bearer blue-token-0123456789"}) as client:
        assert (await client.get("/api/turns")).json() == {"turns": []}
        for one in (id, "0" * 32):
            assert (await client.get(f"/api/turns/{one}")).status_code == 404
            assert (await client.post(f"/api/turns/{one}/cancel")).status_code == 404
            assert (await client.get(f"/api/turns?before={one}")).status_code == 404
        client.headers = {"authorization": "Bearer red-token-0123456789"}
        assert (await client.get(f"/api/turns/{id}")).json()["state"] == "interrupted"


async def test_an_interrupted_turn_is_resumed_over_http(told):
    """It runs here, and can be followed; a second time it is no longer interrupted."""
    told.says("Here you are.")
    client = await told.client(resume=False)
    id = await leave_turn(journal(client._transport.app), "Tea?", conversation="b")

    answer = await client.post(f"/api/turns/{id[:8]}/resume")
    assert (answer.status_code, answer.json()) == (202, {"id": id, "conversation": "b"})
    events = (await client.get(f"/api/turns/{id}/events")).text
    assert "event: turn_resumed" in events
    assert "Here you are." in events
    again = await client.post(f"/api/turns/{id}/resume")
    assert (again.status_code, again.json()["type"]) == (409, "urn:flexchat:problem:turn-not-waiting")
    assert (await client.post("/api/turns/none/resume")).status_code == 404
