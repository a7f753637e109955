"""flexchat models, models default and aliases …: the models of services, and their names as people type them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs
import click
from flexchat.app import FlexChat
from flexchat.config.keys import key_for
from flexchat.domain import ModelInfo
from flexchat.domain.prices import ModelPrice, plain
from flexchat.errors import ConfigError, PathError, ProviderError, StorageError, did_you_mean
from flexchat.files import data_folder, read_file, replacing
from flexchat.llms.llm import LLM
from flexchat.llms.open import variables_of

from .context import FAILED, OK, CommandContext, UsageError
from .parameters import argument, command
from .terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from flexchat.plugin.contracts import ProviderType
    from flexchat.plugin.host import PluginHost

_MAX_BYTES = 1024 * 1024


@attrs.frozen(kw_only=True)
class ModelNames:
    """The content of a user's file models.json.

    Attributes:
        default: Model that answers where neither -m nor a configuration names one.
        aliases: Models by their aliases.
    """

    default: str | None = None
    aliases: Mapping[str, str] = attrs.field(factory=dict)


def saved_names() -> ModelNames:
    """Read the user's file; without one, there are no names.

    Raises:
        StorageError: It cannot be read.
    """
    try:
        file = _file()
    except PathError:  # without a home there are no names
        return ModelNames()
    try:
        data = json.loads(read_file(file, most=_MAX_BYTES))
        default, aliases = data.get("default"), data.get("aliases") or {}
        texts = [*aliases, *aliases.values(), *([default] if default is not None else [])]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError
    except FileNotFoundError:
        return ModelNames()
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {error.strerror or error}") from None
    except (ValueError, AttributeError):
        raise StorageError(f"{file} is damaged: delete it, and name the models again") from None
    return ModelNames(default=default, aliases=aliases)


def full_name(name: str, llms: Collection[str], host: PluginHost) -> str:
    """Return the model that -m names: an alias is replaced, and a provider put before a name that only it has.

    Args:
        llms: Names of the configuration's llms, which come first.

    Raises:
        UsageError: No llm and no provider has this name, or several have such a model.
    """
    for is_alias in (False, True):
        name = saved_names().aliases.get(name, name) if is_alias else name
        first, slash, _ = name.partition("/")
        if first in llms or (slash and first in host.providers.by_name):
            return name
    kinds = host.providers.by_name.values()
    fitting = [kind.name for kind in kinds if kind.models and not slash and re.fullmatch(kind.models, name)]
    if len(fitting) == 1:
        return f"{fitting[0]}/{name}"
    if fitting:
        raise UsageError(f"-m {name}: several providers have it; write {' or '.join(f'{n}/{name}' for n in fitting)}")
    if name.strip("/ ") in host.providers.by_name:
        first = name.strip("/ ")
        raise UsageError(f"-m {name} names a provider and no model: write {first}/MODEL; flexchat models lists them")
    known = [*llms, *host.providers.by_name]
    there = f"the configuration's llms: {', '.join(llms) or 'none'}; providers: {', '.join(host.providers.by_name)}"
    missing = host.providers.missing(first) if slash else f"no model is known as '{name}'"
    hint = did_you_mean(first, known)
    raise UsageError(
        f"-m {name}: {missing}{'' if hint in missing else hint}; write LLM/MODEL or PROVIDER/MODEL ({there})"
    )


@command
@argument(
    "model", required=False, metavar="MODEL", help="its name, as -m takes it; without one, the present is printed"
)
@click.option("--remove", is_flag=True, help="have no default")
def default(context: CommandContext, model: str | None, remove: bool) -> None:
    """Print or set the model that answers without a configuration."""
    names = saved_names()
    if remove:
        _save(attrs.evolve(names, default=None))
    elif model is not None:
        _save(attrs.evolve(names, default=_resolve(model, context)))
    elif context.json:
        context.terminal.json({"default": names.default})
    elif names.default is not None:
        context.terminal.out(names.default)
    else:
        context.terminal.say("there is no default: flexchat models default openai/gpt-5.2 sets one", "dim")


@command
def aliases_list(context: CommandContext) -> None:
    """List the aliases of models."""
    aliases = saved_names().aliases
    empty = "there are no aliases: flexchat aliases set fast openai/gpt-5.2-mini makes one"
    context.show_rows(aliases, ("alias", "model"), sorted(aliases.items()), empty)


@command
@argument("alias", metavar="ALIAS", help="the short name")
@argument("model", metavar="MODEL", help="the model, as -m takes it")
def aliases_set(context: CommandContext, alias: str, model: str) -> None:
    """Give a model a short name, for -m."""
    if "/" in alias or not alias.strip():
        raise UsageError(f"an alias has no slash, as '{alias}' has: what is before one names an llm or a provider")
    names = saved_names()
    _save(attrs.evolve(names, aliases={**names.aliases, alias: _resolve(model, context)}))


@command
@argument("alias", metavar="ALIAS", help="the short name")
def aliases_remove(context: CommandContext, alias: str) -> None:
    """Remove an alias."""
    names = saved_names()
    if alias not in names.aliases:
        hint = did_you_mean(alias, names.aliases)
        raise UsageError(f"no alias is called '{alias}'{hint} (there are: {', '.join(names.aliases) or 'none'})")
    _save(attrs.evolve(names, aliases={name: model for name, model in names.aliases.items() if name != alias}))


def _resolve(model: str, context: CommandContext) -> str:
    return full_name(model, llm_names(context.config_data()), context.load_plugins(context.read_config()))


def llm_names(data: Mapping[str, object]) -> list[str]:
    """List the names of a configuration's llms."""
    llms = data.get("llms")
    return [*llms] if isinstance(llms, dict) else []


def _save(names: ModelNames) -> None:
    file = _file()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(file) as output:
            output.write(json.dumps(attrs.asdict(names), indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror or error}") from None


def _file() -> Path:
    return data_folder() / "models.json"


Answer = tuple[ModelInfo, ...] | ProviderError


@command
async def models(context: CommandContext) -> int:
    """List the models of the services.

    They are those of the configuration or, without one, of the installed providers that need no key or have theirs.
    The exit status is 1 if none of them answered.
    """
    terminal = context.terminal
    has_llms = bool(llm_names(context.config_data()))
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
        data: dict[str, Any] = {"id": model.id, "name": model.name, "capabilities": sorted(model.capabilities)}
        data["context_length"] = model.context_length or prices.window
        models.append(data | {"price": None if prices.price is None else prices.price.to_dict()})
    return {"models": models}
