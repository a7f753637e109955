"""The program ``flexchat``: all of it is imported behind a guard, so that Ctrl-C is an answer from the first moment on.

It stands outside of the package because importing anything inside of it takes a quarter of a second.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130


def main() -> int:
    """Run the command line and return its exit status; an interrupt at any time ends it without a traceback."""
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # nohup and & have it ignored
    if heeds:
        signal.signal(signal.SIGINT, _leave)
    from flexchat_cli.main import main as run

    try:
        if heeds:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run()
    except KeyboardInterrupt:  # before or behind what main itself guards
        _leave()
    finally:
        if heeds:
            signal.signal(signal.SIGINT, _leave)  # Python still waits for threads, and runs what is to be run at exit


def _leave(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    os.write(2, b"flexchat: interrupted\n")
    os._exit(_INTERRUPTED)
