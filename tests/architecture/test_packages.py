"""The workspace: every package stands by itself, and all have one version."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
BELOW = {
    "flexchat-pgvector": ["flexchat-postgresql"],
    "flexchat-queue": ["flexchat-postgresql"],
    "flexchat-cli": ["flexchat-sdk", "flexchat-sqlite"],
}
# Cut out of core: any package may build on them.
CUT_OUT = ("flexchat-core", "flexchat-cli", "flexchat-sdk", "flexchat-sqlite")
PYPROJECTS = sorted(
    p for p in ROOT.glob("**/pyproject.toml") if not any(x.startswith(".") for x in p.parts[len(ROOT.parts) :])
)


def project(path: Path) -> dict:
    return tomllib.loads(path.read_text())["project"]


def test_all_packages_have_the_same_version():
    """Lockstep while below 1.0: packages of one number go together."""
    assert len({project(p)["version"] for p in PYPROJECTS}) == 1
    import flexchat

    assert flexchat.__version__ == project(ROOT / "core" / "pyproject.toml")["version"]


def test_core_depends_on_no_plugin_and_on_few_packages():
    """Core is the ground the others stand on."""
    names = [re.split(r"[<>=\[]", d)[0] for d in project(ROOT / "core" / "pyproject.toml")["dependencies"]]
    assert sorted(names) == ["attrs", "cattrs", "jsonschema", "pluggy"]


def test_core_needs_fewer_than_ten_packages():
    """All that pip installs for it on this system."""
    needed, waiting = set(), ["flexchat-core"]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in needed:
            needed.add(name)
            wanted = map(Requirement, importlib.metadata.requires(name) or ())
            waiting += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    assert len(needed - {"flexchat-core"}) < 10, needed


def test_what_is_installed_here_is_what_the_projects_say():
    """Entry points are read from the installed metadata: after a change, ./dev setup installs the projects again."""
    for path in PYPROJECTS:
        facts = project(path)
        wanted = {
            (group, name, value)
            for group, entries in facts.get("entry-points", {}).items()
            for name, value in entries.items()
        }
        there = {(e.group, e.name, e.value) for e in importlib.metadata.distribution(facts["name"]).entry_points}
        assert wanted <= there, f"{facts['name']} is to be installed again: pip install --no-deps -e {path.parent}"


@pytest.mark.parametrize(
    "path", [p for p in PYPROJECTS if p.parent not in (ROOT, ROOT / "core")], ids=lambda p: p.parent.name
)
def test_a_plugin_package_is_found_by_its_entry_point_alone(path):
    """Its entry point names its plugin module, and it depends on no other plugin package, but for BELOW."""
    facts = project(path)
    package = facts["name"].replace("-", "_")
    if package == "flexchat_cli":
        assert facts["scripts"] == {"flexchat": "flexchat_command:main"}
    else:
        assert list(facts["entry-points"]["flexchat"].values()) == [f"{package}.plugin"]
    names = [re.split(r"[<>=\[]", d)[0] for d in facts["dependencies"] if d.startswith("flexchat-")]
    assert "flexchat-core" in names
    assert {*names} - {*CUT_OUT} <= {*BELOW.get(facts["name"], [])}
    assert (path.parent / "README.md").read_text().count("\n") > 3


@pytest.mark.parametrize("path", PYPROJECTS, ids=lambda p: p.parent.name)
def test_a_package_whose_own_schemas_have_patterns_brings_what_runs_them(path):
    """Values are checked against them in any installation, also in one that has no other package of ours with RE2."""
    sources = [each.read_text() for each in path.parent.glob("src/**/*.py")]
    if any('{"type": "string", "pattern": ' in text for text in sources):
        (core,) = [d for d in map(Requirement, project(path)["dependencies"]) if d.name == "flexchat-core"]
        assert "regex" in core.extras


@pytest.mark.parametrize("path", PYPROJECTS, ids=lambda p: p.parent.name)
def test_the_extras_that_a_package_asks_for_exist(path):
    """pip only warns of one that does not."""
    extras = {facts["name"]: {*facts.get("optional-dependencies", {})} for facts in map(project, PYPROJECTS)}
    needs = [Requirement(line) for line in project(path).get("dependencies", ())]
    needs += [Requirement(line) for lines in project(path).get("optional-dependencies", {}).values() for line in lines]
    assert [str(need) for need in needs if need.name in extras and not need.extras <= extras[need.name]] == []


def test_constraints_hold_names_and_versions_only():
    """No address of a registry, no path, none of our own packages."""
    for line in (ROOT / "tests" / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.+!]+", line), line
        assert not line.lower().startswith("flexchat")
