"""A server's process, its end, and that nothing is left."""

import asyncio
import collections
import os
import signal
import subprocess
import sys

import pytest
from flexchat_mcp import process as module
from flexchat_mcp.errors import ServerUnusableError
from flexchat_mcp.process import ServerProcess

from .conftest import gone, lives

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


async def start(*argv, folder, **env):
    return await ServerProcess.start(argv, env=env, cwd=folder, mask=lambda text: text.replace("secret", "***"))


async def said(process, stream="stdout"):
    return (await getattr(process.process, stream).readline()).decode().strip()


async def wait_for_end(process):
    """Wait until a command has ended, however slow the machine is, and its stderr was read."""
    await process.process.wait()
    await process.wait_settled()


async def test_a_command_gets_its_environment_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setenv("API_KEY", "hidden")
    process = await start("sh", "-c", "echo $MINE-$API_KEY-$PWD", folder=tmp_path, MINE="yes")

    assert await said(process) == f"yes--{tmp_path}"
    await process.end()


async def test_it_ends_when_its_stdin_does(tmp_path):
    process = await start("cat", folder=tmp_path)
    await process.end()

    assert process.process.returncode == 0


async def test_its_exit_code_and_last_words_are_known(tmp_path):
    process = await start("sh", "-c", "echo one >&2; echo two secret >&2; exit 5", folder=tmp_path)
    await wait_for_end(process)

    assert process.how_it_ended == "it ended with exit code 5; its last words: two ***"
    assert list(process.stderr) == ["one", "two ***"]
    await process.end()


async def test_colours_and_titles_are_taken_out_of_its_words(tmp_path):
    words = r"\x1b[32mINFO\x1b[39m \x1b]0;title\x07set \x1b[1;31mTOKEN\x1b[0m first\x1b(B"
    process = await start(sys.executable, "-c", f"import sys; print('{words}', file=sys.stderr)", folder=tmp_path)
    await wait_for_end(process)

    assert list(process.stderr) == ["INFO set TOKEN first"]
    await process.end()


async def test_a_signal_is_named(tmp_path):
    process = await start("sh", "-c", "kill -9 $$", folder=tmp_path)
    await wait_for_end(process)

    assert process.how_it_ended == "it was ended by signal SIGKILL"
    await process.end()


@pytest.mark.parametrize("name", ["no-such-program", "./no-such-program", "/no/such/program"])
async def test_a_missing_program_is_said(tmp_path, name):
    with pytest.raises(ServerUnusableError, match="there is no program"):
        await start(name, folder=tmp_path)


async def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(ServerUnusableError, match="cwd is not a folder"):
        await start("cat", folder=tmp_path / "nowhere")


async def test_a_program_in_the_configs_folder_is_found(tmp_path):
    program = tmp_path / "run"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    process = await start("./run", folder=tmp_path)

    assert await said(process) == "here"
    await process.end()


async def test_endless_stderr_is_read_and_not_kept(tmp_path):
    process = await start("sh", "-c", "yes warning | head -c 3000000 >&2; echo done", folder=tmp_path)

    assert await said(process) == "done"
    assert len(process.stderr) <= 60
    await process.end()


async def test_a_flood_on_stderr_has_to_wait(tmp_path, monkeypatch):
    """It would take our time for as long as the server lives."""
    monkeypatch.setattr(module, "STDERR_BYTES", 2**17)
    slept, sleep = [], asyncio.sleep

    async def noted(seconds):
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    process = await start("sh", "-c", "yes warning | head -c 1000000 >&2; echo done", folder=tmp_path)

    assert await said(process) == "done"
    assert 3 <= len([seconds for seconds in slept if 0.01 < seconds <= 1]) <= 8
    await process.end()


_STUBBORN = "trap '' TERM HUP INT; sleep 600 & echo $$ $!; while true; do sleep 600; done"
_DAEMON = "setsid sleep 600 & echo $$ $!; exec cat"


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("script", [_STUBBORN, _DAEMON], ids=["stubborn", "daemon"])
async def test_everything_it_has_started_ends_with_it(tmp_path, script, stopped):
    """Children, those that ignore signals, those in a session of their own; even if all of them stand still."""
    process = await start("sh", "-c", script, folder=tmp_path)
    pids = [*map(int, (await said(process)).split())]
    assert all(map(lives, pids))
    if stopped:
        os.killpg(process.process.pid, signal.SIGSTOP)

    await process.end()

    assert gone([*pids, process.process.pid])


@pytest.mark.parametrize("script", [_DAEMON])
async def test_what_a_dead_server_leaves_behind_ends(tmp_path, script):
    process = await start("sh", "-c", script.replace("exec cat", "exit 0"), folder=tmp_path)
    pids = [*map(int, (await said(process)).split())]

    assert await asyncio.to_thread(gone, pids)
    await process.end()


_PARENT = """
import asyncio, pathlib, sys
from flexchat_mcp.process import ServerProcess

async def main():
    process = await ServerProcess.start(["sh", "-c", sys.argv[1]], env={}, cwd=pathlib.Path(), mask=str)
    print(process.process.pid, (await process.process.stdout.readline()).decode(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("script", [_STUBBORN, _DAEMON], ids=["stubborn", "daemon"])
async def test_nothing_is_left_when_we_are_killed(tmp_path, script, stopped):
    """With the signal that nobody can hear; even if all that we have started stands still."""
    command = [sys.executable, "-c", _PARENT, script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as parent:  # noqa: ASYNC220
        assert parent.stdout is not None
        pids = [*map(int, parent.stdout.readline().split())]
        assert len(pids) == 3
        assert all(map(lives, pids))
        if stopped:
            os.killpg(pids[0], signal.SIGSTOP)
        parent.send_signal(signal.SIGKILL)

    assert gone(pids)


def test_killing_the_keeper_and_its_starter_at_once_ends_the_server(tmp_path):
    """A server that does not care about the end of its stdin, either."""
    code = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom flexchat_mcp.process import ServerProcess\n"
        "async def main():\n"
        "    command = ['sh', '-c', 'echo $$; exec sleep 600']\n"
        "    process = await ServerProcess.start(command, env={}, cwd=Path(), mask=str)\n"
        "    pid = (await process.process.stdout.readline()).decode().strip()\n"
        "    print(process.process.pid, pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    keeper, server = map(int, starter.stdout.readline().split())
    os.kill(starter.pid, signal.SIGSTOP)  # neither of them gets to know of the other's end
    os.kill(keeper, signal.SIGKILL)
    os.kill(starter.pid, signal.SIGKILL)
    starter.communicate()

    assert gone([keeper, server])


async def test_a_broken_pipe_ends_a_command_as_usual(tmp_path):
    process = await start("sh", "-c", "yes | head -n1; echo $?", folder=tmp_path)

    assert (await said(process), await said(process)) == ("y", "0")
    await wait_for_end(process)
    assert process.stderr == collections.deque(maxlen=module.KEPT_LINES)
    await process.end()


async def test_killing_the_keeper_ends_the_server(tmp_path):
    """At once: without its keeper, nobody would end it if we were killed, too."""
    process = await start("sh", "-c", "trap '' HUP; echo $$; exec sleep 600", folder=tmp_path)
    server = int(await said(process))
    os.kill(process.process.pid, signal.SIGKILL)

    assert await asyncio.to_thread(gone, [server])
    await process.end()
