"""flexchat serve: the HTTP API and the web page."""

from __future__ import annotations

import argparse

from flexchat.plugin import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what serve takes."""


def run(args: argparse.Namespace) -> int:
    """Serve until the program is told to end."""
    raise NotImplementedError


SERVE = Command(name="serve", summary="serve the HTTP API and the web page", add_arguments=add_arguments, run=run)
