"""flexchat demo: a whole turn with its tool calls, without key, network or configuration."""

from __future__ import annotations

import argparse
import asyncio
import contextlib

from ..app import FlexChat
from ..domain import TurnFinished
from ..plugin.contracts import Command
from .arguments import spoken
from .opening import open_chat, prepare
from .terminal import Style, Terminal
from .transcript import Transcript
from .usage import OK
from .zero_config import zero_config

QUESTION = "What is 17% of 230, and what time is it in Tokyo?"
NEXT_STEP = (
    "The tools ran for real, the model is a rehearsal. A real one: flexchat init openai (or: ollama, gemini, local)"
)
_INDENT = "       "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add demo's arguments."""
    parser.add_argument("message", nargs="*", help=f"your own question, instead of: {QUESTION.replace('%', '%%')}")


def run(args: argparse.Namespace) -> int:
    """Show a turn of the rehearsal model with the installed tools; --config shows one of your configuration."""
    chat = open_chat(args) if args.config else _embedded(args)
    asyncio.run(_show(chat, spoken(args.message) or QUESTION, args))
    return OK


def _embedded(args: argparse.Namespace) -> FlexChat:
    host = prepare(args)
    return FlexChat.from_config(zero_config(host), plugins=host)


async def _show(chat: FlexChat, question: str, args: argparse.Namespace) -> None:
    terminal: Terminal = args.terminal

    def step(text: str, style: Style) -> None:
        terminal.out(_INDENT + text, style)

    async with chat:
        if args.json:
            terminal.json((await chat.respond(question)).to_dict())
            return
        terminal.out(f"You:   {question}", "bold")
        transcript = Transcript(terminal, step, streamed=False)
        async with contextlib.aclosing(chat.stream(question)) as events:
            async for event in events:
                if isinstance(event, TurnFinished):
                    answer = event.turn.content.replace("\n", f"\n{_INDENT}")
                    terminal.out(f"Model: {answer}")
                else:
                    transcript.show(event)
    if not args.config:
        terminal.out()
        terminal.out(NEXT_STEP)


COMMANDS = (
    Command(name="demo", summary="see a turn with tool calls; needs no key", add_arguments=add_arguments, run=run),
)
