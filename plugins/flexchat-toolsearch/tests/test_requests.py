"""A model finds tools: what its requests contain, turn after turn, and what runs."""

import json
import sqlite3
from contextlib import closing

import pytest
from flexchat import ConfigError, FlexChat, Principal, tool
from flexchat.domain.codec import value_to_dict
from flexchat.plugin import hookimpl
from flexchat.tools.registry import ToolRegistry
from flexchat_testing import ScriptedProvider, calls, says

RAN = []


def tools_of(*names):
    def one(name):
        def run(a: int = 0) -> str:
            RAN.append(name)
            return name

        run.__name__, run.__doc__ = name, f"Work with {name.replace('_', ' ')}."
        return tool(run)

    return [one(name) for name in names]


ORDERS = ("cancel_order", "ship_order", "refund_payment", "track_parcel")


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


def chat_of(*replies, tools=ORDERS, search=None, folder=None, hooks=(), **rule):
    provider = ScriptedProvider(replies)
    kept = {} if folder is None else {"conversations": {"path": str(folder / "chat.db")}}
    tables = {
        "llms": {"robot": {"provider": "scripted"}},
        "responses": [{"llm": "robot", "model": "r1", "tools": {"enabled": True, **rule}}],
        "tools": {} if search is None else {"search": search},
        **kept,
    }
    return FlexChat.from_config(tables, tools=tools_of(*tools), providers={"robot": provider}, hooks=hooks), provider


def sent(provider):
    return [[each["function"]["name"] for each in request.options.tools or ()] for request in provider.requests]


def find(query):
    return calls(("find_tools", {"query": query}))


async def test_a_model_searches_and_calls_what_it_found():
    chat, provider = chat_of(find("refund"), calls(("refund_payment", {"a": 1})), says("Done."), search={"above": 2})
    async with chat:
        turn = await chat.respond("Give me my money back.")
    assert sent(provider) == [["find_tools"], ["find_tools", "refund_payment"], ["find_tools", "refund_payment"]]
    assert (turn.content, RAN) == ("Done.", ["refund_payment"])
    assert turn.tool_calls[0].result.result["tools"][0]["name"] == "refund_payment"


async def test_found_tools_are_in_later_turns_of_a_kept_conversation(tmp_path):
    chat, provider = chat_of(find("refund"), says("Found."), says("Hello."), search={"above": 2}, folder=tmp_path)
    async with chat:
        await chat.respond("Refund!", conversation="c")
        await chat.respond("Hello!", conversation="c")
    assert sent(provider)[-1] == ["find_tools", "refund_payment"]


async def test_a_resumed_turn_sends_what_it_would_have_sent(tmp_path):
    """Its process died while the last answer was awaited: a copy of the database of that moment, without owner."""

    def die(messages, options):
        with closing(sqlite3.connect(tmp_path / "chat.db")) as old, closing(sqlite3.connect(copy / "chat.db")) as new:
            old.backup(new)
            new.execute("DELETE FROM owners")
            new.commit()
        return says("Refunded.")

    (copy := tmp_path / "copy").mkdir()
    replies = find("refund"), calls(("refund_payment", {"a": 1}))
    chat, before = chat_of(*replies, die, search={"above": 2}, folder=tmp_path)
    async with chat:
        await chat.respond("Refund!", conversation="c")
    chat, after = chat_of(says("Refunded."), search={"above": 2}, folder=copy)
    async with chat:
        (waiting,) = await chat.turns(states=["interrupted"])
        turn = await chat.resume(waiting.id)
    assert turn.content == "Refunded."
    assert RAN == ["refund_payment"]
    assert sent(after) == sent(before)[-1:] == [["find_tools", "refund_payment"]]
    with closing(sqlite3.connect(copy / "chat.db")) as database:
        steps = [
            json.loads(data) for (data,) in database.execute("SELECT data FROM journal_entries WHERE kind = 'request'")
        ]
    assert [step["found"] for step in steps] == [[], ["refund_payment"], ["refund_payment"], ["refund_payment"]]


async def test_the_first_request_of_thousands_of_tools_is_small():
    chat, provider = chat_of(says("Hi."), tools=[f"tool_{number}" for number in range(3000)], search={})
    async with chat:
        await chat.respond("Hi!")
    assert len(json.dumps(provider.requests[0].options.tools)) < 2_000


async def test_found_tools_are_in_later_turns_of_a_history_kept_by_the_caller():
    chat, provider = chat_of(find("refund"), says("Found."), says("Hello."), search={"above": 2})
    async with chat:
        first = await chat.respond("Refund!")
        history = json.loads(json.dumps([value_to_dict(each) for each in first.response.messages]))
        await chat.respond("Hello!", history=history)
    assert sent(provider)[-1] == ["find_tools", "refund_payment"]


async def test_a_call_without_its_schema_does_not_run_but_gets_it():
    chat, provider = chat_of(
        calls(("ship_order", {"a": "?"})), calls(("ship_order", {"a": 1})), says("Shipped."), search={"above": 2}
    )
    async with chat:
        turn = await chat.respond("Ship it!")
    first, second = turn.tool_calls
    assert not first.result.success
    assert '"properties": {"a"' in first.result.error
    assert (second.result.success, RAN) == (True, ["ship_order"])
    assert sent(provider)[1] == ["find_tools", "ship_order"]


async def test_the_error_of_an_unknown_tool_names_no_deferred_ones():
    unknown = calls(("refund_paymnt", {}))
    chat, _ = chat_of(find("parcel"), unknown, says("Sorry."), search={"above": 2, "hits": 1}, show=["cancel_order"])
    async with chat:
        turn = await chat.respond("Refund!")
    hint = turn.tool_calls[1].result.hint
    assert hint == "available tools: cancel_order, track_parcel, find_tools; find_tools finds others"


async def test_a_call_without_its_schema_of_a_tool_that_may_not_be_used_gets_no_schema():
    chat, _ = chat_of(calls(("refund_payment", {})), says("No."), search={"above": 2}, hooks=[NoRefunds()])
    async with chat:
        turn = await chat.respond("Refund!", principal=Principal("anna", []))
    assert turn.tool_calls[0].result.explained() == "Not permitted: only the boss refunds"


async def test_the_same_call_may_be_made_as_often_as_one_whose_schema_was_known():
    call = calls(("ship_order", {"a": 1}))
    chat, _ = chat_of(call, call, call, says("Shipped."), search={"above": 2})
    async with chat:
        await chat.respond("Ship it!")
    assert RAN == ["ship_order", "ship_order"]


async def test_a_rule_shows_some_tools_without_any_table():
    chat, provider = chat_of(says("Hi."), show=["*_order"])
    async with chat:
        await chat.respond("Hi!")
    assert sent(provider) == [["cancel_order", "ship_order", "find_tools"]]


@pytest.mark.parametrize("search", [None, {"above": 4}])
async def test_up_to_the_limit_nothing_is_deferred(search):
    """The request has the tools as they are encoded without the package, and no others."""
    chat, provider = chat_of(says("Hi."), search=search)
    async with chat:
        await chat.respond("Hi!")
    assert sent(provider) == [[*ORDERS]]
    plain = ToolRegistry({"openai": chat.tools.get_registry()._formats[provider.tool_format("r1")]})
    for each in tools_of(*ORDERS):
        plain.register(each.definition)
    assert json.dumps(provider.requests[0].options.tools) == json.dumps(plain.wire_tools("openai", ORDERS))


async def test_the_prefix_of_the_tools_stays_while_more_are_found():
    chat, provider = chat_of(find("parcel"), find("refund"), says("Hi."), search={"above": 2, "hits": 1})
    async with chat:
        await chat.respond("Hi!")
    wire = [request.options.tools for request in provider.requests]
    assert wire[1][: len(wire[0])] == wire[0]
    assert wire[2][: len(wire[1])] == wire[1]


async def test_requests_have_no_more_than_max_found():
    chat, provider = chat_of(
        *map(find, ORDERS), says("Hi."), search={"above": 2, "hits": 1, "max_found": 2}, max_iterations=9
    )
    async with chat:
        await chat.respond("Hi!")
    assert sent(provider)[-1] == ["find_tools", *ORDERS[-2:]]


class NoRefunds:
    """Nobody but the boss may refund payments."""

    @hookimpl
    def flexchat_refusal(self, info, subject):
        is_boss = info.principal is not None and info.principal.name == "boss"
        return None if is_boss or getattr(subject, "name", "") != "refund_payment" else "only the boss refunds"


@pytest.mark.parametrize(("who", "names"), [("boss", ["refund_payment"]), ("anna", [])])
async def test_a_search_finds_only_what_the_principal_may_use(who, names):
    chat, provider = chat_of(
        find("refund_payment"), calls(("refund_payment", {})), says("Hi."), search={"above": 2}, hooks=[NoRefunds()]
    )
    async with chat:
        turn = await chat.respond("Refund!", principal=Principal(who, []))
    assert [each["name"] for each in turn.tool_calls[0].result.result["tools"]][:1] == names
    assert "refund_payment" in str(sent(provider)) or not names
    assert names == RAN
    if not names:
        assert "only the boss refunds" in turn.tool_calls[1].result.error


async def test_a_tool_of_the_caller_is_always_in_the_request():
    chat, provider = chat_of(says("Hi."), search={"above": 2})
    look = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}
    async with chat:
        await chat.respond("Hi!", caller_tools=[look])
    assert sent(provider) == [["look", "find_tools"]] or sent(provider) == [["find_tools", "look"]]


async def test_outside_of_turns_a_search_finds_nothing():
    chat, _ = chat_of(search={"above": 2})
    async with chat:
        result = await chat.call_tool("find_tools", {"query": "refund"})
        assert result.result["tools"] == []
        assert "find_tools" not in chat.tools.get_registry().names()


@pytest.mark.parametrize(
    ("search", "rule", "problem"),
    [
        ({"above": 2, "hits": 5, "max_found": 3}, {}, "max_found must be at least hits (5)"),
        ({"abov": 2}, {}, "did you mean 'above'"),
        (None, {"show": ["ship_ordr"]}, "no tool is called 'ship_ordr' (did you mean 'ship_order'"),
    ],
)
def test_a_wrong_table_is_refused(search, rule, problem):
    with pytest.raises(ConfigError) as error:
        chat_of(search=search, **rule)
    assert problem in str(error.value)


@pytest.mark.parametrize(("search", "rule"), [({}, {}), (None, {"show": ["ship_order"]})])
def test_without_the_package_the_error_names_it(search, rule):
    """Nothing would find what is deferred."""
    tables = {
        "llms": {"robot": {"provider": "scripted"}},
        "responses": [{"llm": "robot", "model": "r1", "tools": rule}],
        "tools": {} if search is None else {"search": search},
        "plugins": {"block": ["toolsearch"]},
    }
    with pytest.raises(ConfigError) as error:
        FlexChat.from_config(tables, tools=tools_of(*ORDERS), providers={"robot": ScriptedProvider([])})
    (problem,) = error.value.problems
    assert problem.path == ("tools.search" if rule == {} else "responses[0].tools.show")
    assert "find_tools" in problem.text
    assert "toolsearch" in problem.text


async def test_found_tools_stay_when_the_history_is_shortened(tmp_path):
    """The messages that loaded them are not sent any more, but they are still part of the conversation."""
    provider = ScriptedProvider([find("refund"), says("Found."), *[says("Hello.")] * 3])
    tables = {
        "llms": {"robot": {"provider": "scripted"}},
        "responses": [{"llm": "robot", "model": "r1", "tools": {}}],
        "tools": {"search": {"above": 2}},
        "history": {"keep_last": 1, "max_tokens": 100_000},
        "conversations": {"path": str(tmp_path / "chat.db")},
    }
    async with FlexChat.from_config(tables, tools=tools_of(*ORDERS), providers={"robot": provider}) as chat:
        for message in ("Refund!", "One", "Two", "Three"):
            await chat.respond(message, conversation="c")
    assert "Refund!" not in str(provider.requests[-1].messages)
    assert sent(provider)[-1] == ["find_tools", "refund_payment"]
