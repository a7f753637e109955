"""flexchat config schema: the JSON Schema of a configuration, for editors."""

from __future__ import annotations

import argparse

from ..plugin.contracts import Command
from ..tools.python_function import PYTHON
from .opening import prepare
from .usage import OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what config schema takes: nothing of its own."""


def run(args: argparse.Namespace) -> int:
    """Print the schema, with the parts of the plugins that are installed."""
    from ..config.schema import config_schema
    from ..conversations.sqlite_store import SQLITE

    host = prepare(args)
    schema = config_schema(
        {name: kind.config_class for name, kind in host.providers.by_name.items()},
        {kind.name: kind.settings_class for kind in (PYTHON, *host.implementation_types.by_name.values())},
        {name: kind.config_class for name, kind in host.retrievers.by_name.items()},
        {kind.name: kind.config_class for kind in (SQLITE, *host.conversation_stores.by_name.values())},
        [*host.tools.by_name],
    )
    args.terminal.json(schema)
    return OK


COMMANDS = (
    Command(name="config schema", summary="print the JSON Schema of a config", add_arguments=add_arguments, run=run),
)
