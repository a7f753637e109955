"""The program: finds the command, runs it, and turns every error into a sentence and an exit status."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence

import click
from flexchat.errors import ConfigError, FlexChatError
from flexchat.plugin.foreign import error_name

from .commands import COMPLETE_VARIABLE, CommandGroup
from .context import CommandContext
from .log import log_to_stderr
from .parameters import format_usage_error
from .terminal import StreamError, Terminal
from .usage import FAILED, INTERRUPTED, OK, PIPE_CLOSED, UsageError

_MAX_PROBLEMS = 20


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
