"""Hooks of one chat: objects with @hookimpl methods, given in code and registered nowhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import ModuleType

from ..errors import ConfigError, Problem
from .hooks import Hooks
from .host import PluginHost, registration_hooks


def with_hooks(plugins: Hooks, hooks: Iterable[object]) -> Hooks:
    """Return the plugins' hooks and steps with those of these objects behind them.

    Raises:
        ConfigError: An object has no hook, an unknown one, or one that registers what is no step.
    """
    own = PluginHost()
    named: Counter[str] = Counter()
    problems: list[str] = []
    for each in hooks:
        name = each.__name__ if isinstance(each, ModuleType) else type(each).__name__
        named[name] += 1
        name = name if named[name] == 1 else f"{name} {named[name]}"
        report = own.register(each, name)
        registers = [hook for hook in report.hooks if hook in registration_hooks() - {"flexchat_register_steps"}]
        if registers:
            problems.append(f"{name}: {registers[0]} is for plugins: PluginHost.register takes them")
        elif (reason := own.why_inactive(name)) is not None and not own.steps.conflicts:
            problems.append(reason)
    together = plugins.followed_by(own.hooks())
    names = Counter(each.step.name for each in together.steps)
    doubled = [*own.steps.conflicts, *(name for name, times in names.items() if times > 1)]
    problems += [f"two steps are called '{name}'" for name in doubled]
    if problems:
        raise ConfigError([Problem(path="hooks", text=text) for text in problems])
    return together
