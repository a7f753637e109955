"""What standard input is: real pipes, files, devices and terminals, as shells and services hand them on."""

import os
import subprocess
import sys

import pytest

ASK = [sys.executable, "-m", "flexchat", "ask", "--json", "--config", "flexchat.toml"]


@pytest.fixture
def shell(script, tmp_path):
    """Run a line of shell in which $ask asks a scripted model, and return what it writes and says."""
    script('{ text = "ok" }')

    def call(line):
        env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        line = line.replace("$ask", " ".join(ASK))
        return subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    return call


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("printf 'a\\nb\\n' | $ask Sum", r"Sum\n\na\nb"),
        ("printf 'a' > x; $ask Sum < x", r"Sum\n\na"),
        ("$ask Sum < /dev/null", "Sum"),
        ("$ask Sum <&-", "Sum"),
        ("sleep 3 | $ask --no-stdin Sum", "Sum"),
    ],
)
def test_a_pipe_or_a_file_stands_behind_the_words_and_nothing_else(shell, line, topic):
    ran = shell(line)

    assert f'"topic": "{topic}",' in ran.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_a_loop_that_reads_a_file_keeps_its_lines(shell):
    """``while read x; do flexchat ask "…"; done < list``: the list is the loop's."""
    ran = shell("printf '1\\n2\\n3\\n' > list; while read x; do $ask \"T $x\"; done < list")

    assert [line for line in ran.stdout.splitlines() if line.startswith('  "topic"')] == [
        f'  "topic": "T {number}",' for number in (1, 2, 3)
    ]
    assert ran.stderr.count("is being read by a surrounding loop") == 2


@pytest.mark.slow
def test_after_a_second_without_input_it_says_what_it_waits_for(script, tmp_path):
    """A service may hand on a pipe that nobody ever closes."""
    script('{ text = "ok" }')
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)

    with subprocess.Popen([*ASK, "Sum"], cwd=tmp_path, text=True, **pipes) as asking:
        waiting = "waiting for standard input, 5 seconds at most; --no-stdin ignores it, a - waits for its end\n"
        assert asking.stderr.readline() == waiting
        answer, _ = asking.communicate("late")

    assert r'"topic": "Sum\n\nlate"' in answer


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_without_a_locale_words_and_lines_are_utf8_all_the_same(shell):
    """And JSON loses nothing, though ASCII is all that may be written."""
    c = "env LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=ascii "

    ran = shell(f"printf 'größer' | {c} $ask naïve")

    assert r'"topic": "na\u00efve\n\ngr\u00f6\u00dfer"' in ran.stdout
