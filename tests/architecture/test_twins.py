"""Whoever changes a module finds its tests by its path.

``DIST/src/PACKAGE/a/b.py`` is tested in ``DIST/tests/a/test_b.py``; more of it, of one aspect, in ``test_b_ASPECT.py``
beside that. Where tests of one module are tests of its neighbours, too (a provider and its pieces, a page and its
operations), tested_elsewhere.txt says which file that is. It only gets shorter.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("tested_elsewhere.txt")
PACKAGES = sorted(
    path for path in [*ROOT.glob("*/src/*"), *ROOT.glob("plugins/*/src/*")] if (path / "__init__.py").exists()
)
# Being rebuilt by other parts of issue 14; each leaves this line when it has come to rest.
MOVING = {"flexchat", "flexchat_testing", "flexchat_validation"}
MOVING |= {"flexchat_openai", "flexchat_ollama"}


def elsewhere() -> dict[str, str]:
    """Modules, by their path, and the tests that speak of them."""
    lines = LISTED.read_text("utf-8").splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def modules() -> list[Path]:
    """All modules with code of their own."""
    return [
        path
        for package in PACKAGES
        if package.name not in MOVING
        for path in sorted(package.rglob("*.py"))
        if path.name not in ("__init__.py", "__main__.py")
    ]


def twin(path: Path) -> Path:
    """Where a module's tests stand."""
    package = next(parent for parent in path.parents if parent.parent.name == "src")
    return package.parents[1] / "tests" / path.relative_to(package).parent / f"test_{path.stem}.py"


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_modules_tests_stand_at_its_path_or_where_the_list_says(path):
    name = path.relative_to(ROOT).as_posix()
    listed = elsewhere().get(name)

    if listed is None:
        assert twin(path).exists(), f"no tests at {twin(path).relative_to(ROOT)}, and {LISTED.name} does not say where"
    else:
        assert not twin(path).exists(), f"it has tests at its path now: take it from {LISTED.name}"
        assert (ROOT / listed).is_file(), f"{LISTED.name} says {listed}, which is not there"


def test_the_list_speaks_of_modules_that_are_there():
    here = {path.relative_to(ROOT).as_posix() for path in modules()}

    assert sorted(elsewhere().keys() - here) == []
