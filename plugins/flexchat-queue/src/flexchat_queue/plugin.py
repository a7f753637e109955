"""Registers the config table ``queue``, and what enqueues accepted turns. The engine is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flexchat.plugin import CheckedConfig, ConfigCheck, ConfigTable, hookimpl

FLEXCHAT_API = (0, 1)


def _table() -> type:
    from .config import QueueTable

    return QueueTable


def _check_store(read: CheckedConfig) -> None:
    if "queue" in read.config.tables:
        conversations = read.config.conversations
        if conversations is None or conversations.provider != "postgresql":
            read.problem(("queue",), 'needs [conversations] with provider = "postgresql", where workers share turns')


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Offer the table."""
    yield ConfigTable(name="queue", load=_table, summary="How workers share turns.")


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer the check that there is a database to share."""
    yield ConfigCheck(name="queue", run=_check_store, at_start=True)


@hookimpl
def flexchat_register_chat_hooks(tables: Mapping[str, Any]) -> Iterable[object]:
    """Offer the hooks that enqueue the turns of a chat, if its config has the table."""
    if "queue" in tables:
        from .producer import Producer

        yield Producer(tables["queue"])


@hookimpl
def flexchat_add_hookspecs() -> Iterable[object]:
    """Define the hook through which other plugins follow the turns of a worker."""
    from . import hookspecs

    yield hookspecs
