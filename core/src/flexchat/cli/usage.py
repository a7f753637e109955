"""What is wrong with a command line, and the exit status of every error."""

from __future__ import annotations

from ..errors import FlexChatError

OK = 0
"""Exit status of a command that did its work."""
FAILED = 1
"""Exit status: what the user wrote was used, and something failed."""
UNUSABLE = 2
"""Exit status: what the user wrote cannot be used (names, options, the configuration)."""
INTERRUPTED = 130
"""Exit status: the user pressed Ctrl-C."""
PIPE_CLOSED = 141
"""Exit status: whoever read the output has left."""


class UsageError(FlexChatError):
    """The command cannot be run as it was typed; the text says what to type instead."""

    exit_status = UNUSABLE
