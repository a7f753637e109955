"""Several processes that accept connections of one socket: ``flexchat serve --workers``."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import FrameType

log = logging.getLogger(__name__)

_SOCKET, _PARENT = "FLEXCHAT_SERVE_SOCKET", "FLEXCHAT_SERVE_PARENT"
_UNUSABLE = 2
STEADY_S = 5.0
"""A process that ends sooner is replaced only after a pause."""


def is_worker() -> bool:
    """Return whether this process was started by supervise."""
    return _SOCKET in os.environ


def inherited() -> socket.socket | None:
    """Return the socket that the parent listens on; None in a process without such a parent.

    From then on this process ends in order once its parent is gone, which could not replace it any more.
    """
    if not is_worker():
        return None
    threading.Thread(target=_end_with_parent, args=(int(os.environ[_PARENT]),), daemon=True).start()
    return socket.socket(fileno=int(os.environ[_SOCKET]))


def _end_with_parent(pipe: int) -> None:
    os.read(pipe, 1)  # nothing is ever written: it returns when the other end is closed
    os.kill(os.getpid(), signal.SIGTERM)


def supervise(listening: socket.socket, count: int) -> int:
    """Run this command in processes of their own, replace those that crash, and return the exit status.

    SIGTERM and SIGINT are passed on, and SIGHUP, which lets them read their files again. The wait for the processes to
    end has no limit: each has one of its own. One of the first processes that cannot use the configuration ends all.
    Later the file may be about to be mended, and the other processes still serve the configuration of before.
    """
    is_stopping = False
    starts = 0
    pipe, own_end = os.pipe()
    running: dict[subprocess.Popen[bytes], float] = {}

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        is_stopping = True
        for process in [*running]:
            process.send_signal(signal.SIGTERM)

    def read_again(number: int, frame: FrameType | None) -> None:
        for process in [*running]:
            process.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, read_again)
    while not is_stopping or running:
        while len(running) < count and not is_stopping:
            process = _start(listening, pipe)
            running[process] = time.monotonic()
            starts += 1
            if is_stopping:  # the signal came between the start and its entry
                process.send_signal(signal.SIGTERM)
        for process, began in [*running.items()]:
            status = process.poll()
            if status is None:
                continue
            del running[process]
            if status == _UNUSABLE and starts == count and not is_stopping:
                stop(signal.SIGTERM, None)
                _wait(running)
                return status
            if not is_stopping:
                log.error("process %s of the server ended with status %s; another one is started", process.pid, status)
                time.sleep(max(0.0, min(1.0, STEADY_S - (time.monotonic() - began))))
        time.sleep(0.1)
    os.close(own_end)
    return 0


def _start(listening: socket.socket, pipe: int) -> subprocess.Popen[bytes]:
    number = listening.fileno()
    # Ignored by the new process until its server handles it: by default it would end it.
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN) if hasattr(signal, "SIGHUP") else None
    try:
        return _run(number, pipe)
    finally:
        if hang_up is not None:
            signal.signal(signal.SIGHUP, hang_up)


def _run(number: int, pipe: int) -> subprocess.Popen[bytes]:
    # A new session: Ctrl-C at the terminal reaches the parent only, which passes it on once.
    return subprocess.Popen(
        [sys.executable, "-m", "flexchat", *sys.argv[1:]],
        pass_fds=(number, pipe),
        env={**os.environ, _SOCKET: str(number), _PARENT: str(pipe)},
        start_new_session=True,
    )


def _wait(running: dict[subprocess.Popen[bytes], float]) -> None:
    for process in running:
        process.wait()
