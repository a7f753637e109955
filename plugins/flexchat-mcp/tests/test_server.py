"""Supervision: start, idle and restart budgets, eras, and what is left."""

import asyncio
import contextlib
import time

import pytest
from flexchat.plugin import ToolSourceError
from flexchat_mcp.errors import AnswerLostError
from flexchat_mcp.listing import list_tools

from .conftest import MODERN_FIRST, gone, until

pytestmark = pytest.mark.anyio


async def alive(source):
    return len((await source.server.ask(list_tools)).tools)


@pytest.mark.quick
@pytest.mark.parametrize(("era", "version"), [("modern", "2026-07-28"), ("handshake", "2025-11-25")])
async def test_both_eras_are_spoken(source_of, folder, era, version):
    source = source_of(era)
    await alive(source)
    assert source.server.state.version == version


async def test_the_era_can_be_said(source_of, folder):
    source = source_of("both", protocol="handshake")
    await alive(source)

    assert source.server.state.version == "2025-11-25"


@pytest.mark.parametrize("fault", ["never start", "print without end"])
@pytest.mark.slow
async def test_a_server_that_does_not_start_is_given_up(source_of, folder, fault):
    source = source_of("both", fault, start_ms=300)

    with pytest.raises(ToolSourceError) as caught:
        await source.tools()

    assert str(caught.value).startswith(("it did not answer within 0.3 s of its start", "it printed more than"))
    assert await asyncio.to_thread(gone, folder.pids())


async def test_a_server_that_does_not_list_is_left_when_nobody_waits(source_of, folder):
    source = source_of("both", "hang lists")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await source.tools()
    await source.aclose()

    assert await asyncio.to_thread(gone, folder.pids())


async def test_an_unused_server_is_ended_and_started_again_when_needed(source_of, folder):
    source = source_of(idle_ms=100)
    await alive(source)
    await until(lambda: source.server.state.status == "stopped")
    assert await asyncio.to_thread(gone, folder.pids())

    assert await alive(source) == 2
    assert source.server.state.ends == 0
    assert source.told


async def test_a_server_that_ends_again_and_again_is_left_alone_for_a_while(source_of, folder):
    """After so many restarts a minute; the reason stays."""
    source = source_of(restarts=2)
    folder.fault("always die")
    for _ in range(3):
        with pytest.raises(Exception, match="exit code 7"):
            await source.server.ask(_call)
    with pytest.raises(
        Exception, match=r"it has failed 3 times within a minute, and is started again in [56]"
    ) as caught:
        await source.server.ask(_call)

    assert "exit code 7" in str(caught.value)
    assert len(folder.lines("starts")) == 3


async def _call(client):
    from flexchat_mcp.tool_call import call_tool

    return await call_tool(client, "add", {"a": 1})


@pytest.mark.quick
async def test_many_calls_at_once_start_one_server(source_of, folder):
    source = source_of()
    found = await asyncio.gather(*(source.server.ask(_call) for _ in range(20)))

    assert len(found) == 20
    assert len(folder.lines("starts")) == 1


async def test_who_is_cancelled_while_it_starts_does_not_stop_it_for_others(source_of, folder):
    source = source_of()
    first = asyncio.ensure_future(source.server.ask(_call))
    second = asyncio.ensure_future(source.server.ask(_call))
    await asyncio.sleep(0.05)
    first.cancel()

    assert (await second)["content"]
    assert len(folder.lines("starts")) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults", [["leave a child"], ["leave a child", "daemon"], ["leave a child", "ignore the end"]]
)
async def test_nothing_is_left_of_a_closed_server(source_of, folder, faults):
    source = source_of("both", *faults)
    await alive(source)
    await source.aclose()

    assert await asyncio.to_thread(gone, [*folder.pids(), *folder.pids("children")])


async def test_its_stderr_is_kept_without_secrets(source_of, folder):
    source = source_of(env={"MY_TOKEN": "hunter2-secret"})
    await alive(source)

    await until(lambda: source.server.state.last_lines)
    assert source.server.state.last_lines == ("starting, with token=***",)


@pytest.mark.slow
@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_chaos(source_of, folder, era):
    """Kills, halves, prints, floods, in any order: no hanging call, no orphan, and the next call works."""
    source = source_of(era, restarts=1_000, max_bytes=200_000)
    slowest = 0.0
    for fault in ["die", "half", "print", "nonsense", "die", "endless line", "flood", "say why and die"] * 2:
        folder.fault(fault)
        with contextlib.suppress(AnswerLostError):
            async with asyncio.timeout(20):
                await source.server.ask(_call)
        started = time.monotonic()
        assert (await source.server.ask(_call))["content"]
        slowest = max(slowest, time.monotonic() - started)
    await source.aclose()

    assert await asyncio.to_thread(gone, folder.pids())
    assert slowest < 2
