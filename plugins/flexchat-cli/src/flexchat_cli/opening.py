"""Selects the configuration's model or the rehearsal model, and announces the latter where it could be mistaken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .context import CommandContext
from .usage import UsageError

if TYPE_CHECKING:
    from flexchat.app import FlexChat

_REHEARSED = "the rehearsal model answers (it matches words and understands nothing)"


def _use_demo(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.obj.demo = value


demo_option = click.option(
    "--demo",
    is_flag=True,
    expose_value=False,
    callback=_use_demo,
    help="let the rehearsal model answer instead of the configured one: no key, no network",
)
"""The option for using the rehearsal model; it sets the context's ``demo``."""


def require_config(context: CommandContext) -> None:
    """Refuse the rehearsal model without --demo in scripts, which would take its answers for a real model's.

    Raises:
        UsageError: There is neither a configuration, nor --demo, nor a terminal; or both a configuration and --demo.
    """
    if context.demo and context.config:
        raise UsageError("--demo works without a configuration, and --config names one: use only one of them")
    if not context.demo and not context.terminal.is_shown_on_terminal() and context.config_file() is None:
        raise UsageError(
            "no config found: flexchat init openai (or ollama, gemini, anthropic, local) writes one, "
            "-m PROVIDER/MODEL needs none; --demo lets the rehearsal model answer, which understands nothing"
        )


def report_notes(chat: FlexChat, context: CommandContext) -> None:
    """Report on standard error what an answer must not hide: that no model is behind it, that tools were left out."""
    file = context.config_file()
    if context.demo:
        context.terminal.say(f"--demo: {_REHEARSED}", "dim")
    elif file is None:
        text = f"no config found: {_REHEARSED}; flexchat init openai connects a real one"
        context.terminal.say(text, "dim")
    elif chat.notes:
        count = "1 note" if len(chat.notes) == 1 else f"{len(chat.notes)} notes"
        context.terminal.say(f"{file}: {count}; flexchat check shows them", "dim")
