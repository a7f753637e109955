"""Turns that outlive the connections of those who listen: joined at any event, cancelled, left alone."""

import asyncio
import gc
import random
import tracemalloc
from pathlib import Path

import pytest
from flexchat_sdk import ProviderOverloadedError
from flexchat_testing import ScriptedProvider, calls, says
from flexchat_web.api import turns as turns_module
from flexchat_web.api.turns import Turns
from web_leftovers import leave_turn
from web_streams import begin, heard, join, until

WEATHER = ("get_weather", {"city": "Rome"})
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8) + b"\x00\x00\x00\x01\x00\x00\x00\x01" + bytes(200)
LONG = " ".join(f"word{number}" for number in range(150))
MAX_LEFT_COPIES = 0.3
"""Of an image, in memory once turns with it have ended."""


class Slowly(ScriptedProvider):
    """Gives the loop a turn between its pieces, and now and then a moment."""

    async def stream_chat(self, messages, model, options):
        async for event in super().stream_chat(messages, model, options):
            await asyncio.sleep(random.choice((0, 0, 0.001)))
            yield event


class Waiting:
    """A model that says "Once ", unless ``begin`` was cleared, and then waits until it may go on."""

    def __init__(self):
        self.asked, self.go, self.gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.begin = asyncio.Event()
        self.begin.set()

    def provider(self):
        outer = self

        class Provider(ScriptedProvider):
            async def stream_chat(self, messages, model, options):
                pieces = super().stream_chat(messages, model, options)
                await outer.begin.wait()
                yield await anext(pieces)
                outer.asked.set()
                try:
                    await outer.go.wait()
                finally:
                    outer.gone.set()
                async for piece in pieces:
                    yield piece

        return Provider([says("Once upon a time")], repeat=True)


@pytest.fixture
def waiting(told):
    model = Waiting()
    told._plugin.provider = model.provider()
    return model


@pytest.mark.parametrize(
    ("seed", "body"),
    [
        (0, {}),
        (2, {"conversation": "c"}),
        pytest.param(1, {}, marks=pytest.mark.slow),
        pytest.param(3, {"conversation": "c"}, marks=pytest.mark.slow),
    ],
)
async def test_a_stream_cut_fifty_times_and_joined_again_is_the_same_as_uncut(told, listening, seed, body):
    """Every event, its number and its data; another listens to all of it beside."""
    chance = random.Random(seed)
    told._plugin.provider = Slowly([calls(WEATHER, text="Let me look."), says(LONG)])
    client = await listening()
    found = await begin(client, 2, **body)
    id = found[0][2]["id"]
    uncut = asyncio.create_task(join(client, id))
    for _ in range(49):
        found += await join(client, id, found[-1][0], chance.randint(1, 5))
        if chance.random() < 0.3:
            await asyncio.sleep(chance.random() / 500)
    found += await join(client, id, found[-1][0])
    assert found == await uncut == await join(client, id)
    assert found[-1][1] == "turn"
    said = "".join(data["text"] for _, name, data in found if name == "text")
    assert said == "Let me look." + found[-1][2]["content"]


async def test_a_lost_connection_leaves_the_turn_running(told, waiting, listening):
    client = await listening()
    found = await begin(client, 3)
    assert [name for _, name, _ in found] == ["turn_started", "phase_started", "model_request_started"]
    await waiting.asked.wait()
    waiting.go.set()
    rest = await join(client, found[0][2]["id"], found[-1][0])
    assert rest[-1][2]["content"] == "Once upon a time"
    assert rest[-1][2]["status"] == "done"


async def test_a_conversation_deleted_while_its_turn_runs_does_not_come_back(told, waiting, listening):
    """Those who listen to the turn hear it to its end; once nothing more is kept of it, that is said."""
    client = await listening()
    waiting.go.set()
    await begin(client, None, conversation="c")
    waiting.go.clear()
    waiting.asked.clear()
    found = await begin(client, 3, conversation="c")
    id = found[0][2]["id"]
    await waiting.asked.wait()
    assert (await client.delete("/api/conversations/c")).status_code == 204
    waiting.go.set()
    rest = await join(client, id, found[-1][0])
    assert (rest[-1][1], rest[-1][2]["content"]) == ("turn", "Once upon a time")
    assert (await client.get("/api/conversations/c")).status_code == 404
    client.app.serving.shared(Turns)._forget(id)
    assert await join(client, id) == found + rest
    await store_of(client, lambda database: database.execute("DELETE FROM journal_events"))
    assert (await client.get(f"/api/turns/{id}/events")).status_code == 410


async def test_a_stored_answer_goes_on_in_pieces_when_its_reader_leaves(told, waiting, listening):
    """The reader may read on in another process."""
    waiting.begin.clear()
    client = await listening()
    found = await begin(client, 3, conversation="c")
    turn = client.app.serving.shared(Turns).find(found[0][2]["id"], "default")
    await until(lambda: not turn.listeners)
    waiting.begin.set()
    await until(lambda: turn.log.number > 3)
    assert (turn.log.last.name, turn.log.last.data) == ("text", '{"index":0,"text":"Once "}')
    waiting.go.set()
    assert (await join(client, turn.handle.id))[-1][2]["content"] == "Once upon a time"


async def test_an_answer_that_began_without_readers_reaches_those_that_join(told, waiting, listening):
    """At once, not with the next piece or the end of the answer."""
    waiting.begin.clear()
    client = await listening()
    found = await begin(client, 3)
    turn = client.app.serving.shared(Turns).find(found[0][2]["id"], "default")
    await until(lambda: not turn.readers)
    waiting.begin.set()
    await waiting.asked.wait()
    await until(lambda: turn.handle.number > turn.log.number)
    async with asyncio.timeout(5):
        assert (await join(client, turn.handle.id, found[-1][0], 1))[0][1:] == ("text", {"index": 0, "text": "Once "})
    waiting.go.set()
    assert (await join(client, turn.handle.id))[-1][2]["content"] == "Once upon a time"


async def test_who_has_the_last_event_is_told_that_no_more_come(listening):
    """204: an EventSource asks no more."""
    client = await listening()
    found = await begin(client, None)
    answer = await client.get(f"/api/turns/{found[0][2]['id']}/events", headers={"last-event-id": str(found[-1][0])})
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "9" * 30, "٣"])
async def test_a_last_event_id_that_is_none_is_refused(told, given):
    client = await told.client()
    answer = await client.get("/api/turns/x/events", headers={"last-event-id": given.encode()})
    assert answer.status_code == 400


async def test_cancel_ends_the_turn_and_answers_with_what_is_kept(told, waiting, listening):
    """Its listeners get it as the last event; a second time says the same."""
    client = await listening()
    found = await begin(client, 4, conversation="c")
    id = found[0][2]["id"]
    listener = asyncio.create_task(join(client, id))
    await waiting.asked.wait()
    turn = (await client.post(f"/api/turns/{id}/cancel")).json()["turn"]
    assert waiting.gone.is_set()
    assert (turn["status"], turn["content"], turn["id"]) == ("cancelled", "Once ", id)
    (kept,) = (await client.get("/api/conversations/c")).json()["turns"]
    assert (kept["id"], kept["status"]) == (id, "cancelled")
    assert (await listener)[-1][1:] == ("turn", turn)
    assert (await client.post(f"/api/turns/{id}/cancel")).json() == {"turn": turn}


async def test_cancel_comes_too_late_for_a_turn_that_has_ended(listening):
    client = await listening()
    found = await begin(client, None)
    answer = (await client.post(f"/api/turns/{found[0][2]['id']}/cancel")).json()
    assert answer == {"turn": found[-1][2]}


async def test_a_turn_that_fails_is_told_to_whoever_joins(told, listening):
    """As its last event, with a number; and cancelling it says that it failed."""
    told.says(calls(WEATHER), ProviderOverloadedError("busy"))
    client = await listening()
    found = await begin(client, 2)
    id = found[0][2]["id"]
    last = (await join(client, id))[-1]
    assert (last[1], last[2]["status"], last[2]["detail"]) == ("error", 503, "busy")
    assert (await join(client, id, last[0] - 1)) == [last]
    assert (await client.post(f"/api/turns/{id}/cancel")).json()["turn"]["status"] == "failed"


async def test_a_turn_of_another_tenant_can_neither_be_joined_nor_cancelled(told, waiting, listening):
    """404, as of one that nobody has; without a token 401."""
    red, blue = ({"authorization": f"Bearer {name}-token-0123456789"} for name in ("red", "blue"))
    client = await listening(tokens={"red-token-0123456789": "red", "blue-token-0123456789": "blue"})
    client.headers = red
    id = (await begin(client, 3))[0][2]["id"]
    for method, path in (("GET", "events"), ("POST", "cancel")):
        foreign = await client.request(method, f"/api/turns/{id}/{path}", headers=blue)
        unknown = await client.request(method, f"/api/turns/none/{path}")
        assert (foreign.status_code, foreign.json()) == (404, unknown.json())
        client.headers = {}
        assert (await client.request(method, f"/api/turns/{id}/{path}")).status_code == 401
        client.headers = red
    assert not waiting.gone.is_set()
    waiting.go.set()
    assert (await join(client, id))[-1][2]["status"] == "done"


async def test_a_turn_nobody_listens_to_ends_after_a_while(told, waiting, listening):
    """And what there is of it is kept."""
    client = await listening(unheard_seconds=0.05)
    id = (await begin(client, 3, conversation="c"))[0][2]["id"]
    await asyncio.wait_for(waiting.gone.wait(), 30)
    last = (await join(client, id))[-1]
    assert (last[1], last[2]["status"]) == ("turn", "cancelled")
    assert (await client.get("/api/conversations/c")).json()["turns"][0]["status"] == "cancelled"


async def test_it_does_not_while_it_has_a_listener(told, waiting, listening):
    """With no time at all for a turn without one, it would end at once."""
    client = await listening(unheard_seconds=0)
    async with client.stream("POST", "/chat/api", json={"prompt": "Rome?", "stream": True}) as response:
        await waiting.asked.wait()
        waiting.go.set()
        assert (await heard(response))[-1][2]["status"] == "done"


async def test_a_tenant_cannot_leave_any_number_alone(told, waiting, listening):
    """The one that is alone for longest ends."""
    client = await listening(most_unheard=2)
    turns = client.app.serving.shared(Turns)
    ids = []
    for _ in range(4):
        ids.append((await begin(client, 3))[0][2]["id"])
        await until(lambda: not turns.find(ids[-1], "default").listeners)
    await until(lambda: turns.find(ids[1], "default").handle.is_ended)
    assert [turns.find(id, "default").handle.is_ended for id in ids] == [True, True, False, False]


async def test_a_client_that_goes_before_it_knows_the_turn_ends_it(told, waiting, listening):
    """It waits for its place behind another turn of its conversation: nothing has been told yet."""
    client = await listening()
    await begin(client, 3, conversation="c")
    turns = client.app.serving.shared(Turns)
    waits = asyncio.create_task(begin(client, 1, conversation="c"))
    await until(lambda: len(turns) == 2)
    second = [*turns._turns.values()][1]
    waits.cancel()
    await until(lambda: second.handle.is_ended)
    assert (await second.handle.last()).turn.status == "cancelled"


async def test_a_new_configuration_leaves_a_turn_on_the_one_it_began_with(told, waiting, listening):
    client = await listening()
    id = (await begin(client, 3))[0][2]["id"]
    before = client.app.serving._current.chat
    told.says("other")
    await client.app.serving.reload(told.tables)
    assert client.app.serving._current.chat is not before
    waiting.go.set()
    assert (await join(client, id))[-1][2]["content"] == "Once upon a time"


async def test_a_server_that_ends_cancels_what_is_not_kept(waiting, listening):
    client = await listening()
    await begin(client, 3)
    await waiting.asked.wait()
    (turn,) = client.app.serving.shared(Turns)._turns.values()
    await client.app.aclose()
    assert (waiting.gone.is_set(), turn.handle.is_ended) == (True, True)
    assert (await turn.handle.last()).turn.status == "cancelled"


async def test_a_server_that_ends_leaves_what_is_kept_to_the_next(told, waiting, listening):
    """Which goes on at once: its readers join again, and get the next numbers."""
    told.tables["tools"]["effects"] = {"lease_s": 60}
    first = await listening()
    found = await begin(first, 4, conversation="c")
    id = found[0][2]["id"]
    await waiting.asked.wait()
    await first.app.aclose()
    assert waiting.gone.is_set()

    waiting.go.set()
    second = await listening()
    rest = await join(second, id, found[-1][0])
    names = [name for _, name, _ in rest]
    assert (names[0], names.count("turn_resumed"), names[-1]) == ("turn_resumed", 1, "turn")
    assert (rest[-1][2]["status"], rest[-1][2]["content"]) == ("done", "Once upon a time")
    assert found + rest == await join(second, id)
    assert [number for number, _, _ in found + rest] == [*range(1, len(found + rest) + 1)]
    (kept,) = (await second.get("/api/conversations/c")).json()["turns"]
    assert kept["id"] == id


async def test_a_stream_of_a_kept_turn_says_that_the_server_stops(told, waiting, listening):
    """And that the turn goes on; that of another turn ends with an error."""
    client = await listening()
    ends = []
    for body in ({"conversation": "c"}, {}):
        async with client.stream("POST", "/chat/api", json={"prompt": "Rome?", "stream": True, **body}) as response:
            lines = response.aiter_lines()
            async for line in lines:
                if line == "event: text":
                    break
            client.app.streams.stop()
            rest = [line async for line in lines if line]
            ends.append([line for line in rest if line.startswith(("id:", "event:"))][-1])
    assert ends == ["event: interrupted", "event: error"]


async def test_a_turn_that_runs_in_another_server_is_told_here_too(told, waiting, listening):
    """Joined before it has ended, and after."""
    one, other = await listening(), await listening()
    found = await begin(one, 3, conversation="c")
    id = found[0][2]["id"]
    joined = asyncio.create_task(join(other, id))
    await until(lambda: one.app.serving.shared(Turns).find(id, "default").log.number >= 4)
    waiting.go.set()
    whole = await joined
    assert whole == await join(one, id)
    assert whole == await join(other, id)
    assert (whole[:3], whole[-1][1]) == (found, "turn")
    gone = await other.get(f"/api/turns/{id}/events", headers={"last-event-id": str(whole[-1][0])})
    assert gone.status_code == 204
    assert (await other.get(f"/api/turns/{id[:8]}/events")).status_code == 404


@pytest.mark.slow
async def test_of_two_servers_one_takes_a_turn_up(told, waiting, listening):
    first = await listening()
    id = (await begin(first, 4, conversation="c"))[0][2]["id"]
    await first.app.aclose()
    waiting.go.set()
    asked = len(told._plugin.provider.requests)
    one, other = await asyncio.gather(listening(), listening())
    streams = await asyncio.gather(join(one, id), join(other, id))
    assert streams[0] == streams[1]
    assert [name for _, name, _ in streams[0]].count("turn_resumed") == 1
    assert len(told._plugin.provider.requests) == asked + 1


async def test_a_turn_nobody_streamed_has_no_events(listening):
    """410, with a pointer to its conversation."""
    client = await listening()
    id = (await client.post("/chat/api", json={"prompt": "Hi", "conversation": "c"})).json()["turn"]["id"]
    gone = await client.get(f"/api/turns/{id}/events")
    assert (gone.status_code, gone.json()["conversation"]) == (410, "c")


async def store_of(client, work):
    """Change the file of the conversations."""
    async with client.app.serving.chat() as chat:
        await chat.conversations.store.database.write(work)


async def test_events_that_were_deleted_are_gone(listening, monkeypatch):
    client = await listening()
    found = await begin(client, None, conversation="c")
    client.app.serving.shared(Turns)._forget(found[0][2]["id"])
    await store_of(client, lambda database: database.execute("DELETE FROM journal_events"))
    assert (await client.get(f"/api/turns/{found[0][2]['id']}/events")).status_code == 410


@pytest.mark.parametrize("ends", ["turn", "error"])
async def test_the_end_of_a_turn_that_its_process_could_not_tell_is_told(told, listening, monkeypatch, ends):
    """It was killed after the end was kept, and before it was told."""
    if ends == "error":
        told.says(calls(WEATHER), ProviderOverloadedError("busy"))
    client = await listening()
    found = await begin(client, None, conversation="c")
    id, last = found[0][2]["id"], found[-1]
    client.app.serving.shared(Turns)._forget(id)
    await store_of(client, lambda d: d.execute("DELETE FROM journal_events WHERE name = ?", (ends,)))
    monkeypatch.setattr(turns_module, "END_GRACE_S", -1)
    again = await join(client, id)
    assert again[:-1] == found[:-1]
    assert again[-1][:2] == last[:2]
    if ends == "turn":
        same = ("id", "content", "status", "conversation", "phases", "rounds", "usage", "topic", "service", "model")
        assert {key: again[-1][2][key] for key in same} == {key: last[2][key] for key in same}
    else:
        assert again[-1][2]["detail"] == "busy"
    assert await join(client, id, last[0]) == []


async def test_a_turn_that_waits_for_a_person_is_not_waited_for(told, listening):
    client = await listening(resume=False)
    async with client.app.serving.chat() as chat:
        id = await leave_turn(chat.conversations.store.journal)
        await store_of(client, lambda d: d.execute("UPDATE journal_turns SET error = 'a tool is gone'"))
    stuck = await client.get(f"/api/turns/{id}/events")
    assert (stuck.status_code, "a tool is gone" in stuck.json()["detail"]) == (409, True)


async def test_what_died_is_taken_up_a_few_at_once(told, waiting, listening, monkeypatch):
    """The oldest first; and nobody needs to listen."""
    monkeypatch.setattr(turns_module, "MAX_RESUMED", 2)
    told.tables["tools"]["effects"] = {"lease_s": 1}
    client = await listening(resume=False)
    async with client.app.serving.chat() as chat:
        ids = [await leave_turn(chat.conversations.store.journal, conversation=f"c{n}") for n in range(4)]
    server = await listening(unheard_seconds=0.01)
    turns = server.app.serving.shared(Turns)
    await until(lambda: len(turns) == 2)
    assert {*turns._turns} == {*ids[:2]}
    waiting.go.set()
    async with server.app.serving.chat() as chat:
        async with asyncio.timeout(30):
            while [t.state for t in await chat.turns()] != ["done"] * 4:  # noqa: ASYNC110  it ends without a word
                await asyncio.sleep(0.01)


async def test_turns_that_have_ended_are_forgotten(listening, monkeypatch):
    """Soon, and the oldest at once where there are many."""
    monkeypatch.setattr(turns_module, "MAX_ENDED", 2)
    client = await listening()
    ids = [(await begin(client, None))[0][2]["id"] for _ in range(3)]
    await until(lambda: len(client.app.serving.shared(Turns)) == 2)
    assert (await client.get(f"/api/turns/{ids[0]}/events")).status_code == 404
    monkeypatch.setattr(turns_module, "ENDED_TTL_S", 0.01)
    await begin(client, None)
    await until(lambda: len(client.app.serving.shared(Turns)) == 1)


async def test_what_is_waited_for_is_told_before_the_model_answers(told, waiting, listening):
    """Phases that take place, and the model that is asked."""
    told.tables["responses"].insert(0, {"llm": "robot", "model": "r2", "match": {"intent": "trains"}})
    told.tables["intent"] = {
        "llm": "robot",
        "model": "small",
        "detection": {"trains": "All of trains", "cars": "All of cars"},
    }
    waiting.go.set()
    found = await begin(await listening(), None)
    assert [(name, data) for _, name, data in found[:3]] == [
        ("turn_started", {"id": found[0][2]["id"], "conversation": None}),
        ("phase_started", {"phase": "intent detection"}),
        ("model_request_started", {"llm": "robot", "model": "small"}),
    ]
    names = [name for _, name, _ in found]
    assert names.count("model_request_started") == names.count("model_request_finished") == 2


def descriptors():
    place = Path("/proc/self/fd")
    return len([*place.iterdir()]) if place.is_dir() else 0


@pytest.mark.slow
async def test_a_thousand_turns_left_by_their_listeners_leave_nothing(told, waiting, listening):
    """No task, no descriptor, no growing memory."""
    client = await listening(unheard_seconds=0.01)
    turns = client.app.serving.shared(Turns)

    async def leave(count):
        for _ in range(count // 20):
            await asyncio.gather(*[begin(client, 3) for _ in range(20)])
        await until(lambda: not turns._holding)
        told._plugin.provider.requests.clear()

    async def there_is():
        gc.collect()  # also what the client has left
        await until(lambda: not any("athrow" in repr(task) for task in asyncio.all_tasks()))
        return len(asyncio.all_tasks()), descriptors()

    await leave(100)
    before = await there_is()
    tracemalloc.start()
    await leave(500)
    first = (gc.collect(), tracemalloc.get_traced_memory()[0])[1]
    await leave(500)
    second = (gc.collect(), tracemalloc.get_traced_memory()[0])[1]
    tracemalloc.stop()
    after = await there_is()
    assert (after[0] <= before[0] + 1, after[1] <= before[1] + 2, len(turns) <= turns_module.MAX_ENDED) == (True,) * 3
    assert second - first < 200_000


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["turn", "error"])
@pytest.mark.parametrize("is_stored", [False, True], ids=["", "stored"])
async def test_an_ended_turn_is_joined_whole_while_its_media_are_not_held(told, listening, is_stored, ends):
    if not is_stored:
        del told.tables["conversations"]

    def fail(messages, options):
        raise ProviderOverloadedError("busy")

    model = told.says(*[says("Look.") if ends == "turn" else calls(WEATHER), "Seen." if ends == "turn" else fail] * 5)
    client, size, streams = await listening(), 2_000_000, []

    async def send(size):
        files = {"file": ("photo.png", PNG + random.randbytes(size), "image/png")}
        async with client.stream("POST", "/chat/api", data={"prompt": "?", "stream": "true"}, files=files) as response:
            streams.append(await heard(response))
        model.requests.clear()

    await send(1_000)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(3):
            await send(size)
        await send(1_000)  # the server has ended the request before
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert left / size <= MAX_LEFT_COPIES, f"{left / size:.2f} copies of one of three images are left"
    assert [stream[-1][1] for stream in streams] == [ends] * 5
    assert [await join(client, stream[0][2]["id"]) for stream in streams] == streams
