"""What gates may change: nothing that was checked, and no conversation into one that services refuse."""

import copy
import json
import pickle

import attrs
import pytest
from flexchat import FlexChat, RequestRefusedError, SystemMessage, ToolMessage, tool
from flexchat.domain.copies import copied, read_only
from flexchat.plugin import hookimpl
from flexchat_testing import ScriptedProvider, calls, says


def chat_with(hook, *answers, tools=()):
    return FlexChat.from_config(
        {
            "llms": {"main": {"provider": "scripted"}},
            "responses": [{"llm": "main", "model": "m", "prompt": "Be brief.", "tools": {"enabled": bool(tools)}}],
        },
        providers={"main": ScriptedProvider(answers)},
        tools=tools,
        hooks=[hook],
    )


def paying(paid):
    @tool
    def pay(amount: int, to: list[str]) -> str:
        """Pay an amount."""
        to.append("the record stays as it was")  # a tool's own copy
        paid.append(amount)
        return "paid"

    return pay


def gate(change):
    class Gate:
        @hookimpl
        def flexchat_before_tool_call(self, params, call):
            change(params, call)

    return Gate()


CHANGES = {
    "a value": lambda params, call: params.__setitem__("amount", 999),
    "a list inside": lambda params, call: params["to"].append("me"),
    "by update": lambda params, call: params.update(amount=999),
    "by |=": lambda params, call: params.__ior__({"amount": 999}),
    "the call's": lambda params, call: call.arguments.__setitem__("amount", 999),
    "all at once": lambda params, call: setattr(call, "arguments", {"amount": 999, "to": []}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_gate_cannot_change_checked_arguments(change):
    paid = []
    answers = calls(("pay", {"amount": 10, "to": ["Ada"]})), says("Done.")
    async with chat_with(gate(change), *answers, tools=[paying(paid)]) as chat:
        turn = await chat.respond("Pay 10.")

    assert paid == []
    assert not turn.tool_calls[0].result.success


async def test_a_gate_reads_arguments_as_plain_data():
    paid, seen = [], []
    change = gate(lambda params, call: seen.append((json.dumps(params), copy.deepcopy(params), params["to"][0])))
    answers = calls(("pay", {"amount": 10, "to": ["Ada"]})), says("Done.")
    async with chat_with(change, *answers, tools=[paying(paid)]) as chat:
        turn = await chat.respond("Pay 10.")

    given = {"amount": 10, "to": ["Ada"]}
    assert (paid, seen) == ([10], [(json.dumps(given), given, "Ada")])
    assert turn.tool_calls[0].params == given


def test_copies_of_read_only_data_can_be_changed():
    data = read_only({"a": [1, {"b": 2}]})
    for own in (copied(data), copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        own["a"][1]["b"] = 3
        assert own == {"a": [1, {"b": 3}]}
    assert data == {"a": [1, {"b": 2}]}


def request_gate(messages_of):
    class Gate:
        @hookimpl
        def flexchat_before_model_request(self, request):
            return attrs.evolve(request, messages=messages_of(request.messages))

    return Gate()


REFUSED = {
    "nothing": lambda messages: (),
    "another prompt alone": lambda messages: (SystemMessage(content="Be kind."),),
    "a result without its call": lambda messages: (ToolMessage(tool_call_id="x", name="pay", content="1"),),
}


@pytest.mark.parametrize("messages_of", REFUSED.values(), ids=REFUSED)
async def test_messages_that_services_refuse_are_not_sent(messages_of):
    async with chat_with(request_gate(messages_of), says("Sent.")) as chat:
        with pytest.raises(RequestRefusedError, match="without a message of the user"):
            await chat.respond("Hello.")


@pytest.mark.parametrize("system", ["", " ", None])
async def test_a_request_without_its_prompt_is_not_sent(system):
    class Gate:
        @hookimpl
        def flexchat_before_model_request(self, request):
            return attrs.evolve(request, system=system)

    async with chat_with(Gate(), says("Sent.")) as chat:
        with pytest.raises(RequestRefusedError, match="system prompt"):
            await chat.respond("Hello.")


@pytest.mark.parametrize("count", [1, 2])
async def test_a_slice_between_calls_that_loses_the_users_message_is_refused(count):
    """The last message alone is a result whose call is gone, the last two answer no question."""
    paid = []
    trim = request_gate(lambda messages: messages[-count:] if len(messages) > 2 else messages)
    answers = calls(("pay", {"amount": 10, "to": []})), says("Done.")
    async with chat_with(trim, *answers, tools=[paying(paid)]) as chat:
        with pytest.raises(RequestRefusedError, match="without a message of the user"):
            await chat.respond("Pay 10.")


async def test_a_slice_is_repaired_with_a_warning_and_keeps_the_prompt():
    """What a hook cuts in the middle of an exchange goes out in pairs, below the system prompt."""
    history = [
        {"role": "user", "content": "A"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "pay", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "assistant", "content": "B"},
    ]
    async with chat_with(request_gate(lambda messages: messages[-3:]), says("Done.")) as chat:
        turn = await chat.respond("Hello.", history=history)
        (request,) = chat.llms["main"].provider.requests

    assert [message.role for message in request.messages] == ["system", "user"]
    assert turn.response.warnings == (
        "plugin Gate: a result of pay belongs to no call; it was left out",
        "plugin Gate: it began with an answer, which was left out",
    )


async def test_other_texts_and_fewer_whole_exchanges_are_sent():
    hide = request_gate(lambda messages: (SystemMessage(content="Be kind."), *messages[-1:]))
    async with chat_with(hide, says("Hello.")) as chat:
        turn = await chat.respond(
            "Hi.", history=[{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]
        )

    assert turn.content == "Hello."
