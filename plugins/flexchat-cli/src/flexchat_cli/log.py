"""The log on standard error: all of it with -v, otherwise only important messages."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from .terminal import Terminal

# Tool calls and left-out plugins are reported anyway. Also important: failing watchers, waiting for a service, what
# slows every command, errors in the server, and a damaged store.
_MATTERS = (
    *("flexchat.plugin.hooks", "flexchat.llms", "flexchat.services", "flexchat.config", "flexchat.assembly"),
    *("flexchat_cli", "flexchat_sdk", "flexchat_sqlite", "flexchat_web"),
)


class _Handler(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__(logging.DEBUG if terminal.verbose else logging.WARNING)
        self._terminal = terminal
        if not terminal.verbose:
            self.addFilter(lambda record: record.name.startswith(_MATTERS))

    def emit(self, record: logging.LogRecord) -> None:
        if self._terminal.verbose:
            text = f"{record.levelname.lower()} {record.name}: {record.getMessage()}"
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
        else:
            text = f"note: {record.getMessage()}"
        self._terminal.say(text, "dim")


@contextlib.contextmanager
def limit_retry_notes() -> Iterator[None]:
    """Report only the first retry of a service that does not answer; its errors contain the rest."""
    services: set[object] = set()

    def is_new(record: logging.LogRecord) -> bool:
        service = record.args[0] if isinstance(record.args, tuple) and record.args else None
        is_known = service in services
        services.add(service)
        return not is_known

    retries, breakers = map(logging.getLogger, ("flexchat.llms.llm", "flexchat.services.breaker"))
    retries.addFilter(is_new)
    breakers.addFilter(_nothing)
    try:
        yield
    finally:
        retries.removeFilter(is_new)
        breakers.removeFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False


@contextlib.contextmanager
def log_to_stderr(terminal: Terminal) -> Iterator[None]:
    """Write FlexChat's log, and with -v the warnings of all packages, to standard error for a while."""
    root, handler = logging.getLogger(), _Handler(terminal)
    ours = [logging.getLogger(name) for name in ("flexchat", "flexchat_cli", "flexchat_sdk", "flexchat_sqlite")]
    levels = [logger.level for logger in ours]
    root.addHandler(handler)
    if terminal.verbose:
        for logger in ours:
            logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in zip(ours, levels, strict=True):
            logger.setLevel(level)
