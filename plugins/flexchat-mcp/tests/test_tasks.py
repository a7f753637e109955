"""Long calls: whatever a server does with a task, the call ends, and what it changed happens once."""

import asyncio
import json

import attrs
import pytest
from flexchat import FlexChatError, Reply, ToolProgress
from flexchat_cli.main import main
from flexchat_mcp import tasks
from flexchat_mcp.errors import TaskGoneError
from flexchat_mcp.tasks import Task, task_of
from flexchat_sqlite.conversations import SqliteConversations

from .conftest import ERAS, MODERN_FIRST, until

pytestmark = pytest.mark.anyio

LONG = [
    {
        "name": name,
        "description": "Works for long.",
        "inputSchema": {"type": "object"},
        "execution": {"taskSupport": kind},
    }
    for name, kind in (("count", "required"), ("look", "required"), ("choose", "optional"), ("peek", "optional"))
]
READS = {"look": "read", "peek": "read"}


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Polls follow each other fast."""
    monkeypatch.setattr(tasks, "MIN_PAUSE_S", 0.01)
    monkeypatch.setattr(tasks, "DEFAULT_PAUSE_S", 0.01)


@pytest.fixture
def long_of(folder, chat_of):
    """Open a chat whose server answers with tasks."""

    def make(era="modern", *, kept=False, **rest):
        folder.tools(*LONG)
        chat = chat_of(era, "tasks", effects=READS, **rest)
        if kept:
            chat.keep_in(SqliteConversations(folder.path / "kept.db"))
        return chat

    return make


async def called(chat, folder, plan, name="count", **rest):
    folder.fault(f"task {json.dumps(plan)}")
    return await chat.call_tool(name, {}, **rest)


async def state(chat):
    (effect,) = await chat.effects()
    return effect.state


@pytest.mark.slow
@pytest.mark.quick
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["count", "look"])
async def test_a_call_that_is_answered_with_a_task_is_polled_to_its_end(folder, long_of, era, name):
    chat = long_of(era)
    result = await called(chat, folder, {"after": 2}, name, idempotency_key="k")

    assert result.result == f"{name} done"
    assert len(folder.lines("polls")) == 3
    if name == "count":
        (effect,) = await chat.effects()
        (id,) = {json.loads(line)["id"] for line in folder.lines("tasks_made")}
        assert (effect.state, json.loads(effect.handle)) == ("done", {"task": id})
        assert (await chat.call_tool("count", {}, idempotency_key="k")).result == "count done"
        assert len(folder.lines("effects")) == 1


async def test_a_server_of_the_older_era_is_asked_for_a_task_where_that_helps(folder, long_of):
    """What it requires; what it leaves to the client only for what changes something, so that the id can be kept."""
    chat = long_of("handshake")
    for name, plan in (("count", {}), ("look", {}), ("choose", {}), ("peek", {"unasked": True})):
        assert (await called(chat, folder, plan, name)).result == f"{name} done"
    asked = [json.loads(line)["task"] for line in folder.lines("tasks_made")]
    assert asked == [{"ttl": 86_400_000}] * 3 + [None]


async def test_a_server_that_takes_no_tasks_is_not_asked_for_any(folder, chat_of):
    folder.tools(*LONG)
    chat = chat_of("handshake")
    result = await called(chat, folder, {})
    assert "requires task augmentation" in result.error


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_dies_is_asked_again_not_called_again(folder, long_of, era):
    chat = long_of(era)
    result = await called(chat, folder, {"die": 2, "after": 4})

    assert result.result == "count done"
    assert (len(folder.lines("starts")), len(folder.lines("effects"))) == (2, 1)


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_so_is_one_that_does_not_say_what_a_task_does(folder, long_of, era, monkeypatch):
    monkeypatch.setattr(tasks, "POLL_S", 0.2)
    chat = long_of(era)
    assert (await called(chat, folder, {"deaf": 2, "after": 4})).result == "count done"
    assert (len(folder.lines("starts")), len(folder.lines("effects"))) == (2, 1)


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_one_that_works_on_a_call_of_another_is_not_ended_for_that(folder, long_of, era, monkeypatch):
    """Many servers do one thing at a time: they say nothing of a task meanwhile, and end it if they are ended."""
    monkeypatch.setattr(tasks, "POLL_S", 0.2)
    chat = long_of(era)
    await chat.tools.sources.look("fake")
    folder.fault("hang until cancelled")
    other = asyncio.ensure_future(chat.call_tool("peek", {}))
    await until(lambda: folder.lines("calls"))

    assert (await called(chat, folder, {"deaf": 2, "after": 4})).result == "count done"
    other.cancel()
    await asyncio.wait([other])
    assert (len(folder.lines("starts")), len(folder.lines("effects"))) == (1, 1)


async def test_one_that_says_nothing_of_several_tasks_is_ended(folder, long_of, monkeypatch):
    """Tasks that are asked after do not vouch for it."""
    monkeypatch.setattr(tasks, "POLL_S", 0.2)
    chat = long_of()
    plan = {"deaf": 2, "after": 4}
    found = await asyncio.gather(*(_when_called(chat, folder, plan, number) for number in range(3)))

    assert [each.result for each in found] == ["count done"] * 3
    assert len(folder.lines("starts")) >= 2
    assert len(folder.lines("effects")) == 3


async def _when_called(chat, folder, plan, number):
    await until(lambda: len(folder.lines("tasks_made")) == number)
    return await called(chat, folder, plan)


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_but_not_for_ever(folder, long_of, era, monkeypatch):
    """What it may have done is unknown, and can be asked for later."""
    monkeypatch.setattr(tasks, "MAX_TROUBLES", 3)
    chat = long_of(era)
    result = await called(chat, folder, {"broken": 6, "after": 6}, idempotency_key="k")
    assert "it cannot be asked about its task: Internal error" in result.error
    assert (await chat.call_tool("count", {}, idempotency_key="k")).result == "count done"
    assert (folder.lines("cancels"), len(folder.lines("effects"))) == ([], 1)


async def test_a_turn_that_is_to_go_on_leaves_its_task_running(folder, long_of):
    chat = long_of(kept=True)
    folder.fault('task {"until": "end"}')
    first = chat.start("count with fake", conversation="c")
    await until(lambda: folder.lines("polls"))
    first.interrupt()
    with pytest.raises(FlexChatError):
        await first.result()
    (turn,) = await chat.turns(states=["interrupted"])
    (folder.path / "end").touch()
    resumed = await chat.resume(turn.id)

    assert "count done" in resumed.response.content
    assert (folder.lines("cancels"), len(folder.lines("effects")), await state(chat)) == ([], 1, "done")


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_errors_of_polls_are_borne_for_a_while(folder, long_of, era):
    assert (await called(long_of(era), folder, {"broken": 3, "after": 5})).result == "count done"


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_what_a_task_asks_a_person_answers(folder, long_of, era):
    asked = []

    def reply(question):
        asked.append(question.message)
        return Reply(action="accept", content={"seat": "aisle"})

    result = await called(long_of(era), folder, {"ask": True, "after": 4}, on_question=reply)
    assert result.result == 'count done, {"action": "accept", "content": {"seat": "aisle"}}'
    assert asked == ["Which seat?"]
    assert len(folder.lines("updates")) == (era == "modern")


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_and_where_nobody_can_be_asked_it_is_declined(folder, long_of, era):
    result = await called(long_of(era), folder, {"ask": True})
    assert result.result["result"] == 'count done, {"action": "decline"}'
    assert "Which seat?" in result.result["note"]


async def test_a_task_that_asks_for_something_else_is_given_up(folder, long_of):
    chat = long_of()
    result = await called(chat, folder, {"ask": "roots/list"})
    assert "something that cannot be answered here" in result.error
    assert await state(chat) == "unknown"
    await until(lambda: folder.lines("cancels"))


@pytest.mark.parametrize("asked", [[1], "abc", {"q": 1}, {"q": {"method": "x"}}])
async def test_one_that_asks_in_no_way_of_mcp_is_given_up(asked):
    """And cancelled: it waits for an answer it will not get."""
    with pytest.raises(TaskGoneError, match="its task asks something that cannot be answered here") as caught:
        await Task("t")._reply(None, {"inputRequests": asked}, None)
    assert caught.value.is_left


async def test_one_that_does_not_stop_asking_is_given_up(folder, long_of):
    chat = long_of()
    replies = []

    def reply(question):
        replies.append(question)
        return Reply(action="accept", content={})

    result = await called(chat, folder, {"ask": True, "again": True}, on_question=reply)
    assert "asked 10 times without coming to a result" in result.error
    assert len(replies) == 10
    await until(lambda: folder.lines("cancels"))


@pytest.mark.parametrize("era", MODERN_FIRST)
@pytest.mark.parametrize(
    ("plan", "said", "state_of_effect"),
    [
        ({"end": "failed", "error": "no paper"}, "the tool failed: no paper (-32603)", "failed"),
        ({"end": "cancelled"}, "it says that the task was cancelled: step 2", "unknown"),
        ({"end": "exploded"}, "its task has a status that does not exist: 'exploded'", "unknown"),
        ({"more": {"status": None}}, "its task has a status that does not exist: ''", "unknown"),
        ({"more": {"status": ["working"]}}, "its task has a status that does not exist: ['working']", "unknown"),
        ({"forget": True}, "it no longer has the task's result: Failed to retrieve task: Task not found", "unknown"),
        ({"result": {"resultType": "task", "taskId": "2"}}, "its answer is not what MCP says: content", "unknown"),
        ({"result": {"task": {"taskId": "2"}}}, "its answer is not what MCP says: content", "unknown"),
        ({"result": {"content": [{"type": "text", "text": "no"}], "isError": True}}, "no", "failed"),
        ({"id": 7}, "it has started a task without an id that can be used", "unknown"),
        ({"id": ""}, "it has started a task without an id that can be used", "unknown"),
        ({"id": "x" * 2_000, "forget": True}, "it has started a task without an id that can be used", "unknown"),
    ],
    ids=[
        "failed",
        "cancelled",
        "status",
        "no-status",
        "list",
        "forgot",
        "task",
        "old-task",
        "error",
        "7",
        "empty",
        "long",
    ],
)
async def test_a_task_that_ends_badly(folder, long_of, era, plan, said, state_of_effect):
    """What changes something is unknown, unless the server says that it failed; nothing is called again."""
    chat = long_of(era)
    result = await called(chat, folder, plan)

    assert said in result.error
    assert await state(chat) == state_of_effect
    assert len(folder.lines("effects")) == 1


async def test_a_failure_that_the_server_marks_as_unknown_is_unknown(folder, long_of):
    chat = long_of()
    plan = {"end": "failed", "error": "who knows", "data": {"flexchat.dev/effect": "unknown"}}
    result = await called(chat, folder, plan, idempotency_key="k")

    assert "the tool failed: who knows" in result.error
    assert await state(chat) == "unknown"


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_a_task_that_is_forgotten_is_made_again_if_it_only_reads(folder, long_of, era):
    chat = long_of(era)
    folder.fault('always task {"forget": true}')
    result = await chat.call_tool("look", {})
    assert "it no longer has the task's result" in result.error
    assert len(folder.lines("calls")) == 2


def keys_of(folder):
    return [json.loads(line)["meta"].get("example.com/key") for line in folder.lines("calls")]


@pytest.mark.parametrize("era", ERAS)
async def test_a_task_that_is_forgotten_is_made_again_with_its_key(folder, long_of, era):
    """Once, where the server acts once per key: else it would stay unknown for ever."""
    chat = long_of(era, idempotency_meta="example.com/key")
    result = await called(chat, folder, {"forget": True})

    assert result.success, result.explained()
    assert await state(chat) == "done"
    assert len(keys_of(folder)) == 2
    assert len({*keys_of(folder)} - {None}) == 1


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_what_fails_when_it_is_made_again_stays_unknown(folder, long_of, era):
    chat = long_of(era, idempotency_meta="example.com/key")
    folder.fault('always task {"forget": true}')
    forgotten = await chat.call_tool("count", {}, idempotency_key="k")
    assert await state(chat) == "unknown"
    assert "it no longer has the task's result" in forgotten.error

    folder.fault('always {"content": [{"type": "text", "text": "no paper"}], "isError": true}')
    failed = await chat.call_tool("count", {}, idempotency_key="k")
    assert await state(chat) == "unknown"
    assert "no paper. It was called again with the same key" in failed.error
    assert len({*keys_of(folder)}) == 1


@pytest.mark.parametrize("era", MODERN_FIRST)
@pytest.mark.parametrize("interval", [0, -5, 1e300, "soon", None, True, 31_536_000_000])
async def test_a_task_that_never_ends_ends_with_the_calls_time(folder, long_of, era, interval):
    """Whatever it says of polling; and it is cancelled."""
    chat = long_of(era, call_timeout_ms=300)
    await called(chat, folder, {"after": 0}, "look")  # it is there
    result = await called(chat, folder, {"until": "never", "interval": interval})

    assert result.error == "Tool execution timed out after 300ms"
    assert await state(chat) == "unknown"
    await until(lambda: folder.lines("cancels"))
    assert len(folder.lines("polls")) < 50


def test_polls_are_no_further_apart_than_half_a_minute():
    async def pauses():
        task = Task("x")
        for wish in (0, 1e300, 31_536_000_000, 5_000, "soon", float("nan")):
            await task._note({"pollIntervalMs": wish}, None)
            yield task._pause_s

    async def all_of():
        return [pause async for pause in pauses()]

    assert asyncio.run(all_of()) == [0.01, 30.0, 30.0, 5.0, 5.0, 5.0]


@pytest.mark.slow
@pytest.mark.quick
@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_cancels_its_task(folder, long_of, era):
    chat = long_of(era)
    running = asyncio.create_task(called(chat, folder, {"until": "never"}))
    await until(lambda: folder.lines("polls"))
    running.cancel()
    await asyncio.wait([running])
    await chat.aclose()

    assert len(folder.lines("cancels")) == 1


async def test_a_status_that_is_told_is_looked_at_at_once(folder, long_of, monkeypatch):
    """Otherwise the next poll would come in half a minute."""
    chat = long_of("handshake", call_timeout_ms=10_000)
    plan = {"until": "end", "stir": True, "interval": 20_000}
    waited = []

    async def at_first(task):
        waited.append(task)
        if len(waited) > 1:
            await pause(task)

    pause = Task._pause
    monkeypatch.setattr(Task, "_pause", at_first)
    assert (await called(chat, folder, plan)).result == "count done"
    assert len(waited) == 2


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_what_a_task_says_of_itself_is_reported(folder, long_of, era):
    chat = long_of(era)
    folder.fault('task {"after": 2}')
    told = [event.message async for event in chat.stream("look with fake") if isinstance(event, ToolProgress)]

    assert told[0] == "step 0"


def test_an_answer_is_a_task_or_a_result():
    assert task_of({"content": [], "task": {"taskId": "x"}}) is None
    assert task_of({"resultType": "complete", "content": []}) is None
    assert task_of({"resultType": "task", "taskId": "x"}).handle == {"task": "x"}
    assert task_of({"task": {"taskId": "x"}}).id == "x"
    for handle in (None, 7, {"task": 7}, {"task": ""}, {"job": "x"}, ["task"]):
        assert Task.of_handle(handle) is None


@pytest.mark.parametrize("era", MODERN_FIRST)
def test_a_call_for_a_try_waits_for_its_task(folder, capfd, era):
    folder.tools(*LONG)
    path = folder.path / "chat.json"
    table = {"name": "fake", "command": folder.command(era, "tasks")}
    models = {"llms": {"r": {"provider": "rehearsal"}}, "responses": [{"llm": "r", "model": "any"}]}
    path.write_text(json.dumps({**models, "tools": {"mcp": [table]}}))
    words = ["mcp", "call", "fake", "count", "--config", str(path), "--defaults"]
    folder.fault('task {"ask": true, "after": 3}')
    assert main(words) == 0
    assert capfd.readouterr().out == 'count done, {"action": "accept", "content": {"seat": "any"}}\n'
    folder.fault('task {"end": "cancelled"}')
    assert main(words) == 2
    assert "fake: it says that the task was cancelled" in capfd.readouterr().err
    assert len(folder.lines("effects")) == 2


@pytest.mark.parametrize("handle", ['{"task": 7}', '"x"', "[]", '{"task": "nothing"}'])
async def test_a_handle_that_is_no_task_of_the_server_calls_nothing(folder, long_of, handle):
    chat = long_of()
    await called(chat, folder, {"after": 0}, "look")
    folder.fault("refuse")
    ledger = chat.tools.effects.ledger
    await chat.call_tool("choose", {}, idempotency_key="k")
    (row,) = await chat.effects()
    ledger._rows[row.key] = attrs.evolve(row, state="unknown", handle=handle)
    result = await chat.call_tool("choose", {}, idempotency_key="k")

    assert "It is unknown" in result.error or "not a server's task" in result.error or "no longer has" in result.error
    assert await state(chat) == "unknown"
    assert len(folder.lines("calls")) == 2


async def test_a_server_that_is_gone_leaves_it_unknown(folder, long_of, monkeypatch):
    """It is not said that nothing was done, as it is of a call that was not sent."""
    monkeypatch.setattr(tasks, "PATIENCE_S", 0.0)
    chat = long_of(restarts=0)
    await called(chat, folder, {"end": "cancelled"}, idempotency_key="k")
    await chat.tools.sources.by_name["fake"]._source.server._connection.aclose("somebody ended it")
    result = await chat.call_tool("count", {}, idempotency_key="k")

    assert "it cannot be asked about its task: it has failed once within a minute" in result.error
    assert await state(chat) == "unknown"
    assert len(folder.lines("effects")) == 1
