"""What is wrong with the words of a command line, in one line, with what was meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click
from flexchat.errors import did_you_mean

from .as_in_llm import spelled_here

_NO_CHOICE = re.compile(r"'(.*)' is not (?:one of )?")


def said_of(error: click.UsageError) -> str:
    """Return what click complains of, with the nearest name and where to read on."""
    ctx = error.ctx
    command = ctx.command if ctx is not None else None
    advice = f"; see {ctx.command_path} --help" if ctx is not None else ""
    if isinstance(error, click.NoSuchOption):
        params = command.params if command is not None else []
        options = [name for param in params if isinstance(param, click.Option) for name in param.opts]
        if any(param.name == "message" for param in params):
            advice += "; write -- before a message that starts with a dash"
        here = spelled_here(error.option_name) if any(param.name == "prompt" for param in params) else ""
        hint = here or _similar(error.option_name, options)
        return f"unknown option '{error.option_name}'{hint}{advice}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{_named(error.param)} is missing{advice}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_named(error.param)}: {_plain(error.message)}{_choice_meant(error)}{advice}"
    return f"{_plain(error.format_message())}{advice}"


def _plain(text: str) -> str:
    """Return a sentence of click's in our style: a clause without a period."""
    for kind, expected in (("integer", "a whole number"), ("float", "a number")):
        text = re.sub(rf"^(.+) is not a valid {kind}\.?$", rf"expected {expected}, not \1", text, flags=re.DOTALL)
    text = text.removesuffix(".")
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _named(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return param.metavar or (param.name or "").upper()


def _choice_meant(error: click.BadParameter) -> str:
    kind = error.param.type if error.param is not None else None
    given = _NO_CHOICE.match(error.message)
    if not isinstance(kind, click.Choice) or given is None:
        return ""
    return did_you_mean(given[1], [str(choice) for choice in kind.choices])


def _similar(word: str, options: Sequence[str]) -> str:
    """Return the option that was meant; the shared dashes do not make options similar."""
    names = [option.removeprefix("--") for option in options if option.startswith("--")]
    return did_you_mean(word.lstrip("-"), names).replace("mean '", "mean '--")
