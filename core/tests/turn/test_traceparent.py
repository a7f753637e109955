"""One trace from the caller to the services that tools use, kept with the turn."""

import re

import pytest
from flexchat import ChatRequest, FlexChat, ToolContext, new_conversation_id, tool
from flexchat.domain.tracing import is_traceparent, new_traceparent, usable_tracestate
from flexchat.host import current_traceparent, current_tracestate
from flexchat.plugin import TurnInfo, hookimpl
from flexchat_testing import ScriptedProvider, calls

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = GIVEN.split("-")[1]

UNUSABLE = [
    "garbage",
    GIVEN.upper(),
    GIVEN[:-1],
    f"{GIVEN}-more",  # version 00 has four fields
    f"ff{GIVEN[2:]}",
    "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
    f"00-{TRACE}-0000000000000000-01",
    f"{GIVEN},{GIVEN}",
    f" {GIVEN}",
    f"{GIVEN}\n",
    f"cc{GIVEN[2:]}" + "-" + "x" * 600,
]


@pytest.mark.parametrize("text", [GIVEN, f"cc{GIVEN[2:]}-what-the-future-brings", GIVEN[:-2] + "00"])
def test_a_usable_context(text):
    assert is_traceparent(text)


@pytest.mark.parametrize("text", [*UNUSABLE, "", None, 7, GIVEN.encode()])
def test_an_unusable_context(text):
    assert not is_traceparent(text)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("a=1", "a=1"),
        (" a=1 ,,\tb@vendor=x y,", "a=1,b@vendor=x y"),
        ("A=1", ""),
        ("a", ""),
        ("a=", ""),
        ("a=1\nb: 2", ""),
        ("a=é", ""),
        (",".join(f"k{number}=1" for number in range(33)), ""),
        (",".join(f"k{number}=" + "x" * 200 for number in range(3)), ""),
        ("", ""),
    ],
)
def test_what_is_passed_on_of_a_tracestate(text, state):
    assert usable_tracestate(text) == state


def test_new_traces_differ():
    assert len({new_traceparent() for _ in range(100)}) == 100
    assert all(is_traceparent(new_traceparent()) for _ in range(100))


@tool
async def where(context: ToolContext) -> str:
    """Return the trace context that a request of this tool passes on."""
    return context.traceparent


@tool
async def state(context: ToolContext) -> dict[str, str]:
    """Return the headers of the trace."""
    return dict(context.trace_context)


def chat_with(tmp_path, *replies, **more):
    return FlexChat.from_config(
        {
            "conversations": {"provider": "sqlite", "path": str(tmp_path / "c.db")},
            "responses": [{"llm": "m", "model": "m", "tools": {"enabled": True}}],
        },
        tools=[where, state],
        providers={"m": ScriptedProvider(replies or ["hello"], repeat=True)},
        **more,
    )


CALLS = calls(("where", {})), "done"


async def test_a_tool_passes_the_callers_trace_on(tmp_path):
    async with chat_with(tmp_path, *CALLS) as chat:
        turn = await chat.respond("call where", traceparent=GIVEN)
    (call,) = turn.tool_calls
    assert call.result.result == GIVEN
    assert turn.traceparent == GIVEN


async def test_the_code_around_a_turn_gives_its_trace(tmp_path):
    async with chat_with(tmp_path) as chat:
        token = current_traceparent.set(GIVEN)
        turn = await chat.respond("hello")
        outside = await chat.call_tool("where", {})
        current_traceparent.reset(token)
        other = await chat.respond("hello")
    assert turn.traceparent == outside.result == GIVEN
    assert other.traceparent.split("-")[1] != TRACE
    assert current_traceparent.get() == ""


@pytest.mark.parametrize("text", UNUSABLE)
async def test_an_unusable_context_begins_a_new_trace_and_is_noted(tmp_path, text):
    async with chat_with(tmp_path) as chat:
        turn = await chat.respond(ChatRequest("hello", traceparent=text))
    assert is_traceparent(turn.traceparent)
    assert turn.traceparent.split("-")[1] not in text
    assert "the traceparent cannot be used; a new trace was begun" in turn.response.warnings


async def test_a_tracestate_is_passed_on_by_another_process(tmp_path):
    script = calls(("state", {})), "done"
    async with chat_with(tmp_path, *script) as chat:
        await chat.submit("go", conversation=new_conversation_id(), traceparent=GIVEN, tracestate="vendor=1")
    async with chat_with(tmp_path, *script) as other:
        (handle,) = await other.resume_interrupted()
        turn = await handle.result()
    assert turn.tool_calls[0].result.result == {"traceparent": GIVEN, "tracestate": "vendor=1"}


@pytest.mark.parametrize("traceparent", ["garbage", ""])
async def test_a_tracestate_without_its_trace_is_dropped(tmp_path, traceparent):
    async with chat_with(tmp_path, calls(("state", {})), "done") as chat:
        current_tracestate.set("vendor=1")
        current_traceparent.set(traceparent)
        turn = await chat.respond("go")
        outside = await chat.call_tool("state", {})
    assert turn.tool_calls[0].result.result.keys() == outside.result.keys() == {"traceparent"}


async def test_the_code_around_a_call_gives_its_tracestate(tmp_path):
    async with chat_with(tmp_path, calls(("state", {})), "done") as chat:
        current_tracestate.set("vendor=1")
        current_traceparent.set(GIVEN)
        turn = await chat.respond("go")
        outside = await chat.call_tool("state", {})
    assert turn.tool_calls[0].result.result == outside.result == {"traceparent": GIVEN, "tracestate": "vendor=1"}


async def test_it_is_kept_with_the_turn(tmp_path):
    conversation = new_conversation_id()
    async with chat_with(tmp_path) as chat:
        turn = await chat.respond("hello", conversation=conversation, traceparent=GIVEN)
        (kept,) = await chat.conversations.turns(conversation)
        _, steps = await chat.turn(turn.id)
    assert kept.traceparent == GIVEN
    assert steps[0].data["request"]["traceparent"] == GIVEN


async def test_another_process_goes_on_in_the_same_trace(tmp_path):
    conversation = new_conversation_id()
    async with chat_with(tmp_path, *CALLS) as chat:
        id = await chat.submit("call where", conversation=conversation, traceparent=GIVEN)
    async with chat_with(tmp_path, *CALLS) as other:
        (handle,) = await other.resume_interrupted()
        turn = await handle.result()
    assert handle.info.traceparent == turn.traceparent == turn.tool_calls[0].result.result == GIVEN
    assert turn.id == id


async def test_a_repeated_key_may_come_with_another_trace(tmp_path):
    async with chat_with(tmp_path) as chat:
        first = await chat.respond("hello", idempotency_key="k", traceparent=GIVEN)
        second = await chat.respond("hello", idempotency_key="k", traceparent=new_traceparent())
    assert second.id == first.id
    assert second.traceparent == GIVEN


class Recorder:
    """Traces turns, in a trace of its own."""

    def __init__(self, fails=""):
        self.steps, self.fails = [], fails
        self.traceparent = new_traceparent()

    @hookimpl
    def flexchat_trace_turn(self, info: TurnInfo, earlier_runs):
        self.steps.append((info.traceparent, tuple(earlier_runs)))
        if self.fails == "call":
            raise RuntimeError("no trace today")
        return self

    @hookimpl
    def flexchat_wait_ended(self, reason: str, elapsed_ms: float):
        self.steps.append((reason, elapsed_ms >= 1))

    def __enter__(self):
        self.steps.append("enter")
        if self.fails == "enter":
            raise SystemExit
        current_traceparent.set(self.traceparent[:-19] + "1" * 16 + "-01")

    def __exit__(self, *error):
        self.steps.append("exit")
        if self.fails == "exit":
            raise RuntimeError("no end")


async def test_a_plugin_traces_a_turn(tmp_path):
    recorder = Recorder()
    async with chat_with(tmp_path, *CALLS, hooks=[recorder]) as chat:
        turn = await chat.respond("call where")
    assert turn.traceparent == recorder.traceparent
    assert re.fullmatch(rf"{recorder.traceparent[:-19]}1{{16}}-01", turn.tool_calls[0].result.result)
    assert recorder.steps == [("", ()), "enter", "exit"]
    assert current_traceparent.get() == ""


@pytest.mark.parametrize("fails", ["call", "enter", "exit"])
async def test_a_trace_that_fails_costs_no_turn(tmp_path, fails):
    async with chat_with(tmp_path, hooks=[Recorder(fails)]) as chat:
        turn = await chat.respond("hello", traceparent=GIVEN)
    assert turn.succeeded
    assert current_traceparent.get() == ""


async def test_waiting_in_the_queue_is_reported(tmp_path):
    async with chat_with(tmp_path) as chat:
        await chat.submit("hello", conversation=new_conversation_id(), traceparent=GIVEN)
    recorder = Recorder()
    async with chat_with(tmp_path, hooks=[recorder]) as other:
        (handle,) = await other.resume_interrupted()
        await handle.result()
    assert (GIVEN, (GIVEN,)) in recorder.steps
    assert ("queue", True) in recorder.steps
