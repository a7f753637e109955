"""What this package provides. Light: the server is loaded when it is started."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any

from flexchat.plugin import ConfigCheck, ConfigTable, hookimpl

if TYPE_CHECKING:
    from flexchat import FlexChat, TurnHandle

FLEXCHAT_API = (0, 1)


def _serve() -> type:
    from .serve_settings import ServeSettings

    return ServeSettings


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Register the server's table."""
    yield ConfigTable(name="serve", load=_serve, summary="How flexchat serve identifies its users.")


def _check_token_file(read: Any) -> None:
    serve = read.config.tables.get("serve")
    if serve is not None and serve.token_file is not None:
        from .token_file import check_token_file

        check_token_file(read, serve.token_file)


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer a check of the token file."""
    yield ConfigCheck(name="the token file", run=_check_token_file)


@hookimpl
def flexchat_add_hookspecs() -> Iterable[object]:
    """Define the hooks through which other plugins extend the HTTP API."""
    from . import hookspecs

    yield hookspecs


@hookimpl(optionalhook=True)
def flexchat_worker_turn(chat: FlexChat, handle: TurnHandle) -> Awaitable[None]:
    """Keep the events of a turn that a worker runs, so that servers can stream it."""
    from .api.served import keep_events

    return keep_events(chat, handle)
