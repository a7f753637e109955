"""The program: finds the command, runs it, and turns every error into a sentence and an exit status."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from flexchat.errors import ConfigError, FlexChatError, did_you_mean
from flexchat.installing import how_to_install, is_installed, package_with
from flexchat.plugin.foreign import contained, error_name

from .as_in_llm import COMMANDS, is_asked
from .context import FAILED, INTERRUPTED, OK, PIPE_CLOSED, CommandContext, UsageError
from .entry_points import summary_of
from .parameters import common_options, format_help, format_usage_error, with_common_options
from .terminal import StreamError, Terminal, log_to_stderr

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_MAX_PROBLEMS = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status.

    0: done. 1: the turn or the tool failed. 2: the command or the configuration cannot be used. 3: the turn waits.
    130: interrupted.
    """
    words = [*(sys.argv[1:] if argv is None else argv)]
    from .os_user import as_os_user

    options = words[: words.index("--")] if "--" in words else words
    terminal = Terminal(color="--no-color" not in options, verbose=not {"-v", "--verbose"}.isdisjoint(options))
    with as_os_user(), log_to_stderr(terminal):
        try:
            status = _guarded(words, terminal, as_json="--json" in options, is_program=argv is None)
            if status == INTERRUPTED:
                _end_at_the_next_interrupt(is_program=argv is None)
            return status
        except BrokenPipeError:
            terminal.silence()
            return PIPE_CLOSED
        except StreamError as error:  # the JSON of an error that came before
            terminal.error(str(error))
            return FAILED


def _end_at_the_next_interrupt(*, is_program: bool) -> None:
    """Let a second Ctrl-C end the program at once, without a traceback, while it waits for its threads."""
    if is_program:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _guarded(words: Sequence[str], terminal: Terminal, *, as_json: bool, is_program: bool) -> int:
    try:
        with terminal.alone():
            return _run(words, terminal)
    except SystemExit as stop:  # a plugin's command ends the program
        return stop.code if isinstance(stop.code, int) else FAILED if stop.code else OK
    except (KeyboardInterrupt, click.Abort):  # Abort: at a prompt
        _end_at_the_next_interrupt(is_program=is_program)
        terminal.end_line()
        terminal.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except FlexChatError as error:
        status, text = error.exit_status, _format_error(error)
        trouble: BaseException = error
    except click.ClickException as error:  # of a plugin's command
        status, text, trouble = FAILED, error.format_message(), error
    except OSError as error:  # from the system: a full disk, a read-only folder
        status, trouble = FAILED, error
        text = f"{error.filename or 'the system'}: {error.strerror or error}; run again with -v for the details"
    except Exception as error:  # noqa: BLE001  # the last line of defence
        status, trouble = FAILED, error
        text = f"internal error: {error_name(error)}; run again with -v for the details"
    terminal.end_line()
    if terminal.verbose:
        terminal.say("".join(traceback.format_exception(trouble)).rstrip(), "dim")
    if as_json:
        terminal.json({"error": str(trouble), "type": type(trouble).__name__})
    terminal.error(text)
    return status


def _run(words: Sequence[str], terminal: Terminal) -> int:
    if COMPLETE_VARIABLE in os.environ:
        return _complete(terminal)
    context = CommandContext(terminal=terminal)
    try:
        with CommandGroup().make_context("flexchat", [*words], obj=context) as ctx:
            status = ctx.command.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        raise UsageError(format_usage_error(error)) from error
    return status if isinstance(status, int) else OK


def _complete(terminal: Terminal) -> int:
    """Print the completions of a command line for a shell; errors give none."""
    from click.shell_completion import shell_complete

    context = CommandContext(terminal=terminal)
    with terminal.lend_stdout(), contextlib.suppress(FlexChatError, click.ClickException, OSError):
        return shell_complete(
            CommandGroup(), {"obj": context}, "flexchat", COMPLETE_VARIABLE, os.environ[COMPLETE_VARIABLE]
        )
    return FAILED


def _format_error(error: FlexChatError) -> str:
    if not isinstance(error, ConfigError) or len(error.problems) == 1:
        return str(error)
    lines = [f"  {problem}" for problem in error.problems[:_MAX_PROBLEMS]]
    more = len(error.problems) - len(lines)
    of_config = any(problem.path for problem in error.problems)  # problems of another file have no path
    lines += [f"  … and {more} more{'; flexchat check lists them all' if of_config else ''}"] if more else []
    what = "the configuration has" if of_config else "there are"
    return "\n".join([f"{what} {len(error.problems)} problems", *lines])


OWN = {
    "ask": ("ask:ask", "answer one message"),
    "chat": ("chat:chat", "hold a conversation"),
    "batch": ("batch:batch", "answer many prompts, in order; after an interruption, the same command continues"),
    "logs": ("conversations:logs", "print the last turns of kept conversations"),
    "conversations list": ("conversations:list_", "list kept conversations, most recently used first"),
    "conversations show": ("conversations:show", "print a conversation"),
    "conversations rename": ("conversations:rename", "give a conversation another title"),
    "conversations delete": ("conversations:delete", "delete conversations permanently"),
    "conversations export": ("conversations:export", "write conversations as Markdown, or as lines of JSON"),
    "conversations import": (
        "conversations_import:import_",
        "read conversations that export --json has written",
    ),
    "backup": ("backup:backup", "copy every database and the configuration, while serving"),
    "restore": ("backup:restore", "verify a backup, and put it back"),
    "migrate": ("backup:migrate", "bring the schemas of the databases up to date"),
    "effects list": ("turns:effects_list", "list the changes that tools have made, newest first"),
    "effects show": ("turns:effects_show", "print everything known about an effect"),
    "effects settle": ("turns:effects_settle", "record how an unknown effect ended: ID done|failed"),
    "explain": ("explain:explain", "show which rule would answer a message, and why"),
    "demo": ("ask:demo", "see a turn with tool calls; needs no key"),
    "init": ("init:init", "write a first configuration"),
    "tools list": ("tools:list_", "list the tools"),
    "tools show": ("tools:show", "print a tool's definition"),
    "tools call": ("tools:call", "run a tool: NAME key=value …"),
    "tools cost": ("tools:cost", "estimate the cost of each rule's tools in every request"),
    "tools diff": ("tools:diff", "show the changes in tool sources since their tools were accepted"),
    "tools accept": ("tools:accept", "accept the current tools of a source"),
    "tools lint": ("tools_lint:lint", "check the tools against each service's schema dialect"),
    "turns list": ("turns:list_", "list the turns of kept conversations, newest first"),
    "turns show": ("turns:show", "print the steps of a turn"),
    "turns resume": ("turns:resume", "continue an interrupted, suspended or accepted turn here"),
    "turns cancel": ("turns:cancel", "end a turn, wherever it runs, and keep its results in the conversation"),
    "keys set": ("keys:set_", "store a key, entered at a prompt or read from standard input"),
    "keys list": ("keys:list_", "list the keys and where each comes from"),
    "keys get": ("keys:get", "print a key, for another program"),
    "keys delete": ("keys:delete", "delete a stored key"),
    "prompts list": ("prompts:list_", "list the named prompts of the configuration"),
    "prompts show": ("prompts:show", "print a named prompt"),
    "models": ("models:models", "list the models of the services"),
    "models default": ("models:default", "print or set the model that answers without a configuration"),
    "aliases list": ("models:aliases_list", "list the aliases of models"),
    "aliases set": ("models:aliases_set", "give a model a short name, for -m"),
    "aliases remove": ("models:aliases_remove", "remove an alias"),
    "plugins": ("plugins:plugins", "list the installed plugins"),
    "check": ("check:check", "check a configuration"),
    "config schema": ("check:schema", "print the JSON Schema of a config"),
    "completion": ("init:completion", "print a shell's completion script"),
}
"""The module and function of each command, and its line in the list of commands."""

GO_ON = ("demo", "models", "plugins")
"""Commands that also begin others: flexchat demo rag."""

COMPLETE_VARIABLE = "_FLEXCHAT_COMPLETE"
"""The variable in which a shell requests completions; see flexchat completion."""

_HELP = "flexchat.help"
"""In click's meta: help was asked for before the command was named."""


class CommandGroup(click.Group):
    """The program, or what begins with a word: the commands of flexchat tools.

    Options of every command may stand before a command's name. The words of a command in GO_ON that name no further
    command are its own.
    """

    def __init__(self, words: str = "") -> None:
        name = words.rpartition(" ")[2] or "flexchat"
        # Help prints nothing yet: the words that follow may name the command whose help it is.
        options = [*common_options(lambda ctx: ctx.meta.update({_HELP: True}))]
        super().__init__(name, params=options, add_help_option=False, no_args_is_help=False)
        self._words = words
        self.subcommand_metavar = "COMMAND …"
        self.options_metavar = ""
        self.help = None if words else "Chat with tool calling, assembled from plugins and described in a config file."
        self.epilog = f"{' '.join(['flexchat', words]).strip()} COMMAND --help shows the details."
        if words in GO_ON:
            self.context_settings = {"ignore_unknown_options": True}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before a command's name."""
        try:
            rest = click.Command.parse_args(self, ctx, [*args])
        except click.NoSuchOption as error:
            if self._words or ctx.resilient_parsing or not is_asked(_own("ask"), error.option_name):
                raise
            ctx.args = ["ask", *args]  # flexchat -m openai/gpt-5.2 "hi"
            return ctx.args
        behind_dashes = bool(rest) and args[: -len(rest)][-1:] == ["--"]
        while rest[:1] == ["help"] and not behind_dashes and self._words not in GO_ON:
            ctx.meta[_HELP] = True
            rest = rest[1:]
        if not rest and not ctx.resilient_parsing:
            self._list_or_refuse(ctx, args)
        ctx.args = ["--", *rest] if behind_dashes and self._words in GO_ON else rest
        return ctx.args

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the words name."""
        with ctx:
            name, command, rest = self.resolve_command(ctx, ctx.args)
            assert command is not None, "without a command, only completion gets here"
            is_itself = name == self._words  # flexchat demo, and not flexchat demo rag
            is_ours = is_itself or f"{self._words} {name}".strip() in OWN or isinstance(command, CommandGroup)
            # What a plugin's command prints goes to standard output; ours uses the terminal.
            stdout = contextlib.nullcontext() if is_ours else ctx.obj.terminal.lend_stdout()
            with stdout, command.make_context(name, rest, parent=ctx.parent if is_itself else ctx) as inner:
                return inner.command.invoke(inner)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words begin with, and its own words.

        Raises:
            UsageError: There is none, or its plugin's code cannot be loaded.
        """
        word, rest = (args[0], args[1:]) if args else ("", [])
        full = f"{self._words} {word}".strip()
        if rest and f"{full} {rest[0]}" in COMMANDS:  # flexchat logs path: logs takes no such word
            raise self._unknown(ctx, f"{full} {rest[0]}")
        command = self._find(ctx, full) if word else None
        if command is None and self._words in GO_ON and package_with("command", full) is None and full not in COMMANDS:
            command, word, rest = _own(self._words), self._words, args
        if command is None and not ctx.resilient_parsing:
            if not self._is_message(ctx, word):
                raise self._unknown(ctx, full)
            command, word, rest = _own("ask"), "ask", args
        if ctx.meta.get(_HELP) and command is not None and not isinstance(command, CommandGroup):
            rest = ["--help"]
        return word, command, rest

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the next words of the commands."""
        start = len(self._words) + 1 if self._words else 0
        return [*dict.fromkeys(name[start:].split()[0] for name in self._names(ctx))]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        """Return the next words that begin like this, without importing a command."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        items = []
        for word in self.list_commands(ctx):
            if word.startswith(incomplete):
                full = f"{self._words} {word}".strip()
                entry = self._theirs(ctx).get(full)
                text = OWN[full][1] if full in OWN else summary_of(entry.value) if entry is not None else None
                items.append(click.shell_completion.CompletionItem(word, help=text))
        return items

    def _find(self, ctx: click.Context, full: str) -> click.Command | None:
        if _is_group(full, OWN) or full in GO_ON:
            return CommandGroup(full)
        if full in OWN:
            return _own(full)
        theirs = self._theirs(ctx)
        if full in theirs:
            return _load(full, theirs[full])
        return CommandGroup(full) if _is_group(full, theirs) else None

    def _theirs(self, ctx: click.Context) -> Mapping[str, EntryPoint]:
        """Return the plugins' commands."""
        by_name: Mapping[str, EntryPoint] = ctx.obj.installed_commands().by_name
        return by_name

    def _is_message(self, ctx: click.Context, word: str) -> bool:
        """Return whether a word that is no command is the first of a message: flexchat "hi"."""
        if self._words or not word:
            return False
        if any(map(str.isspace, word)):
            return True
        commands = ctx.obj.installed_commands()
        # Including those left out: the name of a blocked command is no message.
        every = importlib.metadata.entry_points(group="flexchat.commands").names
        is_command = word in commands.conflicts or word in every or package_with("command", word) is not None
        return not is_command and word not in COMMANDS and not did_you_mean(word, self.list_commands(ctx))

    def _names(self, ctx: click.Context) -> list[str]:
        """Return the full names of the commands of this group: ours, then the plugins'."""
        start = f"{self._words} " if self._words else ""
        theirs = sorted(self._theirs(ctx).keys() - OWN.keys())
        return [name for name in (*OWN, *theirs) if name.startswith(start)]

    def _list_or_refuse(self, ctx: click.Context, args: list[str]) -> None:
        """List the commands if help was requested, or no word was given.

        Raises:
            UsageError: A command is missing.
            click.exceptions.Exit: The commands were listed.
        """
        if self._words in GO_ON:
            if ctx.meta.get(_HELP):
                command = _own(self._words)
                with command.make_context(self._words, [], parent=ctx.parent, resilient_parsing=True) as inner:
                    self._show(inner)
            return
        if ctx.meta.get(_HELP) or not (args or self._words):
            self._show(ctx)
        if not self._words:
            raise UsageError("a command is missing; flexchat --help lists them")
        raise UsageError(f"{self._words} needs one of: {', '.join(self._names(ctx))}")

    def _show(self, ctx: click.Context) -> None:
        if not self._words:
            rehearses = is_installed(package_with("provider", "rehearsal") or "")
            self.epilog = f"{self.epilog} New here? flexchat {'demo' if rehearses else 'init openai'}"
        ours, theirs = [], []
        for name in self._names(ctx):
            if name in OWN:
                ours.append((name, OWN[name][1]))
                continue
            entry = self._theirs(ctx)[name]
            package = f"of {entry.dist.name}" if entry.dist is not None else ""
            theirs.append((name, summary_of(entry.value) or package))
        ctx.obj.terminal.write(format_help(ctx, [("Commands", ours), ("Commands of plugins", theirs)]))
        ctx.exit(OK)

    def _unknown(self, ctx: click.Context, full: str) -> UsageError:
        first = full.split()[0]
        commands = ctx.obj.installed_commands()
        if full in commands.conflicts:
            return UsageError(commands.missing(full))
        package = package_with("command", full) or (package_with("command", first) if not self._words else None)
        if package is not None:
            return UsageError(f"the command '{full}' comes with the package {package}: {how_to_install(package)}")
        if full in COMMANDS or first in COMMANDS:
            return UsageError(f"no command is called '{full}'; here it is: {COMMANDS.get(full) or COMMANDS[first]}")
        names = self._names(ctx)
        names += [name.split()[0] for name in names if not self._words]
        hint = did_you_mean(full, [*dict.fromkeys(names)])
        where = f"flexchat {self._words}".strip()
        asks = "" if self._words else f"; flexchat ask {full} asks a model"
        return UsageError(f"no command is called '{full}'{hint}; {where} --help lists them{asks}")


def _is_group(full: str, names: Mapping[str, Any]) -> bool:
    return any(name.startswith(f"{full} ") for name in names)


def _own(name: str) -> click.Command:
    module, _, function = OWN[name][0].partition(":")
    command: click.Command = getattr(importlib.import_module(f".{module}", __package__), function)
    return with_common_options(command)


def _load(name: str, entry: EntryPoint) -> click.Command:
    """Import a plugin's command.

    Raises:
        UsageError: That fails, or it is no click command.
    """
    try:
        with contained():
            command = entry.load()
    except Exception as error:
        text = f"the command '{name}' ({entry.value}) cannot be loaded: {error_name(error)}"
        raise UsageError(text) from error
    if not isinstance(command, click.Command):
        raise UsageError(f"the command '{name}' cannot be used: {entry.value} is no click command")
    return with_common_options(command)
