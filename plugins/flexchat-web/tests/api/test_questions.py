"""Questions of tools over HTTP, asked live: an event of the stream, and a reply that counts once."""

import asyncio

import pytest
from flexchat_testing import calls

SHOP = """
from flexchat import ToolContext


async def order(context: ToolContext):
    schema = {"type": "object", "properties": {"size": {"enum": ["small", "large"]}}, "required": ["size"]}
    reply = await context.ask("Which size?", schema)
    return {"action": reply.action, "content": dict(reply.content), "why": reply.why}
"""
ORDER = {
    "name": "order",
    "description": "Order a pizza.",
    "effect": "read",
    "parameters": {"type": "object", "properties": {}},
    "implementation": {"type": "python", "function": "shop_that_asks:order"},
}


@pytest.fixture
async def shop(told, tmp_path, monkeypatch):
    """Return the app, and a client of it."""
    (tmp_path / "shop_that_asks.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    told.tables["tools"]["registry"].append(ORDER)
    told.says(calls(("order", {})), "Done.")
    client = await told.client()
    return told._made[-1], client


async def waiting(app):
    """Return the ids of the questions that calls of this process wait for, once there are some."""
    async with app.serving.chat() as chat:
        live = chat._engine.parts.questions
        while not (found := [id for _, id in live._open]):  # noqa: ASYNC110  there is nothing to wait for
            await asyncio.sleep(0)
    return found


def asked(client, **body):
    return asyncio.create_task(client.post("/chat/api", json={"prompt": "Pizza", "stream": True, **body}))


def result_in(events):
    return next(data["result"]["result"] for name, data in events if name == "tool_finished")


@pytest.mark.parametrize("key", [None, "order-1"])
async def test_a_client_gets_the_question_and_the_tool_its_reply(shop, sse, key):
    app, client = shop
    headers = {"idempotency-key": key} if key else {}
    body = {"prompt": "Pizza", "stream": True, "questions": True}
    streaming = asyncio.create_task(client.post("/chat/api", json=body, headers=headers))
    (id,) = await waiting(app)
    answer = await client.post(f"/api/questions/{id}/reply", json={"action": "accept", "content": {"size": "large"}})
    events = sse((await streaming).text)

    assert answer.json() == {"id": id, "action": "accept"}
    (question,) = [data for name, data in events if name == "question"]
    assert (question["id"], question["tool"], question["message"]) == (id, "order", "Which size?")
    assert question["schema"]["properties"]["size"] == {"enum": ["small", "large"]}
    assert [data for name, data in events if name == "question_answered"] == [{"id": id, "action": "accept"}]
    assert result_in(events) == {"action": "accept", "content": {"size": "large"}, "why": ""}
    names = [name for name, _ in events]
    assert names.index("tool_started") < names.index("question") < names.index("tool_finished")


async def test_a_client_that_shows_no_questions_is_not_waited_for(shop, sse):
    _, client = shop
    events = sse((await asked(client)).text)

    assert result_in(events)["why"] == "nobody can be asked here"
    assert "question" not in [name for name, _ in events]


async def test_an_unstreamed_answer_can_wait_for_a_reply_from_elsewhere(shop):
    """Who posts it need not be who replies: the question is the tenant's."""
    app, client = shop
    answering = asked(client, stream=False, questions=True)
    (id,) = await waiting(app)
    await client.post(f"/api/questions/{id}/reply", json={"action": "decline"})

    (call,) = (await answering).json()["turn"]["tool_calls"]
    assert call["result"]["result"] == {"action": "decline", "content": {}, "why": ""}


async def test_only_the_first_reply_that_fits_counts(shop, sse):
    app, client = shop
    streaming = asked(client, questions=True)
    (id,) = await waiting(app)
    place = f"/api/questions/{id}/reply"
    wrong = await client.post(place, json={"action": "accept", "content": {"size": "huge"}})
    small, large = await asyncio.gather(
        *(client.post(place, json={"action": "accept", "content": {"size": size}}) for size in ("small", "large"))
    )
    late = await client.post(place, json={"action": "decline"})
    events = sse((await streaming).text)

    assert wrong.status_code == 422
    assert 'size must be one of: small, large (got "huge")' in wrong.json()["detail"]
    assert sorted([small.status_code, large.status_code]) == [200, 404]
    assert late.status_code == 404
    first = "small" if small.status_code == 200 else "large"
    assert result_in(events)["content"] == {"size": first}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"action": "yes"}, 400),
        ({"action": "accept", "content": []}, 400),
        ({"action": "accept", "more": 1}, 400),
        ({"action": "accept", "content": {"size": "x" * 100_000}}, 422),
        ({"action": "accept"}, 422),
    ],
)
async def test_a_reply_that_is_none_leaves_the_question_open(shop, sse, body, status):
    app, client = shop
    streaming = asked(client, questions=True)
    (id,) = await waiting(app)
    answer = await client.post(f"/api/questions/{id}/reply", json=body)
    await client.post(f"/api/questions/{id}/reply", json={"action": "decline"})

    assert answer.status_code == status
    assert result_in(sse((await streaming).text))["action"] == "decline"


async def test_a_question_is_its_tenants_alone(told, tmp_path, monkeypatch, sse):
    (tmp_path / "shop_that_asks.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    told.tables["tools"]["registry"].append(ORDER)
    told.says(calls(("order", {})), "Done.")
    tokens = {"a" * 40: "ada", "b" * 40: "bob"}
    ada = await told.client(headers={"authorization": f"Bearer {'a' * 40}"}, tokens=tokens)
    app = told._made[-1]
    streaming = asked(ada, questions=True)
    (id,) = await waiting(app)
    bob = await ada.post(
        f"/api/questions/{id}/reply", json={"action": "decline"}, headers={"authorization": f"Bearer {'b' * 40}"}
    )
    await ada.post(f"/api/questions/{id}/reply", json={"action": "cancel"})

    assert bob.status_code == 404
    assert result_in(sse((await streaming).text))["action"] == "cancel"


async def test_a_turn_that_ends_closes_its_question(shop, sse):
    app, client = shop
    streaming = asked(client, questions=True)
    (id,) = await waiting(app)
    from flexchat_web.api.turns import Turns

    (turn,) = [*app.serving.shared(Turns)._turns]
    await client.post(f"/api/turns/{turn}/cancel")
    events = sse((await streaming).text)

    (closed,) = [data for name, data in events if name == "question_answered"]
    assert closed == {"id": id, "action": "cancel", "why": "the turn ended before there was a reply"}
    assert (await client.post(f"/api/questions/{id}/reply", json={"action": "decline"})).status_code == 404
