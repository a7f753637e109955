"""flexchat models: the models of the configured services or, without a configuration, of the installed providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs
import click
from flexchat.app import FlexChat
from flexchat.config.keys import key_for
from flexchat.domain import ModelInfo
from flexchat.domain.prices import ModelPrice, plain
from flexchat.errors import ConfigError, ProviderError
from flexchat.llms.llm import LLM
from flexchat.llms.open import variables_of

from .context import CommandContext
from .model_names import llm_names
from .parameters import run_async
from .terminal import Terminal
from .usage import FAILED, OK, UsageError

if TYPE_CHECKING:
    from flexchat.plugin.contracts import ProviderType

Answer = tuple[ModelInfo, ...] | ProviderError


@click.command
@click.pass_obj
@run_async
async def models(context: CommandContext) -> int:
    """List the models of the services.

    They are those of the configuration or, without one, of the installed providers that need no key or have theirs.
    The exit status is 1 if none of them answered.
    """
    terminal = context.terminal
    config = context.read_config()
    has_llms = config is not None and bool(llm_names(config.document.data))
    chat = context.open_chat() if has_llms or context.demo else _of_providers(context)
    async with chat:
        answers = await chat.list_models()
    if context.json:
        terminal.json({service: _as_data(answer, chat.llms[service]) for service, answer in answers.items()})
    for service, answer in answers.items():
        if isinstance(answer, ProviderError):
            terminal.error(f"{service}: {answer}")
        elif not context.json:
            _print(chat.llms[service], answer, terminal)
    return OK if any(not isinstance(answer, ProviderError) for answer in answers.values()) else FAILED


def _of_providers(context: CommandContext) -> FlexChat:
    """Open a chat with an llm for each installed provider that can be asked; report which cannot.

    Raises:
        UsageError: There is none.
    """
    host = context.installed_plugins()
    usable: dict[str, Any] = {}
    for name, kind in host.providers.by_name.items():
        if any(field.default is attrs.NOTHING for field in attrs.fields(kind.config_class)):
            continue  # it needs settings
        variables = variables_of(kind)
        try:
            FlexChat.from_config(_config({name: {"provider": name}}), plugins=host)
        except ConfigError as error:
            context.terminal.say(f"{name}: {error}", "dim")
            continue
        if variables and key_for(variables) is None and not _is_local(kind):
            context.terminal.say(f"{name}: no key is known: flexchat keys set {name}", "dim")
            continue
        usable[name] = {"provider": name}
    if not usable:
        raise UsageError("no installed provider can be asked: flexchat keys set PROVIDER, or flexchat init")
    return FlexChat.from_config(_config(usable), plugins=host)


def _config(llms: Mapping[str, Any]) -> dict[str, Any]:
    return {"llms": llms, "responses": [{"llm": next(iter(llms)), "model": "any"}]}


def _is_local(kind: ProviderType) -> bool:
    """Return whether a provider's usual address is on this machine, where a key is not needed."""
    address = getattr(kind.config_class(), "base_url", "")
    return isinstance(address, str) and urlsplit(address).hostname in ("localhost", "127.0.0.1", "::1")


def _print(llm: LLM, models: tuple[ModelInfo, ...], terminal: Terminal) -> None:
    terminal.out(llm.name, "bold")
    for model in models:
        prices = llm.price_of(model.id) or ModelPrice(price=None)
        details = [model.name] if model.name and model.name != model.id else []
        details += sorted(model.capabilities)
        if length := model.context_length or prices.window:
            details.append(f"{length:,} tokens")
        if price := prices.price:
            more = "; long requests cost more" if prices.above else ""
            details.append(f"${plain(price.input)} in and ${plain(price.output)} out per million tokens{more}")
        terminal.out(f"  {model.id}" + (f"  ({', '.join(details)})" if details else ""))
    if not models:
        terminal.out("  (the service does not list any)")


def _as_data(answer: Answer, llm: LLM) -> dict[str, Any]:
    if isinstance(answer, ProviderError):
        return {"error": str(answer), "type": type(answer).__name__}
    models = []
    for model in answer:
        prices = llm.price_of(model.id) or ModelPrice(price=None)
        models.append(
            {
                "id": model.id,
                "name": model.name,
                "capabilities": sorted(model.capabilities),
                "context_length": model.context_length or prices.window,
                "price": None if prices.price is None else prices.price.to_dict(),
            }
        )
    return {"models": models}
