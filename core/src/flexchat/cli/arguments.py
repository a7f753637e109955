"""Reading a command's arguments: options common to all commands, and errors for unknown ones."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..errors import did_you_mean
from .usage import UsageError

_HIDDEN = "\0"
_WITH_VALUE = ("--config", "--no-plugin")
_FILES = ("FILE", "DIR", "PATH")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of ending the program."""

    def error(self, message: str) -> NoReturn:
        """Raise the parser's complaint.

        Raises:
            UsageError: Always.
        """
        for kind, expected in (("int", "a whole number"), ("float", "a number")):
            message = message.replace(f"invalid {kind} value: ", f"expected {expected}, not ")
        raise UsageError(f"{message}; see {self.prog} --help")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)


def new_parser(prog: str, description: str, version: str, usage: str | None = None) -> Parser:
    """Return a parser with the options common to all commands."""
    parser = Parser(
        prog=prog,
        usage=usage,
        description=description,
        allow_abbrev=False,
        add_help=False,
        conflict_handler="resolve",  # a plugin's command may have an option of the same name
        formatter_class=_Formatter,
    )
    common = parser.add_argument_group("options of every command")
    common.add_argument(
        "--config",
        metavar="FILE",
        help="configuration (default: FLEXCHAT_CONFIG, or flexchat.toml or flexchat.json here)",
    )
    common.add_argument("--json", action="store_true", help="print JSON")
    common.add_argument(
        "--no-plugin", metavar="NAME", action="append", default=[], help="leave a plugin out; repeatable"
    )
    common.add_argument("--no-color", action="store_true", help="no colours (so does the variable NO_COLOR)")
    common.add_argument("-v", "--verbose", action="store_true", help="show the log, and tracebacks of errors")
    common.add_argument("--version", action="version", version=f"flexchat {version}", help="show the version")
    common.add_argument("-h", "--help", action="help", help="show this")
    return parser


def split_command(words: Sequence[str], depth: Callable[[str], bool]) -> tuple[str, list[str]]:
    """Return the command and all other words; the command is empty if there is none.

    Options may come before it.

    Args:
        depth: Whether a word is only the first half of a command: "tools" of "tools list".
    """
    rest = list(words)
    command: list[str] = []
    position = 0
    while position < len(rest) and rest[position] != "--":
        if rest[position].startswith("-"):
            position += 2 if rest[position] in _WITH_VALUE else 1
            continue
        command.append(rest.pop(position))
        if not (len(command) == 1 and depth(command[0])):
            break
    return " ".join(command), rest


def parse(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """Read a command's words. Options may be mixed with the others, if the parser allows it.

    Raises:
        UsageError: A word is not understood.
    """
    head, tail = _at_double_dash(words)
    if _can_be_intermixed(parser, hidden=bool(tail)):
        # Words after -- are hidden while options are looked for: Python 3.11 forgets that they are not options.
        args, left_over = parser.parse_known_intermixed_args([*head, *(_HIDDEN + word for word in tail)])
        for name, value in vars(args).items():
            setattr(args, name, _shown(value))
    else:
        args, left_over = parser.parse_known_args(list(words))
    if left_over:
        word = left_over[0].partition("=")[0] if left_over[0].startswith("--") else left_over[0]
        options = [option for action in parser._actions for option in action.option_strings]
        kind = "option" if word.startswith("-") else "argument"
        advice = f"see {parser.prog} --help"
        if kind == "option" and any(action.dest == "message" for action in parser._actions):
            advice += "; write -- before a message that starts with a dash"
        raise UsageError(f"unknown {kind} '{word}'{_similar(word, options)}; {advice}")
    _refuse_empty_names(parser, args)
    return args


def _refuse_empty_names(parser: Parser, args: argparse.Namespace) -> None:
    """Refuse "" as a file name: it comes from an unset shell variable, and would mean this folder."""
    for action in parser._actions:
        given = getattr(args, action.dest, None)
        if str(action.metavar).startswith(_FILES) and given is not None and "" in (given, *_listed(given)):
            name = action.option_strings[0] if action.option_strings else str(action.metavar)
            raise UsageError(f"{name}: the name is empty")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def spoken(words: Sequence[str]) -> str:
    """Return the words of a message. Without a locale, Python treats them as ASCII, but they are UTF-8."""
    text = " ".join(words)
    with contextlib.suppress(UnicodeError):
        return text if text.isascii() else os.fsencode(text).decode("utf-8")
    return text


def _similar(word: str, options: Sequence[str]) -> str:
    """Return the option that was meant; the shared dashes do not make options similar."""
    names = [option.removeprefix("--") for option in options if option.startswith("--")]
    return did_you_mean(word.lstrip("-"), names).replace("mean '", "mean '--")


def _can_be_intermixed(parser: Parser, *, hidden: bool) -> bool:
    """Return whether a parser, possibly a plugin's, can read options between its other words.

    Args:
        hidden: Whether there are words after --: a converter would not recognise them while they are hidden.
    """
    positionals = parser._get_positional_actions()
    exclusive = [action for group in parser._mutually_exclusive_groups for action in group._group_actions]
    return not any(
        action.nargs in (argparse.PARSER, argparse.REMAINDER)
        or action in exclusive
        or (hidden and (action.type is not None or action.choices is not None))
        for action in positionals
    )


def _at_double_dash(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    if "--" not in words:
        return words, ()
    place = words.index("--")
    return words[:place], words[place + 1 :]


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return value.removeprefix(_HIDDEN) if isinstance(value, str) else value
