"""Conversations in PostgreSQL."""

import asyncio
import sys

import pytest
from flexchat import AssistantMessage, ToolMessage, Usage, UserMessage
from flexchat.plugin import ToolCall
from flexchat.store import ConversationTurn, StorageError, UnknownConversationError
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.connections import Connections
from flexchat_postgresql.conversation_store import PostgresqlConversations
from flexchat_postgresql.tables import CONVERSATIONS
from flexchat_sdk import OpaquePart, ProviderData, TextPart
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
async def store(dsn, schema):
    made = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema))
    yield made
    await made.aclose()


def turn(id, said="Hello", answer="Hi", **rest):
    rest.setdefault("at", "2026-01-02T03:04:05+00:00")
    messages = (UserMessage(content=said), AssistantMessage(parts=(TextPart(text=answer),)))
    return ConversationTurn(id=id, messages=messages, **rest)


async def test_a_turn_comes_back_whole(store):
    """Tool calls, opaque parts, NUL and half characters: nothing of a turn is lost."""
    call = ToolCall(name="t", arguments={"x": [1, None]}, raw_arguments='{"x": [1,null]}', id="call_1")
    data = ProviderData(scope="openai", origin="https://a", data={"signature": "s\0\ud83d"})
    kept = ConversationTurn(
        id="1",
        messages=(
            UserMessage(content="a\0b \ud83d \U0001f600"),
            AssistantMessage(parts=(OpaquePart(kind="search", provider_data=data), call)),
            ToolMessage(tool_call_id="call_1", name="t", content="42"),
        ),
        topic="numbers",
        llm="gpt",
        model="m",
        usage=Usage(input_tokens=1, output_tokens=2),
        at="2026-01-02T03:04:05+00:00",
    )
    await store.append("c", kept, tenant="t")
    assert await store.turns("c", tenant="t") == [kept]


async def test_a_turn_is_added_once(store):
    """A turn whose id is there already is not added again, so that an append may be repeated."""
    for _ in range(2):
        await store.append("c", turn("1"), tenant="t")
        await store.append("c", turn("2", topic="later"), tenant="t")
    assert [t.id for t in await store.turns("c", tenant="t")] == ["1", "2"]
    info = await store.get("c", tenant="t")
    assert (info.turns, info.topic, info.title) == (2, "later", "Hello")


async def test_the_last_turns_are_the_last(store):
    """last counts from the end; the order stays; none are none."""
    for number in range(5):
        await store.append("c", turn(str(number)), tenant="t")
    assert [t.id for t in await store.turns("c", tenant="t", last=2)] == ["3", "4"]
    assert list(await store.turns("c", tenant="t", last=0)) == []


@pytest.mark.parametrize("method", ["turns", "get", "delete"])
async def test_an_unknown_conversation_is_an_error(store, method):
    """Also where another tenant has one of that id."""
    await store.append("c", turn("1"), tenant="other")
    with pytest.raises(UnknownConversationError, match="'c'"):
        await getattr(store, method)("c", tenant="t")
    with pytest.raises(UnknownConversationError):
        await store.rename("c", "x", tenant="t")


async def test_pages_go_back_in_time(store):
    """The last used comes first, and a page begins behind the conversation it is told."""
    for number in range(5):
        await store.append(f"c{number}", turn("1"), tenant="t")
    await store.append("c1", turn("2"), tenant="t")
    seen, before = [], None
    while page := await store.list(tenant="t", limit=2, before=before):
        seen += [info.id for info in page]
        before = seen[-1]
    assert seen == ["c1", "c4", "c3", "c2", "c0"]


async def test_a_search_wants_all_words_in_one_place(store):
    """Of one turn or of the title, small or capital; signs of SQL's patterns are what they are."""
    await store.append("a", turn("1", "Wie gross ist 100% der ÄPFEL?", "Ganz"), tenant="t")
    await store.append("b", turn("1", "snake_case", "C:\\temp"), tenant="t")
    await store.rename("b", "Of names", tenant="t")

    async def found(words):
        return [info.id for info in await store.list(tenant="t", search=words)]

    assert await found("äpfel GANZ") == ["a"]
    assert await found("100%") == ["a"]
    assert await found("%") == ["a"]
    assert await found("_") == ["b"]
    assert await found("\\temp") == ["b"]
    assert await found("names of") == ["b"]
    assert await found("äpfel snake") == []
    assert await found("'; DROP TABLE turns; --") == []
    assert await found("  ") == ["b", "a"]
    assert await found("names snake") == []


@pytest.mark.parametrize("name", ["", "\0", "x" * 801])
async def test_names_that_cannot_be_kept_are_refused(store, name):
    """With a sentence, before anything is stored."""
    with pytest.raises(StorageError, match="1 to 800 bytes"):
        await store.append(name, turn("1"), tenant="t")


async def test_the_longest_names_fit(store):
    """Names of all bytes that are allowed, which do not compress, fit into an index."""
    import random

    letters = random.Random(1)
    names = ["".join(letters.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(800)) for _ in range(3)]
    await store.append(names[0], turn(names[1]), tenant=names[2])
    assert [t.id for t in await store.turns(names[0], tenant=names[2])] == [names[1]]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "rename", "delete"]),
        st.sampled_from(["red", "blue"]),
        st.sampled_from(["a", "b", "a' OR 1=1"]),
        st.integers(0, 3),
    ),
    max_size=25,
)


def test_tenants_never_meet(dsn, schema):
    """Whatever two tenants do under the same ids, each finds what a dict of its own would hold."""
    examples = iter(range(10**6))

    @settings(max_examples=15)
    @given(steps=STEPS)
    def run(steps):
        store = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema))
        asyncio.run(_like_dicts(store, steps, f"-{next(examples)}"))

    run()


async def _like_dicts(store, steps, suffix):
    model = {"red": {}, "blue": {}}
    try:
        for action, color, id, number in steps:
            kept, tenant = model[color], color + suffix
            if action == "append":
                made = turn(f"{number}", f"{color} {number}")
                await store.append(id, made, tenant=tenant)
                title, turns = kept.pop(id, (made.title, {}))
                kept[id] = (title, turns)
                turns.setdefault(made.id, made)
            elif id not in kept:
                with pytest.raises(UnknownConversationError):
                    await (
                        store.rename(id, "x", tenant=tenant) if action == "rename" else store.delete(id, tenant=tenant)
                    )
            elif action == "rename":
                await store.rename(id, f"{color} title", tenant=tenant)
                kept[id] = (f"{color} title", kept[id][1])
            else:
                await store.delete(id, tenant=tenant)
                del kept[id]
        for color, kept in model.items():
            listed = await store.list(tenant=color + suffix)
            assert {(i.id, i.title, i.turns) for i in listed} == {(k, t, len(v)) for k, (t, v) in kept.items()}
            for id, (_, turns) in kept.items():
                assert list(await store.turns(id, tenant=color + suffix)) == list(turns.values())
    finally:
        await store.aclose()


WRITER = """
import asyncio, json, sys
from flexchat import UserMessage
from flexchat.store import ConversationTurn
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.connections import Connections
from flexchat_postgresql.conversation_store import PostgresqlConversations

async def main(dsn, schema, name):
    store = PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema))
    for number in range(25):
        turn = ConversationTurn(id=f"{name}{number}", messages=(UserMessage(content="x"),))
        await store.append("c", turn, tenant="t")
    await store.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
async def test_processes_that_start_and_append_at_once_keep_every_turn(store, dsn, schema):
    """They make the tables once, and each one's turns stay in its order."""
    started = (asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, dsn, schema, name) for name in "ab")
    writers = await asyncio.gather(*started)
    assert await asyncio.gather(*(writer.wait() for writer in writers)) == [0, 0]
    ids = [t.id for t in await store.turns("c", tenant="t")]
    for name in "ab":
        assert [id for id in ids if id.startswith(name)] == [f"{name}{n}" for n in range(25)]
    assert len(ids) == 50


async def test_appends_at_once_keep_every_turn(store):
    """Many of one process, more than there are connections."""
    await asyncio.gather(*(store.append("c", turn(str(n)), tenant="t") for n in range(40)))
    assert {t.id for t in await store.turns("c", tenant="t")} == {str(n) for n in range(40)}
    assert (await store.get("c", tenant="t")).turns == 40


async def test_each_migration_is_committed_before_the_next(dsn, schema):
    """A step may use the value that an earlier one has added to an enum."""
    steps = (
        "CREATE TYPE {s}.mood AS ENUM ('fine')",
        "ALTER TYPE {s}.mood ADD VALUE 'tired'",
        "CREATE TABLE {s}.moods (mood {s}.mood CHECK (mood = 'tired'))",
    )
    for known in (1, 3):
        config = PostgresqlConfig(dsn=dsn, schema=schema)
        connections = Connections(config, name="moods", part="moods", steps=steps[:known], error=StorageError)
        await connections.make_tables()
        await connections.aclose()


async def test_tables_of_an_older_flexchat_are_taken_over(dsn, schema):
    """Their turns are done, and can be added to."""
    config = PostgresqlConfig(dsn=dsn, schema=schema)
    old = Connections(config, name="conversations", part="conversations", steps=CONVERSATIONS[:1], error=StorageError)
    turn_of_old = '{"id":"1","messages":[{"role":"user","content":"hello"}],"topic":"x","at":"2026"}'
    async with old.transaction(write=True) as connection:
        begun = "INSERT INTO {s}.conversations VALUES ('t', 'c', 'hello', 'hello', 'x', 1, '2026', '2026', 1)"
        await connection.execute(begun)
        added = "INSERT INTO {s}.turns VALUES ('t', 'c', 1, '1', 'hello', %s)"
        await connection.execute(added, (turn_of_old,))
    await old.aclose()
    store = PostgresqlConversations(config)

    assert [t.status for t in await store.turns("c", tenant="t")] == ["done"]
    history = await store.history("c", tenant="t")
    assert [(one.id, one.messages, one.topic) for one in history.turns] == [("1", (UserMessage("hello"),), "x")]
    assert (await store.get("c", tenant="t")).status == "done"
    await store.append("c", turn("2", status="failed"), tenant="t")
    assert [one.id for one in (await store.history("c", tenant="t", after=history.version)).turns] == ["2"]
    assert [one.id for one in await store.turns("c", tenant="t")] == ["1", "2"]
    assert [info.status for info in await store.list(tenant="t")] == ["failed"]
    await store.aclose()
