"""What is wrong with a command line, and the exit status of every error."""

from __future__ import annotations

from ..errors import ConfigError, FlexChatError, PluginError

OK, FAILED, UNUSABLE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141


class UsageError(FlexChatError):
    """The command cannot be run as it was typed; the text says what to type instead."""


def exit_status(error: FlexChatError) -> int:
    """Return 2 for what is wrong with the command, the configuration or the plugins, else 1."""
    return UNUSABLE if isinstance(error, (UsageError, ConfigError, PluginError)) else FAILED
