"""Questions of tools to the person behind a turn."""

import asyncio
import functools
import json

import pytest
from flexchat import (
    ChatRequestError,
    FlexChat,
    Question,
    QuestionAnswered,
    QuestionAsked,
    Reply,
    SyncFlexChat,
    ToolContext,
    tool,
)
from flexchat.turn.questions import MAX_QUESTIONS, reply_problem
from flexchat_testing import ScriptedProvider, calls, says
from hypothesis import given
from hypothesis import strategies as st

SEATS = {
    "type": "object",
    "properties": {"seat": {"type": "string", "enum": ["window", "aisle"]}, "bags": {"type": "integer", "minimum": 0}},
    "required": ["seat"],
}


def config(**limits):
    return {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
        "limits": limits,
    }


def chat_with(*tools, replies=None, hooks=(), **limits):
    provider = ScriptedProvider(replies or [calls(("book", {})), says("Done.")])
    return FlexChat.from_config(config(**limits), tools=tools, providers={"bot": provider}, hooks=hooks)


def a_tool(schema=SEATS, effect="read", **more):
    """Return a tool that asks once and returns the reply."""

    @tool(name="book", effect=effect, **more)
    async def book(context: ToolContext) -> dict[str, object]:
        """Book a seat."""
        reply = await context.ask("Which seat?", schema)
        return {"action": reply.action, "content": dict(reply.content), "why": reply.why}

    return book


def answer(content):
    return lambda question: Reply(action="accept", content=content)


def result_of(turn):
    return turn.tool_calls[0].result.result


async def test_a_person_answers_and_the_turn_goes_on():
    asked = []

    async def on_question(question):
        asked.append(question)
        return Reply(action="accept", content={"seat": "aisle"})

    async with chat_with(a_tool()) as chat:
        turn = await chat.respond("Book it", on_question=on_question)

    assert result_of(turn) == {"action": "accept", "content": {"seat": "aisle"}, "why": ""}
    assert [(one.message, one.schema, one.tool) for one in asked] == [("Which seat?", SEATS, "book")]
    assert asked[0].call_id == turn.tool_calls[0].call_id


@pytest.mark.parametrize(
    ("on_question", "action", "why"),
    [
        (None, "decline", "nobody can be asked here"),
        (lambda question: None, "decline", "nobody can be asked here"),
        (lambda question: Reply(action="decline"), "decline", ""),
        (lambda question: Reply(action="cancel", why="gone home"), "cancel", "gone home"),
        (answer({}), "cancel", "the reply could not be used: missing 'seat'"),
        (answer({"seat": "roof"}), "cancel", "the reply could not be used: seat must be one of"),
        (answer({"seat": "aisle", "bags": -1}), "cancel", "the reply could not be used: bags must be at least 0"),
        (answer([1]), "cancel", "its content is list, not a dict"),
        (lambda question: {"seat": "aisle"}, "cancel", "it is dict, not a Reply"),
        (lambda question: Reply(action="yes"), "cancel", "its action is 'yes'"),
        (lambda question: 1 / 0, "cancel", "it could not be asked"),
        (lambda question: (_ for _ in ()).throw(TimeoutError), "cancel", "it could not be asked"),
    ],
)
async def test_without_an_answer_the_tool_reads_why(on_question, action, why):
    async with chat_with(a_tool()) as chat:
        turn = await chat.respond("Book it", on_question=on_question)

    found = result_of(turn)
    assert found["action"] == action
    assert why in found["why"]
    assert found["content"] == {}
    assert turn.status == "done"


async def test_a_decline_brings_no_content():
    async with chat_with(a_tool()) as chat:
        reply = Reply(action="decline", content={"seat": "aisle"})
        turn = await chat.respond("Book it", on_question=lambda question: reply)

    assert result_of(turn)["content"] == {}


@pytest.mark.parametrize("schema", [{"type": 7}, {"$ref": "#/nowhere"}, {"type": "object", "properties": 1}])
async def test_a_question_with_an_unusable_schema_is_not_asked(schema):
    """No reply could be checked against it, and an unchecked reply must not count as an agreement."""
    asked = []

    async with chat_with(a_tool(schema)) as chat:
        turn = await chat.respond("Book it", on_question=asked.append)

    assert result_of(turn)["action"] == "cancel"
    assert "its schema cannot be used" in result_of(turn)["why"]
    assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ([1] * 60_000 + ["x"], "it holds too many values to be checked in time"),
        (functools.reduce(lambda inner, _: [inner], range(100_000), []), "values nested too deeply to be checked"),
        ([1e308 * 10, 10**5_000], "reply could not be used"),
    ],
)
async def test_a_reply_that_cannot_be_checked_is_refused(content, why):
    node = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/node"}}, {"type": "integer", "multipleOf": 0.5}]}
    schema = {"type": "object", "properties": {"list": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    async with chat_with(a_tool(schema)) as chat:
        turn = await chat.respond("Book it", on_question=answer({"list": content}))

    assert result_of(turn)["action"] == "cancel"
    assert why in result_of(turn)["why"]


@pytest.mark.usefixtures("virtual_time")
async def test_time_stands_still_while_a_person_thinks():
    """Neither the tool's limit nor the turn's runs out, though the person takes longer than both."""

    async def slow(question):
        await asyncio.sleep(0.3)
        return Reply(action="accept", content={"seat": "aisle"})

    async with chat_with(a_tool(timeout_ms=150), turn_timeout_ms=200) as chat:
        turn = await chat.respond("Book it", on_question=slow)

    assert result_of(turn)["action"] == "accept"


@pytest.mark.usefixtures("virtual_time")
async def test_after_the_reply_time_runs_again():
    @tool(name="book", effect="read", timeout_ms=50)
    async def book(context: ToolContext) -> str:
        """Book a seat."""
        await context.ask("Which seat?")
        await asyncio.Event().wait()
        return "never"

    async with chat_with(book) as chat:
        turn = await chat.respond("Book it", on_question=answer({}))

    assert "timed out after 50ms" in turn.tool_calls[0].result.error


@pytest.mark.usefixtures("virtual_time")
async def test_two_questions_at_once_each_stop_the_time():
    first = asyncio.Event()

    @tool(name="book", effect="read", timeout_ms=100)
    async def book(context: ToolContext) -> list[str]:
        """Book a seat."""
        replies = await asyncio.gather(context.ask("one"), context.ask("two"))
        return [reply.action for reply in replies]

    async def on_question(question):
        if question.message == "one":
            first.set()
            return Reply(action="accept")
        await first.wait()
        await asyncio.sleep(0.2)
        return Reply(action="decline")

    async with chat_with(book, turn_timeout_ms=150) as chat:
        turn = await chat.respond("Book it", on_question=on_question)

    assert result_of(turn) == ["accept", "decline"]


@pytest.mark.usefixtures("virtual_time")
async def test_a_person_who_does_not_come_back_is_waited_for_within_limits():
    left = []

    async def on_question(question):
        try:
            await asyncio.Event().wait()
        finally:
            left.append(question.message)

    async with chat_with(a_tool(), question_timeout_ms=20) as chat:
        turn = await chat.respond("Book it", on_question=on_question)

    assert result_of(turn)["why"] == "there was no reply within 0.02 s"
    assert left == ["Which seat?"]


async def test_a_call_asks_a_bounded_number_of_questions():
    asked = []

    @tool(name="book", effect="read")
    async def book(context: ToolContext) -> str:
        """Book a seat."""
        for _ in range(1_000):
            reply = await context.ask("Sure?")
        return reply.why

    async with chat_with(book) as chat:
        turn = await chat.respond("Book it", on_question=lambda q: asked.append(q) or Reply(action="accept"))

    assert len(asked) == MAX_QUESTIONS
    assert result_of(turn) == f"one call may ask {MAX_QUESTIONS} questions"


async def test_the_reader_and_the_plugins_see_question_and_reply():
    told = []

    class Plugin:
        from flexchat.plugin import hookimpl

        @hookimpl
        def flexchat_question_asked(self, question: Question) -> None:
            told.append(question.message)

        @hookimpl
        async def flexchat_question_answered(self, question: Question, reply: Reply) -> None:
            told.append(reply.action)

    async with chat_with(a_tool(), hooks=[Plugin()]) as chat:
        events = [event async for event in chat.stream("Book it", on_question=answer({"seat": "window"}))]

    seen = [event for event in events if isinstance(event, QuestionAsked | QuestionAnswered)]
    assert [type(event).__name__ for event in seen] == ["QuestionAsked", "QuestionAnswered"]
    assert seen[1].question is seen[0].question
    assert seen[1].reply.content == {"seat": "window"}
    assert told == ["Which seat?", "accept"]


async def test_a_turn_that_is_stopped_asks_no_more():
    """The one who asks is cancelled, and the question has an end for those who watch."""
    waiting, told = asyncio.Event(), []

    async def on_question(question):
        waiting.set()
        await asyncio.Event().wait()

    async with chat_with(a_tool()) as chat:
        handle = chat.start("Book it", on_question=on_question)
        await waiting.wait()
        handle.cancel()
        await handle.last()
        async for _, event in handle.events():
            told.append(event)

    replies = [event.reply for event in told if isinstance(event, QuestionAnswered)]
    assert [(reply.action, reply.why) for reply in replies] == [("cancel", "the turn ended before there was a reply")]


async def test_a_call_by_hand_asks_too():
    async with chat_with(a_tool()) as chat:
        asked = await chat.call_tool("book", {}, on_question=answer({"seat": "aisle"}))
        nobody = await chat.call_tool("book", {})

    assert asked.result["content"] == {"seat": "aisle"}
    assert nobody.result["why"] == "nobody can be asked here"


@pytest.mark.usefixtures("virtual_time")
async def test_a_tool_called_by_a_tool_asks_the_same_person():
    """And stops the time of the tool around it."""

    @tool(name="travel", effect="read", timeout_ms=100)
    async def travel(context: ToolContext) -> object:
        """Book everything."""
        return (await context.call_tool("book", {})).result

    async def on_question(question):
        await asyncio.sleep(0.2)
        return Reply(action="accept", content={"seat": "aisle"})

    async with chat_with(a_tool(), travel, replies=[calls(("travel", {})), says("Done.")]) as chat:
        turn = await chat.respond("Book it", on_question=on_question)

    assert result_of(turn)["content"] == {"seat": "aisle"}


def test_a_plain_function_answers_in_programs_without_async():
    provider = ScriptedProvider([calls(("book", {})), says("Done.")])
    with SyncFlexChat.from_config(config(), tools=[a_tool()], providers={"bot": provider}) as chat:
        turn = chat.respond("Book it", on_question=answer({"seat": "window"}))

    assert result_of(turn)["content"] == {"seat": "window"}


async def test_what_is_no_function_is_refused():
    async with chat_with(a_tool()) as chat:
        with pytest.raises(ChatRequestError, match="on_question is a function, not str"):
            await chat.respond("Book it", on_question="me")


async def test_a_kept_turn_records_question_and_reply(tmp_path):
    provider = ScriptedProvider([calls(("book", {})), says("Done.")])
    kept = {**config(), "conversations": {"path": str(tmp_path / "c.db")}}
    async with FlexChat.from_config(kept, tools=[a_tool()], providers={"bot": provider}) as chat:
        turn = await chat.respond("Book it", conversation="c1", on_question=answer({"seat": "aisle"}))
        _, steps = await chat.turn(turn.id)

    found = {step.kind: step.data for step in steps if step.kind in ("question", "reply")}
    assert found["question"]["question"]["message"] == "Which seat?"
    assert found["reply"]["reply"]["content"] == {"seat": "aisle"}
    assert found["reply"]["id"] == found["question"]["question"]["id"]
    kinds = [step.kind for step in steps]
    assert kinds.index("answer") < kinds.index("question") < kinds.index("reply") < kinds.index("tool")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply(action="accept", remember="always"), ""),
        (Reply(action="decline", remember="always"), "only a yes can be remembered"),
        (Reply(action="accept", remember="ever"), "it cannot be remembered for 'ever' (scopes: always)"),
        (
            Reply(action="accept", content={"arguments": {}}, remember="always"),
            "other arguments are asked about again, and cannot be remembered before that",
        ),
    ],
)
def test_a_yes_to_what_was_shown_can_be_remembered(reply, problem):
    assert reply_problem(Question(message="?", digest="d", remember={"always": "k"}), reply) == problem


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_content_is_judged(content):
    """Whatever a caller returns: a sentence, or nothing, and never an error."""
    wrong = reply_problem(Question(message="?", schema=SEATS), Reply(action="accept", content=content))

    assert isinstance(wrong, str)
    if not wrong:
        assert content["seat"] in ("window", "aisle")
        json.dumps(content)
