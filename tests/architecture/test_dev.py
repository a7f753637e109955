"""./dev bump: one version in all packages."""

import importlib.machinery
import importlib.util
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def dev(tmp_path, monkeypatch):
    """The program, let loose on a copy of what it changes."""
    loader = importlib.machinery.SourceFileLoader("dev_program", str(ROOT / "dev"))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("dev_program", loader))
    loader.exec_module(module)
    changed = [folder / "pyproject.toml" for folder in module.PROJECTS]
    for path in [*changed, ROOT / "CHANGELOG.md", ROOT / "core/src/flexchat/domain/version.py"]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    monkeypatch.setattr(module, "PROJECTS", [tmp_path / folder.relative_to(ROOT) for folder in module.PROJECTS])
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_a_version_is_written_everywhere_it_stands(dev, tmp_path):
    assert dev.main(["bump", "0.7.1"]) == 0

    for folder in dev.PROJECTS:
        text = (folder / "pyproject.toml").read_text()
        assert 'version = "0.7.1"' in text
        assert ">=0.1,<0.2" not in text
    assert '__version__ = "0.7.1"' in (tmp_path / "core/src/flexchat/domain/version.py").read_text()
    assert "## 0.7.1 (unreleased)\n\n## 0.1.0" in (tmp_path / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("words", [[], ["1.0"], ["0.2.0", "0.3.0"], ["v0.2.0"], ["0.2.0\n"]])
def test_what_is_no_version_changes_nothing(dev, words):
    before = (dev.PROJECTS[0] / "pyproject.toml").read_text()

    assert dev.main(["bump", *words]) == 2
    assert (dev.PROJECTS[0] / "pyproject.toml").read_text() == before


def test_what_the_demo_needs_is_there(dev):
    """Every folder that an environment is made from."""
    for package in {*dev.DEMO, *dev.RAG, *dev.RUN}:
        assert (ROOT / package.split("[")[0] / "pyproject.toml").exists()
