"""A terminal at standard input, on which a test types."""

import os
import sys

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
