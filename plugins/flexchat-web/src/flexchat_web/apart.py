"""Long work, in separate processes.

Threads would not do: they share Python's lock, so the event loop, and with it every other request, would still wait.
And tools and databases need the thread pool.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from flexchat.host import error_name

from .problems import ApiError

if TYPE_CHECKING:
    from .serving import Serving

SECONDS = 30.0
"""How long one piece of work may take in wall-clock time; a process's first includes its start."""

MAX_WAITING = 64
"""Pieces of work that may wait for a process; further callers are asked to retry."""

_SIZE_BYTES = 8

T = TypeVar("T")


class Apart:
    """The processes of a server, started when they are first needed.

    They have low priority, and use what the server leaves them.

    Args:
        most: Most processes; default: one less than there are processors, but at least one.
    """

    def __init__(self, serving: Serving | None = None, *, most: int | None = None) -> None:
        self._free = asyncio.Semaphore(most or max(1, min(4, (os.cpu_count() or 1) - 1)))
        self._idle: list[asyncio.subprocess.Process] = []
        self._all: set[asyncio.subprocess.Process] = set()
        self._waiting = 0

    @classmethod
    def of(cls, serving: Serving) -> Apart:
        """Return a server's instance."""
        return serving.shared(cls)

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Call a function in another process; return its result, or raise its exception.

        Args:
            work: A function of a module, not a closure.
            args: Values that can be pickled, as must the result.

        Raises:
            ApiError: 503: the call took too long, or too many calls are waiting.
        """
        if self._waiting >= MAX_WAITING:
            raise _busy("there is too much to do just now; ask again in a few seconds")
        self._waiting += 1
        try:
            async with self._free:
                # A caller that leaves does not stop the process: its work is bounded, and a new process costs more.
                job = asyncio.ensure_future(self._work(work, args))
                try:
                    good, result = await asyncio.shield(job)
                except asyncio.CancelledError:
                    await asyncio.wait({job})
                    raise
        finally:
            self._waiting -= 1
        if not good:
            raise result
        answer: T = result
        return answer

    async def aclose(self) -> None:
        """End the processes, whatever they are doing."""
        for process in [*self._all]:
            await self._end(process)

    async def _work(self, work: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bool, Any]:
        request = pickle.dumps((work, args), pickle.HIGHEST_PROTOCOL)
        process = None
        try:
            async with asyncio.timeout(SECONDS):
                process = self._idle.pop() if self._idle else await self._start()
                assert process.stdin is not None and process.stdout is not None  # noqa: PT018  both are pipes
                process.stdin.write(len(request).to_bytes(_SIZE_BYTES, "big"))
                process.stdin.write(request)
                await process.stdin.drain()
                size = int.from_bytes(await process.stdout.readexactly(_SIZE_BYTES), "big")
                answer: tuple[bool, Any] = pickle.loads(await process.stdout.readexactly(size))
        except (OSError, EOFError) as error:
            if process is not None:
                await self._end(process)
            if isinstance(error, TimeoutError):
                return False, _busy(f"this took longer than {SECONDS:g} seconds and was given up; send less at once")
            return False, _busy("the process that does this ended or could not be started; ask again in a few seconds")
        self._idle.append(process)
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            f"from {__name__} import serve; serve()",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._all.add(process)
        return process

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        self._all.discard(process)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _busy(text: str) -> ApiError:
    return ApiError(503, text, kind="busy", headers={"retry-after": "5"})


def serve() -> None:
    """Be one of the processes: do incoming work until the input ends, as it does when the server exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends this one
    if hasattr(os, "nice"):
        os.nice(15)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a plugin prints is not an answer
    while head := requests.read(_SIZE_BYTES):
        raw = requests.read(int.from_bytes(head, "big"))
        answer = pickle.dumps(_done(raw), pickle.HIGHEST_PROTOCOL)
        answers.write(len(answer).to_bytes(_SIZE_BYTES, "big") + answer)
        answers.flush()


def _done(raw: bytes) -> tuple[bool, Any]:
    try:
        work, args = pickle.loads(raw)
        return True, work(*args)
    except Exception as error:  # noqa: BLE001  it is raised where the work was asked for
        return False, _picklable(error)


def _picklable(error: Exception) -> Exception:
    """Return the error if it can be pickled, otherwise a RuntimeError with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  a plugin's error may be anything
        return RuntimeError(error_name(error))
    return error
