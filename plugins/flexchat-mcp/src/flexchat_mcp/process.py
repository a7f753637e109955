"""A server's process: in a group of its own, its stderr kept, and gone when it should be."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .errors import ServerUnusableError

IS_POSIX = os.name == "posix"  # whether servers are run in process groups; elsewhere the SDK runs them: stdio.py

INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""Variables a server gets unless its env says otherwise: none that may hold a secret."""

STDIN_S = 0.6  # seconds a server has to end once its stdin is closed
KEEPER_S = 1.6  # seconds its keeper then has to end all of it
KEPT_LINES, KEPT_CHARS = 60, 400  # how much is kept of what it writes to stderr: lines, and characters of each
STDERR_BYTES = 2**22
"""How much of it is read in a second; a server that writes more has to wait, so that it does not take our time."""

# Colours and other orders to a terminal: CSI and OSC sequences, and those of two characters (ECMA-48).
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_KEEPER = Path(__file__).with_name("keeper.py")


class ServerProcess:
    """One running server command. Made by ``start``.

    Attributes:
        process: The keeper, whose id is that of the process group.
        stderr: The last lines the server wrote there, masked.
    """

    def __init__(self, process: asyncio.subprocess.Process, alive: socket.socket, mask: Callable[[str], str]) -> None:
        self.process = process
        self.stderr: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._alive, self._mask = alive, mask
        loop = asyncio.get_running_loop()
        loop.add_reader(alive, self._keeper_has_ended)
        self._reading = loop.create_task(self._read_stderr())
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, mask: Callable[[str], str]
    ) -> ServerProcess:
        """Start a command.

        Raises:
            ServerUnusableError: There is no such program or folder, or it cannot be started.
        """
        variables = {**{name: os.environ[name] for name in INHERITED if name in os.environ}, **env}
        program = _program(argv[0], variables.get("PATH"), cwd)
        # The keeper ends the command when its end of this pair is closed, which the kernel does even after SIGKILL.
        alive, of_keeper = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_KEEPER), str(of_keeper.fileno()), program, *argv[1:]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=variables,
                cwd=cwd,
                pass_fds=(of_keeper.fileno(),),
                start_new_session=True,
                limit=2**18,
            )
        except (OSError, ValueError) as error:
            alive.close()
            raise ServerUnusableError(f"{argv[0]} cannot be started: {error}") from None
        except BaseException:
            alive.close()  # if it was started after all, its keeper ends it now
            raise
        finally:
            of_keeper.close()
        return cls(process, alive, mask)

    @property
    def how_it_ended(self) -> str:
        """Why it is no longer there, for people: exit code or signal, and its last words."""
        if (code := self.process.returncode) is None:
            reason = "it closed its stdout"
        elif 0 <= code <= 128:
            reason = f"it ended with exit code {code}"
        else:
            number = code - 128 if code > 128 else -code
            is_named = number in [*signal.Signals]
            reason = f"it was ended by signal {signal.Signals(number).name if is_named else number}"
        return f"{reason}; its last words: {self.stderr[-1]}" if self.stderr else reason

    async def wait_settled(self) -> None:
        """Wait until it has ended and its stderr was read, for a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                # Shielded: the time-out must not cancel the reader, which goes on collecting the last words.
                await asyncio.shield(self._reading)
                await self.process.wait()

    async def end(self) -> None:
        """End it and everything it has started; takes STDIN_S + KEEPER_S at most, and goes on if cancelled."""
        # One task for all callers, shielded: a cancelled caller must not leave processes behind.
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        process = self.process
        if process.stdin is not None:
            # First the polite way: a stdio server is expected to exit when its stdin closes.
            process.stdin.close()
        await self._wait_for_end(STDIN_S)
        self._release()
        await self._wait_for_end(KEEPER_S)
        if process.returncode is None or self._reading.done() is False:
            with contextlib.suppress(OSError):  # usually no process is left
                os.killpg(process.pid, signal.SIGKILL)
        await self._wait_for_end(0.3)
        self._reading.cancel()
        transport = getattr(process, "_transport", None)  # otherwise its pipes warn when they are collected
        if transport is not None:
            transport.close()

    def _keeper_has_ended(self) -> None:
        # Usually the command ended first. If the keeper was killed, its command would go on without this.
        self._release()
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _release(self) -> None:
        """Tell the keeper to end everything, if it is there."""
        if self._alive.fileno() >= 0:
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGCONT)  # it may be stopped (SIGSTOP)
            asyncio.get_running_loop().remove_reader(self._alive)
            self._alive.close()

    async def _wait_for_end(self, seconds: float) -> None:
        # Not process.wait() alone: it also waits for pipes that a survivor may hold.
        until = asyncio.get_running_loop().time() + seconds
        while self.process.returncode is None and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def _read_stderr(self) -> None:
        stream, rest, now = self.process.stderr, b"", asyncio.get_running_loop().time
        assert stream is not None
        since, size = now(), 0
        while chunk := await stream.read(2**16):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[: 4 * KEPT_CHARS]
            for line in lines[-KEPT_LINES:]:
                self._keep(line)
            size += len(chunk)
            # Rate limited: a server that floods stderr is slowed down by its full pipe, not this process.
            if size >= STDERR_BYTES or now() - since > 1:
                if size >= STDERR_BYTES:
                    await asyncio.sleep(since + 1 - now())
                since, size = now(), 0
        self._keep(rest)

    def _keep(self, line: bytes) -> None:
        if text := _ESCAPES.sub("", line[: 4 * KEPT_CHARS].decode("utf-8", "replace")).strip():
            self.stderr.append(self._mask(text)[:KEPT_CHARS])


def _program(name: str, path: str | None, cwd: Path) -> str:
    """Return where a program is.

    Raises:
        ServerUnusableError: There is none, or no folder to run it in.
    """
    if not cwd.is_dir():
        raise ServerUnusableError(f"cwd is not a folder: {cwd}")
    if "/" in name:
        path_of_program = cwd / Path(name).expanduser()
        if not path_of_program.is_file():
            raise ServerUnusableError(f"there is no program {path_of_program}")
        return str(path_of_program)
    if (where := shutil.which(name, path=path)) is None:
        raise ServerUnusableError(f"there is no program '{name}' on the PATH")
    return where
