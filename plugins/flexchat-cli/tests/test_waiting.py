"""What a turn waits for, on a terminal's standard error."""

import asyncio

import pytest
from flexchat.domain import (
    ChatOptions,
    ModelRequestStarted,
    PhaseStarted,
    TextDelta,
    ToolCall,
    ToolCallRecord,
    ToolFinished,
    ToolResult,
    ToolStarted,
    TurnInfo,
)
from flexchat_cli import transcript as module
from flexchat_cli.terminal import Terminal
from flexchat_cli.transcript import Waiting

INFO = TurnInfo(id="t")
ASKED = ModelRequestStarted(info=INFO, llm="main", model="m-1", messages=(), options=ChatOptions())
RESULT = ToolResult(success=True, tool_name="x", execution_time_ms=1)
CALLS = [ToolCall.from_object(name, {}) for name in ("one", "two")]


@pytest.fixture
def shown(monkeypatch):
    """What a terminal is shown, at once."""
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0.0)
    found = []
    monkeypatch.setattr(Terminal, "shows_status", lambda self: True)
    monkeypatch.setattr(Terminal, "status", lambda self, text: found.append(text))
    monkeypatch.setattr(Terminal, "symbol", lambda self, wanted, plain: wanted)
    return found


async def show(waiting, *events):
    for event in events:
        waiting.show(event)
    await asyncio.sleep(0.001)


async def test_it_says_what_a_turn_waits_for_until_text_comes(shown):
    with Waiting(Terminal()) as waiting:
        await show(waiting, PhaseStarted(info=INFO, phase="topic detection"))
        await show(waiting, ASKED)  # the topic's: nothing new
        await show(waiting, PhaseStarted(info=INFO, phase="rag collection"))
        await show(waiting, PhaseStarted(info=INFO, phase="response generation"), ASKED)
        await show(waiting, TextDelta(0, "Hi"), TextDelta(0, " there"))
    assert shown == ["Detecting the topic…", "Searching documents…", "", "Waiting for m-1…", ""]


async def test_of_tools_side_by_side_it_names_one_that_runs(shown):
    finished = [
        ToolFinished(info=INFO, record=ToolCallRecord(tool=c.name, params={}, result=RESULT, iteration=1, call_id=c.id))
        for c in CALLS
    ]
    with Waiting(Terminal()) as waiting:
        for call in CALLS:
            await show(waiting, ToolStarted(info=INFO, call=call))
        for each in reversed(finished):
            await show(waiting, each)
    assert shown == ["Running one…", "Running two…", "Running one…", ""]


async def test_the_seconds_are_counted_once_they_are_some(shown, monkeypatch):
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    with Waiting(Terminal()) as waiting:
        waiting.show(ASKED)
        for moment in (100.4, 102.0, 103.0, 164.0):
            now = moment
            waiting._tick()
    assert shown == ["Waiting for m-1…", "Waiting for m-1…", "Waiting for m-1… 3 s", "Waiting for m-1… 64 s", ""]


async def test_what_ends_soon_is_not_shown(shown, monkeypatch):
    """Nor is anything shown once the turn has ended, however it did."""
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0.001)
    with Waiting(Terminal()) as waiting:
        waiting.show(ASKED)
    await asyncio.sleep(0.005)
    assert shown == [""]


def test_without_a_terminal_nothing_is_shown(run, script):
    script('{ text = "42" }')
    assert run("ask", "go").err == ""


def test_a_line_of_the_answer_is_not_written_over(capsys, monkeypatch):
    """A status while a line of the answer is open would take it away."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    terminal.write("Once")
    terminal.status("Waiting")
    assert capsys.readouterr().err == ""
    terminal.end_line()
    terminal.status("Waiting")
    assert "Waiting" in capsys.readouterr().err
