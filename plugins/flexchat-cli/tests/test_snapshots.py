"""The help of every command and the configuration's schema are as pinned. Run this file to pin them anew."""

import contextlib
import difflib
import importlib.metadata
import io
import os
import sys
from pathlib import Path

import pytest
from flexchat_cli.entry_points import installed_commands
from flexchat_cli.main import OWN, main

FOLDER = Path(__file__).with_name("snapshots")


def output(*words: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as written:
        assert main(words) == 0
    return written.getvalue()


def all_help() -> str:
    """Return the help of the program, of each group and of each command, ours and the plugins'."""
    names = [*OWN, *sorted(installed_commands(set(), ()).by_name)]
    words = dict.fromkeys(tuple(name.split()[:count]) for name in names for count in range(len(name.split()) + 1))
    return "\n".join(f"$ {' '.join(('flexchat', *each, '--help'))}\n{output(*each, '--help')}" for each in words)


SNAPSHOTS = {"help.txt": all_help, "config-schema.json": lambda: output("config", "schema")}


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.metadata.version("click") != "8.5.1", reason="the help is pinned as one version of click formats it"
)
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_the_output_is_as_pinned(name):
    pinned = (FOLDER / name).read_text(encoding="utf-8")

    now = SNAPSHOTS[name]()

    changes = difflib.unified_diff(pinned.splitlines(), now.splitlines(), f"pinned {name}", "now", lineterm="")
    assert now == pinned, "\n".join([*changes, "run: python plugins/flexchat-cli/tests/test_snapshots.py"])


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    os.chdir(FOLDER)  # without a configuration
    sys.path = [folder for folder in sys.path if Path(folder) != FOLDER.parent]
    for file, made in SNAPSHOTS.items():
        (FOLDER / file).write_text(made(), encoding="utf-8")
