"""docs/cli.md: its table has every command of this repository, and its example is one that works.

Run this file to write the table.
"""

import re
import tomllib
from pathlib import Path

import pytest
from flexchat_cli.entry_points import summary_of
from flexchat_cli.main import OWN, main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cli.md"
MARK = "<!-- the table is made by tests/architecture/test_cli_page.py -->\n"


def commands_of_packages() -> dict[str, tuple[str, str]]:
    found = {}
    for path in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        for name, value in project.get("entry-points", {}).get("flexchat.commands", {}).items():
            found[name] = (summary_of(value), project["name"])
    return found


def table() -> str:
    rows = [f"| `{name}` | {summary} | |" for name, (_, summary) in OWN.items()]
    rows += [f"| `{name}` | {summary} | {package} |" for name, (summary, package) in commands_of_packages().items()]
    rows = [row.replace("done|failed", "done\\|failed") for row in rows]
    return "\n".join(["| command | what it does | comes with |", "|---|---|---|", *rows]) + "\n"


def with_table(text: str) -> str:
    before, _, after = text.partition(MARK)
    return before + MARK + "\n" + table() + "\n" + after[after.index("## ") :]


def test_the_table_has_every_command():
    text = PAGE.read_text()

    assert text == with_table(text), "run this file to write the table"


def test_every_command_of_a_package_says_what_it_does():
    assert [name for name, (summary, _) in commands_of_packages().items() if not summary] == []


@pytest.mark.parametrize("name", OWN)
def test_the_list_of_commands_and_the_help_of_a_command_say_the_same(name, capsys):
    """The list is a table, so that it imports no command."""
    _, summary = OWN[name]

    main([*name.split(), "--help"])

    assert f"{summary[:1].upper()}{summary[1:]}." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("words", "said"), [(["hello"], "hello\n"), (["--no-color", "hello", "--loud"], "HELLO\n")])
def test_its_command_of_ones_own_works(install_commands, capsys, words, said):
    """With the entry point that stands above it."""
    section = PAGE.read_text().partition("## A command of your own")[2]
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    (toml,) = re.findall(r"^```toml\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    entries = tomllib.loads(toml)["project"]["entry-points"]["flexchat.commands"]
    install_commands(code, {name: value.partition(":")[2] for name, value in entries.items()})

    assert main(words) == 0
    assert capsys.readouterr().out == said
    assert main(["--help"]) == 0
    assert re.search(r"^  hello +say hello$", capsys.readouterr().out, re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
