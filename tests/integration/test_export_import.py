"""Every conversation that the suite has comes back from an export: the same bytes, from SQLite and from PostgreSQL.

What is not in an export is not compared: effects, steps, keys, counters, and turns that have not ended.
"""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import generated_turns
import generated_values
import kept_before_sums
import kept_database
import pytest
from flexchat import FlexChat, MediaPart, Principal, Reply, ToolContext, WithMedia, tool
from flexchat.domain.conversation import turn_from_dict, turn_from_json
from flexchat_cli.main import main
from flexchat_sdk import ProviderError
from flexchat_sqlite import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres_server import dsn, schema, server  # noqa: F401  fixtures

from examples import examples

ROOT = Path(__file__).resolve().parents[2]
DUMPS = ROOT / "plugins" / "flexchat-sqlite" / "tests"
GOLDEN = ROOT / "core" / "tests" / "domain" / "golden" / "kept.json"
TIMES = [f"2026-11-2{day}T10:00:00.{day:03}+00:00" for day in range(1, 9)]


class Installation:
    """A folder with a configuration of its own, in which commands run."""

    def __init__(self, folder, table='path = "kept.db"'):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        (folder / "flexchat.toml").write_text(f"[conversations]\n{table}\n")

    def run(self, *words):
        return main(["conversations", *map(str, words), "--config", str(self.folder / "flexchat.toml")])

    def export(self, name="all.jsonl", tenant="default"):
        """Return the path of an export of everything."""
        path = self.folder / name
        assert self.run("export", "--all", "--json", "--output", path, "--tenant", tenant) == 0
        return path

    def store(self):
        return SqliteConversations(self.folder / "kept.db")


def contents(path):
    """Return the bytes of an export, and those of its media by their names."""
    media = Path(f"{path}.media")
    return path.read_bytes(), {file.name: file.read_bytes() for file in media.glob("*")}


def restore_dump(folder, *names):
    with closing(sqlite3.connect(folder / "kept.db")) as database:
        for name in names:
            database.executescript((DUMPS / name).read_text(encoding="utf-8"))


async def fill_with_outcomes(installation):
    """Keep turns that end in every way: media, errors, refusals, questions, a form, failures, and a cancelled one."""
    reached = asyncio.Event()

    @tool
    async def draw(subject: str) -> WithMedia:
        """Draw something."""
        image = MediaPart(kind="image", mime_type="image/png", data=kept_database.PIXEL, name="drawing.png")
        return WithMedia({"subject": subject}, [image])

    @tool
    async def fail(amount: int) -> str:
        """Fail."""
        raise ValueError("no such account: \N{SNOWMAN}")

    @tool(effect="read", timeout_ms=1)
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(20)

    @tool(effect="read", timeout_ms=30_000)
    async def hang() -> str:
        """Hang."""
        reached.set()
        await asyncio.sleep(20)

    @tool(asks_first=True)
    async def book(context: ToolContext) -> str:
        """Book a seat."""
        return (await context.ask("Which seat?")).action

    @tool(approve=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def broken(messages, options):
        raise ProviderError("the model is away", retryable=False)

    replies = {
        "draw": [calls(("draw", {"subject": "naïve 世界"})), says("Drawn.")],
        "errors": [
            calls(("fail", {"amount": 1}), ("fail", {"sum": 1}), ("wait", {}), ("wether", {}), ("fail", {"amount": 1})),
            says("None worked."),
        ],
        "accepted": [calls(("book", {}), ("pay", {"amount": 5})), says("Both.")],
        "declined": [calls(("pay", {"amount": 6})), says("As you wish.")],
        "broken": [broken],
        "form": [says('{"seat": "4A"}')],
        "cancelled": [calls(("hang", {}))],
    }
    script = iter(())

    def reply(messages, options):
        answer = next(script)
        return answer(messages, options) if callable(answer) else answer

    config = {**kept_database.CONFIG, "questions": {"expires": "1h"}}
    chat = FlexChat.from_config(
        config,
        tools=[draw, fail, wait, hang, book, pay],
        providers={"bot": ScriptedProvider([reply], repeat=True)},
    )
    store = installation.store()
    chat.keep_in(store)
    photo = MediaPart(kind="image", mime_type="image/png", data=kept_database.PIXEL, name="photo.png")
    for name, its in replies.items():
        script = iter(its)
        action = "decline" if name == "declined" else "accept"

        async def answer(question, action=action):
            return Reply(action=action, content={"seat": "4A"} if action == "accept" else None)

        options = {"on_question": answer, "principal": Principal(name="ann", roles=("user",))}
        if name == "draw":
            options["attachments"] = [photo]
        task = asyncio.create_task(chat.respond(f"Turn of {name}", conversation=name, **options))
        if name == "cancelled":
            await reached.wait()
            task.cancel()
        await asyncio.wait([task])
        if name not in ("broken", "cancelled"):
            task.result()
    statuses = {info.id: info.status for info in await store.list(tenant="default")}
    assert statuses == {**dict.fromkeys(replies, "done"), "broken": "failed", "cancelled": "cancelled"}
    await store.aclose()


async def fill_with_kept_values(installation):
    """Turns in the forms of all earlier versions, and those of the generated journal."""
    store = installation.store()
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for name in ("turn", "plain turn"):
        turn = turn_from_json(golden[name]["text"])
        await store.append(name, attrs.evolve(turn, at=turn.at or TIMES[0]), tenant="default")
    with pytest.MonkeyPatch.context() as patch:
        await generated_turns.fill(store, 60, patch)
    await store.aclose()


CORPORA = ["of November 27", "of November 28", "outcomes", "values"]


@pytest.fixture(params=CORPORA)
def corpus(request, tmp_path):
    """An installation with conversations, and its tenants."""
    installation = Installation(tmp_path / "first")
    if request.param == "of November 27":
        restore_dump(installation.folder, "kept_2026_11.sql")
        return installation, ["default", "acme"]
    if request.param == "of November 28":
        restore_dump(installation.folder, "kept_2026_11_28.sql", "older_2026_11_28.sql")
        return installation, ["default"]
    if request.param == "outcomes":
        asyncio.run(fill_with_outcomes(installation))
        return installation, ["default"]
    asyncio.run(fill_with_kept_values(installation))
    return installation, ["default", *generated_turns.TENANTS]


def check_both_ways(first, second, tenants):
    for tenant in tenants:
        exported = first.export(f"{tenant}.jsonl", tenant)
        assert exported.read_bytes().strip()
        assert second.run("import", exported, "--tenant", tenant) == 0
        assert contents(second.export(f"{tenant}.jsonl", tenant)) == contents(exported)


def test_the_corpus_comes_back_from_another_sqlite_store(corpus, tmp_path):
    check_both_ways(corpus[0], Installation(tmp_path / "second"), corpus[1])


@pytest.mark.slow
def test_the_corpus_comes_back_from_postgresql(corpus, tmp_path, dsn, schema):  # noqa: F811
    table = f'provider = "postgresql"\ndsn = "{dsn}"\nschema = "{schema}"'
    check_both_ways(corpus[0], Installation(tmp_path / "second", table), corpus[1])


def test_turns_that_have_not_ended_are_not_exported(tmp_path):
    installation = Installation(tmp_path / "first")
    restore_dump(installation.folder, "kept_2026_11_28.sql")

    ids = [json.loads(line)["id"] for line in installation.export().read_text().splitlines()]

    assert {*ids} == {name for name, state in kept_before_sums.STATES.items() if state == "done"}


ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
turns = st.lists(st.tuples(generated_values.turns, st.sampled_from(TIMES)), min_size=1, max_size=3)
conversations = st.dictionaries(ids, st.tuples(st.none() | ids, turns), min_size=1, max_size=3)


async def fill(installation, generated):
    store = installation.store()
    for id, (title, turns) in generated.items():
        for number, (turn, at) in enumerate(turns):
            await store.append(id, attrs.evolve(turn, id=f"t{number}", at=at), tenant="default")
        if title is not None:
            await store.rename(id, title, tenant="default")
    await store.aclose()


@pytest.fixture
def number_of_example(tmp_path):
    numbers = iter(range(10**6))
    return lambda: tmp_path / str(next(numbers))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(300))
@given(generated=conversations)
def test_generated_conversations_come_back(number_of_example, generated):
    """With halves of surrogate pairs, media, signatures and arguments of every kind."""
    folder = number_of_example()
    first = Installation(folder)
    asyncio.run(fill(first, generated))

    check_both_ways(first, Installation(folder / "second"), ["default"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(300))
@given(data=st.data())
def test_an_edited_export_is_refused_with_the_place_or_imported_as_it_reads(number_of_example, capsys, data):
    """Cut off, or with a byte changed; in each case nothing but what the file has is stored."""
    folder = number_of_example()
    first = Installation(folder)
    restore_dump(folder, "kept_2026_11.sql")
    exported = first.export()
    text = exported.read_bytes()
    place = data.draw(st.integers(0, len(text) - 1))
    if data.draw(st.booleans()):
        text = text[:place]
    else:
        text = text[:place] + data.draw(st.binary(min_size=1, max_size=2)) + text[place + 1 :]
    exported.write_bytes(text)
    second = Installation(folder / "second")
    capsys.readouterr()

    status = second.run("import", exported)

    message, stored = capsys.readouterr().err, second.export("again.jsonl").read_text("utf-8").splitlines()
    if status == 2:
        line = text[:place].count(b"\n") + 1
        assert not stored
        assert f"all.jsonl:{line}:" in message or "has no conversation" in message, message
    else:
        assert status == 0
        assert [read(line) for line in stored] == [read(line) for line in text.decode("utf-8").splitlines()]


def read(line):
    """Return what an import reads of a line; media by their digests."""
    data = json.loads(line)
    media = dict.fromkeys(_digests(line), kept_database.PIXEL)
    return data["id"], data["title"], [turn_from_dict(turn, media) for turn in data["turns"]]


def _digests(line):
    return [part.split('"')[0] for part in line.split('"sha256": "')[1:]]
