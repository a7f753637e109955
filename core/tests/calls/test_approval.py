"""Approval of tool calls by a person: only a yes lets a call run, and it is asked for once."""

import asyncio

import pytest
from flexchat import FlexChat, Reply, ToolContext, ToolDefinition, tool
from flexchat.calls.steps import MAX_APPROVAL_CHARS
from flexchat.plugin import ToolResult, hookimpl
from flexchat_testing import ScriptedProvider, calls, says

YES, NO = Reply(action="accept"), Reply(action="decline")


class Person:
    """Replies to every question with the same reply, and counts."""

    def __init__(self, reply=YES):
        self.reply, self.asked = reply, []

    async def __call__(self, question):
        self.asked.append(question.message)
        return self.reply


class Bank:
    """A tool that counts what it paid."""

    def __init__(self, **options):
        self.paid = []

        @tool(**options)
        async def pay(amount: int, to: str = "Ann") -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.tool = pay


def chat_with(*tools, replies=None, rule=None, hooks=(), **config):
    provider = ScriptedProvider(replies or [calls(("pay", {"amount": 5})), says("Done.")])
    tables = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True, **(rule or {})}}],
        **config,
    }
    return FlexChat.from_config(tables, tools=tools, providers={"bot": provider}, hooks=hooks)


async def pay(bank, person=None, **more):
    chat_options = {name: more.pop(name) for name in ("rule", "hooks", "replies") if name in more}
    async with chat_with(bank.tool, **chat_options) as chat:
        turn = await chat.respond("Pay", on_question=person, **more)
    return turn.tool_calls[0].result


@pytest.mark.parametrize(
    ("options", "rule", "asked"),
    [({"approve": True}, {}, {}), ({}, {"approve": True}, {}), ({}, {}, {"approve": True})],
    ids=["tool", "rule", "request"],
)
async def test_a_yes_lets_the_call_run(options, rule, asked):
    bank, person = Bank(**options), Person()

    result = await pay(bank, person, rule=rule, **asked)

    assert (result.result, result.notes, bank.paid) == ("paid 5", ("approved",), [5])
    assert person.asked == ['Run pay with {"amount": 5}?']


async def test_a_tool_that_needs_no_approval_runs_at_once():
    bank, person = Bank(), Person(NO)

    assert (await pay(bank, person)).success
    assert person.asked == []


@pytest.mark.parametrize(
    ("person", "error", "hint"),
    [
        (None, "nobody approved this call", "nobody can be asked here"),
        (lambda question: None, "nobody approved this call", "nobody can be asked here"),
        (Person(NO), "the user did not approve this call", None),
        (Person(Reply(action="cancel")), "nobody approved this call", "closed without an answer"),
        (lambda question: True, "nobody approved this call", "it is bool, not a Reply"),
        (lambda question: Reply(action="yes"), "nobody approved this call", "its action is 'yes'"),
        (lambda question: 1 / 0, "nobody approved this call", "could not be asked"),
    ],
)
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_everything_but_a_yes_refuses_the_call(person, error, hint, effect):
    bank = Bank(approve=True, effect=effect)

    result = await pay(bank, person)

    assert not result.success
    assert error in result.error
    assert hint is None or hint in result.hint
    assert bank.paid == []


async def test_the_model_reads_that_nobody_approved():
    bank, read = Bank(approve=True), []
    replies = [calls(("pay", {"amount": 5})), lambda messages, options: read.append(messages[-1].content) or says("Oh")]

    await pay(bank, replies=replies)

    assert "nobody approved" in read[0]


@pytest.mark.usefixtures("virtual_time")
async def test_no_reply_in_time_refuses_the_call():
    bank = Bank(approve=True)

    async def never(question):
        await asyncio.Event().wait()

    async with chat_with(bank.tool, limits={"question_timeout_ms": 20}) as chat:
        turn = await chat.respond("Pay", on_question=never)

    assert "no reply within 0.02 s" in turn.tool_calls[0].result.hint
    assert bank.paid == []


async def test_an_entry_of_the_config_decides_about_a_tool(monkeypatch):
    """An entry adds approval to a tool of its own."""
    person = Person(NO)
    entry = {
        "name": "pay",
        "description": "Pay.",
        "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}},
        "implementation": {"type": "mock", "mock_response": "paid"},
        "approve": True,
    }
    async with chat_with(tools={"registry": [entry]}) as chat:
        turn = await chat.respond("Pay", on_question=person)

    assert not turn.tool_calls[0].result.success
    assert len(person.asked) == 1


def test_a_definition_from_a_table_has_it():
    table = {"name": "a", "description": "A.", "parameters": {"type": "object"}, "approve": True}
    made = ToolDefinition.from_dict(table, lambda params: None)

    assert made.approve


@pytest.mark.parametrize("origin", ["program", "api", "command line", "langchain"])
async def test_calls_by_hand_need_it_too(origin):
    bank = Bank(approve=True)
    async with chat_with(bank.tool) as chat:
        refused = await chat.call_tool("pay", {"amount": 1}, origin=origin)
        done = await chat.call_tool("pay", {"amount": 2}, origin=origin, on_question=Person())

    assert (refused.success, done.success, bank.paid) == (False, True, [2])


async def test_a_call_repeated_under_its_key_is_not_asked_about_again():
    """Its result stands, whatever a person would reply now."""
    bank, person = Bank(approve=True), Person()
    async with chat_with(bank.tool) as chat:
        first = await chat.call_tool("pay", {"amount": 1}, idempotency_key="k", on_question=person)
        again = await chat.call_tool("pay", {"amount": 1}, idempotency_key="k", on_question=Person(NO))
        other = await chat.call_tool("pay", {"amount": 2}, idempotency_key="k", on_question=Person(NO))

    assert (first.result, again.result, bank.paid) == ("paid 1", "paid 1", [1])
    assert not other.success


async def test_tools_called_by_tools_are_asked_about():
    bank, person = Bank(), Person()

    @tool
    async def settle(context: ToolContext) -> object:
        """Pay everything."""
        return (await context.call_tool("pay", {"amount": 3})).result

    async with chat_with(bank.tool, settle, replies=[calls(("settle", {})), says("Done.")]) as chat:
        await chat.respond("Pay", on_question=person, approve=True)

    assert person.asked == ["Run settle without arguments?", 'Run pay with {"amount": 3}?']


@pytest.mark.usefixtures("virtual_time")
async def test_turns_started_by_tools_ask_the_same_person_and_every_clock_pauses():
    bank = Bank(timeout_ms=100)
    asked = []

    async def slow(question):
        asked.append(question.tool)
        if question.tool == "pay":
            await asyncio.sleep(0.3)
        return YES

    @tool(timeout_ms=100)
    async def delegate() -> str:
        """Have another model pay."""
        return (await inner.respond("Pay")).content

    inner = chat_with(bank.tool, limits={"turn_timeout_ms": 200})
    outer = chat_with(delegate, replies=[calls(("delegate", {})), says("Done.")], limits={"turn_timeout_ms": 200})
    async with inner, outer:
        turn = await outer.respond("Pay", on_question=slow, approve=True)

    assert turn.tool_calls[0].result.result == "Done."
    assert (asked, bank.paid) == (["delegate", "pay"], [5])


@pytest.mark.usefixtures("virtual_time")
async def test_time_stands_still_while_a_person_decides():
    bank = Bank(approve=True, timeout_ms=100)

    async def slow(question):
        await asyncio.sleep(0.3)
        return YES

    async with chat_with(bank.tool, limits={"turn_timeout_ms": 200}) as chat:
        turn = await chat.respond("Pay", on_question=slow)

    assert turn.tool_calls[0].result.success


async def test_the_question_shows_what_is_approved():
    """Invisible characters are escaped, secrets masked, and what is left out is counted."""
    asked = Person(NO)

    @tool(approve=True)
    async def send(text: str) -> None:
        """Send."""

    async with chat_with(send) as chat:
        await chat.call_tool("send", {"text": "pay\u202e 5\n"}, on_question=asked)
        await chat.call_tool("send", {"text": "word " * 4_000}, on_question=asked)

    assert asked.asked[0] == 'Run send with {"text": "pay\\u202e 5\\n"}?'
    assert asked.asked[1].endswith(f"… and {20_000 + 12 - MAX_APPROVAL_CHARS:,} more characters?")


@pytest.mark.parametrize("stage", ["authorize", "approve", "reserve"])
@pytest.mark.usefixtures("virtual_time")
async def test_steps_ask(stage):
    bank = Bank(timeout_ms=100)

    class Gate:
        name = "gate"

        async def __call__(self, call, rest):
            reply = await call.ask(f"{call.name}?", {"type": "object", "properties": {"pin": {"type": "string"}}})
            if reply.action != "accept":
                return ToolResult.failed(call.name, reply.why)
            call.note(f"pin {reply.content['pin']}")
            return await rest()

        @hookimpl
        def flexchat_register_steps(self):
            yield self

    gate = Gate()
    gate.stage = stage

    result = await pay(bank, Person(Reply(action="accept", content={"pin": "7"})), hooks=[gate])
    refused = await pay(bank, hooks=[gate])

    assert (result.success, result.notes) == (True, ("pin 7",))
    assert refused.error == "nobody can be asked here"
    assert bank.paid == [5]


async def test_the_gate_hook_asks():
    bank, person = Bank(), Person(NO)

    class Gate:
        @hookimpl
        async def flexchat_before_tool_call(self, tool, call):
            reply = await call.ask("Really?")
            return None if reply.action == "accept" else ToolResult.failed(tool.name, "no")

    result = await pay(bank, person, hooks=[Gate()])

    assert (result.error, person.asked, bank.paid) == ("no", ["Really?"], [])


async def test_calls_of_one_answer_are_asked_about_one_by_one():
    bank = Bank(approve=True)

    def only_small(question):
        return YES if "1" in question.message else NO

    replies = [calls(("pay", {"amount": 1}), ("pay", {"amount": 2})), says("Done.")]
    async with chat_with(bank.tool, replies=replies) as chat:
        turn = await chat.respond("Pay", on_question=only_small)

    assert [call.result.success for call in turn.tool_calls] == [True, False]
    assert bank.paid == [1]


def test_a_request_says_it_with_true_or_false():
    from flexchat import ChatRequestError, SyncFlexChat

    with (
        SyncFlexChat.from_model("rehearsal/any") as chat,
        pytest.raises(ChatRequestError, match="approve must be True or False"),
    ):
        chat.respond("Pay", approve="yes")
