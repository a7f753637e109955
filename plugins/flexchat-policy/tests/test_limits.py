"""Limits: how often, and how many at a time, tools run and turns begin."""

from __future__ import annotations

import asyncio
import io
import re
import time
from typing import Any

import pytest
from flexchat import CeilingReachedError, ConfigError, FlexChat, tool
from flexchat.store import Refusal
from flexchat_cli.main import main
from flexchat_policy.ceilings import _later
from flexchat_testing import ScriptedProvider, calls, says

TERMINAL = """
[conversations]
path = "kept.db"
[llms.it]
provider = "scripted"
repeat = true
replies = [{ text = "Yes." }]
[[responses]]
llm = "it"
model = "m"
[[rate_limits]]
rate = "1/h"
"""


def config(*limits: dict[str, Any], **more: Any) -> dict[str, Any]:
    rule = {"llm": "it", "model": "m", "tools": {"enabled": True}}
    return {"llms": {"it": {"provider": "scripted"}}, "responses": [rule], "rate_limits": list(limits), **more}


def chat_with(table: dict[str, Any], script: list[Any] | None = None, **more: Any) -> FlexChat:
    provider = ScriptedProvider(script or [says("Yes.")], repeat=script is None)
    return FlexChat.from_config(table, providers={"it": provider}, **more)


def test_a_turn_beyond_the_rate_is_refused_before_anything_is_sent():
    """With the seconds to wait."""

    async def run() -> None:
        async with chat_with(config({"rate": "2/min", "scope": "tenant"})) as chat:
            await chat.respond("One")
            await chat.respond("Two")
            with pytest.raises(CeilingReachedError, match="turns are limited to 2/min for each tenant") as caught:
                await chat.respond("Three")
            assert 20 < caught.value.retry_after_s <= 30
            await chat.respond("Another tenant has its own", tenant="other")
            assert len(chat.llms["it"].provider.requests) == 3

    asyncio.run(run())


def test_a_turn_beyond_the_rate_shows_the_time_to_wait_at_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flexchat.toml").write_text(TERMINAL)

    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert [main(["ask", "Hi"]), main(["ask", "Hi"])] == [0, 1]

    error = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"flexchat: .*turns are limited to 1/h; there is room in 60 min", error)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.0, "1 s"), (0.2, "1 s"), (119.1, "120 s"), (120.5, "3 min"), (7_200.1, "3 h"), (86_400, "24 h")],
)
def test_a_time_to_wait_is_rounded_up(seconds, text):
    """Never a moment too early: the next turn would be refused again."""
    later = _later(Refusal(key="k", left=0, retry_after_s=seconds))

    assert later == (text and f"; there is room in {text}")


def test_a_call_beyond_the_rate_is_an_error_that_the_model_reads():
    """The tool does not run."""
    ran = []

    @tool(effect="read")
    def look(at: int) -> str:
        """Look."""
        ran.append(at)
        return "seen"

    async def run() -> None:
        script = [calls(*[("look", {"at": each}) for each in range(3)]), says("Done.")]
        async with chat_with(config({"tools": ["lo*"], "rate": "2/h"}), script, tools=[look]) as chat:
            turn = await chat.respond("Look")
        failed = [each.result for each in turn.response.tool_calls if not each.result.success]
        assert len(ran) == 2
        assert [each.error for each in failed] == ["Not executed: the calls of this tool are limited to 2/h"]
        assert failed[0].hint.startswith("retry_after: ")

    asyncio.run(run())


def test_calls_wait_for_their_place_in_order():
    """Never two at a time, and none is lost."""
    running, ran = [0], []

    @tool(effect="read")
    async def look(at: int) -> str:
        """Look."""
        running[0] += 1
        assert running[0] == 1
        await asyncio.sleep(0.01)
        running[0] -= 1
        ran.append(at)
        return "seen"

    async def run() -> None:
        script = [calls(*[("look", {"at": each}) for each in range(5)]), says("Done.")]
        table = config({"tools": ["look"], "concurrency": 1, "max_wait_s": 20})
        async with chat_with(table, script, tools=[look]) as chat:
            turn = await chat.respond("Look")
        assert all(each.result.success for each in turn.response.tool_calls)
        assert ran == [0, 1, 2, 3, 4]

    asyncio.run(run())


def test_a_rate_is_waited_for_and_a_wait_that_is_too_long_fails_at_once():
    """No one waits for a place that comes too late."""

    async def run() -> None:
        async with chat_with(config({"rate": "20/s", "max_wait_s": 5})) as chat:
            started = time.monotonic()
            await asyncio.gather(*[chat.respond("Hello") for _ in range(30)])
            assert 0.45 < time.monotonic() - started < 4
        async with chat_with(config({"rate": "1/day", "max_wait_s": 60})) as chat:
            await chat.respond("One")
            started = time.monotonic()
            with pytest.raises(CeilingReachedError):
                await chat.respond("Two")
            assert time.monotonic() - started < 5

    asyncio.run(run())


def test_a_turn_gives_its_place_back_however_it_ends():
    """After a failure, a cancellation and a success."""

    async def run() -> None:
        from flexchat_sdk import ProviderAuthError

        script = [ProviderAuthError("no key"), says("Yes."), says("Yes.")]
        async with chat_with(config({"concurrency": 1}), script) as chat:
            with pytest.raises(ProviderAuthError):
                await chat.respond("One")
            await chat.respond("Two")
            await chat.respond("Three")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"rate": "10 per fortnight"}, "there is no unit 'fortnight'"),
        ({"rate": "10/minut"}, "did you mean 'minute'"),
        ({"rate": "0/min"}, "is none"),
        ({"rate": "often"}, "is none"),
        ({"concurrency": 0}, "from 1 to"),
        ({"rate": "1/s", "max_wait_s": float("nan")}, "max_wait_s"),
        ({"rate": "1/s", "scope": "tennant"}, "tenant"),
        ({"rate": "1/s", "scope": "rule"}, "before a rule is chosen"),
        ({}, "a limit needs a rate or a concurrency"),
        ({"rate": "1/s", "tools": []}, "leave it out"),
    ],
)
def test_a_wrong_limit_is_reported(table, text):
    """With its path."""
    with pytest.raises(ConfigError, match=r"rate_limits\[0\]") as caught:
        chat_with(config(table))
    assert text in str(caught.value)
