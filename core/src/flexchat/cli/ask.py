"""flexchat ask: one message, one answer."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

from ..app import FlexChat
from ..plugin.contracts import Command
from .conversations_store import add_keeping_arguments, open_kept, say_continued
from .opening import config_file, introduce, open_chat
from .transcript import show_turn
from .usage import OK, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what ask takes."""
    parser.add_argument("message", nargs="*", help="the message; a - at its end adds standard input")
    parser.add_argument(
        "--no-stream", action="store_true", help="print the answer when it is complete, and nothing but the answer"
    )
    add_keeping_arguments(parser, "absent: if the configuration has [conversations]")


def run(args: argparse.Namespace) -> int:
    """Answer a message: the answer goes to standard output, all else to standard error."""
    message = read_message(args.message)
    chat = open_chat(args)
    introduce(chat, config_file(args), args.terminal)
    asyncio.run(_ask(chat, message, args))
    return OK


def read_message(words: list[str]) -> str:
    """Return the message: the words, then standard input where a - or its being no terminal asks for it.

    Raises:
        UsageError: There is no message.
    """
    if words and words[-1] != "-":
        message = " ".join(words)
        if not message.strip():
            raise UsageError("the message is empty")
        return message
    if sys.stdin is None:  # closed by the caller
        raise UsageError("ask needs a message: none is given, and standard input is closed")
    if not words and sys.stdin.isatty():
        raise UsageError('ask needs a message: flexchat ask "What is 17% of 230?"')
    try:
        text = sys.stdin.read().strip()
    except UnicodeDecodeError:
        raise UsageError("standard input is not text: ask reads UTF-8") from None
    message = "\n\n".join(part for part in (" ".join(words[:-1]), text) if part)
    if not message:
        raise UsageError("the message on standard input is empty")
    return message


async def _ask(chat: FlexChat, message: str, args: argparse.Namespace) -> None:
    async with contextlib.AsyncExitStack() as closing:
        await closing.enter_async_context(chat)
        kept = await open_kept(chat, args, by_default=False)
        if kept is not None:
            closing.push_async_callback(kept.aclose)
            say_continued(kept, args)
        if args.json:
            args.terminal.json((await (kept or chat).respond(message)).to_dict())
        else:
            await show_turn((kept or chat).stream(message), args.terminal, streamed=not args.no_stream)


COMMANDS = (Command(name="ask", summary="answer one message", add_arguments=add_arguments, run=run),)
