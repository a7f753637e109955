"""Compatibility with the command line of ``llm``: hints for other spellings, and ``-o NAME VALUE``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

_WORDS = json.loads(Path(__file__).with_name("llm_words.json").read_text("utf-8"))

COMMANDS: Mapping[str, str] = _WORDS["commands"]
"""Commands of llm, and their equivalents here."""

OPTIONS = {option: here for options, here in _WORDS["options"].items() for option in options.split()}
"""Options of llm's prompt and chat that are spelled otherwise, and their equivalents here."""

_PAIRS = ("-o", "--option", "-p", "--param", "--var")


class AskingCommand(click.Command):
    """A command whose -o and -p take ``NAME VALUE`` as well as ``NAME=VALUE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        return super().parse_args(ctx, joined_pairs(args))


def joined_pairs(words: Sequence[str]) -> list[str]:
    """Rewrite each ``-o NAME VALUE`` as ``-o NAME=VALUE``; words after -- stay unchanged."""
    joined: list[str] = []
    rest = [*words]
    while rest:
        word = rest.pop(0)
        joined.append(word)
        if word == "--":
            break
        if word in _PAIRS and rest:
            name = rest.pop(0)
            is_name = name.replace("-", "_").isidentifier() and not name.startswith("-")
            joined.append(f"{name}={rest.pop(0)}" if is_name and rest else name)
    return [*joined, *rest]


def is_asked(command: click.Command, word: str) -> bool:
    """Return whether an option is one of ask's, or of llm's prompt."""
    options: list[Any] = [param for param in command.params if isinstance(param, click.Option)]
    return word in OPTIONS or any(word in (*option.opts, *option.secondary_opts) for option in options)
