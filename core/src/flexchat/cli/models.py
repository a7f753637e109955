"""flexchat models: what the configured services offer."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from ..app import FlexChat
from ..domain import ModelInfo
from ..errors import ProviderError
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
    answers = asyncio.run(_ask(context.open_chat()))
    if context.json:
        terminal.json({service: _as_data(answer) for service, answer in answers.items()})
    for service, answer in answers.items():
        if isinstance(answer, ProviderError):
            terminal.error(f"{service}: {answer}")
        elif not context.json:
            _print(service, answer, terminal)
    return OK if any(not isinstance(answer, ProviderError) for answer in answers.values()) else FAILED


async def _ask(chat: FlexChat) -> dict[str, Answer]:
    async with chat:
        return await chat.list_models()


def _print(service: str, models: tuple[ModelInfo, ...], terminal: Terminal) -> None:
    terminal.out(service, "bold")
    for model in models:
        names = [model.name] if model.name and model.name != model.id else []
        window = [f"{model.context_length:,} tokens"] if model.context_length else []
        details = ", ".join([*names, *sorted(model.capabilities), *window])
        terminal.out(f"  {model.id}{f'  ({details})' if details else ''}")
    if not models:
        terminal.out("  (the service does not list any)")


def _as_data(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, ProviderError):
        return {"error": str(answer), "type": type(answer).__name__}
    return {
        "models": [
            {
                "id": model.id,
                "name": model.name,
                "capabilities": sorted(model.capabilities),
                "context_length": model.context_length,
            }
            for model in answer
        ]
    }
