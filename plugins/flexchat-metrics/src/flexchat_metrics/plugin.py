"""What this package provides: the config tables ``stats`` and ``slo``, their checks, and what keeps the sums.

Light: other modules are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexchat.plugin import CheckedConfig, ConfigCheck, ConfigTable, hookimpl

if TYPE_CHECKING:
    from flexchat.host import PluginHost
    from flexchat_web.typing import Operation, Page, Web

FLEXCHAT_API = (0, 1)


def _stats() -> type:
    from .settings import Stats

    return Stats


def _objective() -> type:
    from .settings import Objective

    return Objective


def _check(read: CheckedConfig) -> None:
    from .checking import check_objectives

    check_objectives(read)


def _review(read: CheckedConfig, parts: Any) -> None:
    if "slo" in parts.config.tables:
        from .checking import review_tools

        review_tools(read, parts)


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Register what is counted, and the objectives."""
    yield ConfigTable(name="stats", load=_stats, summary="What is counted of turns, in sums that are kept.")
    yield ConfigTable(
        name="slo", load=_objective, summary='What "tool.NAME" or "rule.NAME" must achieve.', is_named=True
    )


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer checks of the objectives' targets."""
    yield ConfigCheck(name="slo", run=_check, at_start=True)
    yield ConfigCheck(name="slo of tools", review=_review)


@hookimpl
def flexchat_register_chat_hooks(tables: Mapping[str, Any], plugins: PluginHost) -> Iterable[object]:
    """Keep the sums of a chat that has one of the tables."""
    if {"stats", "slo"} & tables.keys():
        from .keeping import Keeper

        yield Keeper(tables.get("slo") or {}, plugins)


@hookimpl
def flexchat_add_hookspecs() -> Iterable[object]:
    """Define the hook on violations."""
    from . import hookspecs

    yield hookspecs


@hookimpl(optionalhook=True)
def flexchat_web_operations(web: Web) -> Iterable[Operation]:
    """Offer the figures over HTTP, also for Prometheus."""
    from .web import OPERATIONS

    return OPERATIONS


@hookimpl(optionalhook=True)
def flexchat_web_pages(web: Web) -> Iterable[Page]:
    """Offer the page that shows them."""
    yield web.Page(
        name="stats",
        label="Statistics",
        folder=Path(__file__).parent / "web" / "static",
        script="stats.js",
        styles=("stats.css",),
        after="activity",
        icon="history",
    )
