"""A server that is away, refuses, or is restarted: a sentence for a person, and then on as before."""

import asyncio

import psycopg
import pytest
from flexchat import UserMessage
from flexchat.store import ConversationTurn, StorageError
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.connections import Place, public_reason
from flexchat_postgresql.conversation_store import PostgresqlConversations

pytestmark = pytest.mark.slow

SECRET = "hunter2-swordfish"


def store_at(dsn, schema="flexchat", **rest):
    return PostgresqlConversations(PostgresqlConfig(dsn=dsn, schema=schema, **rest))


def turn(id):
    return ConversationTurn(id=id, messages=(UserMessage(content="water"),))


async def refusal(dsn, **rest):
    """The text of the store's error, which says who it is and nothing secret."""
    with pytest.raises(StorageError) as refused:
        await store_at(dsn, **rest).list(tenant="t")
    text = str(refused.value)
    assert SECRET not in text + str(refused.value.__cause__) + repr(refused.value)
    assert text.startswith("conversations: ")
    return text


async def test_no_server():
    """Where nobody listens, the text says so and where."""
    text = await refusal(f"postgresql://me:{SECRET}@127.0.0.1:9/db")
    assert "me@127.0.0.1:9/db cannot be reached: is the server running" in text


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://uma@127.0.0.1:9/invoices",
        "postgresql://uma@localhost,127.0.0.1:9/invoices",
        "postgresql://uma@db.nowhere.invalid/invoices",
        "host=/nowhere/sockets user=uma dbname=invoices",
    ],
)
async def test_the_public_text_names_no_host_user_or_database(dsn):
    """People who chat over the network, and models, get the reason only."""
    with pytest.raises(StorageError) as refused:
        await store_at(dsn).list(tenant="t")

    public = refused.value.public_text
    assert public.startswith("conversations: PostgreSQL cannot be reached: is the server running")
    for name in ("uma", "127.0.0.1", "localhost", "db.nowhere", "/nowhere", "invoices"):
        assert name not in public
    assert "invoices" in str(refused.value)


@pytest.mark.parametrize(
    "said",
    [
        'connection to server at "db.internal" (10.0.0.7), port 5432 failed: FATAL:  password refused for user "uma"',
        'connection to server at "10.0.0.7", port 5432 failed: FATAL:  database "invoices" does not exist',
        "failed to resolve host 'db.internal': [Errno -2] Name or service not known",
        f'{"x" * 280} at "db.internal", port 5432',
    ],
)
def test_what_the_server_quotes_is_not_public(said):
    public = public_reason(psycopg.OperationalError(said))
    for name in ("db.internal", "10.0.0.7", "uma", "invoices"):
        assert name not in public


async def test_a_server_that_says_nothing():
    """connect_timeout_s ends the waiting."""
    writers = []
    silent = await asyncio.start_server(lambda reader, writer: writers.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    store = store_at(f"postgresql://me:{SECRET}@127.0.0.1:{port}/db", connect_timeout_s=0.2)
    with pytest.raises(StorageError, match="did not answer within connect_timeout_s"):
        await store.list(tenant="t")
    silent.close()
    for writer in writers:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "dsn", [f"postgresql://me:x@{SECRET}@host/db", f"postgresql://me:{SECRET}@[x/db", f"password={SECRET} {SECRET}"]
)
async def test_a_dsn_that_cannot_be_read(dsn):
    """The text says how to write one, and quotes nothing of it."""
    assert "dsn cannot be read; write postgresql://" in await refusal(dsn)


async def test_a_database_that_is_not_there(server):
    """The text says to create it."""
    assert "no such database: create it" in await refusal(server.dsn("nowhere"))


async def test_a_user_that_is_not_there(server):
    """The text says to check user and password."""
    text = await refusal(server.dsn(user="nobody_knows_me"))
    assert "does not exist" in text or "refuses the user" in text


async def test_a_password_that_is_wrong(own_server):
    """The text says to check it, and does not say it."""
    with psycopg.connect(own_server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE ROLE me LOGIN PASSWORD 'right'")
    (own_server.folder / "data" / "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
    with psycopg.connect(own_server.dsn(), autocommit=True) as connection:
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("SELECT pg_sleep(0.2)")  # the reload is told to the server, not waited for
    dsn = f"postgresql://me:{SECRET}@/postgres?host={own_server.folder}"
    assert "refuses the user or the password" in await refusal(dsn)


async def test_a_user_who_may_do_nothing(server, schema):
    """The text says what to allow."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {schema} LOGIN")
        assert "let the user of dsn create and use the schema" in await refusal(server.dsn(user=schema), schema=schema)
        connection.execute(f"DROP ROLE {schema}")


async def test_a_database_that_can_only_be_read(server, schema):
    """The text says that dsn must name another server."""
    dsn = server.dsn() + "&options=-c%20default_transaction_read_only%3Don"
    store = store_at(dsn, schema)
    with pytest.raises(StorageError, match="can only be read"):
        await store.append("c", turn("1"), tenant="t")
    await store.aclose()


async def test_a_server_without_pgvector():
    """Both ways in which servers say that the extension is missing lead to the same advice."""
    for error in (
        psycopg.errors.FeatureNotSupported('extension "vector" is not available'),
        psycopg.errors.UndefinedFile('could not open extension control file "/x/vector.control"'),
        psycopg.errors.UndefinedObject('type "vector" does not exist'),
    ):
        assert "has no extension 'vector' (pgvector 0.7 or later)" in Place.of("host=h").explained(error)


async def test_tables_of_a_newer_version_are_left_alone(server, schema):
    """The text says to update FlexChat."""
    store = store_at(server.dsn(), schema)
    await store.list(tenant="t")
    await store.aclose()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.versions SET version = 99")
    store = store_at(server.dsn(), schema)
    with pytest.raises(StorageError, match="newer FlexChat: update this one"):
        await store.list(tenant="t")
    await store.aclose()


async def test_a_restarted_server_is_asked_again(own_server):
    """Connections that broke meanwhile are replaced without an error; while it is down, the error says so."""
    store = store_at(own_server.dsn())
    await store.append("a", turn("1"), tenant="t")
    await asyncio.gather(*(store.list(tenant="t") for _ in range(5)))
    own_server.kill()
    with pytest.raises(StorageError, match="cannot be reached"):
        await store.list(tenant="t")
    own_server.start()
    await store.append("b", turn("1"), tenant="t")
    assert [info.id for info in await store.list(tenant="t")] == ["b", "a"]
    await asyncio.to_thread(own_server.stop)
    await asyncio.to_thread(own_server.start)
    assert len(await asyncio.gather(*(store.list(tenant="t") for _ in range(5)))) == 5
    await store.aclose()


async def test_cancelled_work_gives_its_connection_back(server, schema):
    """After a storm of it, as many connections as before do their work, and no more are open than may be."""
    store = store_at(server.dsn(), schema, pool_size=3)
    await store.append("a", turn("1"), tenant="t")
    for turns in range(60):
        task = asyncio.create_task(store.list(tenant="t", search="water"))
        for _ in range(turns % 12):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found = await asyncio.gather(*(store.list(tenant="t", search="water") for _ in range(20)))
    assert all(infos[0].id == "a" for infos in found)
    assert len(store.connections._idle) <= 3
    await store.aclose()


def test_a_store_is_used_from_one_event_loop_after_the_other(server, schema):
    """asyncio.run twice with one store: the second starts anew."""
    store = store_at(server.dsn(), schema)
    asyncio.run(store.append("a", turn("1"), tenant="t"))

    async def again():
        infos = await store.list(tenant="t")
        await store.aclose()
        return infos

    assert asyncio.run(again())[0].id == "a"


def test_the_secret_is_not_shown():
    """The config does not show its dsn."""
    assert SECRET not in repr(PostgresqlConfig(dsn=f"postgresql://me:{SECRET}@h/db"))


@pytest.mark.parametrize(
    "settings", [{"schema": ""}, {"schema": "pg_x"}, {"schema": "a%s"}, {"schema": "x" * 64}, {"dsn": "nothing"}]
)
def test_settings_that_cannot_work_are_refused(settings):
    """With a sentence, when the config is read."""
    with pytest.raises(ValueError, match="must be"):
        PostgresqlConfig(**{"dsn": "postgresql://h/db", **settings})


async def test_a_hostile_schema_is_a_name(server):
    """It is quoted wherever it is used."""
    schema = 'x"; DROP TABLE y; -- {z}'
    store = store_at(server.dsn(), schema)
    await store.append("a", turn("1"), tenant="t")
    assert (await store.get("a", tenant="t")).turns == 1
    await store.aclose()


@pytest.mark.parametrize(("key", "value"), [("dsn", "postgre://host/db"), ("schema", "pg_x")])
def test_a_setting_that_does_not_fit_begins_with_its_key(key, value):
    """`flexchat check` takes the place of the problem from it."""
    with pytest.raises(ValueError, match=f"^{key} must be "):
        PostgresqlConfig(**{"dsn": "postgresql://host/db", key: value})


async def test_a_database_without_an_encoding_and_a_client_with_another_one(server, schema, monkeypatch):
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {schema} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    kept = ConversationTurn(id="one", messages=(UserMessage(content="Grüße, 日本"),), topic="水")
    store = store_at(server.dsn(schema))

    await store.append("c", kept, tenant="t")

    assert await store.turns("c", tenant="t") == [kept]
    assert [info.topic for info in await store.list(tenant="t")] == ["水"]
    await store.aclose()
