"""Every pip line of the README and the docs works from a checkout: the packages are in no registry."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.*")])
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
PROJECTS = {
    tomllib.loads(path.read_text())["project"]["name"]: path.parent
    for path in [ROOT / "pyproject.toml", *ROOT.glob("*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")]
}
PIP = re.compile(r"(?<!uv )pip install\s+([^-`#\n][^`#\n]*)")  # "-e ./acme" is a reader's own package
LINES = [
    (page.name, " ".join(line.split()))
    for page in PAGES
    for line in PIP.findall(page.read_text())
    if line != "."  # the reader's own, as well
]
USUAL = {"flexchat-core", "flexchat-sdk", "flexchat-sqlite", "flexchat-cli"}
"""What a page may take for granted when it adds a package to an installation."""


def expanded(line):
    """Return the arguments as a shell gives them to pip."""
    for word in line.replace("'", "").replace('"', "").split():
        names = re.search(r"\{(.*?)\}", word)
        words = [word.replace(names[0], name) for name in names[1].split(",")] if names else [word]
        for each in words:
            found = [f"./{path.relative_to(ROOT)}" for path in ROOT.glob(each) if path.is_dir()] if "*" in each else []
            yield from found or [each]


def projects_of(line):
    """Return the packages that a line installs, with their extras."""
    for word in expanded(line):
        folder, _, extras = word.removesuffix("]").partition("[")
        if folder.startswith("."):
            (name,) = [name for name, place in PROJECTS.items() if place == (ROOT / folder).resolve()]
            yield name, {*filter(None, extras.split(","))}


def described(name):
    return tomllib.loads((PROJECTS[name] / "pyproject.toml").read_text())["project"]


def test_there_are_lines():
    assert len(LINES) > 15
    assert len(PROJECTS) > 20


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page} {line}" for page, line in LINES])
def test_a_line_installs_folders_of_the_checkout_and_all_that_they_require(page, line):
    assert not [word for word in expanded(line) if word.startswith("flexchat")], "a name that is in no registry"
    installed = dict(projects_of(line))
    granted = set() if "flexchat-core" in installed else USUAL

    for name, extras in installed.items():
        project = described(name)
        assert extras <= {*project.get("optional-dependencies", {})}
        required = {re.match(r"[\w-]+", each)[0] for each in project.get("dependencies", [])}
        missing = {each for each in required if each.startswith("flexchat")} - {*installed} - granted
        assert not missing, f"{name} requires {missing}"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_one_line_installs_everything(page):
    assert "pip install ./core ./plugins/* ./flexchat-* ." in (ROOT / page).read_text()
    assert {name for name, _ in projects_of("./core ./plugins/* ./flexchat-* .")} == {*PROJECTS}
