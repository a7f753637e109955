"""What this package provides: the config table ``approvals``, its checks, the step that asks, and a hook.

Light: the modules of commands, checks and the step are imported when they are needed.
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


def _policy() -> type:
    from .policies import Policy

    return Policy


def _check(read: CheckedConfig) -> None:
    if any(read.tables("approvals")):
        from .checking import check_policies

        check_policies(read)


def _check_webhook(read: CheckedConfig) -> None:
    if read.config.questions.webhook is not None:
        from .webhook import check_webhook

        check_webhook(read)


def _review(read: CheckedConfig, parts: Any) -> None:
    if "approvals" in parts.config.tables:
        from .checking import review_policies

        review_policies(read, parts)


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Register the policies."""
    yield ConfigTable(
        name="approvals",
        load=_policy,
        summary="Calls of tools that a person must approve; the first that matches a call decides.",
        is_list=True,
    )


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer checks of the names in policies and of the webhook, and notes on policies that no call matches."""
    yield ConfigCheck(name="approvals", run=_check, at_start=True)
    yield ConfigCheck(name="questions.webhook", run=_check_webhook, at_start=True)
    yield ConfigCheck(name="approvals that apply", review=_review)


@hookimpl
def flexchat_register_chat_hooks(tables: Mapping[str, Any], plugins: PluginHost) -> Iterable[object]:
    """Make the step that asks, for a chat that has policies, and what sends its questions to its webhook."""
    from .webhook import WebhookSender

    yield WebhookSender()
    if "approvals" in tables:
        from .step import ApprovalStep

        yield ApprovalStep(tables["approvals"], plugins)


@hookimpl
def flexchat_add_hookspecs() -> Iterable[object]:
    """Define the hook through which other plugins reject or approve."""
    from . import hookspecs

    yield hookspecs


@hookimpl(optionalhook=True)
def flexchat_web_operations(web: Web) -> Iterable[Operation]:
    """Offer remembered replies, and questions behind links, over HTTP."""
    from .web import OPERATIONS

    return OPERATIONS


@hookimpl(optionalhook=True)
def flexchat_web_pages(web: Web) -> Iterable[Page]:
    """Offer the page that shows the questions, and takes replies."""
    folder = Path(__file__).parent / "web" / "static"
    yield web.Page(
        name="approvals",
        label="Approvals",
        folder=folder,
        script="approvals.js",
        styles=("approvals.css",),
        after="activity",
        icon="lock",
        count="/api/approvals/count",
    )
