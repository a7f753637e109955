"""Requests to a server from the command line, with its refusals as usage errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from flexchat.plugin import ToolError
from flexchat_cli import CommandContext, UsageError

from ..errors import AnswerLostError, AnswerTooLargeError, ServerUnusableError, TaskGoneError
from ..source import describe_invalid
from .opening import chosen, opened

if TYPE_CHECKING:
    from mcp import Client


def ask_server(
    context: CommandContext, server: str, ask: Callable[[Client], Awaitable[Any]], *, tenant: str | None
) -> Any:
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
            with refusals_in_words(name):
                return await source.server.ask(ask, is_call=False)

    return asyncio.run(answer())


@contextlib.contextmanager
def refusals_in_words(server: str) -> Iterator[None]:
    """Say what a server refuses.

    Raises:
        UsageError: It refused, or what was asked of it failed.
        ServerUnusableError, AnswerLostError, AnswerTooLargeError: There is no answer.
    """
    try:
        yield
    except (ServerUnusableError, AnswerLostError, AnswerTooLargeError, UsageError):
        raise
    except (ToolError, TaskGoneError) as error:
        raise UsageError(f"{server}: {error}") from None
    except Exception as error:  # noqa: BLE001  the SDK's, pydantic's
        raise UsageError(f"{server} refused: {describe_invalid(error)}") from None
