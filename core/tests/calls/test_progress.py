"""Tools say how far they are."""

import pytest
from flexchat import FlexChat, ToolContext, ToolProgress, tool
from flexchat.plugin import hookimpl
from flexchat_testing import ScriptedProvider, calls, says
from hypothesis import given
from hypothesis import strategies as st


def chat_with(function, hooks=()):
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
    }
    provider = ScriptedProvider([calls(("work", {})), says("Done.")])
    return FlexChat.from_config(config, tools=[tool(name="work")(function)], providers={"bot": provider}, hooks=hooks)


async def told_of(work):
    async with chat_with(work) as chat:
        return [event async for event in chat.stream("Work") if isinstance(event, ToolProgress)]


async def test_the_reader_of_a_stream_hears_how_far_a_tool_is():
    async def work(context: ToolContext) -> str:
        """Work."""
        await context.report_progress(3, 10, "reading")
        return context.call_id

    async with chat_with(work) as chat:
        events = [event async for event in chat.stream("Work")]
    (told,) = [event for event in events if isinstance(event, ToolProgress)]
    (call,) = events[-1].turn.tool_calls

    assert (told.tool, told.progress, told.total, told.message) == ("work", 3, 10, "reading")
    assert told.call_id == call.call_id
    assert told.info.id == events[-1].turn.id


async def test_a_storm_costs_little_and_is_thinned_out():
    async def work(context: ToolContext) -> str:
        """Work."""
        for n in range(100_000):
            await context.report_progress(n)
        return "done"

    told = await told_of(work)

    assert 1 <= len(told) < 100
    assert told[0].progress == 0


@pytest.mark.parametrize("progress", [float("nan"), float("inf"), "half", None, True, [1]])
async def test_what_is_not_a_number_is_not_shown(progress):
    async def work(context: ToolContext) -> str:
        """Work."""
        await context.report_progress(progress)
        return "done"

    assert await told_of(work) == []


async def test_a_total_that_is_not_a_number_is_unknown_and_a_message_is_bounded():
    async def work(context: ToolContext) -> str:
        """Work."""
        await context.report_progress(1, "ten", "x" * 100_000)
        return "done"

    (told,) = await told_of(work)

    assert (told.total, len(told.message)) == (None, 200)


async def test_plugins_hear_of_it_and_nobody_else_has_to_listen():
    heard = []

    class Plugin:
        @hookimpl
        def flexchat_tool_progress(self, tool: str, progress: float) -> None:
            heard.append((tool, progress))

    async def work(context: ToolContext) -> str:
        """Work."""
        await context.report_progress(1, 2)
        return "done"

    async with chat_with(work, hooks=[Plugin()]) as chat:
        await chat.respond("Work")
    async with chat_with(work) as chat:
        await chat.respond("Work")
        assert (await chat.call_tool("work", {})).result == "done"

    assert heard == [("work", 1.0)]


@given(st.floats(allow_nan=False, allow_infinity=False), st.none() | st.floats(), st.text())
def test_any_progress_can_be_said_in_words(progress, total, message):
    from flexchat import TurnInfo
    from flexchat_cli.transcript import format_progress

    event = ToolProgress(info=TurnInfo(), call_id="c", tool="t", progress=progress, total=total, message=message)

    assert format_progress(event)
