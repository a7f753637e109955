"""What this package provides: the tables of roles, budgets and limits, their checks, and their hooks.

Light: modules are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flexchat.plugin import CheckedConfig, ConfigCheck, ConfigTable, hookimpl

if TYPE_CHECKING:
    from flexchat_web.typing import Operation, Web

FLEXCHAT_API = (0, 1)


def _role() -> type:
    from .roles import Role

    return Role


def _check_roles(read: CheckedConfig) -> None:
    if "roles" in read.config.tables:
        from .role_checks import check_roles

        check_roles(read)


def _review_roles(read: CheckedConfig, parts: Any) -> None:
    if "roles" in parts.config.tables:
        from .role_checks import review_roles

        review_roles(read, parts)


async def _unused_grants(chat: Any, tenant: str) -> Sequence[str]:
    from .grants import unused_grants

    return await unused_grants(chat, tenant)


def _budget() -> type:
    from .budgets import Budget

    return Budget


def _rate_limit() -> type:
    from .limits import RateLimit

    return RateLimit


def _check(read: CheckedConfig) -> None:
    if {"budgets", "rate_limits"} & read.config.tables.keys():
        from .checking import check_ceilings

        check_ceilings(read)


def _review_ceilings(read: CheckedConfig, parts: Any) -> None:
    if {"budgets", "rate_limits"} & parts.config.tables.keys():
        from .checking import review_ceilings

        review_ceilings(read, parts)


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Register roles, budgets and limits."""
    yield ConfigTable(
        name="roles", load=_role, summary="Who may use which rules and tools, by the name of a role.", is_named=True
    )
    yield ConfigTable(name="budgets", load=_budget, summary="What may be spent.", is_list=True)
    yield ConfigTable(name="rate_limits", load=_rate_limit, summary="How often, and how many at a time.", is_list=True)


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer the checks of names, and of the store that counts."""
    yield ConfigCheck(name="roles", run=_check_roles, at_start=True)
    yield ConfigCheck(name="roles that grant something", review=_review_roles)
    yield ConfigCheck(name="grants that are used", grants=_unused_grants)
    yield ConfigCheck(name="budgets and limits", run=_check, at_start=True)
    yield ConfigCheck(name="budgets and limits that apply", review=_review_ceilings)


@hookimpl
def flexchat_register_chat_hooks(tables: Mapping[str, Any]) -> Iterable[object]:
    """Make the hooks of a chat that has roles, budgets or limits."""
    if "roles" in tables:
        from .roles import RolesHook

        yield RolesHook(tables["roles"])
    if {"budgets", "rate_limits"} & tables.keys():
        from .ceilings import Ceilings

        yield Ceilings(budgets=tables.get("budgets", ()), limits=tables.get("rate_limits", ()))


@hookimpl(optionalhook=True)
def flexchat_web_operations(web: Web) -> Iterable[Operation]:
    """Offer costs over HTTP."""
    from .web import OPERATIONS

    return OPERATIONS
