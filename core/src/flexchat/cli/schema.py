"""flexchat config schema: the JSON Schema of a configuration, for editors."""

from __future__ import annotations

import argparse

from ..assembly import config_schema
from ..plugin.contracts import Command
from .opening import prepare
from .usage import OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: config schema has no arguments of its own."""


def run(args: argparse.Namespace) -> int:
    """Print the schema, including the installed plugins' parts."""
    args.terminal.json(config_schema(prepare(args)))
    return OK


COMMANDS = (
    Command(name="config schema", summary="print the JSON Schema of a config", add_arguments=add_arguments, run=run),
)
