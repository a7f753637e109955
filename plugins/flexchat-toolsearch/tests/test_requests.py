"""A model finds tools: what its requests contain, turn after turn, and what runs."""

import json

import pytest
from flexchat import ConfigError, FlexChat, Principal, tool
from flexchat.domain.codec import value_to_dict
from flexchat.plugin import hookimpl
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
    """The request is the one that it was without the package."""
    chat, provider = chat_of(says("Hi."), search=search)
    async with chat:
        await chat.respond("Hi!")
    assert sent(provider) == [[*ORDERS]]


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
