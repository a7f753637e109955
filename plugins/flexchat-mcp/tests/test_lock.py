"""The lock between programs: one holds it, however the others come and go."""

import asyncio
import contextlib
import os
import subprocess
import sys

import pytest
from flexchat_mcp import tokens
from flexchat_mcp.tokens import TokenFile, TokensError, take_lock

pytestmark = pytest.mark.anyio
HOLDER = """
import asyncio, os, sys
from flexchat_mcp.tokens import take_lock
asyncio.run(take_lock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), 5))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def opened(tmp_path):
    """Open the file of the lock."""
    numbers = []

    def opened():
        numbers.append(os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT))
        return numbers[-1]

    yield opened
    for number in numbers:
        with contextlib.suppress(OSError):
            os.close(number)


async def test_one_at_a_time_is_in(tmp_path):
    file, inside, most = TokenFile("https://a.example/mcp"), 0, 0

    async def enter():
        nonlocal inside, most
        async with file.locked():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(enter() for _ in range(20)))

    assert most == 1
    assert oct(file.path.with_suffix(".lock").stat().st_mode)[-3:] == "600"


async def test_who_waits_in_vain_is_told(opened):
    await take_lock(opened(), 1)

    with pytest.raises(TimeoutError):
        await take_lock(opened(), 0.05)


async def test_who_is_cancelled_while_it_waits_has_nothing(opened):
    first = opened()
    await take_lock(first, 1)
    waiting = asyncio.create_task(take_lock(second := opened(), 60))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    os.close(first)
    os.close(second)

    await take_lock(opened(), 1)


@pytest.mark.slow
async def test_a_program_that_is_killed_holds_it_no_longer(tmp_path, opened):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    holder = await asyncio.create_subprocess_exec(*command, **pipes)
    said = await holder.stdout.readline()
    with pytest.raises(TimeoutError):
        await take_lock(opened(), 0.05)
    holder.kill()
    await holder.wait()

    assert said == b"held\n"
    await take_lock(opened(), 1)


async def test_a_program_that_does_not_end_is_said(monkeypatch):
    monkeypatch.setattr(tokens, "LOCK_S", 0.05)
    file = TokenFile("https://a.example/mcp")
    async with file.locked():
        with pytest.raises(TokensError, match="another program has been renewing the tokens"):
            await file.forget()


@pytest.mark.skipif(os.name == "nt", reason="links there need rights")
async def test_a_link_in_its_place_is_not_followed(tmp_path):
    file = TokenFile("https://a.example/mcp")
    file.write({})
    file.path.with_suffix(".lock").symlink_to(tmp_path / "theirs")

    with pytest.raises(TokensError, match="cannot be used"):
        await file.forget()
    assert not (tmp_path / "theirs").exists()
