"""Asking a server for something by hand, with its refusals in words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from flexchat.host import CommandContext, UsageError

from ..errors import AnswerLostError, AnswerTooLargeError, ServerUnusableError
from ..source import said
from .opening import chosen, opened

if TYPE_CHECKING:
    from mcp import Client


def asked(context: CommandContext, server: str, ask: Callable[[Client], Awaitable[Any]], *, tenant: str | None) -> Any:
    """Return what a configured server answers; one that wants a sign-in gets it at a terminal.

    Args:
        tenant: Whose server it is; None for the default tenant's.

    Raises:
        UsageError: There is no such server, or it refused.
        ServerUnusableError, AnswerLostError, AnswerTooLargeError: There is no answer.
    """
    chat = context.open_tools()[0]
    (name,) = chosen(chat, server, tenant)

    async def answer() -> Any:
        async with chat, opened(chat, name, context.terminal, tenant=tenant) as source:
            try:
                return await source.server.ask(ask, is_call=False)
            except (ServerUnusableError, AnswerLostError, AnswerTooLargeError, UsageError):
                raise
            except Exception as error:  # noqa: BLE001  the SDK's, pydantic's
                raise UsageError(f"{name} refused: {said(error)}") from None

    return asyncio.run(answer())
