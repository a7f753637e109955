"""Runs a server's command and leaves nothing of it behind, whatever happens to the process that started it.

Not imported: ``process.py`` runs this file with ``python -I -S``, as the leader of a session of its own:
``keeper.py ALIVE COMMAND…``. ALIVE is one end of a socket whose other end its starter holds. When that closes, because
the starter closed it or was killed, everything the command has started is terminated; the starter can tell when
the keeper itself has ended. The command's stdin, stdout
and stderr are the starter's pipes: no message passes through here.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

TERM_S = 0.8  # seconds between the polite signal and the other one


def main(alive: int, command: list[str]) -> int:
    """Run the command; return its exit code, 128 + n if signal n ended it."""
    # Otherwise the command would hold this end open, and the starter would not learn of the keeper's end.
    os.set_inheritable(alive, False)
    prepare()
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for caught in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(caught, lambda *_: None)  # not SIG_IGN, which the command would inherit
    child = start_command(command)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)  # so that the pipes end with the command
    code: int | None = None
    while code is None:
        # The socket's other end closes when the starter dies; signals, such as SIGCHLD, write to the pipe.
        ready = select.select([alive, wake], [], [])[0]
        # Before the socket: if both are ready, the exit code of a command that ended by itself is reported.
        if wake in ready:
            os.read(wake, 512)
            code = reap(child)
        if alive in ready and code is None:
            break
    # Also after the command's own end: what it has started may go on without it.
    end_all()
    return 0 if code is None else code


def prepare() -> None:
    """Become the parent of whatever the command leaves behind, and wake up when our starter dies: only on Linux."""
    prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    prctl(1, signal.SIGCONT)  # PR_SET_PDEATHSIG: this process may be stopped (SIGSTOP)


def start_command(command: list[str]) -> int:
    """Start the command, and return its id. On Linux it dies with the keeper, even if the starter is killed as well.

    If it cannot be started, its exit code is 127, and its stderr gives the reason.
    """
    keeper = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        prctl(1, signal.SIGKILL)
        # The keeper may have died between fork and prctl; the death signal would then never come.
        if os.getppid() != keeper:
            os._exit(128 + signal.SIGKILL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the command would inherit that
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def prctl(option: int, value: int) -> None:
    """Set an option of this process: only on Linux."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def reap(child: int) -> int | None:
    """Collect processes that have ended; return the command's exit code if it is among them."""
    exit_code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                exit_code = code if code >= 0 else 128 - code
    return exit_code


def end_all() -> None:
    """End every process that is left: politely, then not."""
    # The own group at once, which needs no list of processes; then those that have left it (setsid, daemons).
    os.killpg(0, signal.SIGTERM)
    for pid in children():
        send(pid, signal.SIGTERM)
    until = time.monotonic() + TERM_S
    while time.monotonic() < until:
        reap(0)
        if not children():
            return
        time.sleep(0.01)
    while remaining := children():  # killing one may make us the parent of others
        for pid in remaining:
            send(pid, signal.SIGKILL)
        time.sleep(0.005)
        reap(0)
    if sys.platform != "linux":
        os.killpg(0, signal.SIGKILL)


def send(pid: int, number: int) -> None:
    """Send a signal to a process, with its group if it leads one."""
    with contextlib.suppress(OSError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def children() -> list[int]:
    """Return the ids of our child processes that have not been collected; elsewhere than on Linux, of none."""
    pids = []
    own = str(os.getpid()).encode()
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
                    if parent == own and state not in (b"Z", b"X"):
                        pids.append(int(name))
    return pids


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
