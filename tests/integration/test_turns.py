"""Whole turns through the app: streamed and not, side by side, cancelled, too late, watched by plugins."""

import asyncio
import contextlib
import itertools
import threading

import pytest
from flexchat import (
    ChatClosedError,
    ChatRequestError,
    ConfigError,
    FlexChat,
    NoMatchingRuleError,
    SyncFlexChat,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnTimeoutError,
    Usage,
    tool,
)
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost
from flexchat_sdk import Reasoning
from flexchat_testing import ScriptedProvider, calls, says

CONFIG = {
    "llms": {"bot": {"provider": "scripted"}},
    "tools": {"registry": [{"name": "calculator"}]},
    "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
}
SUM = ("calculator", {"expression": "2+2"})


def chat(*replies, config=CONFIG, tools=(), plugins=None, **changes):
    model = ScriptedProvider(replies)
    return FlexChat.from_config({**config, **changes}, tools=tools, providers={"bot": model}, plugins=plugins), model


def same(turn):
    """What must not differ between two ways to the same turn: all but ids and times."""
    body = turn.to_dict()
    for call in body.get("tool_calls", ()):
        call["result"].pop("execution_time_ms")
        call.pop("call_id")
    for one in body["rounds"]:
        one.pop("elapsed_ms")
    phases = [(p["phase"], p["outcome"]) for p in body.pop("phases")]
    return {k: v for k, v in body.items() if k not in ("id", "elapsed_ms", "messages", "traceparent")}, phases


async def test_the_last_event_is_the_unstreamed_turn():
    """stream() and respond() are one thing."""
    replies = [calls(SUM, text="Let me see."), says("It is 4.", usage=Usage(input_tokens=3, output_tokens=2))]
    plain, _ = chat(*replies)
    streamed, _ = chat(*replies)

    turn = await plain.respond("What is 2+2?")
    events = [event async for event in streamed.stream("What is 2+2?")]

    assert isinstance(events[-1], TurnFinished)
    assert same(events[-1].turn) == same(turn)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Let me see.It is 4."
    assert [type(e) for e in events if isinstance(e, ToolStarted | ToolFinished)] == [ToolStarted, ToolFinished]
    assert turn.to_dict()["usage"] == {"input_tokens": 3, "output_tokens": 2}


async def test_a_turn_tells_its_six_phases():
    """Phases, rule and times are part of the turn."""
    made, _ = chat(says("Hi"))

    body = (await made.respond("Hello")).to_dict()

    assert [p["phase"] for p in body["phases"]] == [
        "topic detection",
        "rag collection",
        "intent detection",
        "profile building",
        "response matching",
        "response generation",
    ]
    assert (body["topic"], body["rule"], len(body["id"])) == ("Hello", 0, 32)
    assert sum(p["elapsed_ms"] for p in body["phases"]) <= body["elapsed_ms"]


async def test_the_first_rule_that_fits_answers():
    """First match wins; text, part of a text and pattern."""
    rules = [
        {"llm": "bot", "model": "exact", "match": {"user_message": "weather"}},
        {"llm": "bot", "model": "part", "match": {"user_message_contains": "rain"}},
        {"llm": "bot", "model": "pattern", "match": {"user_message_regexp": "/^(sun|moon)/i"}},
        {"llm": "bot", "model": "docs", "match": {"rag_results": "any"}},
        {"llm": "bot", "model": "rest"},
    ]
    made, model = chat(*["ok"] * 5, responses=rules)
    for message in ("weather", "will it rain", "Moonlight", "a moon", "Weather"):
        await made.respond(message)

    assert [r.model for r in model.requests] == ["exact", "part", "pattern", "rest", "rest"]


async def test_without_a_fitting_rule_the_error_says_what_to_add():
    """The config reader refuses such a file; a Config made in code may still lack the rule."""
    made, _ = chat("x")
    made._engine.router.rules = ()

    with pytest.raises(NoMatchingRuleError, match="No matching response rule found"):
        await made.respond("x")


@pytest.mark.parametrize("message", ["", "  \n", None, 5, "x" * 100_001])
async def test_a_message_that_cannot_be_used_is_refused(message):
    """With a sentence, before anything runs."""
    made, model = chat("x")

    with pytest.raises(ChatRequestError):
        await made.respond(message)
    assert model.requests == []


async def test_a_turn_that_takes_too_long_is_ended():
    """limits.turn_timeout_ms holds for the model, streamed or not."""

    async def hang(messages, options):
        await asyncio.Event().wait()

    made, _ = chat(hang, limits={"turn_timeout_ms": 60})

    with pytest.raises(TurnTimeoutError, match="60 ms"):
        await made.respond("x")


async def test_a_slow_tool_gets_no_more_time_than_the_turn_has():
    """The tool's own timeout is longer; the turn's wins, and the turn then says so."""

    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()

    made, _ = chat(calls(("wait", {})), says("never"), tools=[wait], limits={"turn_timeout_ms": 80})

    with pytest.raises(TurnTimeoutError):
        await made.respond("x")


@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelling_a_turn_leaves_no_tool_running(streamed):
    """Every async tool of the turn is cancelled before the cancellation gets out."""
    ended: list[int] = []
    begun = asyncio.Semaphore(0)

    @tool
    async def wait(n: int) -> str:
        """Wait."""
        begun.release()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(n)

    made, _ = chat(calls(("wait", {"n": 1}), ("wait", {"n": 2})), tools=[wait])

    async def turn():
        if not streamed:
            return await made.respond("x")
        async with contextlib.aclosing(made.stream("x")) as events:
            return [e async for e in events]

    before = asyncio.all_tasks()
    task = asyncio.create_task(turn())
    await begun.acquire()
    await begun.acquire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert sorted(ended) == [1, 2]
    assert asyncio.all_tasks() == before


async def test_closing_the_stream_ends_the_turn():
    """A reader who has heard enough leaves nothing behind."""
    ended = []

    @tool
    async def wait(n: int) -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(n)

    @tool
    async def quick() -> str:
        """Be quick."""
        return "done"

    made, _ = chat(calls(("wait", {"n": 1}), ("quick", {})), tools=[wait, quick])
    events = made.stream("x")
    async for event in events:
        if isinstance(event, ToolFinished):
            break
    await events.aclose()

    assert ended == [1]


async def test_exclusive_tools_run_alone_and_in_their_place():
    """The calls before an exclusive one are finished first, those behind it wait."""
    running, seen = set(), []

    def make(name, exclusive):
        async def work(n: int) -> int:
            """Work."""
            running.add((name, n))
            seen.append(frozenset(running))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            running.discard((name, n))
            return n

        return tool(name=name, exclusive=exclusive)(work)

    asked = calls(("free", {"n": 1}), ("free", {"n": 2}), ("alone", {"n": 3}), ("free", {"n": 4}))
    made, _ = chat(asked, says("ok"), tools=[make("free", False), make("alone", True)])

    turn = await made.respond("x")

    assert [r.result.result for r in turn.response.tool_calls] == [1, 2, 3, 4]
    assert frozenset({("alone", 3)}) in seen
    assert all(len(s) == 1 for s in seen if ("alone", 3) in s)
    assert any(len(s) == 2 for s in seen)


async def test_many_turns_at_once_do_not_mix():
    """One app serves any number of turns; each has its own ids and answers."""

    def answer(messages, options):
        return says(messages[-1].content.upper())

    made, _ = chat(*[answer] * 200)

    turns = await asyncio.gather(*[made.respond(f"m{n}") for n in range(200)])

    assert [t.content for t in turns] == [f"M{n}" for n in range(200)]
    assert len({t.id for t in turns}) == 200


class Recorder:
    """A plugin that watches everything."""

    def __init__(self):
        self.seen = []

    @hookimpl
    def flexchat_turn_started(self, info, user_message):
        self.seen.append(("turn_started", info.id))

    @hookimpl
    def flexchat_phase_started(self, info, phase):
        self.seen.append(("phase_started", info.id))

    @hookimpl
    async def flexchat_phase_finished(self, info, record):
        self.seen.append(("phase_finished", info.id))

    @hookimpl
    def flexchat_model_request_started(self, info, options):
        self.seen.append(("model_request_started", info.id))

    @hookimpl
    def flexchat_model_request_finished(self, info, result):
        self.seen.append(("model_request_finished", info.id))

    @hookimpl
    async def flexchat_before_tool_call(self, info, call_id, tool, params):
        self.seen.append(("before_tool_call", info.id, call_id))

    @hookimpl
    def flexchat_tool_started(self, info, call):
        self.seen.append(("tool_started", info.id, call.id))

    @hookimpl
    def flexchat_tool_finished(self, info, record):
        self.seen.append(("tool_finished", info.id, record.call_id))

    @hookimpl
    def flexchat_turn_finished(self, info, turn):
        self.seen.append(("turn_finished", info.id))
        raise RuntimeError("a watcher's bug")

    @hookimpl
    def flexchat_turn_failed(self, info, error):
        self.seen.append(("turn_failed", info.id))


def host_with(recorder):
    host = PluginHost()
    host.load_installed()
    host.register(recorder, "recorder")
    return host


async def test_plugins_hear_of_everything_and_break_nothing(caplog):
    """Events come in order, carry the turn's and the call's id, and a watcher's bug is logged under its name."""
    recorder = Recorder()
    asked = calls(SUM, ("calculator", {"expression": "1+1"}))
    made, _ = chat(asked, says("ok"), plugins=host_with(recorder))

    turn = await made.respond("x")

    names = [e[0] for e in recorder.seen]
    assert names[0] == "turn_started"
    assert names[-1] == "turn_finished"
    pairs = ("phase_started", "phase_finished"), ("model_request_started", "model_request_finished")
    assert [[names.count(name) for name in pair] for pair in pairs] == [[1, 6], [2, 2]]
    assert {e[1] for e in recorder.seen} == {turn.id}
    for kind in ("tool_started", "before_tool_call", "tool_finished"):
        assert {e[2] for e in recorder.seen if e[0] == kind} == {c.id for c in asked.tool_calls}
    assert "recorder" in caplog.text


async def test_plugins_hear_of_a_failed_turn():
    """The error goes to the caller all the same."""
    recorder = Recorder()
    made, _ = chat(RuntimeError("boom"), plugins=host_with(recorder))

    with pytest.raises(RuntimeError, match="boom"):
        await made.respond("x")
    assert recorder.seen[-1][0] == "turn_failed"


def test_the_same_for_plain_functions():
    """SyncFlexChat: respond, stream, tools, and many threads at once."""
    made, _ = chat(calls(SUM), says("It is 4."), *[says("ok")] * 9)
    with SyncFlexChat(made) as sync:
        assert sync.respond("2+2?").content == "It is 4."
        assert isinstance([*sync.stream("Hello")][-1], TurnFinished)
        assert sync.call_tool("calculator", {"expression": "6*7"}).result == {"result": 42}
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(sync.respond("x").content)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == ["ok"] * 8
    with pytest.raises(ChatClosedError, match="this SyncFlexChat is closed"):
        sync.respond("x")


def test_a_stream_left_early_ends_its_turn_for_plain_functions_too():
    """Breaking out of the for loop is enough."""
    made, _ = chat(says("one two three four"))
    with SyncFlexChat(made) as sync:
        events = sync.stream("x")
        assert TextDelta(0, "one ") in itertools.islice(events, 20)
        events.close()


async def test_a_model_without_a_config():
    """FlexChat.from_model: a provider, a model, and typed functions."""

    @tool
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    async with FlexChat.from_model("rehearsal/any", tools=[double]) as made:
        turn = await made.respond("Please double the number 21")

    assert [r.result.result for r in turn.response.tool_calls] == [42]
    assert "42" in turn.content


@pytest.mark.parametrize(
    ("provider", "settings", "words"),
    [("opnai", {}, "did you mean 'openai'"), ("openai", {"base_uri": "x"}, "base_uri"), ("mistral", {}, "installed:")],
)
def test_a_model_that_cannot_be_made_says_why(provider, settings, words):
    """ConfigError, with the nearest name."""
    with pytest.raises(ConfigError, match=words):
        FlexChat.from_model(f"{provider}/m", **settings)


async def test_what_a_rule_says_of_its_model_reaches_the_provider():
    """Every key of a rule that is an option; a forced choice holds for the first answer only."""
    rule = {
        "llm": "bot",
        "model": "m",
        "max_tokens": 9,
        "temperature": 0,
        "top_p": 0.5,
        "stop": ["END"],
        "seed": 7,
        "reasoning": {"effort": "low", "summary": True},
        "extra_body": {"x": 1},
        "tools": {"choice": "required", "parallel": False},
    }
    made, model = chat(calls(SUM), says("4"), responses=[rule])

    await made.respond("2+2?")

    first, second = (request.options for request in model.requests)
    assert (first.max_tokens, first.temperature, first.top_p, first.stop, first.seed) == (9, 0, 0.5, ("END",), 7)
    assert first.reasoning == Reasoning(effort="low", summary=True)
    assert first.extra == {"x": 1}
    assert (first.tool_choice, second.tool_choice) == ("required", "auto")
    assert first.parallel_tool_calls is second.parallel_tool_calls is False


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_call_says_of_the_model_goes_before_the_rule(streamed):
    """Each option, for this message alone; 0 is a value."""
    rule = {"llm": "bot", "model": "m", "max_tokens": 9, "temperature": 1, "seed": 7, "stop": ["END"], "tools": {}}
    made, model = chat(calls(SUM), says("4"), says("5"), responses=[rule])
    asked = {
        "max_tokens": 5,
        "temperature": 0,
        "top_p": 0,
        "stop": ["A", "B"],
        "seed": 0,
        "reasoning": "low",
        "extra_body": {"x": 2},
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }

    shown = (await made.preview("2+2?", **asked)).options
    if streamed:
        assert [event async for event in made.stream("2+2?", **asked)]
    else:
        await made.respond("2+2?", **asked)
    await made.respond("2+3?")

    first, second, usual = (request.options for request in model.requests)
    for options in (shown, first):
        assert (options.max_tokens, options.temperature, options.top_p, options.seed) == (5, 0, 0, 0)
        assert (options.stop, options.reasoning, options.extra) == (("A", "B"), Reasoning(effort="low"), {"x": 2})
        assert (options.tool_choice, options.parallel_tool_calls) == ("required", False)
    assert (second.temperature, second.tool_choice) == (0, "auto")
    assert (usual.max_tokens, usual.temperature, usual.seed, usual.stop) == (9, 1, 7, ("END",))
    assert (usual.tool_choice, usual.parallel_tool_calls) == ("auto", None)


async def test_a_call_may_go_less_far_than_its_rule():
    """max_iterations, and a choice of tools where there are none."""
    made, _ = chat(calls(SUM), calls(("calculator", {"expression": "1+1"})), says("4"))
    turn = await made.respond("2+2?", max_iterations=1)
    assert turn.response.max_iterations_reached

    plain, model = chat(says("4"), responses=[{"llm": "bot", "model": "m", "tools": {"enabled": False}}])
    turn = await plain.respond("2+2?", tool_choice="required")
    assert any("offers no tools" in warning for warning in turn.response.warnings)
    assert model.requests[0].options.tool_choice == "auto"


def test_a_misspelt_key_of_reasoning_is_a_problem_and_no_leftover_of_the_original():
    """The original's reasoning named a model; ours says how much."""
    with pytest.raises(ConfigError, match=r"responses\[0\]\.reasoning.*did you mean 'effort'"):
        chat(responses=[{"llm": "bot", "model": "m", "reasoning": {"efort": "low"}}])


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_that_the_output_limit_may_have_cut_is_answered_and_not_run(streamed):
    """The model is told, and may ask again."""
    made, model = chat(calls(SUM, finish_reason="length"), says("Sorry."))

    if streamed:
        turn = [event async for event in made.stream("What is 2+2?")][-1].turn
    else:
        turn = await made.respond("What is 2+2?")

    (record,) = turn.response.tool_calls
    assert not record.result.success
    assert "output limit was reached" in record.result.error
    assert "output limit was reached" in model.requests[1].messages[-1].content


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("tools", [False, True])
async def test_an_answer_that_paused_is_one_answer(streamed, tools):
    """Its text is that of all its pieces, as a stream shows it."""
    rule = {"llm": "bot", "model": "m", "tools": {"enabled": tools}}
    replies = [says("Searching", finish_reason="pause"), says(" and", finish_reason="pause"), says(" found.")]
    made, _ = chat(*replies, responses=[rule])

    if streamed:
        events = [event async for event in made.stream("Look.")]
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Searching and found."
        turn = events[-1].turn
    else:
        turn = await made.respond("Look.")

    assert turn.content == "Searching and found."
    assert "".join(m.content for m in turn.response.messages[1:]) == "Searching and found."


@pytest.mark.parametrize("tools", [False, True])
async def test_an_answer_that_pauses_for_ever_ends_with_what_there_is(tools):
    rule = {"llm": "bot", "model": "m", "tools": {"enabled": tools}}
    made, _ = chat(*[says("x", finish_reason="pause")] * 9, responses=[rule])

    turn = await made.respond("Look.")

    assert set(turn.content) == {"x"}
    assert any("paused" in warning for warning in turn.response.warnings)
