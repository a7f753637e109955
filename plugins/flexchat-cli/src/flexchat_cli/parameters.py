"""Kinds of parameters, and the options of every command."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterable
from typing import Any

import click
from flexchat.domain.version import __version__

from .context import CommandContext


class Argument(click.Argument):
    """An argument with a help text, which click has only since 8.5."""

    def __init__(self, names: list[str], help: str = "", **settings: Any) -> None:
        super().__init__(names, **settings)
        self.help = help

    def make_metavar(self, *ctx: Any) -> str:
        """Format the parameter for a usage line, by its number of values: NAME, [NAME], NAME..."""
        if self.metavar is None:
            return super().make_metavar(*ctx)
        return (self.metavar if self.required else f"[{self.metavar}]") + ("..." if self.nargs != 1 else "")


def argument(*names: str, help: str, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an argument with a help text to a command."""
    return click.argument(*names, cls=Argument, help=help, **settings)


class FileName(click.Path):
    """The name of a file or folder. Empty names are refused: they come from unset shell variables."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name.

        Raises:
            click.BadParameter: It is empty, which would mean the working folder.
        """
        if value == "":
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


class Spoken(click.ParamType):  # type: ignore[type-arg]  # generic in later versions only
    """A text of a person. Without a locale, Python treats the words as ASCII, but they are UTF-8."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the typed text unchanged."""
        if isinstance(value, str) and not value.isascii():
            with contextlib.suppress(UnicodeError):
                return os.fsencode(value).decode("utf-8")
        return value


FILE_NAME = FileName()
"""The type of a parameter that names a file or folder: never empty."""

SPOKEN = Spoken()
"""The type of a parameter with a person's words: read as UTF-8, whatever the locale says."""


def with_common_options(command: click.Command) -> click.Command:
    """Return a command that also has the options of every command, except where it has one of that name itself."""
    taken = {name for param in command.params if isinstance(param, click.Option) for name in param.opts}
    own = copy.copy(command)
    own.params = [*command.params, *(option for option in common_options() if taken.isdisjoint(option.opts))]
    own.add_help_option = False  # it is among them
    return own


def is_common(param: click.Parameter) -> bool:
    """Return whether a parameter is one of every command."""
    return isinstance(param, _Common)


class _Common(click.Option):
    """An option of every command: it sets something in the context, and is no argument of the command's function."""


def common_options() -> Iterable[click.Option]:
    """Return the options of every command; each may stand before or after the command's name."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value and param.name:
            context: CommandContext = ctx.obj
            if param.name == "no_plugin":
                context.no_plugin.extend(value)
            else:
                setattr(context, param.name, value)

    def use_file(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value and not ctx.resilient_parsing:
            from .env_file import use_env_file

            use_env_file(value)

    def keep_verbose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.obj.terminal.verbose |= value

    def show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            ctx.obj.terminal.out(f"flexchat {__version__}")
            ctx.exit()

    def show_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            from .help import show_help

            show_help(ctx)

    text = "configuration (default: FLEXCHAT_CONFIG, or flexchat.toml, .yaml or .json here)"
    return (
        _Common(["--config"], type=FILE_NAME, metavar="FILE", expose_value=False, callback=keep, help=text),
        _Common(
            ["--env-file"],
            type=FILE_NAME,
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=use_file,
            help="take variables from a .env file; the environment wins",
        ),
        _Common(["--json"], is_flag=True, expose_value=False, callback=keep, help="print JSON"),
        _Common(
            ["--no-plugin"],
            metavar="NAME",
            multiple=True,
            expose_value=False,
            callback=keep,
            help="leave a plugin out; repeatable",
        ),
        # main looks for it itself: colours matter before, and even if, the words can be read.
        _Common(["--no-color"], is_flag=True, expose_value=False, help="plain text (so does the variable NO_COLOR)"),
        _Common(
            ["-v", "--verbose"],
            is_flag=True,
            expose_value=False,
            callback=keep_verbose,
            help="show the log, and tracebacks of errors",
        ),
        _Common(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=show_version,
            help="show the version",
        ),
        _Common(
            ["-h", "--help"], is_flag=True, is_eager=True, expose_value=False, callback=show_help, help="show this"
        ),
    )
