"""Errors in a command line, and the exit status of every error."""

from __future__ import annotations

from flexchat.errors import FlexChatError

OK = 0
"""Exit status of a command that did its work."""
FAILED = 1
"""Exit status: the user's input was used, and something failed."""
UNUSABLE = 2
"""Exit status: the user's input cannot be used (names, options, the configuration)."""
INTERRUPTED = 130
"""Exit status: the user pressed Ctrl-C."""
PIPE_CLOSED = 141
"""Exit status: the reader of the output has closed it."""


class UsageError(FlexChatError):
    """The command cannot run as typed; the text gives a command line that works."""

    exit_status = UNUSABLE
