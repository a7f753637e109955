"""The built-in conversation store: nothing acknowledged is lost, and no tenant sees another's."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from decimal import Decimal

import attrs
import pytest
from flexchat.domain import (
    AssistantMessage,
    ConversationTurn,
    OpaquePart,
    ProviderData,
    Round,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from flexchat.domain.prices import Cost, Price
from flexchat.errors import StorageError, UnknownConversationError
from flexchat_sqlite.conversations import _MIGRATIONS, _TABLES, APPLICATION_ID, SqliteConversations
from flexchat_sqlite.database import Database
from flexchat_sqlite.plugin import SqliteSettings, create_conversations
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

KILLS = int(os.environ.get("FLEXCHAT_KILLS", "5"))


def turn(id, said="hello", answer="hi", **rest):
    said_and_answered = (UserMessage(content=said), AssistantMessage(parts=(TextPart(text=answer),)))
    return ConversationTurn(id=id, messages=said_and_answered, **rest)


@pytest.fixture
async def store(tmp_path):
    store = SqliteConversations(tmp_path / "conversations.db")
    yield store
    await store.aclose()


async def test_turns_come_back_whole_and_in_their_order(store):
    """Also what only a provider can read, and text that databases do not take: NUL, half a surrogate pair."""
    opaque = OpaquePart(kind="x", provider_data=ProviderData(scope="s", origin="o", data={"k": ["\0", "\ud800"]}))
    call = ToolCall(name="f", arguments=None, raw_arguments="{broken\0", error="not JSON")
    hard = ConversationTurn(
        id="2",
        messages=(
            UserMessage(content="\0\ud83d"),
            AssistantMessage(parts=(opaque, call)),
            ToolMessage(tool_call_id=call.id, name="f", content="\0", is_error=True),
        ),
        topic="\0topic",
    )
    kept = [turn("1"), hard, turn("3")]
    for one in kept:
        await store.append("c", one, tenant="t")

    assert list(await store.turns("c", tenant="t")) == kept
    assert list(await store.turns("c", tenant="t", last=2)) == kept[1:]
    assert list(await store.turns("c", tenant="t", last=0)) == []


async def test_a_turn_is_added_once(store):
    """Whoever does not know whether it was kept may add it again."""
    for said in ("first", "again"):
        await store.append("c", turn("1", said), tenant="t")

    assert [t.messages[0].content for t in await store.turns("c", tenant="t")] == ["first"]
    assert (await store.get("c", tenant="t")).turns == 1


async def test_a_conversation_tells_its_title_topic_turns_and_times(store):
    await store.append("c", turn("1", "What is\nthis?", topic="old", at="2026-01-01T00:00:00+00:00"), tenant="t")
    await store.append("c", turn("2", topic="new", at="2026-01-02T00:00:00+00:00"), tenant="t")

    info = await store.get("c", tenant="t")

    assert (info.title, info.topic, info.turns) == ("What is this?", "new", 2)
    assert (info.started_at, info.used_at) == ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")


async def test_a_turn_without_a_time_gets_that_of_now(store):
    await store.append("c", turn("1"), tenant="t")

    assert (await store.get("c", tenant="t")).started_at.endswith("+00:00")


async def test_the_last_used_conversation_is_first_and_pages_follow_each_other(store):
    for number in range(5):
        await store.append(f"c{number}", turn("1"), tenant="t")
    await store.append("c1", turn("2"), tenant="t")

    async def page(before=None):
        return [info.id for info in await store.list(tenant="t", limit=2, before=before)]

    assert await page() == ["c1", "c4"]
    assert await page("c4") == ["c3", "c2"]
    assert await page("c2") == ["c0"]
    assert await page("c0") == []
    with pytest.raises(UnknownConversationError):
        await page("nowhere")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("STRASSE", ["street"]),  # ß, folded
        ("straße munich", ["street"]),
        ("hello munich", []),  # two turns have one each
        ("uni", ["street"]),
        ("renamed", ["title"]),
        ("  ", ["title", "street"]),
        ("secret-tool-output", []),
    ],
)
async def test_a_search_finds_turns_and_titles_that_have_all_the_words(store, words, found):
    await store.append("street", turn("1", "Which Straße?", "In Munich."), tenant="t")
    tool = ToolMessage(tool_call_id="x", name="f", content="secret-tool-output")
    await store.append("street", ConversationTurn(id="2", messages=(UserMessage(content="hello"), tool)), tenant="t")
    await store.append("title", turn("1", "x"), tenant="t")
    await store.rename("title", "Renamed", tenant="t")

    assert [info.id for info in await store.list(tenant="t", search=words)] == found


@pytest.mark.parametrize(
    "hostile",
    [
        "%",
        "_",
        "*",
        '"',
        "'",
        "' OR 1=1 --",
        "NEAR(",
        "a AND",
        "\\",
        "\0",
        "\ud800",
        "x" * 100_000,
        "w " * 5_000,
        "{}[",
    ],
)
async def test_hostile_search_text_is_only_words_that_do_not_occur(store, hostile):
    await store.append("c", turn("1", "plain"), tenant="t")

    found = await store.list(tenant="t", search=hostile)

    assert [info.id for info in found] == (["c"] if hostile == "\0" else [])  # NUL alone is no word


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
async def test_an_id_or_a_tenant_that_no_database_takes_is_refused_and_never_bent(store, name):
    """Two names that become one would let a tenant see another's."""
    with pytest.raises(StorageError, match="cannot be a key"):
        await store.append(name, turn("1"), tenant="t")
    with pytest.raises(StorageError, match="cannot be a key"):
        await store.append("c", turn("1"), tenant=name)
    with pytest.raises(StorageError, match="cannot be a key"):
        await store.append("c", turn(name), tenant="t")
    with pytest.raises(StorageError, match="cannot be a key"):
        await store.list(tenant=name)


@pytest.mark.parametrize("name", ["'; DROP TABLE turns; --", "../../etc", "%", "T", "t "])
async def test_any_other_name_is_only_a_name(store, name):
    await store.append("c", turn("1"), tenant="t")
    await store.append(name, turn("1"), tenant=name)

    assert [info.id for info in await store.list(tenant=name)] == [name]
    assert [info.id for info in await store.list(tenant="t")] == ["c"]


async def test_what_is_not_there_is_an_error_in_every_method(store):
    await store.append("c", turn("1"), tenant="other")

    for ask in (
        store.turns("c", tenant="t"),
        store.get("c", tenant="t"),
        store.rename("c", "x", tenant="t"),
        store.delete("c", tenant="t"),
    ):
        with pytest.raises(UnknownConversationError, match="no conversation 'c'"):
            await ask
    assert (await store.get("c", tenant="other")).title == "hello"


async def test_what_is_deleted_is_gone_from_the_file(tmp_path):
    path = tmp_path / "conversations.db"
    store = SqliteConversations(path)
    await store.append("c", turn("1", "confidential-words " * 1000), tenant="t")
    await store.append("d", turn("1"), tenant="t")
    await store.delete("c", tenant="t")
    await store.aclose()

    assert b"confidential" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


async def test_a_damaged_turn_is_named_and_its_neighbours_stay_readable(store):
    await store.append("c", turn("1"), tenant="t")
    await store.append("c", turn("2"), tenant="t")
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE turns SET turn = '{\"id\": 1' WHERE id = '1'")
    other.close()

    with pytest.raises(StorageError, match="a turn of 'c' that cannot be read"):
        await store.turns("c", tenant="t")
    assert [t.id for t in await store.turns("c", tenant="t", last=1)] == ["2"]


async def test_a_turn_that_is_no_json_data_is_refused_and_nothing_of_it_kept(store):
    deep = {}
    for _ in range(100_000):
        deep = {"a": deep}
    call = ToolCall(name="f", arguments=deep)

    with pytest.raises(StorageError, match="cannot be written"):
        await store.append("c", ConversationTurn(id="1", messages=(AssistantMessage(parts=(call,)),)), tenant="t")
    assert list(await store.list(tenant="t")) == []


def test_the_path_is_meant_from_the_configs_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEXCHAT_DATA", str(tmp_path / "data"))

    assert create_conversations(SqliteSettings(path="a/b.db"), tmp_path).path == tmp_path / "a" / "b.db"
    assert create_conversations(SqliteSettings(), tmp_path).path == tmp_path / "data" / "conversations.db"
    assert not (tmp_path / "data").exists()  # nothing is touched before it is used


IDS = st.sampled_from(["a", "b", "c"])
TENANTS = st.sampled_from(["t", "T"])
SAID = st.sampled_from(["red", "green", "RED green", "blue"])


class AgainstADict(RuleBasedStateMachine):
    """The store and a dict are told the same; they never disagree."""

    def __init__(self):
        super().__init__()
        import tempfile
        from pathlib import Path

        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.path = Path(self.folder.name) / "c.db"
        self.store = SqliteConversations(self.path)
        self.model = {}  # (tenant, id) -> [title, turns]; the last used last

    def run(self, work):
        return self.loop.run_until_complete(work)

    def outcome(self, work):
        try:
            return self.run(work)
        except UnknownConversationError:
            return "unknown"

    @rule(tenant=TENANTS, id=IDS, turn_id=IDS, said=SAID)
    def append(self, tenant, id, turn_id, said):
        new = turn(turn_id, said)
        self.run(self.store.append(id, new, tenant=tenant))
        title, turns = self.model.get((tenant, id), (said, []))
        if turn_id not in [t.id for t in turns]:
            self.model.pop((tenant, id), None)
            self.model[tenant, id] = (title, [*turns, new])

    @rule(tenant=TENANTS, id=IDS)
    def delete(self, tenant, id):
        assert (self.outcome(self.store.delete(id, tenant=tenant)) == "unknown") == (
            self.model.pop((tenant, id), None) is None
        )

    @rule(tenant=TENANTS, id=IDS, title=SAID)
    def rename(self, tenant, id, title):
        unknown = self.outcome(self.store.rename(id, title, tenant=tenant)) == "unknown"
        assert unknown == ((tenant, id) not in self.model)
        if not unknown:
            self.model[tenant, id] = (title, self.model[tenant, id][1])

    @rule(tenant=TENANTS, words=SAID)
    def search(self, tenant, words):
        def has(text):
            return all(word in text.casefold() for word in words.casefold().split())

        expected = [
            id
            for (whose, id), (title, turns) in reversed(self.model.items())
            if whose == tenant and (has(title) or any(has(t.text) for t in turns))
        ]
        assert [info.id for info in self.run(self.store.list(tenant=tenant, search=words))] == expected

    @rule()
    def reopen(self):
        self.run(self.store.aclose())
        self.store = SqliteConversations(self.path)

    @invariant()
    def the_same_is_there(self):
        for tenant in ("t", "T"):
            expected = [(i, *self.model[w, i]) for w, i in reversed(self.model) if w == tenant]
            found = self.run(self.store.list(tenant=tenant))
            assert [(c.id, c.title, c.turns) for c in found] == [(i, title, len(turns)) for i, title, turns in expected]
            for id, _, turns in expected:
                assert list(self.run(self.store.turns(id, tenant=tenant))) == turns

    def teardown(self):
        self.run(self.store.aclose())
        self.loop.close()
        self.folder.cleanup()


AgainstADict.TestCase.settings = hypothesis_settings(max_examples=25, stateful_step_count=25, deadline=None)
test_the_store_and_a_dict_never_disagree = pytest.mark.slow(AgainstADict.TestCase)

APPENDING = """
import asyncio, sys
from flexchat_sqlite.conversations import _TABLES, APPLICATION_ID, SqliteConversations
from flexchat_sqlite.database import Database
from flexchat.domain import ConversationTurn, UserMessage

async def append(path, name, most):
    store = SqliteConversations(path)
    for number in range(most):
        turn = ConversationTurn(id=f"{name}-{number}", messages=(UserMessage(content="x" * 2000),))
        await store.append("c", turn, tenant="t")
        print(turn.id, flush=True)
    await store.aclose()

asyncio.run(append(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def appending(path, name, most):
    words = [sys.executable, "-c", textwrap.dedent(APPENDING), str(path), name, str(most)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
async def test_two_processes_that_begin_one_file_together_lose_no_turn(tmp_path):
    path = tmp_path / "c.db"
    processes = [appending(path, name, 100) for name in "ab"]
    said = [process.communicate(timeout=60)[0].split() for process in processes]

    assert [process.returncode for process in processes] == [0, 0]
    store = SqliteConversations(path)
    kept = [t.id for t in await store.turns("c", tenant="t")]
    info = await store.get("c", tenant="t")
    await store.aclose()
    assert len(kept) == info.turns == 200
    for ids in said:
        assert [id for id in kept if id in ids] == ids  # each in its own order


@pytest.mark.slow
async def test_kill_9_loses_no_acknowledged_turn(tmp_path):
    """FLEXCHAT_KILLS sets how often."""
    path = tmp_path / "c.db"
    acknowledged = []
    for number in range(KILLS):
        process = appending(path, str(number), 100_000)
        for _ in range(3 + 7 * number % 40):
            acknowledged.append(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]
        process.wait()
        process.stdout.close()
    store = SqliteConversations(path)
    kept = [t.id for t in await store.turns("c", tenant="t")]
    info = await store.get("c", tenant="t")
    await store.aclose()

    assert set(acknowledged) <= set(kept)
    assert info.turns == len(kept) == len(set(kept))


async def test_appending_side_by_side_keeps_every_turn(store):
    await asyncio.gather(*(store.append("c", turn(str(n)), tenant="t") for n in range(50)))

    assert {t.id for t in await store.turns("c", tenant="t")} == {str(n) for n in range(50)}


async def test_whoever_stops_waiting_does_not_take_back_what_was_to_be_kept(store):
    await store.append("c", turn("0"), tenant="t")
    waiting = [asyncio.ensure_future(store.append("c", turn(str(n)), tenant="t")) for n in range(1, 20)]
    await asyncio.sleep(0)
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await store.append("c", turn("last"), tenant="t")  # one thread writes: all before it are done

    assert [t.id for t in await store.turns("c", tenant="t")] == [*map(str, range(20)), "last"]


def test_times_do_not_decide_the_order(tmp_path):
    """Clocks go back."""

    async def check():
        store = SqliteConversations(tmp_path / "c.db")
        await store.append("old", turn("1", at="2030-01-01T00:00:00Z"), tenant="t")
        await store.append("new", attrs.evolve(turn("1"), at="2020-01-01T00:00:00Z"), tenant="t")
        found = [info.id for info in await store.list(tenant="t")]
        await store.aclose()
        return found

    assert asyncio.run(check()) == ["new", "old"]


async def test_what_is_deleted_is_gone_from_the_disk_too(store, tmp_path):
    """Neither the file nor its write-ahead log holds the text any longer."""
    await store.append("one", turn("1", "a very private sentence"), tenant="t")

    await store.delete("one", tenant="t")

    files = [file.read_bytes() for file in tmp_path.iterdir() if file.is_file()]
    assert len(files) >= 1
    assert not any(b"very private" in data for data in files)


async def test_a_file_of_an_older_flexchat_is_taken_over(tmp_path):
    """Its turns are done and have no price, and it can be added to."""
    path = tmp_path / "old.db"
    old = Database(path, kind="conversations", application_id=APPLICATION_ID, migrations=(_TABLES,))
    answer = '{"role":"assistant","parts":[{"type":"text","text":"hi"}]}'
    turn_of_old = f'{{"id":"1","messages":[{{"role":"user","content":"hello"}},{answer}],"topic":"x","at":"2026"}}'

    def fill(database):
        database.execute("INSERT INTO turns VALUES (7, 't', 'c', '1', ?, 'hello')", (turn_of_old,))
        database.execute("INSERT INTO conversations VALUES ('t', 'c', 'hello', 'x', 1, '2026', '2026', 7)")

    await old.write(fill)
    await old.aclose()
    store = SqliteConversations(path)

    (turn,) = await store.turns("c", tenant="t")
    assert (turn.status, turn.cost) == ("done", Cost(unpriced=("it was kept without prices",)))
    history = await store.history("c", tenant="t")
    assert [(one.id, one.messages, one.topic) for one in history.turns] == [("1", turn.messages, "x")]
    info = await store.get("c", tenant="t")
    assert (info.status, info.cost) == ("done", Cost(unpriced=("1 turn is not fully priced",)))
    await store.append("c", ConversationTurn(id="2", messages=(), status="failed"), tenant="t")
    assert [info.status for info in await store.list(tenant="t")] == ["failed"]
    assert [one.id for one in await store.turns("c", tenant="t")] == ["1", "2"]
    assert [one.id for one in (await store.history("c", tenant="t", after=history.version)).turns] == ["2"]
    await store.aclose()


async def test_a_file_from_before_prices_reads_as_unpriced(tmp_path):
    """Its rounds have tokens and no price; what is added is priced, and what was there is said to be missing."""
    path = tmp_path / "old.db"
    old = Database(path, kind="conversations", application_id=APPLICATION_ID, migrations=_MIGRATIONS[:6])
    round_of_old = '{"llm":"gpt","model":"m","elapsed_ms":5,"usage":{"input_tokens":9,"output_tokens":9}}'
    turn_of_old = f'{{"id":"1","messages":[{{"role":"user","content":"hello"}}],"rule":0,"rounds":[{round_of_old}]}}'

    def fill(database):
        values = "VALUES (7, 't', 'c', '1', ?, 'hello', 'done')"
        database.execute(
            f"INSERT INTO turns (number, tenant, conversation, id, turn, folded_text, status) {values}", (turn_of_old,)
        )
        database.execute("INSERT INTO conversations VALUES ('t', 'c', 'hello', 'x', 1, '2026', '2026', 7)")

    await old.write(fill)
    await old.aclose()
    store = SqliteConversations(path)
    price = Price(input=Decimal(2), output=Decimal(0), source="config")
    used = Usage(input_tokens=1_000_000, output_tokens=0)
    paid = Round(llm="gpt", model="m", elapsed_ms=1, usage=used, price=price)

    assert [turn.cost.amount for turn in await store.turns("c", tenant="t")] == [None]
    assert (await store.turns("c", tenant="t"))[0].cost.unpriced == ("no price is known for m of gpt",)
    await store.append("c", ConversationTurn(id="2", messages=(), rounds=(paid,)), tenant="t")
    assert (await store.get("c", tenant="t")).cost == Cost(amount=Decimal(2), unpriced=("1 turn is not fully priced",))
    await store.aclose()


async def test_a_damaged_file_is_put_aside_and_new_conversations_are_kept(tmp_path, caplog):
    """Its bytes stay under a name that says what happened."""
    path = tmp_path / "conversations.db"
    path.write_bytes(b"damaged" * 1_000)
    store = SqliteConversations(path)
    await store.append("c", turn("1"), tenant="t")
    assert [kept.id for kept in await store.turns("c", tenant="t")] == ["1"]
    await store.aclose()
    (aside,) = tmp_path.glob("conversations.damaged-*.db")
    assert aside.read_bytes() == b"damaged" * 1_000
    assert str(aside) in caplog.text
