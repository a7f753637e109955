"""What holds for every command: exit statuses, errors in a sentence, options anywhere, speed."""

import json
import os
import signal
import subprocess
import sys

import pytest
from flexchat import __version__
from flexchat.installing import how_to_install
from flexchat_cli.main import OWN, main


def test_without_words_the_commands_are_listed(run):
    """All commands, with a line each; the way in for someone new."""
    ran = run()

    assert ran.status == 0
    assert all(name in ran.out for name in OWN)
    assert "flexchat demo" in ran.out


@pytest.mark.parametrize("words", [["--version"], ["ask", "--version"]])
def test_the_version_is_told(run, words):
    ran = run(*words)

    assert (ran.status, ran.out) == (0, f"flexchat {__version__}\n")


@pytest.mark.parametrize("name", OWN)
def test_every_command_has_help(run, name):
    """Help names the command and the options of every command."""
    ran = run(*name.split(), "--help")

    assert ran.status == 0
    assert f"flexchat {name}" in ran.out
    assert "--config" in ran.out


def test_help_is_also_a_word(run):
    assert run("help", "ask").out == run("ask", "--help").out


def test_half_a_command_names_its_other_halves(run):
    assert run("tools").status == 2
    assert "tools call" in run("tools").err
    assert "tools call" in run("tools", "--help").out
    assert run("tools", "--help").out.startswith("Usage: flexchat tools COMMAND …\n")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["chek"], "did you mean 'check'?"),
        (["tool"], "did you mean 'tools'?"),
        (["ask", "--jsno", "hello"], "did you mean '--json'?"),
        (["ask", "-5+3"], "write -- before a message that starts with a dash"),
        (["--verbos"], "did you mean '--verbose'?"),
        (["check", "one.toml", "two.toml"], "unexpected extra argument (two.toml)"),
        (["--config"], "option '--config' requires an argument"),
        (["--json"], "a command is missing"),
        (["--no-plugin", "mok", "plugins"], "did you mean 'mock'?"),
    ],
)
def test_what_nobody_knows_is_refused_with_the_nearest_name(run, words, hint):
    """Usage errors: status 2, one line, the nearest name."""
    ran = run(*words)

    assert ran.status == 2
    assert hint in ran.err
    assert ran.err.startswith("flexchat: ")
    assert ran.err.count("\n") == 1


def test_options_stand_before_and_behind_the_command(run):
    before = run("--json", "--no-plugin", "openai", "plugins")
    behind = run("plugins", "--json", "--no-plugin", "openai")

    reports, again = (
        [{**report, "load_ms": None} for report in json.loads(ran.out)]  # a time is another each time
        for ran in (before, behind)
    )
    assert reports == again
    assert [r["status"] for r in reports if r["name"] == "openai"] == ["blocked"]


def test_no_plugin_may_be_given_again(run):
    reports = json.loads(run("--no-plugin", "openai", "plugins", "--no-plugin", "internal", "--json").out)

    assert {r["name"] for r in reports if r["status"] == "blocked"} == {"openai", "internal"}


def test_a_configuration_error_is_one_screen_with_every_problem_and_status_2(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(
        '[llms.a]\nprovider = "scripted"\n\n[[responses]]\nllm = "b"\nmodle = "x"\n'
    )

    ran = run("ask", "hello")

    assert ran.status == 2
    assert "flexchat.toml:5" in ran.err
    assert "did you mean 'model'?" in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ask", "--bogus", "hi"], "unknown option '--bogus'; "),
        (["validate", "--run", "2"], "(did you mean '--runs'?)"),
        (["validate", "--runs", "x"], "--runs: expected a whole number, not 'x'; "),
    ],
)
def test_a_hint_is_given_where_words_are_alike_and_not_their_dashes(run, words, said):
    assert said in run(*words).err


def test_the_help_of_a_group_is_of_that_group(run):
    ran = run("validations", "--help")
    assert (ran.status, "Chat with tool calling" in ran.out, "demo" in ran.out) == (0, False, False)
    assert "validations export" in ran.out
    assert "flexchat validations COMMAND --help shows the details." in ran.out


def test_a_hundred_problems_are_still_one_screen(run, tmp_path):
    rules = "".join(f'[[responses]]\nllm = "missing{i}"\n' for i in range(100))
    (tmp_path / "flexchat.toml").write_text(f'[llms.a]\nprovider = "scripted"\n{rules}')

    ran = run("ask", "hello")

    assert ran.err.count("\n") < 25
    assert "more; flexchat check" in ran.err


def test_a_failed_turn_has_status_1_and_no_traceback(run, script):
    script('{ error = "auth" }')

    ran = run("ask", "hello")

    assert ran.status == 1
    assert ran.err == "flexchat: the script says: auth error\n"


def test_with_json_an_error_is_json_too(run, script):
    """A script that reads standard output finds JSON there whatever happens."""
    script('{ error = "auth" }')

    ran = run("ask", "--json", "hello")

    assert json.loads(ran.out) == {"error": "the script says: auth error", "type": "ProviderAuthError"}
    assert ran.status == 1


def test_verbose_shows_the_traceback(run, script):
    script('{ error = "auth" }')

    ran = run("-v", "ask", "hello")

    assert "Traceback" in ran.err
    assert ran.err.endswith("flexchat: the script says: auth error\n")


def test_an_error_of_ours_is_one_line_and_says_how_to_see_more(run, monkeypatch):
    def broken(**values):
        raise ZeroDivisionError("it broke")

    monkeypatch.setattr("flexchat_cli.ask.ask.callback", broken)

    ran = run("ask")

    assert ran.status == 1
    assert ran.err == "flexchat: internal error: ZeroDivisionError: it broke; run again with -v for the details\n"
    assert "Traceback" in run("ask", "-v").err


def test_an_interrupt_is_one_line_and_status_130(run, monkeypatch):
    def interrupted(**values):
        raise KeyboardInterrupt

    monkeypatch.setattr("flexchat_cli.ask.demo.callback", interrupted)

    ran = run("demo")

    assert (ran.status, ran.err) == (130, "flexchat: interrupted\n")


SHOUT = """
import click

@click.command
@click.option("--json", metavar="FILE")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def shout(context, json, rest):
    'Shout something.'
    print(json, list(rest), context.json)
    return 7
shout.ignore_unknown_options = True
shout.allow_interspersed_args = False
"""


@pytest.fixture
def _shouting(install_commands):
    install_commands(SHOUT, {"shout": "shout"})


@pytest.mark.usefixtures("_shouting")
def test_a_plugins_command_is_listed_and_runs_with_options_of_its_own(run):
    """Its exit status is the program's; where it has an option of a common name, its own counts."""
    assert "shout something" in run("--help").out

    ran = run("shout", "--json", "f", "a", "--b", "c")

    assert (ran.status, ran.out) == (7, "f ['a', '--b', 'c'] False\n")
    assert "did you mean 'shout'?" in run("shot").err


def test_a_broken_configuration_does_not_hide_the_help(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text("[[[")

    assert run("--help").status == 0


def test_main_takes_the_programs_arguments_and_restores_the_log(monkeypatch, capsys):
    import logging

    handlers = list(logging.getLogger().handlers)
    monkeypatch.setattr(sys, "argv", ["flexchat", "-v", "--version"])

    assert main() == 0
    assert capsys.readouterr().out.startswith("flexchat ")
    assert logging.getLogger().handlers == handlers
    assert logging.getLogger("flexchat").level == logging.NOTSET


def program(*words, **rest):
    return subprocess.run(
        [sys.executable, "-m", "flexchat", *words], capture_output=True, text=True, check=False, **rest
    )


@pytest.mark.slow
def test_python_m_flexchat_is_the_program():
    """Exit status and streams as those of a process."""
    done = program("tools", "call", "calculator", "expression=1/0")

    assert done.returncode == 1
    assert done.stdout == ""
    assert "division by zero" in done.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error():
    """flexchat … | head -1: nothing on standard error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flexchat", "config", "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()

    assert (process.wait(), errors) == (141, b"")


@pytest.mark.slow
def test_the_version_loads_no_plugin_and_nothing_heavy():
    """What --version costs: no plugin, no configuration reader, no HTTP client (its time is measured below)."""
    code = (
        "import sys; from flexchat_cli.main import main; main(['--version']); "
        "print([m for m in sys.modules if m.startswith('flexchat_') and not m.startswith('flexchat_c')"
        " or m in ('cattrs', 'httpx', 'jsonschema')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[1] == "[]"


@pytest.mark.slow
def test_version_and_help_are_fast(tmp_path):
    """Four times what Python takes to start with asyncio, once compiled; twice that fails the test."""
    compiled = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    compiled.pop("PYTHONDONTWRITEBYTECODE", None)

    def seconds(*words):
        before = os.times()
        subprocess.run([sys.executable, *words], capture_output=True, check=True, env=compiled)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    rounds = [
        (seconds("-m", "flexchat", word), seconds("-c", "import click, asyncio"))
        for word in ("--version", "--help", "--version", "--help", "--version")
    ]
    ours, pythons = zip(*rounds, strict=True)
    assert min(ours) < 8 * min(pythons)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a signal ends no process there")
@pytest.mark.parametrize("status", ["raise KeyboardInterrupt", "return 130"])
def test_a_second_ctrl_c_ends_the_program_at_once_without_a_traceback(status):
    """The first has been answered, and the program waits for a thread, one that makes vectors for example."""
    program = f"""
import signal, sys, threading
from flexchat_cli import main

def interrupted(words, terminal):
    {status}

main._run = interrupted
threading._register_atexit(lambda: signal.raise_signal(signal.SIGINT))  # run where exit begins to wait for threads
sys.argv = ["flexchat", "check"]
sys.exit(main.main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == -signal.SIGINT
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (["rag", "list"], "flexchat-rag"),
        (["new", "handler", "acme-dice"], "flexchat-testing"),
        (["plugins", "verify", "mock"], "flexchat-testing"),
    ],
)
def test_a_command_of_a_package_that_is_missing_says_what_to_install(run, monkeypatch, words, package):
    monkeypatch.setenv("FLEXCHAT_BLOCK_PLUGINS", "rag,testing")

    ran = run(*words)

    assert ran.status == 2
    assert how_to_install(package) in ran.err


@pytest.mark.parametrize(("there", "first"), [(True, "demo"), (False, "init openai")])
def test_help_sends_a_newcomer_where_something_is(capsys, monkeypatch, there, first):
    monkeypatch.setattr(
        sys.modules["flexchat_cli.main"], "is_installed", lambda package: (package == "flexchat-mock") is there
    )

    assert main(["--help"]) == 0
    assert capsys.readouterr().out.endswith(f"New here? flexchat {first}\n")


def test_a_group_shows_the_commands_of_plugins_too(capsys):
    assert main(["tools", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "tools record" in shown.partition("Commands of plugins:\n")[2]

    assert main(["tools"]) == 2
    assert "tools record" in capsys.readouterr().err
