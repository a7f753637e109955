"""The sums of the configured journal, brought up to date, for commands."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import flexchat_cli as cli
from flexchat import FlexChat
from flexchat.host import PluginHost
from flexchat.store import TurnSums
from flexchat_cli import CommandContext, UsageError

from ..keeping import adder_of, bring_up_to_date, sums_of


@contextlib.asynccontextmanager
async def open_sums(context: CommandContext) -> AsyncIterator[tuple[TurnSums, FlexChat, PluginHost]]:
    """Open them, with the chat of the configuration and its plugins.

    Raises:
        UsageError: The store keeps no sums.
    """
    chat, plugins = context.open_tools()
    async with contextlib.aclosing(cli.conversation_store(context)) as store:
        sums = sums_of(getattr(store, "journal", None))
        if sums is None:
            raise UsageError("the store of the conversations keeps no sums of turns")
        await bring_up_to_date(sums, adder_of(chat))
        yield sums, chat, plugins
