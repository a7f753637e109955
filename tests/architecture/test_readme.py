"""The Python of the README and of the tour runs, and their configs are some."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from flexchat.assembly import installed_plugins
from flexchat_cli import check_config

ROOT = Path(__file__).resolve().parents[2]
README, TOUR = ROOT / "README.md", ROOT / "docs" / "index.md"
TOML = [text for page in (README, TOUR) for text in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)]


@pytest.mark.parametrize(
    ("page", "told"),
    [(README, ["{'city': 'Rome'}"]), (TOUR, ["{'city': 'Rome'}", "[get_weather {'city': 'Oslo'}]"])],
    ids=["README", "tour"],
)
def test_the_python_examples_run(page, told):
    """One after the other, as a reader would paste them."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    for text in told:
        assert text in done.stdout


def test_the_readme_is_two_screens():
    """What is longer belongs in docs/."""
    assert len(README.read_text().splitlines()) <= 110


@pytest.mark.parametrize("text", TOML)
def test_the_config_is_valid(text, tmp_path, monkeypatch):
    """As flexchat check sees it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-000000")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "booking.py").write_text('def book_table(people: int) -> str:\n    """Book."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "chat.toml"
    path.write_text(text)

    assert check_config(path) == ([], [])


def folders_of(line: str) -> list[str]:
    """Expand {a,b} as a shell does."""
    words = []
    for word in line.split():
        before, _, rest = word.partition("{")
        names, _, after = rest.partition("}")
        words += [f"{before}{name}{after}" for name in names.split(",")]
    return words


@pytest.mark.parametrize("page", [README, TOUR], ids=["README", "tour"])
def test_the_config_needs_nothing_but_what_the_page_installs(page, tmp_path, monkeypatch):
    """Other packages are left out, and what extras bring is not there."""
    line = re.search(r"^\$ pip install (.*?)(?:  |$)", page.read_text(), re.MULTILINE)[1].strip()
    line = line.partition(" #")[0]
    folders = [word.partition("[")[0] for word in folders_of(line.replace("'", ""))]
    assert all((ROOT / folder).is_dir() for folder in folders)
    if "[regex]" not in line:
        for module in ("re2", "regex"):
            monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-000000")
    names = {Path(folder).name for folder in folders}
    reports = installed_plugins().reports
    left_out = {report.name: "not installed" for report in reports if report.package.split()[0] not in names}
    assert {"web", "ollama"} <= {*left_out}
    path = tmp_path / "chat.toml"
    path.write_text(re.search(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)[1])
    booking = ModuleType("my_package.booking")
    booking.book_table = lambda people: ""
    monkeypatch.setitem(sys.modules, "my_package", ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.booking", booking)

    assert check_config(path, installed_plugins(left_out)) == ([], [])


def test_links_lead_somewhere():
    """Every relative link of the README and the docs."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
