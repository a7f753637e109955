"""A folder's tests stand in the folder's twin: ``DIST/tests/a/`` tests ``DIST/src/PACKAGE/a/``."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(
    path for path in [*ROOT.glob("*/src/*"), *ROOT.glob("plugins/*/src/*")] if (path / "__init__.py").exists()
)


def test_a_folder_of_tests_has_a_twin_in_the_source():
    lost = []
    for package in PACKAGES:
        tests = package.parents[1] / "tests"
        folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
        lost += [f"{tests.relative_to(ROOT)}/{folder}" for folder in folders if not (package / folder).is_dir()]

    assert lost == []
