"""Kinds of parameters, the options of every command, the help of a command, and errors in its words."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
from flexchat.domain.version import __version__
from flexchat.errors import did_you_mean

from .as_in_llm import OPTIONS
from .context import CommandContext, UsageError

Command = Callable[..., Any]


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


def argument(*names: str, help: str, **settings: Any) -> Callable[[Command], Command]:
    """Add an argument with a help text to a command."""
    return click.argument(*names, cls=Argument, help=help, **settings)


def completes(names: Callable[[CommandContext], Iterable[str]]) -> Callable[..., list[str]]:
    """Return a ``shell_complete`` that offers those names of a context that begin like the word."""
    return lambda ctx, param, word: [name for name in names(ctx.find_root().obj) if name.startswith(word)]


def option_group(name: str, build: Command, *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add options whose values the command receives as one argument.

    Args:
        name: The argument's name.
        build: Returns its value; its parameters are those of the options.
    """
    names = inspect.signature(build).parameters

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def with_group(*args: Any, **values: Any) -> Any:
            value = build(**{each: values.pop(each) for each in names})
            return command(*args, **{name: value}, **values)

        decorated: Command = with_group
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add


def limit_option(default: int, *names: str, noun: str = "") -> Callable[[Command], Command]:
    """Add an option for the maximum number of results, at least 1."""

    def check(ctx: click.Context, param: click.Parameter, limit: int) -> int:
        if limit < 1:
            raise UsageError(f"--limit is at least 1, not {limit}")
        return limit

    text = f"maximum number{noun} (default: {default})"
    names = names or ("--limit",)
    return click.option(*names, "limit", metavar="N", type=int, default=default, callback=check, help=text)


def command(function: Callable[..., Any]) -> click.Command:
    """Make a function or a coroutine function a command; its first argument is the CommandContext."""

    @functools.wraps(function)
    def run(*args: Any, **values: Any) -> Any:
        result = function(click.get_current_context().obj, *args, **values)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    return click.command(run)


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


class Text(click.ParamType):  # type: ignore[type-arg]  # generic in later versions only
    """A text. Without a locale, Python decodes the command line as ASCII, but it is UTF-8."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the typed text unchanged."""
        if isinstance(value, str) and not value.isascii():
            with contextlib.suppress(UnicodeError):
                return os.fsencode(value).decode("utf-8")
        return value


_NO_CHOICE = re.compile(r"'(.*)' is not (?:one of )?")

FILE_NAME = FileName()
"""The type of a parameter that names a file or folder: never empty."""

TEXT = Text()
"""The type of a parameter with text: read as UTF-8 in every locale."""


class _Common(click.Option):
    """An option of every command: it sets something in the context, and is no argument of the command's function."""

    def __init__(self, *names: str, **settings: Any) -> None:
        super().__init__(names, expose_value=False, **settings)


def with_common_options(command: click.Command) -> click.Command:
    """Return a command that also has the options of every command, except where it has one of that name itself."""
    taken = {name for param in command.params if isinstance(param, click.Option) for name in param.opts}
    own = copy.copy(command)
    own.params = [*command.params, *(option for option in common_options() if taken.isdisjoint(option.opts))]
    own.add_help_option = False  # it is among them
    return own


def common_options(show_help: Callable[[click.Context], None] | None = None) -> Iterable[click.Option]:
    """Return the options of every command; each may stand before or after the command's name.

    Args:
        show_help: Called for -h and --help; by default the command's help is printed, and the command ends.
    """

    def apply(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        context: CommandContext = ctx.obj
        match param.name if value else None:
            case "config" | "json" as name:
                setattr(context, name, value)
            case "no_plugin":
                context.no_plugin.extend(value)
            case "verbose":
                context.terminal.verbose = True
            case "env_file" if not ctx.resilient_parsing:
                from .env_file import use_env_file

                use_env_file(value)
            case "version" if not ctx.resilient_parsing:
                context.terminal.out(f"flexchat {__version__}")
                ctx.exit()
            case "help" if not ctx.resilient_parsing and show_help is not None:
                show_help(ctx)
            case "help" if not ctx.resilient_parsing:
                context.terminal.write(format_help(ctx))
                ctx.exit()

    text = "configuration (default: FLEXCHAT_CONFIG, or flexchat.toml, .yaml or .json here)"
    variables = "take variables from a .env file; the environment wins"
    log = "show the log, and tracebacks of errors"
    return (
        _Common("--config", type=FILE_NAME, metavar="FILE", callback=apply, help=text),
        _Common("--env-file", type=FILE_NAME, metavar="FILE", is_eager=True, callback=apply, help=variables),
        _Common("--json", is_flag=True, callback=apply, help="print JSON"),
        _Common("--no-plugin", metavar="NAME", multiple=True, callback=apply, help="leave a plugin out; repeatable"),
        # main looks for it itself: colours matter before, and even if, the words can be read.
        _Common("--no-color", is_flag=True, help="plain text (so does the variable NO_COLOR)"),
        _Common("-v", "--verbose", is_flag=True, callback=apply, help=log),
        _Common("--version", is_flag=True, is_eager=True, callback=apply, help="show the version"),
        _Common("-h", "--help", is_flag=True, is_eager=True, callback=apply, help="show this"),
    )


def format_help(ctx: click.Context, commands: Iterable[tuple[str, list[tuple[str, str]]]] = ()) -> str:
    """Return the help of a command: its own options first, then those of every command.

    Args:
        commands: Titles of lists of commands, each with their names and summaries.
    """
    formatter = click.HelpFormatter(width=min(ctx.obj.terminal.width, 100), max_width=100)
    command = ctx.command
    arguments, options, common = list[tuple[str, str]](), list[tuple[str, str]](), list[tuple[str, str]]()
    for param in command.get_params(ctx):
        if isinstance(param, click.Argument):
            arguments += [(param.make_metavar(ctx), text)] if (text := getattr(param, "help", None)) else []
        elif record := param.get_help_record(ctx):
            (common if isinstance(param, _Common) else options).append(record)
    command.format_usage(ctx, formatter)
    command.format_help_text(ctx, formatter)
    lists = (("Arguments", arguments), ("Options", options), *commands, ("Options of every command", common))
    for title, rows in lists:
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows, col_max=26)
    command.format_epilog(ctx, formatter)
    return formatter.getvalue()


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
        hint = _suggest_option(error.option_name, options)
        if error.option_name in OPTIONS and any(param.name == "prompt" for param in params):
            hint = f" (here it is {OPTIONS[error.option_name]})"
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
