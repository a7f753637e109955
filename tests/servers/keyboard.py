"""A terminal at standard input, on which a test types."""

import os
import select
import subprocess
import sys
import time

import pytest
from flexchat_cli import Terminal


@pytest.fixture
def keyboard(monkeypatch):
    """Return a function that types; standard input is a terminal."""
    typing, reading = os.openpty()
    with open(reading, closefd=True) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(Terminal, "interactive", lambda self: True)
        yield lambda text: os.write(typing, text.encode())
    os.close(typing)


def typed(command, *steps, **rest):
    """Run a program at a terminal of its own; return its exit status and what it has shown.

    Args:
        steps: Texts to wait for, each with the keys that are typed then, or with a function that is called then.
    """
    import fcntl
    import termios

    def make_controlling():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # otherwise Ctrl-C is no signal

    typing, terminal = os.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    process = subprocess.Popen(command, preexec_fn=make_controlling, **streams, **rest)
    os.close(terminal)
    shown, seen, end, left = "", 0, time.monotonic() + 60, [*steps]
    while time.monotonic() < end:
        if left and (place := shown.find(left[0][0], seen)) >= 0:
            text, keys = left.pop(0)
            seen = place + len(text)
            if callable(keys):
                keys()
            else:
                os.write(typing, keys)
        if select.select([typing], [], [], 0.05)[0]:
            try:
                shown += os.read(typing, 65536).decode(errors="replace")
            except OSError:  # it has ended
                break
    else:
        process.kill()
    os.close(typing)
    return process.wait(), shown
