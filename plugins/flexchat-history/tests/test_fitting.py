"""[history] in whole turns: what is sent, recorded and kept."""

from __future__ import annotations

import json

import attrs
import pytest
from flexchat import (
    AssistantMessage,
    ConfigError,
    FlexChat,
    LostTurnError,
    MediaPart,
    RequestRefusedError,
    ToolCall,
    ToolMessage,
    TurnInfo,
    UserMessage,
    read_history,
    tool,
)
from flexchat.config.model import ResponseRule
from flexchat.plugin import HistoryRequest, ModelRequest, hookimpl
from flexchat_history.fitting import HistoryFitter
from flexchat_history.settings import History
from flexchat_history.sizes import MAX_IMAGE, media_size
from flexchat_sdk import ChatOptions, ContextLengthError, ProviderConnectionError, Usage
from flexchat_sqlite import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says


async def no_rounds():
    return ()


NOTHING_EARLIER = {"ask": None, "earlier_rounds": no_rounds}
RULE = {"llm": "bot", "model": "m", "prompt": "Be brief."}


def chat_of(*replies, history=None, rule=None, path=None, window=None, repeat=False, **rest):
    llm = {"provider": "scripted", "retry_delay_ms": 1}
    if window is not None:
        llm["prices"] = {"m": {"window": window}}
    config = {"llms": {"bot": llm}, "responses": [{**RULE, **(rule or {})}], **rest.pop("config", {})}
    if history is not None:
        config["history"] = history
    if path is not None:
        config["conversations"] = {"path": str(path)}
    model = ScriptedProvider(replies, repeat=repeat)
    return FlexChat.from_config(config, providers={"bot": model}, **rest), model


def talk(count, size=10):
    """A history of that many turns."""
    turns = [
        [{"role": "user", "content": f"question {number} " + "q" * size}, {"role": "assistant", "content": "a" * size}]
        for number in range(count)
    ]
    return [message for turn in turns for message in turn]


def users(request):
    return [each.content.split(" q")[0] for each in request.messages if isinstance(each, UserMessage)]


async def test_the_last_turns_are_sent_below_the_prompt():
    chat, model = chat_of(says("ok"), history={"keep_last": 2, "keep_turns": 1, "max_tokens": 9_000})
    turn = await chat.respond("Now?", history=talk(5))

    (request,) = model.requests
    assert request.messages[0].content == "Be brief."
    assert users(request) == ["question 3", "question 4", "Now?"]
    assert turn.response.rounds[0].history["left_out"] == [{"what": "turns", "count": 3, "why": "keep_last"}]
    assert turn.response.rounds[0].to_dict()["history"]["max_tokens"] == 9_000


@pytest.mark.parametrize("limit", [{"max_tokens": 2_000}, {"max_tokens": "auto"}])
async def test_old_turns_go_until_the_rest_fits(limit):
    """By a number, and by the window less the answer."""
    history = {**limit, "compact": "drop", "keep_turns": 1}
    chat, model = chat_of(says("ok"), history=history, rule={"max_tokens": 1_000}, window=3_000)
    turn = await chat.respond("Now?", history=talk(20, 100))

    record = turn.response.rounds[0].history
    assert record["max_tokens"] == 2_000
    assert record["tokens_at_most"] <= 2_000
    assert [each["what"] for each in record["left_out"]] == ["turns"]
    assert users(model.requests[0])[-1] == "Now?"


async def test_a_rule_overrides_the_table():
    chat, model = chat_of(says("ok"), history={"max_tokens": 9_000}, rule={"history": {"keep_last": 4}})
    await chat.respond("Now?", history=talk(5))
    assert len(users(model.requests[0])) == 5


async def test_without_the_table_all_is_sent_and_nothing_is_recorded():
    chat, model = chat_of(says("ok"))
    turn = await chat.respond("Now?", history=talk(50))
    assert len(model.requests[0].messages) == 102
    assert "history" not in turn.response.rounds[0].to_dict()


async def test_what_is_kept_stays_whole_and_a_stub_is_read_back(tmp_path):
    """The model reads an old result by the id in its stub; the store has the original."""

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "needle " + "x" * 5_000

    def reads(messages, options):
        (stub,) = [json.loads(each.content) for each in messages if each.role == "tool"]
        id = stub["note"].split('result="')[1].split('"')[0]
        return calls(("read_result", {"result": id, "start": 0}))

    answers = [calls(("look", {})), says("Seen."), reads, says("It was a needle.")]
    chat, model = chat_of(
        *answers,
        history={"max_tokens": 6_000, "keep_turns": 0},
        rule={"tools": {"enabled": True}},
        path=tmp_path / "kept.db",
        tools=[look, "read_result"],
    )
    async with chat:
        await chat.respond("Look.", conversation="c")
        turn = await chat.respond("What was it?", conversation="c")
        kept = await chat.conversations.turns("c")

    assert turn.response.tool_calls[0].result.success
    assert "needle" in model.requests[-1].messages[-1].content
    assert "needle" in kept[0].messages[2].content
    assert kept[1].rounds[0].history["left_out"] == [{"what": "results", "count": 1, "why": "max_tokens"}]


async def test_tokens_are_reckoned_by_the_last_usage(tmp_path):
    """At first a byte counts as a token; then as many as the service reported, also after a restart."""
    usage = Usage(input_tokens=500, output_tokens=1)
    settings = {"history": {"max_tokens": 4_000, "keep_turns": 0, "compact": "drop"}, "path": tmp_path / "kept.db"}
    chat, model = chat_of(says("a" * 1_500, usage=usage), repeat=True, **settings)
    async with chat:
        for _ in range(4):
            await chat.respond("Go on.", conversation="c")
    assert len(users(model.requests[-1])) == 4

    chat, model = chat_of(says("ok", usage=usage), **settings)
    async with chat:
        turn = await chat.respond("And now?", conversation="c")
    assert turn.response.rounds[0].history["ratio"] < 1
    assert len(users(model.requests[0])) == 5


async def test_a_request_that_is_too_long_is_made_smaller_once():
    chat, model = chat_of(
        ContextLengthError("too long"), says("ok"), history={"max_tokens": 90_000, "keep_turns": 1, "compact": "drop"}
    )
    turn = await chat.respond("Now?", history=talk(20, 300))

    first, second = model.requests
    assert len(first.messages) == 42
    assert len(second.messages) < 30
    assert turn.content == "ok"
    assert turn.response.rounds[0].history["left_out"][0]["what"] == "turns"


async def test_later_requests_of_the_turn_begin_smaller():
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    chat, model = chat_of(
        *[ContextLengthError("too long"), calls(("look", {})), says("ok")],
        history={"max_tokens": 90_000, "keep_turns": 1, "compact": "drop"},
        rule={"tools": {"enabled": True}},
        tools=[look],
    )
    await chat.respond("Now?", history=talk(20, 300))

    _, smaller, last = model.requests
    assert last.messages[: len(smaller.messages)] == smaller.messages


async def test_then_the_error_lists_what_fills_the_window():
    too_long = ContextLengthError("too long", status=400)
    chat, model = chat_of(too_long, too_long, history={"max_tokens": 90_000, "keep_turns": 1})
    with pytest.raises(
        ContextLengthError, match=r"history [\d,]+, system prompt 9, this turn 4.*\[history\]"
    ) as caught:
        await chat.respond("Now?", history=talk(20, 300))
    assert len(model.requests) == 2
    assert caught.value.status == 400


async def test_a_policy_in_code_and_async():
    async def trim(messages):
        return messages[-3:]

    chat, model = chat_of(says("ok"), history={"max_tokens": 9_000}, history_policy=trim)
    turn = await chat.respond("Now?", history=[*talk(1), {"role": "user", "content": "fact", "pinned": True}, *talk(3)])

    assert users(model.requests[0]) == ["fact", "question 2", "Now?"]
    assert turn.response.rounds[0].history["left_out"] == [{"what": "messages", "count": 5, "why": "policy"}]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (lambda messages: 1 / 0, "failed: ZeroDivisionError"),
        (lambda messages: None, "returned nothing"),
        (lambda messages: [], "returned nothing"),
        (lambda messages: "all", "other than a list of messages"),
    ],
)
async def test_a_policy_that_breaks_fails_the_turn_before_sending(policy, words):
    chat, model = chat_of(says("ok"), history={"max_tokens": 9_000}, history_policy=policy)
    with pytest.raises(RequestRefusedError, match=words):
        await chat.respond("Now?", history=talk(2))
    assert model.requests == []


async def test_a_resumed_turn_sends_what_it_would_have_sent(tmp_path):
    """Although its policy would now choose otherwise: the choice was a step of the journal before it was sent."""
    store, stretches = SqliteConversations(tmp_path / "kept.db"), [2, 4]

    async def stands_still(messages, options):
        await store.database.write(lambda database: database.execute("DELETE FROM owners"))
        (waiting,) = await other.turns(states=["interrupted"])
        await other.resume(waiting.id)
        return "too late"

    def trim(messages):
        return messages[-stretches.pop(0) :] if len(messages) > 4 else messages

    settings = {"history": {"max_tokens": 9_000}, "history_policy": trim}
    one, first = chat_of(*[says("ok")] * 3, stands_still, **settings)
    other, second = chat_of(says("ok"), **settings)
    for chat in (one, other):
        chat.keep_in(store)
    for number in range(3):
        await one.respond(f"question {number}", conversation="c")
    with pytest.raises(LostTurnError):
        await one.respond("Now?", conversation="c")
    await one.aclose()
    await other.aclose()

    assert users(first.requests[-1]) == users(second.requests[0]) == ["question 2", "Now?"]
    assert stretches == [4]


@pytest.mark.parametrize(
    ("history", "rest", "words"),
    [
        ({"keep_last": 3}, {}, 'max_tokens = "auto" in [history] needs the window of bot/m, which is not known'),
        ({"keep_last": 3, "keep_turns": 4, "max_tokens": 9}, {}, "keep_turns must be at most keep_last"),
        ({"max_tokens": 9_000, "policy": "no.such:trim"}, {}, "the policy 'no.such:trim' cannot be imported"),
        ({"max_tokens": 9_000, "policy": "json:JSONEncodr"}, {}, "the policy 'json:JSONEncodr' cannot be imported"),
        ({"max_tokens": 9_000, "kep_last": 4}, {}, "did you mean 'keep_last'"),
        (
            {"max_tokens": 9_000},
            {"rule": {"history": {"keep_lst": 4}}},
            "responses[0].history: unknown key 'keep_lst' (did you mean 'keep_last'?)",
        ),
        ({"max_tokens": 10}, {"rule": {"prompt": "p" * 800}}, "prompt 100, tools 0"),
        (None, {"rule": {"history": {"keep_last": 4}}}, "flexchat-history reads: add that table"),
        (None, {"config": {"conversations": {"path": "x.db", "keep_last": 4}}}, "keep_last belongs to [history]"),
    ],
)
def test_bad_settings_are_named_at_the_start(history, rest, words):
    with pytest.raises(ConfigError) as caught:
        chat_of(history=history, **rest)
    assert words in str(caught.value)


async def test_a_hook_sees_what_is_sent_and_pins_are_not_restored_after_it():
    class Redacts:
        @hookimpl
        def flexchat_before_model_request(self, request):
            return attrs.evolve(request, messages=request.messages[-1:])

    history = [{"role": "user", "content": "secret", "pinned": True}, *talk(2)]
    chat, model = chat_of(says("ok"), history={"max_tokens": 9_000}, hooks=[Redacts()])
    await chat.respond("Now?", history=history)
    assert [each.content for each in model.requests[0].messages] == ["Be brief.", "Now?"]


SUMMARY = {"max_tokens": 3_000, "keep_turns": 1, "compact": "summarise"}


async def test_a_summary_stands_for_turns_and_is_written_once(tmp_path):
    """Also in the next process; the next one is written from it and the turns since."""
    path = tmp_path / "kept.db"
    chat, model = chat_of(says("a" * 620), repeat=True, history={"max_tokens": 90_000}, path=path)
    async with chat:
        for number in range(5):
            await chat.respond(f"question {number}", conversation="c")

    chat, model = chat_of(says("They spoke of tea."), says("Yes."), says("Yes, again."), history=SUMMARY, path=path)
    async with chat:
        turn = await chat.respond("Now?", conversation="c")
        again = await chat.respond("And?", conversation="c")
    asked, sent, next_sent = model.requests
    assert asked.messages[1].content.startswith("User: question 0\nAssistant: aaa")
    assert sent.messages[1].content.endswith("left out of this request:\n\nThey spoke of tea.")
    assert next_sent.messages[: len(sent.messages)] == sent.messages
    assert turn.response.rounds[-1].history["summary"]["text"] == "They spoke of tea."
    assert len(turn.response.rounds) == 2  # what it costs is the turn's
    assert len(again.response.rounds) == 1

    chat, model = chat_of(says("Yes."), history=SUMMARY, path=path)
    async with chat:
        await chat.respond("And now?", conversation="c")
    assert model.requests[0].messages[1] == sent.messages[1]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (ProviderConnectionError("down"), "ProviderConnectionError: down"),
        (says("No, I will not.", finish_reason="refusal"), "the model refused"),
        (says("They spoke", finish_reason="length"), "it ended with 'length'"),
        (says(" "), "it is empty"),
        (says("z" * 90_000), "it is not shorter"),
    ],
)
async def test_a_summary_that_cannot_be_used_costs_the_summary_and_not_the_turn(reply, why):
    chat, model = chat_of(reply, says("Yes."), history=SUMMARY)
    turn = await chat.respond("Now?", history=talk(6, 300))

    assert turn.content == "Yes."
    record = turn.response.rounds[-1].history
    assert why in record["left_out"][-1]["why"]
    assert "summary" not in record
    assert users(model.requests[-1])[-1] == "Now?"


async def test_a_preview_asks_no_model_for_a_summary():
    chat, model = chat_of(says("They spoke."), says("Yes."), history=SUMMARY)
    history = read_history(talk(6, 300))
    previewed = await chat.preview("Now?", history=history)
    assert model.requests == []
    await chat.respond("Now?", history=history)
    assert len(model.requests) == 2
    assert previewed.messages == tuple(model.requests[1].messages[2:])


async def test_a_summary_stands_for_its_own_conversation_alone():
    """Also if two conversations of one program share the message object with which the summary ends."""
    shared = AssistantMessage("Noted. " + "a" * 300)

    def history_of(name):
        rest = read_history(talk(5, 300))[2:]
        return (UserMessage(f"I am {name}. " + "q" * 300), shared, *rest)

    settings = {"max_tokens": 3_000, "keep_turns": 4, "compact": "summarise"}
    chat, model = chat_of(says("She is Ada."), says("Yes."), says("She is Eve."), says("Yes."), history=settings)
    for name in ("Ada", "Eve"):
        await chat.respond("Who am I?", history=history_of(name))

    assert [request.messages[1].content[-11:] for request in model.requests[1::2]] == ["She is Ada.", "She is Eve."]


async def test_a_recorded_summary_of_other_messages_is_not_reused(tmp_path):
    """A policy chooses others in each turn, so that the number of messages does not identify them."""
    path, settings = tmp_path / "kept.db", {**SUMMARY, "keep_turns": 0}
    chat, model = chat_of(says("a" * 620), repeat=True, history={"max_tokens": 90_000}, path=path)
    async with chat:
        for number in range(8):
            await chat.respond(f"question {number} " + "q" * 300, conversation="c")
    for number in range(2):
        chat, model = chat_of(
            *[says(f"Summary {number}."), says("Yes.")],
            history=settings,
            path=path,
            history_policy=lambda messages, first=2 * number: messages[first : first + 8],
        )
        async with chat:
            await chat.respond("Now?", conversation="c")
        assert model.requests[-1].messages[1].content.endswith(f"Summary {number}.")


async def test_a_policy_leaves_the_calls_of_the_turn_under_way_together():
    """Their results come from the caller, in a turn of its own."""
    seen = []

    def trim(messages):
        seen.append([*messages])
        return messages[-2:]

    call = ToolCall(name="look", arguments={}, id="call_1")
    messages = (*read_history(talk(2)), UserMessage("Look."), AssistantMessage((call,)))
    fitter = HistoryFitter(History(max_tokens=9_000), trim)
    result = ToolMessage(tool_call_id="call_1", name="look", content="seen")
    request = ModelRequest(
        info=TurnInfo(id="t"), llm="bot", model="m", messages=(*messages, result), options=ChatOptions()
    )
    fitted = await fitter.flexchat_fit_history(
        HistoryRequest(request=request, llm=None, rule=(0, ResponseRule(llm="bot")), own_from=6, **NOTHING_EARLIER)
    )

    assert fitted.messages == (*messages[2:], result)
    assert seen == [[*messages[:4]]]


async def test_a_request_is_repeated_from_its_record_alone():
    """Although the settings have a policy by now, or have none any more."""

    def trim(messages):
        return messages[-2:]

    messages = (*read_history(talk(4)), UserMessage("Now?"))
    request = ModelRequest(info=TurnInfo(id="t"), llm="bot", model="m", messages=messages, options=ChatOptions())
    facts = {"request": request, "llm": None, "rule": (0, ResponseRule(llm="bot")), "own_from": 8, **NOTHING_EARLIER}
    plain = HistoryFitter(History(max_tokens=9_000))
    slicing = HistoryFitter(History(max_tokens=9_000), trim)
    for first, second in ((plain, slicing), (slicing, plain)):
        before = await first.flexchat_fit_history(HistoryRequest(**facts))
        again = await second.flexchat_fit_history(HistoryRequest(**facts, recorded=before.record))
        assert again == before


async def test_the_schema_of_an_answer_counts():
    form = {"type": "json_schema", "name": "it", "schema": {"type": "object", "description": "d" * 2_000}}
    sizes = []
    for rule in ({}, {"response_format": form}):
        chat, _ = chat_of(says("{}"), history={"max_tokens": 9_000}, rule=rule)
        turn = await chat.respond("Now?")
        sizes.append(turn.response.rounds[0].history["bytes"])
    assert sizes[1] - sizes[0] > 2_000


def test_media_are_bounded_by_what_is_sent_of_them():
    text = MediaPart(kind="document", mime_type="text/plain", data=b"x" * 50_000)
    assert media_size(text) == 50_000
    assert media_size(MediaPart(kind="image", mime_type="image/*", url="https://example.org/a.png")) == MAX_IMAGE


async def test_a_hook_may_return_a_request_whose_prompt_is_blank():
    class Same:
        @hookimpl
        def flexchat_before_model_request(self, request):
            return attrs.evolve(request)

    chat, model = chat_of(says("ok"), rule={"prompt": " "}, hooks=[Same()])
    await chat.respond("Now?")
    assert len(model.requests) == 1
