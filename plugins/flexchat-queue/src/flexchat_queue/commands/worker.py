"""flexchat worker: runs the turns that other processes have accepted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Iterable
from typing import Any

import click
from flexchat import FlexChat, TurnHandle
from flexchat.host import counted
from flexchat_cli import CommandContext, TurnLog, UsageError, command, log_options, report_notes, show_log


@command
@click.option(
    "--concurrency", metavar="N", type=click.IntRange(1, 1000), help="turns at once (default: queue.concurrency, 8)"
)
@log_options
async def worker(context: CommandContext, concurrency: int | None, log: Any) -> None:
    """Run turns that were accepted by other processes, or interrupted.

    Until the program is asked to stop: then its turns are interrupted, and other workers resume them. Any number of
    workers may share a database.
    """
    from ..config import QueueTable
    from ..producer import open_queue
    from ..worker import Worker

    source, host = context.config_source()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(show_log(context.terminal, log))
        chat = await stack.enter_async_context(FlexChat.from_config(source, plugins=host, hooks=[TurnLog()]))
        report_notes(chat, context)
        table: QueueTable = chat.config.tables.get("queue") or QueueTable()
        queue = open_queue(chat, table)
        if queue is None or chat.journal is None:
            raise UsageError(
                'workers share the turns of a PostgreSQL database: add [conversations] with provider = "postgresql" to '
                "the config; without one, flexchat serve resumes interrupted turns itself"
            )

        def follow(handle: TurnHandle) -> Iterable[Awaitable[None]]:
            return [awaitable for _, awaitable in host.ask("flexchat_worker_turn", chat=chat, handle=handle)]

        running = Worker(
            chat,
            queue,
            concurrency=concurrency or table.concurrency,
            stuck_after_s=table.stuck_after_s,
            follow=follow,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop)
        try:
            await queue.renew()
            turns = counted(concurrency or table.concurrency, "turn")
            context.terminal.out(f"worker started: {turns} at once (config: {context.config_file()})")
            await running.run()
        finally:
            await queue.aclose()
    ended = counted(running.ended, "turn")
    context.terminal.out(f"worker stopped: {ended} ended, {running.interrupted} interrupted for others to resume")
