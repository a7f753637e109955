"""The log of servers and workers: its lines, its ids, its levels, and what it never holds."""

import io
import json
import logging

import pytest
from flexchat import FlexChat, FlexChatError, ProviderError, tool
from flexchat.plugin import CeilingReachedError, hookimpl
from flexchat_cli import Terminal, TurnLog, UsageError, current_request, show_log
from flexchat_cli.logs import read_levels
from flexchat_testing import ScriptedProvider, calls

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@tool(effect="read")
def look(password: str = "", text: str = "") -> str:
    """Look, and warn as a library does."""
    logging.getLogger("some_library").warning("looked\nforged line")
    return "seen"


@pytest.fixture
def logged(monkeypatch):
    """Return a function that runs a turn with the log shown, and returns the log's lines."""

    async def run(*replies, log_format="json", levels=(), verbose=False, hooks=(), **request):
        stderr = io.StringIO()
        monkeypatch.setattr("sys.stderr", stderr)
        terminal = Terminal(color=False, verbose=verbose)
        config = {"responses": [{"name": "main", "llm": "m", "model": "m1", "tools": {"allowed_tools": ["look"]}}]}
        providers = {"m": ScriptedProvider(replies)}
        token = current_request.set("request-1")
        with show_log(terminal, (log_format, read_levels(levels))):
            async with FlexChat.from_config(
                config, tools=[look], providers=providers, hooks=[TurnLog(), *hooks]
            ) as chat:
                try:
                    await chat.respond("hello", **request)
                except FlexChatError:
                    pass
        current_request.reset(token)
        lines = stderr.getvalue().splitlines()
        return [json.loads(line) for line in lines] if log_format == "json" else lines

    return run


async def test_a_turn_and_its_calls_are_lines_with_their_fields(logged):
    """Per call: tool, params, success, time, timestamp (TC-126). Per turn: iteration, calls, reason, model (TC-127)."""
    library, call, turn = await logged(calls(("look", {"text": "x"})), "done", tenant="acme", traceparent=GIVEN)

    assert (call["tool"], call["params"], call["success"]) == ("look", {"text": "x"}, True)
    assert isinstance(call["execution_time_ms"], int)
    assert call["timestamp"].endswith("Z")
    assert (turn["iteration"], turn["tool_calls"], turn["finish_reason"], turn["model"]) == (2, 1, "stop", "m/m1")
    assert (turn["outcome"], turn["rule"], turn["tools"]) == ("done", "main", ["look"])
    assert turn["elapsed_ms"] > 0
    assert library["logger"] == "some_library"
    ids = {"request": "request-1", "turn": turn["turn"], "tenant": "acme", "trace": GIVEN[3:35]}
    assert all(ids.items() <= line.items() for line in (library, call, turn))


async def test_a_failed_turn_has_its_line(logged):
    (line,) = await logged(ProviderError("the service is down", provider="m"))
    assert (line["level"], line["outcome"], line["error"]) == ("warning", "failed", "the service is down")


async def test_a_turn_refused_before_it_has_a_model_names_none(logged):
    class Closed:
        @hookimpl
        def flexchat_before_turn(self):
            raise CeilingReachedError("Closed today")

    (line,) = await logged(log_format="text", hooks=[Closed()])
    assert "outcome=failed" in line
    assert "model=" not in line


async def test_secrets_are_masked(logged):
    lines = await logged(calls(("look", {"password": "hunter2-hunter2"})), "done", verbose=True)
    assert "hunter2" not in json.dumps(lines)
    assert any(line["logger"] == "flexchat.calls.steps" and "look" in line["message"] for line in lines)


async def test_a_tool_that_a_model_invents_names_no_secret(logged):
    lines = await logged(calls(("password=hunter2-hunter2", {})), "done", verbose=True)
    (call,) = [line for line in lines if "execution_time_ms" in line]
    assert "***" in call["tool"]
    assert "hunter2" not in json.dumps(lines)


async def test_verbose_shows_no_arguments(logged):
    lines = await logged(calls(("look", {"text": "xyzzy"})), "done", log_format="text", verbose=True)
    assert any("look" in line for line in lines)
    assert "xyzzy" not in "".join(lines)


async def test_a_message_cannot_forge_a_line(logged):
    lines = await logged(calls(("look", {})), "done", log_format="text")
    assert len(lines) == 3
    assert "some_library: looked\\nforged line [request=request-1 turn=" in lines[0]


async def test_levels_are_also_per_logger(logged):
    assert await logged(calls(("look", {})), "done", levels=["error", "some_library=error"]) == []
    lines = await logged(calls(("look", {})), "done", levels=["warning", "flexchat_cli.calls=info"])
    assert [line["logger"] for line in lines] == ["some_library", "flexchat_cli.calls"]


@pytest.mark.parametrize("level", ["loud", "flexchat=loud", "=", "", "warn1ng"])
def test_an_unknown_level_is_refused(level):
    with pytest.raises(UsageError) as caught:
        read_levels([level])
    assert f"--log-level {level}: there is no level" in str(caught.value)


def test_the_loggers_are_as_before_afterwards():
    before = logging.getLogger("flexchat").level, list(logging.getLogger().handlers)
    with show_log(Terminal(), ("text", {"": logging.DEBUG})):
        assert logging.getLogger("flexchat").level == logging.DEBUG
    assert (logging.getLogger("flexchat").level, list(logging.getLogger().handlers)) == before
