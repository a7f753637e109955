"""flexchat config schema: the JSON Schema of a configuration, for editors."""

from __future__ import annotations

import click
from flexchat.assembly import config_schema

from .context import CommandContext


@click.command
@click.pass_obj
def schema(context: CommandContext) -> None:
    """Print the JSON Schema of a config.

    It includes the installed plugins' parts.
    """
    context.terminal.json(config_schema(context.installed_plugins()))
