"""What this package provides: the table [history], its checks, and the hook that chooses what is sent.

Light: modules are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flexchat.plugin import CheckedConfig, ConfigCheck, ConfigTable, hookimpl

FLEXCHAT_API = (0, 1)


def _history() -> type:
    from .settings import History

    return History


def _check(read: CheckedConfig) -> None:
    from .checking import check_history

    check_history(read)


def _review(read: CheckedConfig, parts: Any) -> None:
    if "history" in parts.config.tables:
        from .checking import review_history

        review_history(read, parts)


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Register [history]."""
    yield ConfigTable(name="history", load=_history, summary="What of a conversation is sent.")


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer the checks of limits and policies."""
    yield ConfigCheck(name="history", run=_check, at_start=True)
    yield ConfigCheck(name="history that fits its models", review=_review)


@hookimpl
def flexchat_register_chat_hooks(tables: Mapping[str, Any], history_policy: Any) -> Iterable[object]:
    """Make the hook of a chat that limits its history."""
    if "history" in tables or history_policy is not None:
        from .fitting import HistoryFitter
        from .settings import History

        yield HistoryFitter(tables.get("history") or History(), history_policy)
