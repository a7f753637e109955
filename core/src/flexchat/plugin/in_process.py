"""Hooks of one chat: those of the plugins, and objects with @hookimpl methods that are registered nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from ..errors import ConfigError, PluginLoadError, Problem
from .hooks import Hooks
from .host import PluginHost, registration_hooks


def hooks_of_chat(plugins: PluginHost, tables: Mapping[str, Any], given: Iterable[object] = ()) -> Hooks:
    """Return the plugins' hooks and steps, followed by those they make for this chat, and then the given ones.

    Args:
        tables: The plugins' tables in the chat's config.
        given: Objects with @hookimpl methods.

    Raises:
        ConfigError: A plugin could not make its hooks; or an object has no hook, an unknown one, or one that registers
            something other than steps.
    """
    try:
        objects = [*plugins.chat_hooks(tables)]
    except PluginLoadError as error:
        raise ConfigError([Problem(path="plugins", text=str(error))]) from error
    objects += [(each.__name__ if isinstance(each, ModuleType) else type(each).__name__, each) for each in given]
    own = PluginHost()
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for name, each in objects:
        counts[name] += 1
        unique = name if counts[name] == 1 else f"{name} {counts[name]}"
        report = own.register(each, unique)
        registers = [hook for hook in report.hooks if hook in registration_hooks() - {"flexchat_register_steps"}]
        if registers:
            problems.append(f"{unique}: {registers[0]} is for plugins: PluginHost.register takes them")
        elif (reason := own.why_inactive(unique)) is not None and not own.steps.conflicts:
            problems.append(reason)
    together = plugins.hooks().followed_by(own.hooks())
    names = Counter(each.step.name for each in together.steps)
    doubled = [*own.steps.conflicts, *(name for name, times in names.items() if times > 1)]
    problems += [f"two steps are called '{name}'" for name in doubled]
    if problems:
        raise ConfigError([Problem(path="hooks", text=text) for text in problems])
    return together
