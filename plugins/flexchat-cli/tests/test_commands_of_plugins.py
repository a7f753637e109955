"""Commands of installed packages: found without importing them, and none stops another."""

import json
import os
import re
import subprocess
import sys

import pytest
from flexchat_cli.main import OWN

HELLO = """
import click

@click.command
@click.pass_obj
def hello(context):
    '''Say hello.

    More of it.
    '''
    context.terminal.out("hello")
"""


def test_a_command_is_listed_with_its_docstring_and_runs(run, install_commands):
    install_commands(HELLO, {"hello": "hello", "tools hello": "hello"})

    assert re.search(r"^  hello +say hello$", run("--help").out, re.MULTILINE)
    assert re.search(r"^  tools hello +say hello$", run("tools", "--help").out, re.MULTILINE)
    assert run("hello").out == run("tools", "hello").out == "hello\n"
    assert "More of it." in run("help", "tools", "hello").out


@pytest.mark.slow
def test_help_and_version_import_no_command_and_no_plugin(install_commands):
    """Their names and summaries come from metadata, and from files that are read and not run."""
    module = install_commands("raise SystemExit('imported')", {"boom": "boom"}, plugins=["boom"])
    code = (
        "import sys\nfrom flexchat_cli.main import main\n"
        "for words in (['--help'], ['tools', '--help'], ['--version']): assert main(words) == 0\n"
        "own = {'flexchat_cli.' + value.partition(':')[0] for value in sys.argv[2:]}\n"
        "print([m for m in sys.modules if m in own or m == sys.argv[1] "
        " or m.startswith('flexchat_') and not m.startswith('flexchat_c')"
        " or m in ('cattrs', 'httpx', 'jsonschema', 'rich')], file=sys.stderr)"
    )
    words = [sys.executable, "-c", code, module, *(value for value, _ in OWN.values())]
    path = os.pathsep.join(sys.path[:1])
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path})

    assert done.stderr == "[]\n"
    assert "boom" in done.stdout


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_module", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def", "cannot be loaded: SyntaxError"),
        ("raise SystemExit(3)", "cannot be loaded: "),
        ("hello = 5", "cannot be used: "),
        ("", "cannot be loaded: AttributeError"),
        ("\0", "cannot be loaded: "),
    ],
)
def test_a_broken_command_is_a_sentence_and_stops_no_other(run, install_commands, code, said):
    module = install_commands(code, {"hello": "hello"})

    ran = run("hello")

    assert (ran.status, ran.out) == (2, "")
    assert "the command 'hello'" in ran.err
    assert said in ran.err
    assert module in ran.err
    assert ran.err.count("\n") == 1
    assert "hello" in run("--help").out
    assert run("tools", "list").status == 0


def test_a_blocked_plugins_commands_are_gone(run, install_commands, monkeypatch, tmp_path):
    install_commands(HELLO, {"hello": "hello"}, plugins=["greeter"])
    assert run("hello").status == 0

    assert "no command is called 'hello'" in run("--no-plugin", "greeter", "hello").err
    assert "hello" not in run("--help", "--no-plugin", "greeter").out
    (tmp_path / "flexchat.toml").write_text('[plugins]\nblock = ["greeter"]\n')
    assert "no command is called 'hello'" in run("hello").err
    (tmp_path / "flexchat.toml").unlink()
    monkeypatch.setenv("FLEXCHAT_BLOCK_PLUGINS", "greeter")
    assert "no command is called 'hello'" in run("hello").err


def test_of_two_with_one_name_neither_gets_it_until_one_is_preferred(run, install_commands, tmp_path):
    install_commands(HELLO, {"hello": "hello"}, plugins=["one"], name="one")
    install_commands(HELLO.replace('"hello"', '"hallo"'), {"hello": "hello"}, plugins=["two"], name="two")

    ran = run("hello")
    assert ran.status == 2
    assert "'hello' is offered by two plugins, one and two" in ran.err
    reports = {report["name"]: report for report in json.loads(run("plugins", "--json").out)}
    assert reports["one"]["withheld"] == reports["two"]["withheld"] == ["command hello"]

    (tmp_path / "flexchat.toml").write_text('[plugins]\nprefer = ["two"]\n')
    assert run("hello").out == "hallo\n"
    assert run("--no-plugin", "two", "hello").out == "hello\n"


def test_a_command_cannot_take_the_name_of_one_of_ours(run, install_commands):
    install_commands(HELLO, {"check": "hello"})

    assert run("check").out != "hello\n"
    assert run("--help").out.count("\n  check ") == 1


def completed(line):
    """What bash gets for a line, its last word unfinished."""
    words = line.split(" ")
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_FLEXCHAT_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "flexchat"], capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [found.partition(",")[2] for found in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("flexchat as", ["ask"]),
        ("flexchat tools sh", ["show"]),
        ("flexchat --json tools sh", ["show"]),
        ("flexchat ask --no-st", ["--no-stdin", "--no-stream"]),
        ("flexchat ask --verb", ["--verbose"]),
        ("flexchat completion b", ["bash"]),
        ("flexchat effects settle x d", ["done"]),
        ("flexchat init anth", ["anthropic"]),
        ("flexchat demo r", ["rag"]),
        ("flexchat plugins ver", ["verify"]),
        ("flexchat nothing x", []),
        ("flexchat tools nothing x", []),
        ("flexchat tools cost --rule se", ["second"]),
        ("flexchat tools call calc", ["calculator"]),
    ],
)
@pytest.mark.slow
def test_a_shell_completes_commands_options_and_names_of_the_configuration(tmp_path, line, found):
    (tmp_path / "flexchat.toml").write_text(
        '[llms.m]\nprovider = "rehearsal"\n[[responses]]\nname = "second"\nllm = "m"\nmodel = "m"\n'
        '[[tools.registry]]\nname = "calculator"\n'
    )

    assert completed(line) == found


@pytest.mark.slow
def test_a_configuration_that_cannot_be_read_completes_to_nothing(tmp_path):
    (tmp_path / "flexchat.toml").write_text("[[[")
    variables = {"COMP_WORDS": "flexchat tools show c", "COMP_CWORD": "3", "_FLEXCHAT_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "flexchat"], capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )

    assert (done.stdout.strip(), "Traceback" in done.stderr) == ("", False)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(run, shell):
    ran = run("completion", shell)

    assert (ran.status, ran.err) == (0, "")
    assert f"_FLEXCHAT_COMPLETE={shell}_complete" in ran.out


def test_a_shell_that_nobody_knows_is_refused_with_the_nearest(run):
    assert "(did you mean 'bash'?)" in run("completion", "bsh").err
