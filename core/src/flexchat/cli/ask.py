"""flexchat ask: one message, one answer."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

from ..app import FlexChat
from ..domain import ChatRequest
from ..domain.text import counted
from ..plugin.contracts import Command
from . import standard_input
from .arguments import spoken
from .conversations_store import add_keeping_arguments, open_kept, say_continued
from .opening import add_demo_argument, introduce, open_chat, require_config
from .prompt_variables import add_variables_argument, read_variables
from .terminal import Terminal
from .transcript import show_turn
from .usage import OK, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ask's arguments."""
    add_message_arguments(parser)
    parser.add_argument(
        "--no-stream", action="store_true", help="print the answer when it is complete, and nothing but the answer"
    )
    add_variables_argument(parser)
    add_demo_argument(parser)
    add_keeping_arguments(parser, "default: if the configuration has [conversations]")


def run(args: argparse.Namespace) -> int:
    """Answer a message: the answer goes to standard output, everything else to standard error."""
    message = read_message(args.message, args.terminal, use_stdin=not args.no_stdin)
    request = ChatRequest(user_message=message, variables=read_variables(args))
    chat = open_chat(args)
    require_config(args)
    introduce(chat, args)
    asyncio.run(_ask(chat, request, args))
    return OK


def add_message_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the message, and for whether standard input is part of it."""
    parser.add_argument(
        "message",
        nargs="*",
        help="the message; a pipe or a file on standard input is appended (with - at its end: any standard input)",
    )
    parser.add_argument(
        "--no-stdin", action="store_true", help="ignore standard input: for loops that read from it, and services"
    )


def read_message(words: list[str], terminal: Terminal, *, use_stdin: bool) -> str:
    """Return the message: the words, followed by the content of a pipe or a file on standard input.

    Raises:
        UsageError: There is no message, or standard input is not text.
    """
    wanted = bool(words) and words[-1] == "-"
    words = words[:-1] if wanted else words
    message = spoken(words)
    if words and not message.strip():
        raise UsageError("the message is empty")
    if wanted and not use_stdin:
        raise UsageError("a - asks for standard input, and --no-stdin ignores it: give only one of them")
    if not words and not wanted and (not use_stdin or (sys.stdin is not None and sys.stdin.isatty())):
        raise UsageError('ask needs a message: flexchat ask "What is 17% of 230?"')
    if not words or wanted:
        if sys.stdin is None:  # closed by the caller
            raise UsageError("ask needs a message: none is given, and standard input is closed")
        text = standard_input.read_text(terminal).strip()
        if not message and not text:
            raise UsageError("the message on standard input is empty")
    else:
        text = _beside(terminal) if use_stdin else ""
    return "\n\n".join(part for part in (message, text) if part)


def _beside(terminal: Terminal) -> str:
    """Return what standard input adds to a message of words, and report it; empty if nothing."""
    if not standard_input.is_given():
        return ""
    if standard_input.is_shared():
        terminal.say("note: standard input is being read by a surrounding loop and is ignored; a - adds it", "dim")
        return ""
    text = standard_input.read_text(terminal).strip()
    if text:
        lines = text.count("\n") + 1
        size = f"{counted(lines, 'line')}, {counted(len(text), 'character')}"
        terminal.say(f"standard input: {size} appended to the message (--no-stdin ignores it)", "dim")
    return text


async def _ask(chat: FlexChat, request: ChatRequest, args: argparse.Namespace) -> None:
    async with contextlib.AsyncExitStack() as closing:
        await closing.enter_async_context(chat)
        kept = await open_kept(chat, args, by_default=False)
        if kept is not None:
            closing.push_async_callback(kept.aclose)
            say_continued(kept, args)
        if args.json:
            args.terminal.json((await (kept or chat).respond(request)).to_dict())
        else:
            await show_turn((kept or chat).stream(request), args.terminal, streamed=not args.no_stream)


COMMANDS = (Command(name="ask", summary="answer one message", add_arguments=add_arguments, run=run),)
