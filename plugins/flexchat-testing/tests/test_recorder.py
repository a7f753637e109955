"""RecordedEvents hears every event, and the fixtures of the pytest plugin work together."""

import inspect
import textwrap

import pytest
from flexchat.plugin import hookspecs
from flexchat.plugin.host import registration_hooks
from flexchat_testing import RecordedEvents

NO_EVENTS = {*registration_hooks(), "flexchat_around_request", "flexchat_refusal", "flexchat_fit_history"}
EVENTS = [hook for hook in vars(hookspecs) if hook.startswith("flexchat_") and hook not in NO_EVENTS]


@pytest.mark.parametrize("hook", EVENTS)
def test_every_event_is_recorded_with_all_it_tells(hook):
    """A hook that is added to the surface must be recorded too, and so must a new argument."""
    expected = [*inspect.signature(getattr(hookspecs, hook)).parameters]
    recorder = RecordedEvents()

    getattr(recorder, hook)(**dict.fromkeys(expected, "told"))

    assert recorder.names == [hook.removeprefix("flexchat_")]
    assert recorder.of(recorder.names[0]) == [dict.fromkeys(expected, "told")]
    assert recorder.of("another") == []


AUTHOR_CONFTEST = 'pytest_plugins = ["flexchat_testing.fixtures"]\n'
AUTHOR_TEST = """
import asyncio
import socket

import pytest
from flexchat.plugin import ToolHandler, hookimpl
from flexchat_testing import NetworkForbiddenError, calls


def test_a_turn(flexchat_app, scripted, recorded_events):
    model = scripted(calls(("calculator", {"expression": "6*7"})), "It is 42.")

    async def turn():
        async with flexchat_app(model, tools=["calculator"], tools_table={"max_iterations": 2}) as chat:
            return await chat.respond("What is 6 times 7?")

    answer = asyncio.run(turn())

    assert answer.content == "It is 42."
    assert "before_tool_call" in recorded_events.names
    assert recorded_events.of("tool_finished")[0]["record"].result.result == {"result": 42}
    model.assert_complete()


def test_a_plugin_that_is_not_installed(flexchat_app, plugin_host):
    class Own:
        @hookimpl
        def flexchat_register_tool_handlers(self):
            yield ToolHandler(kind="builtin", name="hello", call=lambda params, context: "Hello")

    plugin_host.register(Own(), "own")
    assert ("builtin", "hello") in plugin_host.handlers.by_name
    assert flexchat_app(["Hi"]) is not None


def test_no_network(forbid_sockets):
    with pytest.raises(NetworkForbiddenError):
        socket.create_connection(("203.0.113.1", 80), timeout=1)
"""


@pytest.mark.slow
def test_an_authors_conftest_switches_the_fixtures_on(tmp_path):
    """With one line, in a project of their own."""
    import subprocess
    import sys

    (tmp_path / "conftest.py").write_text(AUTHOR_CONFTEST)
    (tmp_path / "test_own.py").write_text(textwrap.dedent(AUTHOR_TEST))
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")

    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
