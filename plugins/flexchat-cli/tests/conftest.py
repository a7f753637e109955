"""Running a command line in process, in an empty folder."""

from command_line import run, script, somewhere_empty
from commands_of_plugins import install_commands
from keyboard import keyboard

__all__ = ["install_commands", "keyboard", "run", "script", "somewhere_empty"]
