"""flexchat demo: a whole turn with its tool calls, without key, network or configuration."""

from __future__ import annotations

import asyncio
import contextlib

import click
from flexchat.app import FlexChat
from flexchat.domain import TurnFinished

from .context import CommandContext
from .parameters import TEXT, argument
from .terminal import Style
from .transcript import Transcript
from .zero_config import zero_config

QUESTION = "What is 17% of 230, and what time is it in Tokyo?"
NEXT_STEP = (
    "The tools ran for real, the model is a rehearsal. "
    "A real one: flexchat init openai (or: ollama, gemini, anthropic, local)"
)
_INDENT = "       "


@click.command
@argument("message", nargs=-1, type=TEXT, help=f"your own question, instead of: {QUESTION}")
@click.pass_obj
def demo(context: CommandContext, message: tuple[str, ...]) -> None:
    """See a turn with tool calls; needs no key.

    The rehearsal model answers, with the installed tools; --config shows a turn of your configuration.
    """
    chat = context.open_chat() if context.config else _embedded(context)
    asyncio.run(_show(chat, " ".join(message) or QUESTION, context))


def _embedded(context: CommandContext) -> FlexChat:
    host = context.installed_plugins()
    return FlexChat.from_config(zero_config(host), plugins=host)


async def _show(chat: FlexChat, question: str, context: CommandContext) -> None:
    terminal = context.terminal

    def step(text: str, style: Style) -> None:
        terminal.out(_INDENT + text, style)

    async with chat:
        if context.json:
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
    if not context.config:
        terminal.out()
        terminal.out(NEXT_STEP)
