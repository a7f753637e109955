"""A .env file is read as python-dotenv reads it, only when named, and the environment wins."""

import contextlib
import os
import sys
import time

import dotenv
import pytest
from flexchat.errors import ConfigError
from flexchat_cli.env_file import read_env_file, use_env_file


@pytest.fixture
def file(tmp_path):
    """Write a file and return its path."""

    def write(content):
        path = tmp_path / "my.env"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_quotes_export_comments_and_lines(file):
    """Nothing of ours parses it."""
    text = (
        "\ufeff# comment\nA=1\nexport B=\"two words # no comment\"\nC='it''s'\nD=\"multi\nline\"\nE=x # comment\nG=\n"
    )
    found = read_env_file(file(text.replace("'it''s'", "'single'")))
    assert found == {"A": "1", "B": "two words # no comment", "C": "single", "D": "multi\nline", "E": "x", "G": ""}


def test_the_environment_wins(file, monkeypatch):
    """Also an empty variable: somebody emptied it."""
    monkeypatch.setattr(os, "environ", {"A": "real", "B": ""})
    assert use_env_file(file("A=file\nB=file\nC=file\n")) == {"C": "file"}
    assert os.environ == {"A": "real", "B": "", "C": "file"}


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        ('A=1\n\n\nB="open\nC=3', [(4, "cannot be read: a line is NAME=value")]),
        ("A=1\nsk-secret-in-a-line\n", [(2, "has a name without a value")]),
        ('\n"sk-secret"=1\n', [(2, "cannot be read")]),
        (b"A=1\nB=\xff\n", [(2, "is not UTF-8 text")]),
        ("A=1\nB=x\0y\n", [(2, "NUL")]),
        ("A\n\n\nB\n", [(1, "without a value"), (4, "without a value")]),
    ],
)
def test_a_malformed_file_is_an_error_with_its_lines(content, problems, file, monkeypatch):
    """Nothing is added, and no line is shown."""
    monkeypatch.setattr(os, "environ", {})
    path = file(content)

    with pytest.raises(ConfigError) as caught:
        use_env_file(path)

    assert [problem.line for problem in caught.value.problems] == [line for line, _ in problems]
    assert all(text in problem.text for problem, (_, text) in zip(caught.value.problems, problems, strict=True))
    assert "secret" not in str(caught.value)
    assert os.environ == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A0=x\n" + "".join(f"A{n}=${{A{n - 1}}}${{A{n - 1}}}\n" for n in range(1, 60)), ": the values are larger"),
        ("A=" + "x" * 30_000 + "\nB=" + "${A}" * 900, ":2: the values are larger than 1 MiB with their"),
        ("A=" + "x" * 70_000, ": cannot be read: the file is larger than 64 KiB"),
    ],
    ids=["doubled", "repeated", "large"],
)
def test_values_that_multiply_do_not_fill_the_memory(file, monkeypatch, text, said):
    """As a bomb of YAML does not."""
    monkeypatch.setattr(os, "environ", {})

    with pytest.raises(ConfigError) as caught:
        use_env_file(file(text))

    assert said in str(caught.value)
    assert os.environ == {}


@pytest.mark.timed
@pytest.mark.parametrize(
    "piece", ["A{}=\n", "A{}=${{X}}\n", "${{", "A\n", "A='\\''\n", "A{}=${{A:-${{\n", '"', "export ", "\n "]
)
@pytest.mark.slow
def test_hostile_files_end_soon(file, monkeypatch, piece):
    """In processor time of seconds, whatever is said of them."""
    monkeypatch.setattr(os, "environ", {})
    text = "A=" + "".join(piece.format(n) for n in range(65_000 // len(piece.format(10_000))))
    began = time.thread_time()
    with contextlib.suppress(ConfigError):
        read_env_file(file(text))
    assert time.thread_time() - began < 4


def test_references_are_replaced_as_by_python_dotenv(file, monkeypatch):
    """The environment first found, then the file's own lines above; a default where neither has it."""
    monkeypatch.setattr(os, "environ", {"HOME": "/h", "B": "theirs"})
    path = file("A=${HOME}/a\nB=mine\nC=${A}-${B}-${NO:-d}-${NO}\nD='$HOME'\n")

    assert read_env_file(path) == {"A": "/h/a", "B": "mine", "C": "/h/a-mine-d-", "D": "$HOME"}
    assert read_env_file(path) == dotenv.dotenv_values(path)


def test_a_missing_file_and_a_missing_package(tmp_path, monkeypatch):
    """Each is one sentence."""
    with pytest.raises(ConfigError, match=r"none\.env: cannot be read: there is no such file"):
        read_env_file(tmp_path / "none.env")
    with pytest.raises(ConfigError, match="this is a folder"):
        read_env_file(tmp_path)
    monkeypatch.setitem(sys.modules, "dotenv", None)
    with pytest.raises(ConfigError, match=r"flexchat-cli\[dotenv\]'"):
        read_env_file(tmp_path / "none.env")
