"""flexchat models: what the configured services offer."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from ..app import FlexChat
from ..domain import ModelInfo
from ..domain.prices import ModelPrice, plain
from ..errors import ProviderError
from ..llms.llm import LLM
from .context import CommandContext
from .terminal import Terminal
from .usage import FAILED, OK

Answer = tuple[ModelInfo, ...] | ProviderError


@click.command
@click.pass_obj
def models(context: CommandContext) -> int:
    """List the models of the configured services.

    The exit status is 1 if none of them answered.
    """
    terminal = context.terminal
    chat = context.open_chat()
    answers = asyncio.run(_ask(chat))
    if context.json:
        terminal.json({service: _as_data(answer, chat.llms[service]) for service, answer in answers.items()})
    for service, answer in answers.items():
        if isinstance(answer, ProviderError):
            terminal.error(f"{service}: {answer}")
        elif not context.json:
            _print(chat.llms[service], answer, terminal)
    return OK if any(not isinstance(answer, ProviderError) for answer in answers.values()) else FAILED


async def _ask(chat: FlexChat) -> dict[str, Answer]:
    async with chat:
        return await chat.list_models()


def _print(llm: LLM, models: tuple[ModelInfo, ...], terminal: Terminal) -> None:
    terminal.out(llm.name, "bold")
    for model in models:
        names = [model.name] if model.name and model.name != model.id else []
        known = llm.price_of(model.id) or ModelPrice(price=None)
        length = model.context_length or known.window
        window = [f"{length:,} tokens"] if length else []
        details = ", ".join([*names, *sorted(model.capabilities), *window, *_spoken(known)])
        terminal.out(f"  {model.id}{f'  ({details})' if details else ''}")
    if not models:
        terminal.out("  (the service does not list any)")


def _spoken(known: ModelPrice) -> list[str]:
    if known.price is None:
        return []
    more = "; long requests cost more" if known.above else ""
    return [f"${plain(known.price.input)} in and ${plain(known.price.output)} out per million tokens{more}"]


def _as_data(answer: Answer, llm: LLM) -> dict[str, Any]:
    if isinstance(answer, ProviderError):
        return {"error": str(answer), "type": type(answer).__name__}
    return {
        "models": [
            {
                "id": model.id,
                "name": model.name,
                "capabilities": sorted(model.capabilities),
                "context_length": model.context_length or known.window,
                "price": None if known.price is None else known.price.to_dict(),
            }
            for model in answer
            for known in [llm.price_of(model.id) or ModelPrice(price=None)]
        ]
    }
