"""Laws of the plan, over random conversations."""

from __future__ import annotations

import itertools
import json

import attrs
from flexchat import SystemMessage, ToolCall, ToolMessage, UserMessage
from flexchat_history.plan import Limits, Outline, Plan, apply, left_out, pinned_of, plan
from flexchat_history.policy import from_record, to_record, with_pins
from flexchat_history.sizes import size_of
from flexchat_sdk import AssistantMessage
from hypothesis import given, settings
from hypothesis import strategies as st
from random_conversations import PICTURE, PINNED, answered_calls, broken_rule, histories

from examples import examples

OWN = UserMessage("The question of this turn")
limits_of = st.builds(
    Limits,
    budget=st.none() | st.integers(1, 40_000),
    keep_last=st.none() | st.integers(0, 12),
    keep_turns=st.integers(0, 5),
    has_stubs=st.booleans(),
    pins=st.sampled_from([(), (PINNED,), ("*",)]),
    is_urgent=st.booleans(),
)


def is_pinned(message, limits):
    if isinstance(message, UserMessage):
        return message.pinned
    return isinstance(message, SystemMessage) or (isinstance(message, ToolMessage) and limits.is_pinned(message.name))


@settings(max_examples=examples(500))
@given(histories, st.lists(answered_calls(), max_size=2), limits_of)
def test_what_is_sent_is_valid_and_has_all_that_is_pinned(history, own, limits):
    """Calls and results in pairs, nothing empty, no longer than before; the turn under way whole."""
    own = [OWN, *(message for group in own for message in group)]
    messages = (*history, *own)
    before = [attrs.evolve(message) for message in messages]

    outline = Outline(messages, len(history), limits)
    sent = apply(outline, plan(outline, limits), limits, can_read_on=True)

    assert broken_rule(sent) is None
    assert list(messages) == before  # what is kept has not changed
    assert sum(map(size_of, sent)) <= sum(map(size_of, messages))
    for message in messages:
        if is_pinned(message, limits):
            assert any(message is each for each in sent)
    if not limits.is_urgent:
        assert [id(each) for each in sent[len(sent) - len(own) :]] == [id(each) for each in own]
    else:
        assert any(each is OWN for each in sent)


@settings(max_examples=examples(500))
@given(histories, limits_of)
def test_a_plan_is_repeated_from_its_record(history, limits):
    """A resumed turn has the record alone, and sends the same."""
    outline = Outline((*history, OWN), len(history), limits)
    chosen = plan(outline, limits)

    recorded = Plan(**json.loads(json.dumps(attrs.asdict(chosen))))

    assert apply(outline, recorded, limits, can_read_on=True) == apply(outline, chosen, limits, can_read_on=True)
    assert bool(left_out(outline, chosen, limits)) <= (not chosen.is_empty)


@settings(max_examples=examples(500))
@given(histories, limits_of, st.data())
def test_a_plan_is_the_same_without_what_is_remembered(history, limits, data):
    """Another process, which has read the conversation anew, sends what the one would send that has seen it grow."""
    starts = Outline((*history, OWN), len(history), limits).starts
    # Turns whose last one goes on, previews, and another conversation that begins alike.
    for end in sorted(data.draw(st.lists(st.sampled_from([*starts, len(history)]), max_size=6))):
        grown = Outline((*history[:end], OWN), end, limits)
        apply(grown, plan(grown, limits), limits, can_read_on=True)
    here = Outline((*history, OWN), len(history), limits)
    there = Outline((*map(attrs.evolve, history), OWN), len(history), limits)

    chosen = plan(here, limits)

    assert chosen == plan(there, limits)
    assert apply(here, chosen, limits, can_read_on=True) == apply(there, chosen, limits, can_read_on=True)
    assert left_out(here, chosen, limits) == left_out(there, chosen, limits)


@settings(max_examples=examples(500))
@given(histories, limits_of)
def test_the_last_turns_are_sent_whole(history, limits):
    limits = attrs.evolve(limits, is_urgent=False)
    messages = (*history, OWN)
    outline = Outline(messages, len(history), limits)
    starts = outline.starts
    count = limits.keep_turns if limits.keep_last is None else min(limits.keep_turns, limits.keep_last)
    last = messages[starts[max(len(starts) - 1 - count, 0)] :]

    sent = apply(outline, plan(outline, limits), limits, can_read_on=True)

    assert [id(each) for each in sent[len(sent) - len(last) :]] == [id(each) for each in last]


@settings(max_examples=examples(500))
@given(histories, limits_of)
def test_what_can_be_made_to_fit_fits(history, limits):
    """If the request is still too long, everything before the last turns is left out, but for what is pinned."""
    messages = (*history, OWN)
    outline = Outline(messages, len(history), limits)
    sent = apply(outline, plan(outline, limits), limits, can_read_on=True)
    if limits.budget is None or sum(map(size_of, sent)) <= limits.budget:
        return
    starts = outline.starts
    at = starts[max(len(starts) - 1 - limits.keep_turns, 0)]
    if limits.keep_last is not None:
        at = max(at, starts[max(len(starts) - 1 - limits.keep_last, 0)])
    least = sum(map(size_of, pinned_of(messages[:at], limits))) + sum(map(size_of, messages[at:]))
    if not limits.is_urgent:
        assert sum(map(size_of, sent)) <= least


@settings(max_examples=examples(100))
@given(histories, st.integers(4_000, 20_000), st.booleans())
def test_between_two_steps_each_request_begins_with_the_last(history, budget, has_stubs):
    """A break frees about a quarter of the budget: there are no more of them than the growth has steps."""
    limits = Limits(budget=budget, keep_turns=1, has_stubs=has_stubs)
    starts = Outline((*history, OWN), len(history), limits).starts
    outlines = [Outline((*history[:start], OWN), start, limits) for start in starts]
    requests = [apply(each, plan(each, limits), limits, can_read_on=True)[:-1] for each in outlines]
    breaks = sum(later[: len(earlier)] != earlier for earlier, later in itertools.pairwise(requests))
    largest = max((sum(map(size_of, history[a:b])) for a, b in itertools.pairwise(starts)), default=0)
    # A conversation whose last turns alone nearly fill the budget breaks it each time.
    if largest < budget // 8:
        assert breaks <= sum(map(size_of, history)) // (budget // 4) + 1


@settings(max_examples=examples(500))
@given(histories, st.data())
def test_a_slice_by_a_policy_is_made_fit(history, data):
    """Whatever stretches a policy returns: in pairs, with all that is pinned, and the same from its record."""
    limits = Limits(pins=(PINNED,))
    a, b = sorted((data.draw(st.integers(0, len(history))), data.draw(st.integers(0, len(history)))))
    sent = with_pins(history, history[a:b], limits)

    assert broken_rule(sent) is None
    for message in history:
        if is_pinned(message, limits):
            assert any(message == each for each in sent)
    assert from_record(history, json.loads(json.dumps(to_record(history, sent)))) == sent


def test_repeats_come_before_stubs_and_stubs_before_media_and_turns():
    def read(id, content, **rest):
        call = ToolCall(name="look", arguments={}, id=id)
        result = ToolMessage(tool_call_id=id, name="look", content=content, **rest)
        return [UserMessage("Look."), AssistantMessage((call,)), result, AssistantMessage("Done.")]

    history = [
        *read("a", "x" * 2_000),
        *read("b", "y" * 2_000),
        *read("c", "x" * 2_000),
        *read("d", "shown", media=(PICTURE,)),
        OWN,
    ]
    whole = sum(map(size_of, history))
    kinds = []
    for spared in (0, 1, 7_500, 8_500):
        limits = Limits(budget=whole - spared, keep_turns=0)
        outline = Outline(history, len(history) - 1, limits)
        kinds.append([each["what"] for each in left_out(outline, plan(outline, limits), limits)])

    assert kinds == [
        [],
        ["repeated results", "results"],
        ["repeated results", "results", "media"],
        ["turns", "results", "media"],
    ]


def test_a_stub_names_how_to_read_the_result():
    call = ToolCall(name="look", arguments={}, id="call_1")
    result = ToolMessage(tool_call_id="call_1", name="look", content="x" * 5_000)
    history = [UserMessage("Look."), AssistantMessage((call,)), result, AssistantMessage("Done."), OWN]
    limits = Limits(budget=1_000, keep_turns=0)
    outline = Outline(history, 4, limits)
    chosen = plan(outline, limits)

    (stub,) = [m for m in apply(outline, chosen, limits, can_read_on=True) if isinstance(m, ToolMessage)]
    assert json.loads(stub.content)["note"] == (
        'left out of this request: 5,000 characters; read_result(result="call_1", start=0) reads it'
    )
    (stub,) = [m for m in apply(outline, chosen, limits, can_read_on=False) if isinstance(m, ToolMessage)]
    assert "read_result" not in stub.content
