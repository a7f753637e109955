"""Every example of docs/hooks.md passes flexchat plugins verify, installed as a reader would install it."""

import re
import sys
from pathlib import Path

import pytest
from flexchat_testing.card import verify_plugin

PAGE = Path(__file__).resolve().parents[4] / "docs" / "hooks.md"
SECTIONS = dict(re.findall(r"^## (flexchat_.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE))


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install an example as a distribution with an entry point."""

    def put(number, section):
        (text,) = re.findall(r"^```python\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)
        module = f"example_of_hooks_{number}"
        (tmp_path / f"{module}.py").write_text(f"FLEXCHAT_API = (0, 1)\n{text}")
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[flexchat]\n{module} = {module}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return module

    yield put
    for name in [name for name in sys.modules if name.startswith("example_of_hooks_")]:
        del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_an_example_keeps_the_laws(install, section):
    card = verify_plugin(install([*SECTIONS].index(section), section))

    broken = [f"{v.law}: {v.reason}" for chapter in card.chapters for v in chapter.verdicts if v.status == "broken"]
    assert not broken, "\n".join(broken)
