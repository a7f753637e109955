"""Ctrl-C before anything of FlexChat is loaded, and after everything is done: a line and status 130."""

import os
import subprocess
import sys

import pytest

WHILE_IMPORTING = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["flexchat", "--version"]
import flexchat_command
sys.exit(flexchat_command.main())
"""
AT_EXIT = """
import atexit, os, signal, sys
import flexchat_command
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["flexchat", "--version"]
sys.exit(flexchat_command.main())
"""


def ran(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize(
    "code", [WHILE_IMPORTING.format(name=name) for name in ("flexchat", "attrs", "flexchat_cli.main")] + [AT_EXIT]
)
def test_an_interrupt_is_a_line_and_not_a_traceback(code):
    done = ran(code)

    assert (done.returncode, done.stderr) == (130, "flexchat: interrupted\n")


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_an_interrupt_that_is_ignored_stays_so():
    """As nohup wants it, and & in a script."""
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"

    done = ran(ignoring + WHILE_IMPORTING.format(name="attrs"))

    assert done.returncode == 0
    assert done.stdout.startswith("flexchat ")
