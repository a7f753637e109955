"""Running a command line in process, in an empty folder."""

import pytest
from command_line import run, script, somewhere_empty
from commands_of_plugins import install_commands
from flexchat_cli import transcript
from keyboard import keyboard

__all__ = ["install_commands", "keyboard", "run", "script", "somewhere_empty"]


@pytest.fixture(autouse=True)
def no_status_line(monkeypatch):
    """What a turn waits for is shown on slow machines only: never, but in the tests of it."""
    monkeypatch.setattr(transcript, "SHOWN_AFTER_S", 60)
