"""The help of a command: its own options first, then those of every command."""

from __future__ import annotations

from collections.abc import Iterable

import click

from .commands import WANTED, CommandGroup
from .parameters import is_common


def show_help(ctx: click.Context) -> None:
    """Print a command's help, and end; before a further word, remember that the help of its command is wanted.

    Raises:
        click.exceptions.Exit: Always, except for a group.
    """
    if isinstance(ctx.command, CommandGroup):
        ctx.meta[WANTED] = True
        return
    ctx.obj.terminal.write(help_of(ctx))
    ctx.exit()


def help_of(ctx: click.Context, commands: Iterable[tuple[str, list[tuple[str, str]]]] = ()) -> str:
    """Return the help of a command.

    Args:
        commands: Titles of lists of commands, each with their names and summaries.
    """
    formatter = click.HelpFormatter(width=min(ctx.obj.terminal.width, 100), max_width=100)
    command, params = ctx.command, ctx.command.get_params(ctx)
    command.format_usage(ctx, formatter)
    command.format_help_text(ctx, formatter)
    arguments = [
        (param.make_metavar(ctx), getattr(param, "help", None) or "")
        for param in params
        if isinstance(param, click.Argument)
    ]
    options = [param for param in params if isinstance(param, click.Option) and not is_common(param)]
    common = [param for param in params if is_common(param)]
    for title, rows in (
        ("Arguments", [row for row in arguments if row[1]]),
        ("Options", [record for param in options if (record := param.get_help_record(ctx))]),
        *commands,
        ("Options of every command", [record for param in common if (record := param.get_help_record(ctx))]),
    ):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows, col_max=26)
    command.format_epilog(ctx, formatter)
    return formatter.getvalue()
