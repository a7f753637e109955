"""Compatibility with the command line of ``llm``: hints for other spellings, and ``-o NAME VALUE``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

COMMANDS = {
    "prompt": "flexchat ask",
    "install": "pip install flexchat-NAME, or its folder of a checkout: pip install ./plugins/flexchat-NAME",
    "uninstall": "pip uninstall flexchat-NAME",
    "templates": "flexchat prompts list; flexchat ask --save NAME makes one",
    "fragments": "flexchat ask -f FILE",
    "schemas": "flexchat ask --schema 'name, age int', or the schema of a named prompt",
    "embed": "flexchat rag add FILE",
    "embed-multi": "flexchat rag add FOLDER",
    "embed-models": "[embedding] in a configuration",
    "similar": "flexchat rag query WORDS",
    "collections": "flexchat rag list",
    "openai": "flexchat ask -m openai/MODEL -o base_url=URL",
    "options": "options = { … } of a named prompt, or a rule of a configuration",
    "models list": "flexchat models",
    "logs list": "flexchat logs",
    "logs path": "flexchat logs; [conversations] path names the file",
    "logs status": "flexchat conversations list",
    "logs on": "log = true in [conversations]",
    "logs off": "log = false in [conversations], or FLEXCHAT_NO_KEEP=1",
    "keys path": "flexchat keys list",
    "plugins list": "flexchat plugins",
}
"""Commands of llm, and their equivalents here."""

_EQUIVALENTS = {
    "--cid": "--conversation ID",
    "-d --database": "path in [conversations]",
    "-q --query": "flexchat models, and -m NAME",
    "--options": "-o NAME VALUE",
    "--sf --system-fragment": "-s TEXT",
    "--log": "--keep",
    "-R --hide-reasoning": "nothing: thoughts are not shown",
    "--key": "flexchat keys set PROVIDER, or its variable",
    "--async": "nothing: every turn is asynchronous",
    "-u --usage": "nothing: a terminal shows the usage, --json has it",
    "--xl --extract-last": "-x",
    "--cl --chain-limit": "-o max_iterations N",
    "--template": "-t NAME",
    "-a --attachment --at": "nothing: images cannot be attached; -f FILE adds a text",
}
OPTIONS = {option: here for options, here in _EQUIVALENTS.items() for option in options.split()}
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
            joined.append(f"{name}={rest.pop(0)}" if "=" not in name and _is_name(name) and rest else name)
    return [*joined, *rest]


def _is_name(word: str) -> bool:
    return word.replace("-", "_").isidentifier() and not word.startswith("-")


def equivalent_of(option: str) -> str:
    """Name the equivalent of an option of llm, as the end of a sentence; empty for any other option."""
    return f" (here it is {OPTIONS[option]})" if option in OPTIONS else ""


def is_asked(command: click.Command, word: str) -> bool:
    """Return whether an option is one of ask's, or of llm's prompt."""
    options: list[Any] = [param for param in command.params if isinstance(param, click.Option)]
    return word in OPTIONS or any(word in (*option.opts, *option.secondary_opts) for option in options)
