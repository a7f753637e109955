"""The workspace: every package stands by itself, and all have one version."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BELOW = {"flexchat-pgvector": ["flexchat-postgresql"]}
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


@pytest.mark.parametrize(
    "path", [p for p in PYPROJECTS if p.parent not in (ROOT, ROOT / "core")], ids=lambda p: p.parent.name
)
def test_a_plugin_package_is_found_by_its_entry_point_alone(path):
    """Its entry point names its plugin module, and it depends on no other plugin package, but for BELOW."""
    facts = project(path)
    package = facts["name"].replace("-", "_")
    assert list(facts["entry-points"]["flexchat"].values()) == [f"{package}.plugin"]
    others = [d for d in facts["dependencies"] if d.startswith("flexchat-") and not d.startswith("flexchat-core")]
    assert [re.split(r"[<>=\[]", d)[0] for d in others] == BELOW.get(facts["name"], [])
    assert (path.parent / "README.md").read_text().count("\n") > 3


def test_constraints_hold_names_and_versions_only():
    """No address of a registry, no path, none of our own packages."""
    for line in (ROOT / "tests" / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.+!]+", line), line
        assert not line.lower().startswith("flexchat")
