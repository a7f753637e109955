"""What the tests of pages share."""

from commands_of_plugins import install_commands

__all__ = ["install_commands"]
