"""Copies of the tables, and schemas that two versions share."""

import attrs
import psycopg
import pytest
from flexchat import ConversationTurn, UserMessage
from flexchat.store import JournaledTurn, JournalEntry, StorageError
from flexchat_postgresql import Connections
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.conversation_store import PostgresqlConversations

pytestmark = pytest.mark.slow


@pytest.fixture
async def stores(dsn, schema):
    made = []

    def open(name):
        made.append(PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=f"{schema}{name}", pool_size=2)))
        return made[-1]

    yield open
    for store in made:
        async with store.connections.transaction(write=True) as connection:
            await connection.execute("DROP SCHEMA IF EXISTS {s} CASCADE")
        await store.aclose()


def turn(id):
    return ConversationTurn(id=id, messages=(UserMessage(content="tab\tand \\ and 'quote' é\nline"),), at="2026-01-01")


async def test_a_copy_has_everything_and_counters_go_on_behind_it(stores, tmp_path):
    first, second = stores("a"), stores("b")
    await first.append("c", turn("t1"), tenant="x")
    started = JournalEntry(number=1, kind="started", data={"request": {"user_message": "m"}}, at="b")
    running = JournaledTurn(
        id="r", tenant="x", conversation="d", state="running", message="m", owner="o", fence=1, began_at="b"
    )
    await first.journal.write(running, [started], lease_s=600)

    await first.database.copy_to(tmp_path / "copy")
    await first.append("c", turn("after the copy"), tenant="x")
    await second.database.restore(tmp_path / "copy")

    assert await second.turns("c", tenant="x") == [turn("t1")]
    (found,) = await second.journal.list(tenant="x")
    assert (found.state, "backed up" in found.error) == ("interrupted", True)
    assert list(await second.journal.list_resumable(limit=9)) == []
    await second.append("c", turn("t2"), tenant="x")
    assert [each.id for each in await second.turns("c", tenant="x")] == ["t1", "t2"]


async def test_a_copy_is_restored_neither_over_data_nor_when_damaged(stores, tmp_path):
    first, second, empty = stores("a"), stores("b"), stores("e")
    await first.append("c", turn("t1"), tenant="x")
    await second.append("c", turn("t2"), tenant="x")
    await first.database.copy_to(tmp_path / "copy")
    content = (tmp_path / "copy").read_bytes()
    (tmp_path / "short").write_bytes(content[: len(content) // 2])
    (tmp_path / "text").write_text("no copy")

    with pytest.raises(StorageError, match="has data already"):
        await second.database.restore(tmp_path / "copy")
    for damaged in ("short", "text", "missing"):
        with pytest.raises(StorageError, match="cannot be read as a copy"):
            await empty.database.restore(tmp_path / damaged)

    assert [each.id for each in await second.turns("c", tenant="x")] == ["t2"]
    await empty.database.restore(tmp_path / "copy")
    assert [each.id for each in await empty.turns("c", tenant="x")] == ["t1"]


async def test_versions_share_a_schema_that_the_newer_one_only_adds_to(dsn, schema):
    def version(steps, compatible_from):
        made = PostgresqlConfig(dsn=dsn, schema=f"{schema}v", pool_size=1)
        return Connections(made, name="t", part="p", steps=steps, error=StorageError, compatible_from=compatible_from)

    steps = ["CREATE TABLE {s}.a (x int)", "ALTER TABLE {s}.a ADD COLUMN y int", "ALTER TABLE {s}.a DROP COLUMN y"]
    older, newer, newest = version(steps[:1], 1), version(steps[:2], 1), version(steps, 2)

    await newer.migrate()
    async with older.transaction(write=True) as connection:
        await connection.execute("INSERT INTO {s}.a (x) VALUES (1)")
    assert attrs.astuple(await older.schema()) == (2, 1, 1)
    await newest.migrate()
    state = await older.schema()

    assert (state.is_usable, (await newer.schema()).is_usable) == (False, True)
    with pytest.raises(StorageError, match="newer FlexChat"):
        await version(steps[:1], 1).migrate()
    with pytest.raises(StorageError, match="newer FlexChat"):  # it was running, and had a connection
        await older.repeated(lambda connection: connection.execute("INSERT INTO {s}.a (x) VALUES (2)"))
    async with newer.transaction() as connection:  # it loses its connection as well, and may go on
        assert await connection.rows("SELECT x FROM {s}.a") == [(1,)]
    async with newest.transaction(write=True) as connection:
        await connection.execute("DROP SCHEMA {s} CASCADE")
    for each in (older, newer, newest):
        await each.aclose()


async def test_a_step_that_makes_programs_too_old_ends_connections_of_its_schema_alone(dsn, schema):
    def version(name, steps):
        made = PostgresqlConfig(dsn=dsn, schema=f"{schema}{name}", pool_size=1)
        return Connections(made, name="t", part="p", steps=steps, error=StorageError)

    async def process(connections):
        async with connections.transaction() as connection:
            return (await connection.row("SELECT pg_backend_pid()"))[0]

    steps = ["CREATE TABLE {s}.a (x int)", "ALTER TABLE {s}.a ADD COLUMN y int"]
    elsewhere, same, newer = version("e", steps[:1]), version("s", steps[:1]), version("s", steps)
    before = await process(elsewhere)
    await process(same)
    listening = await same.listen()
    another = await elsewhere.listen()

    await newer.migrate()

    assert await process(elsewhere) == before
    await another.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        await listening.execute("SELECT 1")
    with pytest.raises(StorageError, match="newer FlexChat"):
        await process(same)
    for raw in (listening, another):
        await raw.close()
    for each in (newer, elsewhere):
        async with each.transaction(write=True) as connection:
            await connection.execute("DROP SCHEMA {s} CASCADE")
    for each in (elsewhere, same, newer):
        await each.aclose()


async def test_without_migrating_missing_steps_are_an_error(stores):
    store = stores("a")
    store.database.migrates = False

    with pytest.raises(StorageError, match="flexchat migrate"):
        await store.append("c", turn("t1"), tenant="x")

    await store.database.migrate()
    await store.append("c", turn("t1"), tenant="x")
