"""The sums of the configured journal, brought up to date, for commands."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import flexchat_cli as cli
from flexchat.store import TurnSums
from flexchat_cli import CommandContext, UsageError

from ..adding import TurnAdder
from ..keeping import adder_of, bring_up_to_date, sums_of


@contextlib.asynccontextmanager
async def open_sums(context: CommandContext) -> AsyncIterator[TurnSums]:
    """Open them, without the plugins if they are not needed: loading all takes longer than reading a year of sums.

    Raises:
        UsageError: The store keeps no sums.
    """
    table = context.config_data().get("stats")
    # The secrets of a configuration, which are masked in values, are known once its plugins have read it.
    add = adder_of(context.open_tools()[0]) if table else TurnAdder()
    async with contextlib.aclosing(cli.conversation_store(context)) as store:
        sums = sums_of(getattr(store, "journal", None))
        if sums is None:
            raise UsageError("the store of the conversations keeps no sums of turns")
        await bring_up_to_date(sums, add)
        yield sums
