"""What is wrong with the words of a command line, in one line, with what was meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click
from flexchat.errors import did_you_mean

from .as_in_llm import equivalent_of

_NO_CHOICE = re.compile(r"'(.*)' is not (?:one of )?")


def format_usage_error(error: click.UsageError) -> str:
    """Format a usage error of click, with the nearest name and a pointer to --help."""
    ctx = error.ctx
    command = ctx.command if ctx is not None else None
    advice = f"; see {ctx.command_path} --help" if ctx is not None else ""
    if isinstance(error, click.NoSuchOption):
        params = command.params if command is not None else []
        options = [name for param in params if isinstance(param, click.Option) for name in param.opts]
        if any(param.name == "message" for param in params):
            advice += "; write -- before a message that starts with a dash"
        here = equivalent_of(error.option_name) if any(param.name == "prompt" for param in params) else ""
        hint = here or _suggest_option(error.option_name, options)
        return f"unknown option '{error.option_name}'{hint}{advice}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return f"{_param_name(error.param)} is missing{advice}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        return f"{_param_name(error.param)}: {_plain(error.message)}{_suggest_choice(error)}{advice}"
    return f"{_plain(error.format_message())}{advice}"


def _plain(text: str) -> str:
    """Convert a sentence of click's to a clause without a period."""
    for kind, expected in (("integer", "a whole number"), ("float", "a number")):
        text = re.sub(rf"^(.+) is not a valid {kind}\.?$", rf"expected {expected}, not \1", text, flags=re.DOTALL)
    text = text.removesuffix(".")
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _param_name(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return param.metavar or (param.name or "").upper()


def _suggest_choice(error: click.BadParameter) -> str:
    kind = error.param.type if error.param is not None else None
    match = _NO_CHOICE.match(error.message)
    if not isinstance(kind, click.Choice) or match is None:
        return ""
    return did_you_mean(match[1], [str(choice) for choice in kind.choices])


def _suggest_option(word: str, options: Sequence[str]) -> str:
    """Suggest the option that was probably meant; the shared dashes do not count as a similarity."""
    names = [option.removeprefix("--") for option in options if option.startswith("--")]
    return did_you_mean(word.lstrip("-"), names).replace("mean '", "mean '--")
