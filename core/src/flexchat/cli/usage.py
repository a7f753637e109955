"""What is wrong with a command line, and the exit status of every error."""

from __future__ import annotations

from ..errors import FlexChatError

OK, FAILED, UNUSABLE, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141


class UsageError(FlexChatError):
    """The command cannot be run as it was typed; the text says what to type instead."""

    exit_status = UNUSABLE
