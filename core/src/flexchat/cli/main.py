"""The program: finds the command, runs it, and turns every error into a sentence and an exit status."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import __version__
from ..errors import ConfigError, FlexChatError, did_you_mean
from ..plugin.contracts import Command
from ..plugin.foreign import error_name
from ..plugin.packages import package_with
from .arguments import new_parser, parse, split_command
from .commands import GROUPS, OWN
from .log import log_to_stderr
from .opening import config_source, load_plugins, open_chat, prepare, the_config
from .terminal import Terminal
from .usage import FAILED, INTERRUPTED, OK, PIPE_CLOSED, UsageError

if TYPE_CHECKING:
    from ..config.reading import ReadConfig

_MOST_PROBLEMS = 20
_USAGE = "flexchat COMMAND …"
_MAY_GO_ON = ("demo",)
"""Our commands to which a plugin may add a second word: ``flexchat demo rag``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status.

    0: done. 1: the turn or the tool failed. 2: the command or the configuration cannot be used. 130: interrupted.
    """
    words = [*(sys.argv[1:] if argv is None else argv)]
    options = words[: words.index("--")] if "--" in words else words
    terminal = Terminal(color="--no-color" not in options, verbose=not {"-v", "--verbose"}.isdisjoint(options))
    with log_to_stderr(terminal):
        try:
            status = _guarded(words, terminal, as_json="--json" in options, is_program=argv is None)
            if status == INTERRUPTED:
                _end_at_the_next_interrupt(is_program=argv is None)
            return status
        except BrokenPipeError:
            terminal.fall_silent()
            return PIPE_CLOSED


def _end_at_the_next_interrupt(*, is_program: bool) -> None:
    """Let a second Ctrl-C end the program at once, without a traceback, while it waits for its threads."""
    if is_program:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _guarded(words: Sequence[str], terminal: Terminal, *, as_json: bool, is_program: bool) -> int:
    try:
        with terminal.alone():
            return _run(words, terminal)
    except SystemExit as stop:  # argparse has printed the help or the version
        return stop.code if isinstance(stop.code, int) else FAILED if stop.code else OK
    except KeyboardInterrupt:
        _end_at_the_next_interrupt(is_program=is_program)
        terminal.end_line()
        terminal.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except FlexChatError as error:
        status, text = error.exit_status, _sentences(error)
        trouble: BaseException = error
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
    name, rest = split_command(words, lambda word: word in GROUPS)
    if name == "help":
        name, rest = split_command([*rest, "--help"], lambda word: word in GROUPS)
    if not name:
        return _without_command(rest, terminal)
    command = OWN.get(name)
    if command is not None:
        if name not in _MAY_GO_ON:
            return _call(command, rest, terminal, own=True)
        second, left = split_command(rest, lambda word: False)
        theirs, read = _commands_of_plugins(left)
        longer = theirs.get(f"{name} {second}")
        if longer is None:
            return _call(command, rest, terminal, read, own=True)
        return _call(longer, left, terminal, read, own=False)
    if name in GROUPS:
        own, theirs = (
            {known: command for known, command in commands.items() if known.startswith(f"{name} ")}
            for commands in (OWN, _commands_of_plugins(rest)[0])
        )
        if {"-h", "--help"}.isdisjoint(rest):
            raise UsageError(f"{name} needs one of: {', '.join([*own, *theirs])}")
        terminal.out(_overview(own, theirs, group=name).rstrip())
        return OK
    theirs, read = _commands_of_plugins(rest)
    if any(known.startswith(f"{name} ") for known in theirs):  # the first half of a command
        return _of_group(name, words, theirs, read, terminal)
    if name in theirs:
        return _call(theirs[name], rest, terminal, read, own=False)
    known = [*OWN, *GROUPS, *theirs]
    package = package_with("command", name)
    if package is not None:
        raise UsageError(f"the command '{name}' comes with the package {package}: pip install {package}")
    raise UsageError(f"no command is called '{name}'{did_you_mean(name, known)}; flexchat --help lists them")


def _of_group(
    group: str, words: Sequence[str], theirs: dict[str, Command], read: ReadConfig | None, terminal: Terminal
) -> int:
    """Run one of the plugins' commands that share their first word."""
    inside = {known: command for known, command in theirs.items() if known.startswith(f"{group} ")}
    name, rest = split_command(words, lambda word: word in (group, "help"))
    name = name.removeprefix("help ") if name != f"help {group}" else group
    if name in inside:
        return _call(inside[name], rest, terminal, read, own=False)
    if name == group and not {"-h", "--help", "help"}.isdisjoint(words):
        terminal.out(_overview(inside, {}, group=group).rstrip())
        return OK
    unknown = f"no command is called '{name}'{did_you_mean(name, inside)}; " if name != group else ""
    raise UsageError(f"{unknown}{group} needs one of: {', '.join(inside)}")


def _without_command(rest: Sequence[str], terminal: Terminal) -> int:
    parser = new_parser("flexchat", "", __version__, usage=_USAGE)
    wants_overview = not rest or not {"-h", "--help"}.isdisjoint(rest)
    if not wants_overview:
        with terminal.lent():
            parse(parser, rest)
        raise UsageError("a command is missing; flexchat --help lists them")
    terminal.write(_overview(OWN, _commands_of_plugins(rest)[0]))
    return OK


def _call(
    command: Command, words: Sequence[str], terminal: Terminal, read: ReadConfig | None = None, *, own: bool
) -> int:
    parser = new_parser(f"flexchat {command.name}", f"{command.summary[:1].upper()}{command.summary[1:]}.", __version__)
    command.add_arguments(parser)
    with terminal.lent():  # argparse prints help and version
        args = parse(parser, words)
    args.terminal, args.read = terminal, read
    args.open_chat = functools.partial(open_chat, args)
    args.config_source = functools.partial(config_source, args)
    args.installed_plugins = functools.partial(prepare, args)
    with contextlib.nullcontext() if own else terminal.lent():
        return command.run(args)


def _commands_of_plugins(words: Sequence[str]) -> tuple[dict[str, Command], ReadConfig | None]:
    """Return the plugins' commands, and the configuration; an unreadable one must not hide them."""
    parser = new_parser("flexchat", "", __version__)
    args, _ = parser.parse_known_args([word for word in words if word not in ("-h", "--help", "--version")])
    read = None
    with contextlib.suppress(ConfigError):
        read = the_config(args)
    return dict(load_plugins(args, read).commands.by_name), read


def _overview(own: dict[str, Command], theirs: dict[str, Command], group: str = "") -> str:
    width = max(map(len, [*own, *theirs]))
    title = "" if group else "Chat with tool calling, assembled from plugins and described in a config file.\n\n"
    parser = new_parser(
        "flexchat",
        title + _table("commands:", own, width) + (_table("\ncommands of plugins:", theirs, width) if theirs else ""),
        __version__,
        usage=f"flexchat {group} COMMAND …" if group else _USAGE,
    )
    new = "" if group else " New here? flexchat demo"
    parser.epilog = f"flexchat {f'{group} ' if group else ''}COMMAND --help says more.{new}\n"
    return parser.format_help()


def _table(title: str, commands: dict[str, Command], width: int) -> str:
    return "\n".join([title, *(f"  {name:{width}}  {command.summary}" for name, command in commands.items())]) + "\n"


def _sentences(error: FlexChatError) -> str:
    if not isinstance(error, ConfigError) or len(error.problems) == 1:
        return str(error)
    shown = [f"  {problem}" for problem in error.problems[:_MOST_PROBLEMS]]
    more = len(error.problems) - len(shown)
    of_config = any(problem.path for problem in error.problems)  # problems of another file have no path
    shown += [f"  … and {more} more{'; flexchat check lists them all' if of_config else ''}"] if more else []
    what = "the configuration has" if of_config else "there are"
    return "\n".join([f"{what} {len(error.problems)} problems", *shown])
