"""Reading a command's words, of our commands and of plugins'."""

import json

import pytest

CODE = """
import json
import click
from pathlib import Path

def told(**values):
    print(json.dumps(values, default=str))

@click.command
@click.argument("paths", nargs=-1)
@click.option("--collection")
def words(**values):
    told(**values)

@click.command
@click.argument("paths", nargs=-1, type=Path)
@click.option("--deep", is_flag=True)
def converted(**values):
    assert all(isinstance(path, Path) for path in values["paths"])
    told(**values)

@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--loud", is_flag=True)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
def rest(**values):
    told(**values)

@click.group
def outer():
    pass

@outer.command
@click.option("--deep", is_flag=True)
def inner(**values):
    told(**values)

@click.command
@click.argument("state", type=click.Choice(["done", "failed"]))
@click.argument("name")
@click.option("--count", type=int)
@click.option("--ratio", type=float)
def typed(**values):
    told(**values)
"""


@pytest.fixture(autouse=True)
def _commands(install_commands):
    names = ("words", "converted", "rest", "outer", "typed")
    install_commands(CODE, {f"acme {name}": name for name in names})


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
def test_options_may_stand_between_the_words(run, words, paths):
    """Also those of a plugin's command; behind -- there are none."""
    ran = run("acme", "words", *words.split())

    assert json.loads(ran.out) == {"paths": paths, "collection": "C"}


@pytest.mark.parametrize(
    ("words", "paths"), [("A --deep B", ["A", "B"]), ("--deep -- A -B", ["A", "-B"]), ("--deep A", ["A"])]
)
def test_words_that_are_converted_are_given_as_they_were_written(run, words, paths):
    """What a plugin's own type is given is what was written."""
    assert json.loads(run("acme", "converted", *words.split()).out) == {"paths": paths, "deep": True}


def test_a_command_that_takes_all_that_is_left_keeps_doing_so(run):
    """Also what looks like an option."""
    ran = run("acme", "rest", "--loud", "a", "--b", "c")

    assert json.loads(ran.out) == {"loud": True, "rest": ["a", "--b", "c"]}


def test_a_plugins_group_of_commands_works(run):
    """One entry point may be a click group."""
    assert json.loads(run("acme", "outer", "inner", "--deep").out) == {"deep": True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dnoe", "x"], "STATE: 'dnoe' is not one of 'done', 'failed' (did you mean 'done'?)"),
        (["done"], "NAME is missing"),
        (["done", "x", "--count", "y"], "--count: expected a whole number, not 'y'"),
        (["done", "x", "--ratio", "y"], "--ratio: expected a number, not 'y'"),
        (["done", "x", "z"], "unexpected extra argument (z)"),
        (["done", "x", "--cuont", "1"], "unknown option '--cuont' (did you mean '--count'?)"),
        (["done", "x", "--count"], "option '--count' requires an argument"),
    ],
)
def test_a_word_that_does_not_fit_is_said_in_one_line(run, words, said):
    """Which, what was expected, what was meant, and where to read on."""
    ran = run("acme", "typed", *words)

    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.endswith("see flexchat acme typed --help\n") or "requires" in said
    assert ran.err.count("\n") == 1
