"""A result that is too long to be shown whole can be read on, piece by piece, and nothing is lost."""

import asyncio
import json
import re
import sqlite3
from contextlib import closing

import attrs
import pytest
from flexchat import FlexChat, tool
from flexchat.domain import ToolResult
from flexchat.plugin import EarlierResult, ToolError, hookimpl
from flexchat.tools.results import as_json, for_the_model, whole_text
from flexchat.turn.recording import conversation_turn
from flexchat_builtin.parameters import ParameterError
from flexchat_builtin.reading import MAX_MATCHES, read_result
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

pytestmark = pytest.mark.anyio

MARKER = re.compile(
    r'\n\[… ([\d,]+) of ([\d,]+) characters left out: read_result\(result="([\w-]+)", start=(\d+)\) reads on …\]\n'
)
RULE = {"llm": "s", "model": "m", "tools": {"enabled": True}}
CONFIG = {
    "llms": {"s": {"provider": "scripted"}},
    "responses": [RULE],
    "tools": {"max_iterations": 50, "max_result_chars": 2_000, "registry": [{"name": "read_result"}]},
    "limits": {"tool_calls_per_turn": 100},
}
BOOK = "".join(f"{number:05d} a line with “quotes”, \\ and \ttabs\n" for number in range(200))

awkward = st.text(st.characters(codec=None) | st.sampled_from('"\\\n\x01\ud800\udc00é😀'), max_size=3_000)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | awkward,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class OneResult:
    """Stands for a call's context: it knows one result, and works in this thread."""

    def __init__(self, text, max_chars):
        self._earlier = EarlierResult(tool="t", text=text, max_chars=max_chars)

    async def earlier_result(self, call_id):
        return self._earlier if call_id == "call_1" else None

    async def run_in_thread(self, function, *arguments):
        return function(*arguments)


def read(context, **params):
    """Return what the tool returns, and make sure that a model is shown it whole."""
    told = asyncio.run(read_result({"result": "call_1", **params}, context))
    assert len(as_json(told)[1]) <= context._earlier.max_chars
    return told


def read_on(context, start=0, **params):
    """Return the pieces from a place on, put together."""
    pieces = []
    while True:
        told = read(context, start=start, **params)
        assert told["start"] == start
        pieces.append(told["text"])
        if "next_start" not in told:
            return "".join(pieces)
        assert told["next_start"] == start + len(told["text"]) > start
        start = told["next_start"]


@settings(max_examples=examples(300), deadline=None)
@given(
    result=st.builds(lambda value: ToolResult(success=True, tool_name="t", result=value), values | awkward)
    | st.builds(lambda error, hint: ToolResult.failed("t", error, hint=hint), awkward, awkward),
    max_chars=st.integers(200, 3_000),
)
def test_a_result_read_piece_by_piece_is_the_whole_result(result, max_chars):
    """From where each marker says, and from the start; what is shown before and behind a marker is of the same text."""
    whole = whole_text(result)
    context = OneResult(whole, max_chars)
    shown = json.loads(for_the_model(result, max_chars, id="call_1"))

    assert read_on(context) == whole
    for text in [shown.get(key) for key in ("result", "error", "hint")]:
        for found in MARKER.finditer(text) if isinstance(text, str) else ():
            head, start = text[: found.start()], int(found[4])
            left_out = int(found[1].replace(",", ""))
            assert whole[start - len(head) : start] == head
            tail = text[found.end() :]
            assert whole[start + left_out : start + left_out + len(tail)] == tail
            assert whole[:start] + read_on(context, start) == whole


@settings(max_examples=examples(100), deadline=None)
@given(text=st.text(max_size=500), start=st.integers(0, 500), chars=st.integers(1, 50))
def test_a_piece_has_no_more_characters_than_asked_for(text, start, chars):
    context = OneResult(text, 2_000)
    if start <= len(text):
        assert read(context, start=start, chars=chars)["text"] == text[start : start + chars]
        assert read_on(context, start, chars=chars) == text[start:]


@settings(max_examples=examples(200), deadline=None)
@given(
    text=st.text(st.sampled_from('aAbß"\n\x01İ'), max_size=2_000),
    find=st.text(st.sampled_from('aAb"\x01.'), min_size=1, max_size=200),
    max_chars=st.integers(200, 1_000),
)
def test_every_place_that_is_looked_for_is_found(text, find, max_chars):
    """Once, and counted, however many answers it takes."""
    context, start = OneResult(text, max_chars), 0
    there = [match.start() for match in re.finditer(re.escape(find), text, re.IGNORECASE)]
    counts = []
    shown = []
    while start is not None:
        told = read(context, find=find, start=start)
        counts.append(told["count"])
        for passage in told["matches"]:
            assert text.startswith(passage["text"], passage["start"])
            shown.append((passage["start"], passage["start"] + len(passage["text"])))
        assert told.get("next_start", start + 1) > start
        start = told.get("next_start")

    assert counts[0] == len(there)
    assert all(any(begin <= place < end for begin, end in shown) for place in there)


def test_what_is_looked_for_is_no_pattern_and_may_be_in_any_case():
    context = OneResult("x" * 500 + "The total is 17 EUR (net). total" + "y" * 500, 2_000)

    told = read(context, find="TOTAL IS 17 eur (")

    assert told == {
        "matches": [{"start": 404, "text": "x" * 96 + "The total is 17 EUR (net). total" + "y" * 89}],
        "count": 1,
        "length": 1032,
    }
    assert read(context, find="t.t") == {"matches": [], "count": 0, "length": 1032}


def test_endless_matches_are_counted_up_to_a_limit():
    assert read(OneResult("a" * 1_000_000, 200), find="a")["count"] == MAX_MATCHES


def test_what_is_looked_for_takes_linear_time():
    """Almost-matches everywhere; the length and the places of what is not ASCII are kept."""
    context = OneResult("İ" + "a" * 2_000_000 + "B", 2_000)

    assert read(context, find="a" * 199 + "b")["matches"][0]["start"] == 2_000_001 - 199 - 100
    assert read(context, find="a" * 199 + "c")["count"] == 0


@pytest.mark.parametrize(
    ("params", "kind", "said"),
    [
        ({"start": 6}, ParameterError, "'start' is 6, and the result has 5 characters"),
        ({"start": -1}, ParameterError, "'start' must be a whole number"),
        ({"start": True}, ParameterError, "'start' must be a whole number"),
        ({"chars": "3"}, ParameterError, "'chars' must be a whole number"),
        ({"find": "x" * 201}, ParameterError, "'find' has 201 characters, 200 are allowed"),
        ({"result": "call_2"}, ToolError, "no result 'call_2' can be read"),
        ({"result": 7}, ParameterError, "'result' must be a text"),
    ],
)
def test_what_cannot_be_read_is_said(params, kind, said):
    with pytest.raises(kind, match=re.escape(said)):
        read(OneResult("12345", 200), **params)


def test_at_the_end_there_is_nothing_more():
    assert read(OneResult("12345", 200), start=5) == {"text": "", "start": 5, "length": 5}


# In turns: a model that reads on as the marker tells it to.


def reader(*first):
    """Return a model that makes calls, and then reads every result to its end: it answers with all it has read."""

    def reply(messages, options):
        if messages[-1].role == "user" and first:
            return calls(*first)
        asked = {call.id: call.arguments for each in messages if each.role == "assistant" for call in each.tool_calls}
        texts, left = {}, {}
        for message in messages:
            told = json.loads(message.content) if message.role == "tool" else {}
            result = told.get("result", told.get("error"))
            if message.role == "tool" and message.name == "read_result":
                id = asked[message.tool_call_id]["result"]
                texts[id] += result["text"] if told["success"] else result
                left[id] = result.get("next_start") if told["success"] else None
            elif isinstance(result, str) and (found := MARKER.search(result)):
                texts[found[3]], left[found[3]] = result[: found.start()], int(found[4])
        for id, start in left.items():
            if start is not None:
                return calls(("read_result", {"result": id, "start": start}))
        return says(json.dumps([*texts.values()]))

    return ScriptedProvider([reply], repeat=True)


@tool(effect="read")
def read_book(name: str) -> str:
    """Read a book."""
    return name + BOOK


@tool(effect="read")
def rows() -> list[dict[str, str]]:
    """Return rows."""
    return [{"line": line} for line in BOOK.splitlines()]


@tool(effect="read")
def fail() -> str:
    """Fail at length."""
    raise ToolError(BOOK)


TOOLS = [read_book, rows, fail]


def chat_of(model, path=None, **config):
    chat = FlexChat.from_config({**CONFIG, **config}, providers={"s": model}, tools=TOOLS)
    if path is not None:
        chat.keep_in(SqliteConversations(path))
    return chat


def shown_of(model):
    """Return what the model was last shown of each result."""
    return [json.loads(m.content) for m in model.requests[-1].messages if m.role == "tool"]


async def test_a_model_reads_several_results_to_their_end_in_one_turn():
    """Of calls of one tool, of data, and of a failure; none of its calls counts as repeated."""
    model = reader(("read_book", {"name": "A"}), ("read_book", {"name": "B"}), ("rows", {}), ("fail", {}))
    turn = await chat_of(model).respond("Read.")

    data = json.dumps([{"line": line} for line in BOOK.splitlines()], ensure_ascii=False)
    assert json.loads(turn.content) == ["A" + BOOK, "B" + BOOK, data, BOOK]
    assert all(
        len(as_json(told["result"])[1]) <= 2_000 for told in shown_of(model) if told["tool_name"] == "read_result"
    )
    assert [record.tool for record in turn.failed_calls] == ["fail"]


async def test_one_read_twice_too_often_is_repeated_like_any_call():
    """What it says does not change."""

    def ask(messages, options):
        id = next(call.id for each in messages if each.role == "assistant" for call in each.tool_calls)
        return calls(("read_result", {"result": id}))

    model = ScriptedProvider([calls(("read_book", {"name": ""})), ask, ask, ask, says("done")])
    turn = await chat_of(model).respond("Read.")

    assert [record.result.success for record in turn.tool_calls] == [True, True, True, False]


async def test_a_marker_stays_as_it_is_where_the_tool_is_not_offered():
    model = ScriptedProvider([calls(("read_book", {"name": ""})), says("done")])
    await chat_of(model, responses=[{**RULE, "tools": {"allowed_tools": ["read_book"]}}]).respond("Read.")

    (told,) = shown_of(model)
    assert re.search(rf"\n\[… [\d,]+ of {len(BOOK):,} characters left out …\]\n", told["result"])


async def test_another_tool_of_that_name_is_not_praised():
    """One with other parameters, of the user's own."""

    @tool(effect="read")
    def read_result(text: str) -> str:
        """Do something else."""
        return text

    model = ScriptedProvider([calls(("read_book", {"name": ""})), says("done")])
    config = {**CONFIG, "tools": {"max_result_chars": 2_000}}
    chat = FlexChat.from_config(config, providers={"s": model}, tools=[read_book, read_result])
    await chat.respond("Read.")

    assert "left out …]" in shown_of(model)[0]["result"]


async def test_a_result_of_an_earlier_turn_is_read_while_the_history_shows_it(tmp_path):
    """In another process, too; the record keeps all."""
    path = tmp_path / "c.db"
    first = ScriptedProvider([calls(("read_book", {"name": "A"})), says("long")])
    async with chat_of(first, path) as chat:
        await chat.respond("Read.", conversation="c", tenant="t")
    async with chat_of(reader(), path) as chat:
        turn = await chat.respond("And now all of it.", conversation="c", tenant="t")
        third = await chat.respond("Again.", conversation="c", tenant="t")

    assert json.loads(turn.content) == ["A" + BOOK]
    assert json.loads(third.content) == ["A" + BOOK]
    assert len(turn.tool_calls) > 3
    assert third.tool_calls == ()


async def test_a_result_of_a_turn_that_was_cancelled_is_read_in_the_next_one(tmp_path):
    """It had its result, and another call of the same answer had not."""
    begun, read = asyncio.Event(), asyncio.Event()

    class Heard:
        @hookimpl
        def flexchat_tool_finished(self, info, record):
            if record.params == {"name": "B"}:
                read.set()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedProvider([calls(("read_book", {"name": "A"})), calls(("read_book", {"name": "B"}), ("wait", {}))])
    chat = FlexChat.from_config(CONFIG, providers={"s": model}, tools=[read_book, wait], hooks=[Heard()])
    chat.keep_in(SqliteConversations(tmp_path / "c.db"))
    async with chat:
        turn = asyncio.create_task(chat.respond("Read.", conversation="c"))
        await begun.wait()
        await read.wait()
        turn.cancel()
        await asyncio.wait([turn])
    async with chat_of(reader(), tmp_path / "c.db") as chat:
        again = await chat.respond("And now all of it.", conversation="c")

    assert json.loads(again.content) == ["A" + BOOK, "B" + BOOK]


@pytest.mark.parametrize("where", [{"conversation": "d", "tenant": "t"}, {"conversation": "c", "tenant": "u"}, {}])
async def test_nothing_of_another_conversation_or_tenant_is_read(tmp_path, where):
    """Even if the model, and the history that the caller brings, know the id."""
    first = ScriptedProvider([calls(("read_book", {"name": "A"})), says("long")])
    async with chat_of(first, tmp_path / "c.db") as chat:
        one = await chat.respond("Read.", conversation="c", tenant="t")
    async with chat_of(reader(), tmp_path / "c.db") as chat:
        turn = await chat.respond("And now all of it.", history=one.response.messages, **where)
        by_hand = await chat.call_tool("read_result", {"result": one.tool_calls[0].call_id}, tenant="t")

    assert [record.result.error for record in turn.tool_calls] == [
        f"no result '{one.tool_calls[0].call_id}' can be read"
    ]
    assert by_hand.error == turn.tool_calls[0].result.error


async def test_a_turn_whose_process_died_reads_on_when_it_is_resumed(tmp_path):
    """What was read before is not read again."""
    whole = reader(("read_book", {"name": "A"}))
    asked = 0

    async def dies(messages, options):
        nonlocal asked
        asked += 1
        if asked == 4:  # a copy of the database, whose owner is dead
            with closing(sqlite3.connect(tmp_path / "c.db")) as old, closing(sqlite3.connect(tmp_path / "d.db")) as new:
                old.backup(new)
                new.execute("DELETE FROM owners")
                new.commit()
        return await whole.generate_chat(messages, "m", options)

    async with chat_of(ScriptedProvider([dies], repeat=True), tmp_path / "c.db") as chat:
        await chat.respond("Read.", conversation="c")
    model = reader()
    async with chat_of(model, tmp_path / "d.db") as chat:
        (waiting,) = await chat.turns(states=["interrupted"])
        turn = await chat.resume(waiting.id)

    assert json.loads(turn.content) == ["A" + BOOK]
    assert len(model.requests) == asked - 3


async def test_a_turn_that_the_history_leaves_out_is_not_read(tmp_path):
    """Its messages are not shown, because the service refused them."""

    first = ScriptedProvider([calls(("read_book", {"name": "A"})), says("long")])
    async with chat_of(first, tmp_path / "c.db") as chat:
        one = await chat.respond("Read.", conversation="c")
    id = one.tool_calls[0].call_id
    store = SqliteConversations(tmp_path / "d.db")
    await store.append("c", attrs.evolve(conversation_turn(one), replay=False), tenant="default")
    model = ScriptedProvider([calls(("read_result", {"result": id})), says("no")])
    async with chat_of(model, tmp_path / "d.db") as chat:
        turn = await chat.respond("And now all of it.", conversation="c")
    await store.aclose()

    assert turn.tool_calls[0].result.error == f"no result '{id}' can be read"
