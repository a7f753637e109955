"""All commands by name: FlexChat's own, and those of plugins."""

from __future__ import annotations

from . import (
    ask,
    chat,
    check,
    conversations,
    demo,
    effects,
    explain,
    init,
    models,
    plugins,
    schema,
    tools,
    tools_cost,
    tools_lint,
    tools_sources,
    turns,
)

OWN = {
    command.name: command
    for module in (
        ask,
        chat,
        conversations,
        effects,
        explain,
        demo,
        init,
        tools,
        tools_cost,
        tools_sources,
        tools_lint,
        turns,
        models,
        plugins,
        check,
        schema,
    )
    for command in module.COMMANDS
}

GROUPS = {name.split()[0] for name in OWN if " " in name} | {"plugins"}
"""First words of two-word commands: tools, conversations; after "plugins", a plugin may add a second."""
