"""Reading a command's words, of our commands and of plugins'."""

from pathlib import Path

import pytest
from flexchat.cli.arguments import new_parser, parse
from flexchat.cli.usage import UsageError


@pytest.fixture
def parser():
    return new_parser("flexchat rag add", "", "1")


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ("A --collection C B", ["A", "B"]),
        ("--collection C A B", ["A", "B"]),
        ("A B --collection C", ["A", "B"]),
        ("A --collection C B -- --D", ["A", "B", "--D"]),
        ("--collection C -- -- --D", ["--", "--D"]),
    ],
)
def test_options_may_stand_between_the_words(parser, words, paths):
    """Also those of a plugin's command; behind -- there are none."""
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--collection")

    args = parse(parser, words.split())

    assert (args.paths, args.collection) == (paths, "C")


@pytest.mark.parametrize(
    ("words", "paths"), [("A --deep B", ["A", "B"]), ("--deep -- A -B", ["A", "-B"]), ("--deep A", ["A"])]
)
def test_words_that_are_converted_are_never_seen_in_disguise(parser, words, paths):
    """What a plugin's own type is given is what was written."""
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--deep", action="store_true")

    args = parse(parser, words.split())

    assert args.paths == [Path(path) for path in paths]
    assert args.deep


def test_a_parser_that_takes_all_that_is_left_keeps_doing_so(parser):
    """argparse cannot mix such words with options."""
    parser.add_argument("--loud", action="store_true")
    parser.add_argument("rest", nargs="...")

    args = parse(parser, ["--loud", "a", "--b", "c"])

    assert (args.loud, args.rest) == (True, ["a", "--b", "c"])


def test_a_parser_with_commands_of_its_own_works(parser):
    inner = parser.add_subparsers(dest="what").add_parser("inner")
    inner.add_argument("--deep", action="store_true")

    assert parse(parser, ["inner", "--deep"]).deep


def test_words_that_exclude_each_other_work(parser):
    group = parser.add_mutually_exclusive_group()
    group.add_argument("name", nargs="?")
    group.add_argument("--all", action="store_true")

    assert parse(parser, ["x"]).name == "x"
    with pytest.raises(UsageError, match="not allowed with"):
        parse(parser, ["x", "--all"])
