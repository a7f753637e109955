"""Turns that wait for a reply without a process: asked at one server, replied to at another, followed at any."""

import asyncio
import importlib
import json
import secrets
from contextlib import aclosing

import pytest
from flexchat import JournaledEvent
from flexchat_sqlite.journal import SqliteJournal
from flexchat_testing import calls
from flexchat_web.api import turns as turns_module
from flexchat_web.api.turns import Turns
from flexchat_web.serving import QUESTIONS_EXPIRE_S
from web_streams import begin, join, until

SHOP = """
from flexchat import ToolContext

PAID = []


async def pay(amount: int, to: str = ""):
    PAID.append(amount)
    return "paid"


async def order(context: ToolContext):
    schema = {"type": "object", "properties": {"size": {"enum": ["small", "large"]}}, "required": ["size"]}
    reply = await context.ask("Which size?", schema)
    return {"action": reply.action, "content": dict(reply.content), "why": reply.why}
"""
PAY = {
    "name": "pay",
    "description": "Pay.",
    "effect": "write",
    "approve": True,
    "parameters": {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "to": {"type": "string"}},
        "required": ["amount"],
    },
}
ORDER = {
    "name": "order",
    "description": "Order a pizza.",
    "effect": "read",
    "parameters": {"type": "object", "properties": {}},
}
YES, NO = {"action": "accept"}, {"action": "decline"}


@pytest.fixture
def shop(told, tmp_path, monkeypatch):
    """The configuration of a shop whose payments need approval; the module of its tools, which lists what was paid."""
    name = f"shop_{secrets.token_hex(4)}"  # of its own: modules are imported once
    (tmp_path / f"{name}.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    for tool in (PAY, ORDER):
        implementation = {"type": "python", "function": f"{name}:{tool['name']}"}
        told.tables["tools"]["registry"].append({**tool, "implementation": implementation})
    told.says(calls(("pay", {"amount": 10}), text="I pay."), "Done.")
    return importlib.import_module(name)


def question_of(events):
    """The id of the question in the last event, which is "suspended"."""
    _, name, data = events[-1]
    assert (name, data["status"]) == ("suspended", "suspended")
    (pending,) = data["pending"]
    return pending["id"]


async def reply(client, id, body=YES, **headers):
    return await client.post(f"/api/questions/{id}/reply", json=body, headers=headers)


async def open_questions(client, **query):
    return (await client.get("/api/questions", params=query)).json()["questions"]


async def change(client, work):
    """Change the file of the conversations."""
    async with client.app.serving.chat() as chat:
        await chat.conversations.store.database.write(work)


def whole(events):
    """Assert that events have the numbers from 1 without gaps, and return their names."""
    assert [number for number, _, _ in events] == [*range(1, len(events) + 1)]
    return [name for _, name, _ in events]


async def test_a_turn_is_asked_at_one_server_approved_at_a_second_and_followed_at_both(shop, listening):
    """Its stream, joined late, is the same as one that was not cut; its numbers go on."""
    one, other = await listening(resume=False), await listening(resume=False)
    found = await begin(one, conversation="c")
    id, question = found[0][2]["id"], question_of(found)
    assert (found[-1][2]["content"], whole(found).count("question")) == ("I pay.", 1)
    assert not len(one.app.serving.shared(Turns))
    following = asyncio.create_task(join(one, id, found[-1][0]))
    (listed,) = await open_questions(other, conversation="c")
    assert (listed["id"], listed["turn"], listed["state"]) == (question, id, "open")
    assert await open_questions(other, conversation="d") == []

    assert (await reply(other, question)).json() == {"id": question, "action": "accept"}
    (again, *rest) = await following
    uncut = await join(other, id)

    assert again[:2] == (None, "suspended")
    assert again[2]["pending"] == [listed]
    assert uncut == found + rest == await join(one, id)
    names = whole(uncut)
    assert names.index("suspended") < names.index("turn_resumed") < names.index("tool_finished")
    assert (names[-1], uncut[-1][2]["content"], shop.PAID) == ("turn", "Done.", [10])
    kept = (await one.get(f"/api/questions/{question[:8]}")).json()
    assert (kept["state"], kept["replied_by"], kept["reply"]["action"]) == ("replied", "web", "accept")
    assert await open_questions(one) == []
    assert [each["id"] for each in await open_questions(one, state="replied")] == [question]


async def test_an_unstreamed_answer_lists_what_is_pending(shop, listening):
    client = await listening(resume=False)
    answer = (await client.post("/chat/api", json={"prompt": "Pay", "conversation": "c"})).json()
    assert (answer["status"], answer["response"]) == ("suspended", "I pay.")
    (pending,) = answer["turn"]["pending"]
    assert pending["question"]["tool"] == "pay"
    assert await open_questions(client) == [pending]

    suspended = await join(client, answer["turn"]["id"], last="suspended")
    assert [(number, data["pending"]) for number, _, data in suspended] == [(None, [pending])]
    following = asyncio.create_task(join(client, answer["turn"]["id"]))
    await reply(client, pending["id"])
    events = [event for event in await following if event[0] is not None]
    assert whole(events)[0] == "turn_resumed"
    assert events[-1][2]["content"] == "Done."


async def test_arguments_are_shown_in_full_and_nothing_in_them_is_invisible(shop, told, listening):
    note = "to \u202eeve\u2066\u200b\x07\u00a0" + "x" * 5_000
    told.says(calls(("pay", {"amount": 2**53 + 1, "to": note})), "Done.")
    client = await listening(resume=False)
    found = await begin(client, conversation="c")
    (question,) = [data for _, name, data in found if name == "question"]
    text = question["arguments_text"]
    assert json.loads(text) == question["details"]["arguments"] == {"amount": 2**53 + 1, "to": note}
    assert "9007199254740993" in text
    assert r'"to \u202eeve\u2066\u200b\u0007\u00a0xxx' in text
    assert text.replace("\n", "").isprintable()
    assert (await open_questions(client))[0]["question"] == question


async def test_the_first_reply_counts_and_later_ones_learn_who_gave_it(shop, listening):
    tokens = {"red-token-0123456789": "red", "blue-token-0123456789": "blue"}
    one, other = await listening(tokens=tokens, resume=False), await listening(tokens=tokens, resume=False)
    red, blue = ({"authorization": f"Bearer {token}"} for token in tokens)
    one.headers, other.headers = red, red
    found = await begin(one, conversation="c")
    question = question_of(found)
    for method, path in (("GET", ""), ("POST", "/reply")):
        body = {"json": YES} if path else {}
        foreign = await other.request(method, f"/api/questions/{question}{path}", headers=blue, **body)
        unknown = await other.request(method, f"/api/questions/none{path}", headers=red, **body)
        assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert (await other.get("/api/questions", headers=blue)).json() == {"questions": []}

    answers = await asyncio.gather(*(reply(client, question, body) for client in (one, other) for body in (YES, NO)))
    assert sorted(answer.status_code for answer in answers) == [200, 404, 404, 404]
    late = await reply(one, question)
    assert (late.status_code, late.json()["type"]) == (404, "urn:flexchat:problem:closed-question")
    assert "red" in late.json()["detail"]
    (first,) = [answer.json()["action"] for answer in answers if answer.status_code == 200]
    assert (await join(one, found[0][2]["id"]))[-1][2]["status"] == "done"
    assert ([10] if first == "accept" else []) == shop.PAID


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"action": "accept"}, 422),
        ({"action": "accept", "content": {"size": "huge"}}, 422),
        ({"action": "accept", "content": {"size": "large"}, "remember": "always"}, 422),
        ({"action": "decline", "reason": "x" * 2_001}, 400),
        ({"action": "yes"}, 400),
    ],
)
async def test_a_reply_that_does_not_fit_leaves_the_question_open(shop, told, listening, body, status):
    told.says(calls(("order", {})), "Done.")
    client = await listening(resume=False)
    question = question_of(await begin(client, conversation="c"))
    refused = await reply(client, question, body)
    assert (refused.status_code, len(refused.json()["detail"]) > 20) == (status, True)
    assert [each["id"] for each in await open_questions(client)] == [question]
    assert (await reply(client, question, {"action": "accept", "content": {"size": "large"}})).status_code == 200


async def test_the_model_reads_why_a_call_was_rejected(shop, told, listening):
    client = await listening(resume=False)
    found = await begin(client, conversation="c")
    await reply(client, question_of(found), {"action": "decline", "reason": "  Too much.  "})
    events = await join(client, found[0][2]["id"])
    (result,) = [data["result"] for _, name, data in events if name == "tool_finished"]
    assert (result["success"], result["hint"], shop.PAID) == (False, "Too much.", [])


async def test_an_expired_question_takes_no_reply_and_its_turn_goes_on(shop, listening):
    first = await listening(resume=False)
    found = await begin(first, conversation="c")
    question = question_of(found)
    await change(first, lambda d: d.execute("UPDATE questions SET expires_at = '2026-01-01T00:00:00.000+00:00'"))
    late = await reply(first, question)
    assert (late.status_code, "expired" in late.json()["detail"]) == (404, True)
    assert await open_questions(first) == []
    second = await listening()
    events = await join(second, found[0][2]["id"])
    assert (events[-1][2]["status"], shop.PAID) == ("done", [])
    assert (await second.get(f"/api/questions/{question}")).json()["state"] == "expired"


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
async def test_a_live_question_of_one_server_takes_its_reply_at_another_if_it_is_kept(shop, told, listening, kept):
    told.says(calls(("order", {})), "Done.")
    one, other = await listening(resume=False), await listening(resume=False)
    body = {"conversation": "c"} if kept else {}
    turn = asyncio.create_task(begin(one, questions=True, **body))
    turns = one.app.serving.shared(Turns)
    await until(lambda: any(each.questions for each in turns._turns.values()))
    (served,) = turns._turns.values()
    (question,) = [json.loads(event.data)["id"] async for _, event in logged(served) if event.name == "question"]
    large = {"action": "accept", "content": {"size": "large"}}
    answer = await reply(other if kept else one, question, large)
    events = await turn
    assert answer.status_code == 200
    assert "suspended" not in whole(events)
    (result,) = [data["result"]["result"] for _, name, data in events if name == "tool_finished"]
    assert result["content"] == {"size": "large"}
    if kept:
        assert (await reply(other, question, large)).status_code == 404


async def logged(served):
    """The events that a turn has by now."""
    for number in range(served.log.number):
        async for event in served.log.after(number):
            yield event
            break


async def test_a_turn_with_an_open_question_is_not_abandoned(shop, told, listening):
    """Who replies need not listen."""
    told.says(calls(("order", {})), "Done.")
    client = await listening(unheard_seconds=0.01, most_unheard=0, resume=False)
    found = await begin(client, last="question", conversation="c", questions=True)
    id, question = found[0][2]["id"], found[-1][2]["id"]
    turn = client.app.serving.shared(Turns).find(id, "default")
    await until(lambda: not turn.listeners)
    timer = turn.timer
    await until(lambda: turn.timer is not timer)
    assert not turn.handle.is_ended
    assert (await reply(client, question, {"action": "accept", "content": {"size": "small"}})).status_code == 200
    await turn.handle.last()


async def test_a_turn_is_cancelled_at_another_server(shop, told, listening):
    told.says(calls(("order", {})), "Done.")
    one, other = await listening(resume=False), await listening(resume=False)
    turn = asyncio.create_task(begin(one, questions=True, conversation="c"))
    turns = one.app.serving.shared(Turns)
    await until(lambda: any(each.questions for each in turns._turns.values()))
    (id,) = turns._turns
    answer = await other.post(f"/api/turns/{id}/cancel")
    assert (answer.status_code, answer.json()["turn"]["status"]) == (200, "cancelled")
    events = await turn
    assert (events[-1][1], events[-1][2]["status"]) == ("turn", "cancelled")
    assert await join(other, id) == events
    assert await open_questions(other) == []


async def test_a_suspended_turn_is_cancelled_anywhere_and_its_listeners_get_its_end(shop, listening, short_grace):
    one, other = await listening(resume=False), await listening(resume=False)
    found = await begin(one, conversation="c")
    id, question = found[0][2]["id"], question_of(found)
    following = [asyncio.create_task(join(client, id, found[-1][0])) for client in (one, other)]
    answer = await other.post(f"/api/turns/{id}/cancel")
    assert answer.json()["turn"]["status"] == "cancelled"
    for events in await asyncio.gather(*following):
        assert (events[-1][1], events[-1][2]["status"]) == ("turn", "cancelled")
    late = await reply(one, question)
    assert (late.status_code, shop.PAID) == (404, [])
    gone = await one.get(f"/api/turns/{id}/events", headers={"last-event-id": str(events[-1][0])})
    assert gone.status_code == 204


async def test_a_turn_that_is_suspended_while_it_is_cancelled_is_cancelled(shop, listening, monkeypatch):
    client, cancelling, suspend = await listening(resume=False), [], SqliteJournal.suspend

    async def suspend_later(self, turn, entries):
        served = client.app.serving.shared(Turns).find(turn.id, "default")
        cancelling.append(asyncio.create_task(client.post(f"/api/turns/{turn.id}/cancel")))
        await until(lambda: served.handle._task.cancelling())
        return await suspend(self, turn, entries)

    monkeypatch.setattr(SqliteJournal, "suspend", suspend_later)
    await begin(client, conversation="c")
    assert (await cancelling[0]).json()["turn"]["status"] == "cancelled"
    assert await open_questions(client) == []


@pytest.fixture
def short_grace(monkeypatch):
    """The process of a turn has little time to write its end, which others then derive."""
    monkeypatch.setattr(turns_module, "END_GRACE_S", 0.1)


async def test_the_next_message_ends_a_suspended_turn(shop, listening, short_grace):
    client = await listening(resume=False)
    found = await begin(client, conversation="c")
    following = asyncio.create_task(join(client, found[0][2]["id"], found[-1][0]))
    await begin(client, conversation="c")
    events = await following
    assert (events[-1][1], events[-1][2]["detail"]) == ("error", "the turn was interrupted, and was not resumed")
    assert (await client.get(f"/api/questions/{question_of(found)}")).json()["state"] == "withdrawn"


@pytest.mark.parametrize(("new_message", "status"), [("reject", 409), ("queue", 200)])
async def test_or_is_refused_or_answered_after_it(shop, told, listening, short_grace, new_message, status):
    told.tables["questions"] = {"new_message": new_message}
    told.says(calls(("pay", {"amount": 10})), "Done.", "Hello.")
    client = await listening()
    found = await begin(client, conversation="c")
    answer = asyncio.create_task(
        client.post("/chat/api", json={"prompt": "Hi", "conversation": "c", "stream": new_message == "queue"})
    )
    if new_message == "queue":
        async with client.app.serving.chat() as chat:
            while [turn.state for turn in await chat.turns(states=["accepted"])] != ["accepted"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    else:
        await answer
    await reply(client, question_of(found))
    assert (await answer).status_code == status
    assert ('"content":"Hello."' in (await answer).text) == (new_message == "queue")
    assert (await join(client, found[0][2]["id"]))[-1][2]["status"] == "done"


@pytest.mark.slow
async def test_a_question_survives_its_server(shop, told, listening):
    """The turn was asked with questions: true; the next server takes it up, and its question is open as before."""
    told.tables["tools"]["effects"] = {"lease_s": 60}
    told.says(calls(("order", {})), "Done.")
    first = await listening()
    found = await begin(first, last="question", conversation="c", questions=True)
    id, question = found[0][2]["id"], found[-1][2]["id"]
    await first.app.aclose()
    second = await listening()
    rest = await join(second, id, found[-1][0], last="suspended")
    assert [each["id"] for each in await open_questions(second)] == [question]
    following = asyncio.create_task(join(second, id, rest[-1][0]))
    await reply(second, question, {"action": "accept", "content": {"size": "small"}})
    rest += [event for event in await following if event[0] is not None]
    assert whole(found + rest)[-1] == "turn"
    (result,) = [data["result"]["result"] for _, name, data in rest if name == "tool_finished"]
    assert (result["action"], result["content"]) == ("accept", {"size": "small"})


@pytest.mark.slow
async def test_a_turn_cut_at_each_event_is_the_same_as_uncut(shop, told, listening):
    """Two approvals in one turn, each at another server; every event is read by a connection of its own."""
    told.says(calls(("pay", {"amount": 1}), text="First."), calls(("pay", {"amount": 2}), text="Then."), "Done.")
    servers = [await listening(resume=False) for _ in range(3)]
    found = await begin(servers[0], 1, conversation="c")
    id, replied = found[0][2]["id"], []
    while found[-1][1] != "turn":
        server = servers[len(found) % 3]
        if found[-1][1] == "suspended" and found[-1][0] not in replied:
            replied.append(found[-1][0])
            await reply(server, question_of(found))
        (event,) = await join(server, id, found[-1][0], 1)
        found += [event] if event[0] is not None else []
    assert found == await join(servers[1], id)
    assert (whole(found).count("suspended"), shop.PAID) == (2, [1, 2])


async def test_an_accepted_turn_has_an_address_and_is_run(shop, told, listening):
    told.says("Hello.")
    client = await listening()
    body = {"prompt": "Hi", "conversation": "c", "accept": True}
    answer = await client.post("/chat/api", json=body)
    id = answer.json()["id"]
    assert (answer.status_code, answer.json()) == (202, {"id": id, "conversation": "c"})
    assert answer.headers["location"] == f"/api/turns/{id}/events"
    events = [event for event in await join(client, id) if event[0] is not None]
    assert (whole(events)[-1], events[-1][2]["content"]) == ("turn", "Hello.")
    without = await client.post("/chat/api", json={"prompt": "Hi", "accept": True})
    assert (without.status_code, "conversation" in without.json()["detail"]) == (422, True)


async def test_a_server_that_only_accepts_streams_what_another_runs(shop, told, listening):
    told.says("Hello.")
    front = await listening(accept_only=True, resume=False)
    waits = asyncio.create_task(begin(front, conversation="c"))
    plain = asyncio.create_task(front.post("/chat/api", json={"prompt": "Hi", "conversation": "d"}))
    async with front.app.serving.chat() as chat:
        while len(await chat.turns(states=["accepted"])) < 2:  # noqa: ASYNC110  there is nothing to wait for
            await asyncio.sleep(0.01)
    assert not len(front.app.serving.shared(Turns))
    worker = await listening()
    events = await waits
    assert [name for _, name, _ in events[:2]] == ["accepted", "turn_started"]
    assert events[0][2] == {"id": events[1][2]["id"], "conversation": "c"}
    assert (whole(events[1:])[-1], events[-1][2]["content"]) == ("turn", "Hello.")
    answer = (await plain).json()
    assert (answer["status"], answer["response"], answer["turn"]["conversation"]) == ("success", "Hello.", "d")
    for path, body in (
        ("/chat/api", {"prompt": "Hi"}),
        ("/v1/chat/completions", {"model": "flexchat", "messages": [{"role": "user", "content": "Hi"}]}),
        (f"/api/turns/{events[1][2]['id']}/resume", None),
    ):
        refused = await front.post(path, json=body)
        assert refused.status_code == 422, path
    assert len(worker.app.serving.shared(Turns))


@pytest.mark.slow
async def test_a_server_that_only_accepts_leaves_the_turn_of_a_reply_to_others(shop, listening):
    front = await listening(accept_only=True, resume=False)
    worker = await listening(resume=False)
    found = await begin(worker, conversation="c")
    assert (await reply(front, question_of(found))).status_code == 200
    (turn,) = (await front.get("/api/turns")).json()["turns"]
    assert (turn["state"], shop.PAID) == ("interrupted", [])
    await listening()
    assert (await join(front, turn["id"]))[-1][2]["content"] == "Done."


async def test_with_a_queue_the_workers_resume(shop, listening, monkeypatch):
    client = await listening(resume=False)
    body = {"prompt": "Hi", "conversation": "c", "accept": True}
    await client.post("/chat/api", json=body)
    turns = client.app.serving.shared(Turns)
    async with client.app.serving.chat() as chat:
        monkeypatch.setitem(chat.config.tables, "queue", {"provider": "any"})
    await turns.resume_interrupted()
    assert not len(turns)


async def test_openai_clients_read_what_an_answer_waits_for(shop, listening):
    """And get it whole for the same request with the same key."""
    client = await listening(resume=False)
    messages = [{"role": "user", "content": "Pay"}]
    request = {"json": {"model": "flexchat", "messages": messages, "conversation": "c"}}
    keyed = {**request, "headers": {"idempotency-key": "pay-1"}}
    answer = (await client.post("/v1/chat/completions", **keyed)).json()
    (pending,) = answer["flexchat"]["pending"]
    (choice,) = answer["choices"]
    assert (choice["finish_reason"], answer["flexchat"]["status"]) == ("stop", "suspended")
    lines = choice["message"]["content"].splitlines()
    assert lines[:3] == ["I pay.", "", "This answer is suspended until there is a reply to:"]
    assert lines[3] == f"- pay: {pending['question']['message']} (question {pending['id']})"

    await reply(client, pending["id"])
    again = (await client.post("/v1/chat/completions", **keyed)).json()
    assert (again["choices"][0]["message"]["content"], shop.PAID) == ("Done.", [10])


async def test_and_their_streams_end_with_it(shop, told, listening, sse):
    client = await listening(resume=False)
    body = {"model": "flexchat", "messages": [{"role": "user", "content": "Pay"}], "conversation": "c", "stream": True}
    chunks = [data for _, data in sse((await client.post("/v1/chat/completions", json=body)).text)]
    assert chunks[-1] == "[DONE]"
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks[:-1])
    assert text.startswith("I pay.\n\nThis answer is suspended until")
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-2]["flexchat"]["pending"][0]["question"]["tool"] == "pay"


async def test_questions_expire_after_a_week_unless_the_configuration_sets_a_time(shop, told, new_app):
    app = told.app()
    async with app.serving.chat() as chat:
        assert chat.questions_expire_s == QUESTIONS_EXPIRE_S == 7 * 86_400
    await app.serving.reload({**told.tables, "questions": {"expires": "2h"}})
    async with app.serving.chat() as chat:
        assert chat.questions_expire_s == 7_200
    await app.serving.reload(told.tables)
    async with app.serving.chat() as chat:
        assert chat.questions_expire_s == QUESTIONS_EXPIRE_S


async def test_what_another_server_does_is_seen_without_waiting_for_the_next_look(shop, told, listening, monkeypatch):
    monkeypatch.setattr(turns_module, "LOOK_S", 600.0)
    one, other = await listening(resume=False), await listening(resume=False)
    found = await begin(one, conversation="c")
    following = asyncio.create_task(join(one, found[0][2]["id"], found[-1][0]))
    await reply(other, question_of(found))
    assert (await following)[-1][2]["content"] == "Done."


async def test_the_events_of_a_turn_that_another_process_suspends_end_with_its_questions(shop, listening):
    """Also if it is found suspended before the event that reports that is written."""
    front, worker = await listening(accept_only=True, resume=False), await listening(resume=False)
    body = {"prompt": "Pay", "conversation": "c", "accept": True}
    id = (await front.post("/chat/api", json=body)).json()["id"]
    async with aclosing(front.app.serving.shared(Turns).events(id, "default", is_waiting=False)) as events:
        names = [(await anext(events)).name]
        async with worker.app.serving.chat() as chat:
            await chat.resume(id)
            journal = chat.conversations.store.journal
            turn, _ = await journal.read(id, tenant="default")
            await journal.add_events(turn, [JournaledEvent(number=1, name="turn_started", data="{}")])
        ends = [event async for event in events]
    assert (names, [event.name for event in ends]) == (["accepted"], ["turn_started", "suspended"])
    assert [each["question"]["tool"] for each in ends[-1].data["pending"]] == ["pay"]


async def test_a_turn_whose_process_writes_no_events_has_an_end(shop, told, listening, monkeypatch):
    """Those that accepted it elsewhere get it from the conversation."""
    monkeypatch.setattr(turns_module, "END_GRACE_S", -1)
    told.says("Hello.")
    front, worker = await listening(accept_only=True, resume=False), await listening(resume=False)
    waits = asyncio.create_task(begin(front, conversation="c"))
    async with worker.app.serving.chat() as chat:
        while not (accepted := await chat.turns(states=["accepted"])):  # noqa: ASYNC110  there is nothing to wait for
            await asyncio.sleep(0.01)
        await chat.resume(accepted[0].id)
    assert [(number, name, data.get("content")) for number, name, data in await waits] == [
        (None, "accepted", None),
        (1, "turn", "Hello."),
    ]


async def test_a_conversation_is_listed_before_its_first_turn_has_ended(told, shop, listening):
    """With its state, before the others, on the first page alone."""
    told.says("Hello.", calls(("pay", {"amount": 10}), text="I pay."), "Done.")
    client = await listening(resume=False)

    async def listed(**query):
        found = (await client.get("/api/conversations", params=query)).json()["conversations"]
        return [(info["id"], info["turns"], info["status"], info["title"]) for info in found]

    await client.post("/chat/api", json={"prompt": "Hi", "conversation": "done"})
    await client.post("/chat/api", json={"prompt": "Pay 10", "conversation": "waiting"})

    waiting, done = ("waiting", 0, "suspended", "Pay 10"), ("done", 1, "done", "Hi")
    assert await listed() == [waiting, done]
    assert [await listed(search="PAY"), await listed(search="hi")] == [[waiting], [done]]
    assert [await listed(limit=1), await listed(before="done")] == [[done], []]
    (question,) = await open_questions(client)
    following = asyncio.create_task(join(client, question["turn"]))
    await reply(client, question["id"])
    await following
    assert await listed() == [("waiting", 1, "done", "Pay 10"), done]
