"""The pages about writing plugins say what ``flexchat new`` writes, and their configs are configs."""

import re
import tomllib
from pathlib import Path

import pytest
from flexchat_cli.main import main
from flexchat_testing.commands.new import files_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"handler": ("writing-a-handler.md", "acme-words"), "provider": ("writing-a-provider.md", "acme-parrot")}
FILE = re.compile(r"# ((?:src|tests)/\S+)\n")


def blocks(kind: str, language: str) -> list[str]:
    text = (ROOT / "docs" / PAGES[kind][0]).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("kind", PAGES)
def test_what_a_page_quotes_stands_in_the_file_it_names(kind):
    """Line for line; "…" stands for what is left out."""
    files = files_of(kind, PAGES[kind][1])
    quoted = [(match[1], block[match.end() :]) for block in blocks(kind, "python") if (match := FILE.match(block))]
    assert len(quoted) >= 4
    for path, text in quoted:
        for piece in re.split(r"\n *…\n", text):
            assert piece.strip("\n") in files[path], f"{path} does not hold:\n{piece}"


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_names_the_files_there_are_and_the_commands_that_work(kind, tmp_path, monkeypatch):
    """The first command of a page is tried; the others are those that it prints."""
    page, name = (ROOT / "docs" / PAGES[kind][0]).read_text(), PAGES[kind][1]
    monkeypatch.chdir(tmp_path)
    commands = blocks(kind, "")[0].splitlines()

    assert main(commands[0].split()[1:]) == 0

    assert commands[1:4] == [f'pip install -e "./{name}[test]"', f"pytest {name}", f"flexchat plugins verify {name}"]
    for path in files_of(kind, name):
        if path.endswith(".py") and path.startswith("src") and not path.endswith("__init__.py"):
            assert path.rpartition("/")[2] in page, path


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind in PAGES for text in blocks(kind, "toml")])
def test_the_configs_are_toml(kind, text):
    assert tomllib.loads(text)


def test_every_capability_of_the_provider_kit_is_explained():
    """With the methods it asks for."""
    from flexchat_testing import ProviderConformance

    page = (ROOT / "docs" / "writing-a-provider.md").read_text()
    explained = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)

    assert set(ProviderConformance.capabilities) <= set(explained)
