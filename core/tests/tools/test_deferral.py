"""Which deferred tools a request has follows from the messages before it alone."""

import pytest
from flexchat.domain import AssistantMessage, Implementation, ToolCall, ToolDefinition, ToolMessage, UserMessage
from flexchat.domain.codec import value_from_dict, value_to_dict
from flexchat.domain.history import read_history
from flexchat.errors import ToolClashError
from flexchat.tools.deferral import FoundTools
from flexchat.tools.registry import ToolRegistry
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

BY_MOCK = Implementation(type="mock")


def definition(name, **more):
    more = {"description": "A tool.", "parameters": {"type": "object"}, "implementation": BY_MOCK} | more
    return ToolDefinition(name=name, **more)


FINDER = definition("find_tools", pinned=True)


def offer_of(*tools, shown=()):
    registry = ToolRegistry()
    for each in tools:
        registry.register(each if isinstance(each, ToolDefinition) else definition(each))
    return registry.offer().deferring(FINDER, shown)


def loads(*names):
    return ToolMessage(tool_call_id="x", name="find_tools", content="[]", loads=names)


def called(*names):
    return AssistantMessage(parts=tuple(ToolCall(id=name, name=name, arguments={}) for name in names))


@pytest.mark.parametrize(
    ("shown", "in_request"),
    [((), ("find_tools",)), (("b",), ("b", "find_tools")), (("*",), ("a", "b", "c", "find_tools"))],
)
def test_what_is_shown_stays_in_its_order_and_the_finder_is_last(shown, in_request):
    assert offer_of("a", "b", "c", shown=shown).initial_names() == in_request


def test_a_pattern_may_name_the_tools_of_a_source():
    tools = [definition("tickets_find", source="tickets"), definition("tickets_close", source="tickets")]
    assert offer_of(*tools, shown=("tickets/*find",)).deferred == {"tickets_close"}
    assert offer_of(*tools, shown=("tickets/*",)).deferred == set()


def test_a_pinned_tool_is_never_deferred():
    assert offer_of("a", definition("read_result", pinned=True)).initial_names() == ("read_result", "find_tools")


def test_two_tools_called_find_tools_are_refused():
    with pytest.raises(ToolClashError):
        offer_of("a", definition("find_tools", implementation=Implementation(type="python")))


def test_the_tool_that_was_not_used_for_longest_is_left_out_again():
    found = FoundTools(offer_of(*"abcd"), max_found=2)
    messages = [UserMessage(content="?"), called("find_tools"), loads("a", "b")]
    assert found.after(messages) == ("a", "b")
    messages += [called("a"), loads(), called("find_tools"), loads("c")]
    assert found.in_request(messages) == ("find_tools", "a", "c")  # b was not called
    messages += [loads("d", "nonsense")]
    assert found.after(messages) == ("c", "d")


def test_of_one_search_the_last_hits_are_left_out_first():
    assert FoundTools(offer_of(*"abcd"), max_found=2).after([loads("c", "a", "b")]) == ("c", "a")


def test_a_call_without_schema_gets_it_once():
    found = FoundTools(offer_of("a", "b", shown=("b",)), max_found=2)
    calls = called("a", "b", "a", "unknown").tool_calls
    errors = found.unfound(calls, [])
    assert sorted(errors) == [0, 2]
    assert ['{"type": "object"}' in text for text in errors.values()] == [True, False]
    assert found.unfound(calls, [loads("a")]) == {}


names = st.lists(st.sampled_from("abcdef"), max_size=3)
histories = st.lists(
    st.one_of(names.map(lambda each: loads(*each)), names.map(lambda each: called(*each))), max_size=20
)


@given(histories, st.integers(1, 4))
@settings(max_examples=examples(300))
def test_it_makes_no_difference_when_the_messages_are_read(messages, max_found):
    """A turn that is resumed, or runs in another process, reads all at once."""
    offer = offer_of(*"abcdef", shown=("f",))
    stepwise = FoundTools(offer, max_found)
    for end in range(len(messages) + 1):
        step = stepwise.after(messages[:end])
        assert step == FoundTools(offer, max_found).after(messages[:end])
        assert len(step) <= max_found
        assert "f" not in step


@given(names)
@settings(max_examples=examples(50))
def test_messages_keep_what_they_load(each):
    message = loads(*each)
    assert value_from_dict(ToolMessage, value_to_dict(message)) == message
    assert ("loads" in value_to_dict(message)) == bool(each)


def test_a_history_of_a_caller_keeps_what_it_loads():
    messages = [UserMessage(content="?"), called("x"), loads("a")]
    data = [value_to_dict(each) for each in messages]
    assert read_history(data)[-1].loads == ("a",)
