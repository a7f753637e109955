"""What ``flexchat new`` writes can be installed, keeps the laws, and works, as a stranger would try it. No network."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from flexchat_testing.commands.new import KINDS
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

WITHOUT_LAWS = ("observer", "policy", "command", "page")
"""The kit has no laws for these: their tests run whole turns."""

ROOT = Path(__file__).resolve().parents[2]
# The service that docs/writing-a-provider.md gives its readers, at a free port, and the turn it tells them to try.
PAGE = (ROOT / "docs" / "writing-a-provider.md").read_text()
TURN = """
import sys, threading
from pathlib import Path
from service import Parrot, ThreadingHTTPServer
from flexchat_cli.main import main

server = ThreadingHTTPServer(("127.0.0.1", 0), Parrot)
threading.Thread(target=server.serve_forever, daemon=True).start()
config = Path("flexchat.toml").read_text().replace("8080", str(server.server_port))
Path("flexchat.toml").write_text(config.replace("acme-parrot", "acme-provider"))
sys.exit(main(["ask", "Hello there"]))
"""


ALONE = """
import asyncio, sys
sys.path.insert(0, {site!r})
from flexchat.calls.manager import ToolManager
from flexchat.host import installed_plugins

host = installed_plugins()
found = [(report.status, report.reason) for report in host.reports if report.name == {name!r}]
assert found == [("active", "")], found
if {calls}:
    tools = ToolManager.from_plugins(host)
    tools.add(["acme_handler"])
    result = asyncio.run(tools.get_executor().execute("acme_handler", {{"text": "one two three"}}))
    assert result.success, result
"""


PYTEST = ("-m", "pytest", "-W", "error", "-p", "no:asyncio")
"""pytest-asyncio, which LangChain's tests bring along, warns if it is not configured."""


def run(*command, folder):
    """Run a program as if the packages were installed."""
    path = os.pathsep.join([str(folder / "site"), *(p for p in sys.path if p)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "120"}
    for name in ("FLEXCHAT_CONFIG", "FLEXCHAT_BLOCK_PLUGINS", "FLEXCHAT_STRICT_PLUGINS"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def succeeded(done):
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """One package of each kind, written by the command and installed into a folder beside our packages."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("strangers")
    written = [["new", kind, f"acme-{kind}"] for kind in KINDS]
    succeeded(
        run("-c", f"from flexchat_cli.main import main\nfor words in {written}: assert main(words) == 0", folder=folder)
    )
    offline = ("--no-build-isolation", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check")
    places = [f"./acme-{kind}" for kind in KINDS]
    succeeded(run("-m", "pip", "install", "-q", *offline, "--target", "site", *places, folder=folder))
    return folder


@pytest.mark.parametrize("kind", ["handler", "source", *WITHOUT_LAWS])
def test_the_tests_of_a_new_package_pass_as_they_are(packages, kind):
    """With the settings it brings, and warnings as errors."""
    out = succeeded(run(*PYTEST, "-q", f"acme-{kind}", folder=packages))

    assert "passed" in out
    assert "skipped" not in out


def test_the_laws_of_new_packages_are_collected_by_pytest(packages):
    """One is tried of each; that all are kept is shown without pytest, in a tenth of the time."""
    folders = [f"acme-{kind}" for kind in KINDS if kind not in ("handler", *WITHOUT_LAWS)]
    options = ("-vv", "--import-mode=importlib", "-k", "no_law_is_replaced")
    out = succeeded(run(*PYTEST, *options, *folders, folder=packages))

    assert f"{len(folders)} passed" in out
    assert re.search(r"1\d\d deselected", out)


def test_new_packages_keep_all_laws(packages):
    """verify knows each by its name, finds the laws it ships, and none of them warns."""
    names = [f"acme-{kind}" for kind in KINDS]
    code = f"from flexchat_testing.card import *\nprint(json.dumps([verify_plugin(n).to_dict() for n in {names}]))"
    done = run("-W", "error", "-c", f"import json\n{code}", folder=packages)
    cards = json.loads(succeeded(done))

    assert done.stderr == ""
    for kind, card in zip(KINDS, cards, strict=True):
        verdicts = [verdict for chapter in card["chapters"] for verdict in chapter["verdicts"]]
        assert [v for v in verdicts if v["status"] not in ("kept", "skipped")] == []
        assert card["ok"]
        assert card["package"] == f"acme-{kind} 0.1.0"
        own = [] if kind in WITHOUT_LAWS else [f"Acme{kind.capitalize()}Conformance"]
        assert [chapter["title"] for chapter in card["chapters"]] == ["what it registers", *own]


def test_a_new_provider_holds_a_conversation(packages):
    """As its page says: with a service on this machine, over real sockets, streamed."""
    service = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "service.py" in block)
    (packages / "service.py").write_text(service)
    (packages / "flexchat.toml").write_text(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0])

    done = run("-c", TURN, folder=packages)

    assert "You said: Hello there" in succeeded(done)


def test_new_handlers_implementation_types_and_retrievers_are_used(packages):
    """At the command line, configured as the README of each says."""
    base = '[llms.main]\nprovider = "rehearsal"\n[[responses]]\nllm = "main"\nmodel = "any"\n'
    (packages / "handler.toml").write_text(base + '[[tools.registry]]\nname = "acme_handler"\n')
    commands = [["tools", "call", "acme_handler", "text=one two three", "--config", "handler.toml"]]
    for kind, command in (
        ("implementation", ["tools", "call", "greet", "city=Oslo"]),
        ("store", ["tools", "call", "search_documents", "query=shade"]),
    ):
        readme = (packages / f"acme-{kind}" / "README.md").read_text()
        config = readme.split("```toml\n")[1].split("```")[0]
        extra = '[[tools.registry]]\nname = "search_documents"\n' if kind == "store" else ""
        (packages / f"{kind}.toml").write_text(base + config + extra)
        commands.append([*command, "--config", f"{kind}.toml"])

    out = succeeded(
        run("-c", f"from flexchat_cli.main import main\nfor w in {commands}: assert main(w) == 0", folder=packages)
    )

    for expected in ('"words": 3', "Hello, Oslo!", "Ferns like shade"):
        assert expected in out


def test_a_new_package_runs_with_nothing_but_what_it_depends_on(packages, tmp_path):
    """Its extra "test" is not what its users install."""
    for kind in KINDS:
        site = tmp_path / kind
        site.mkdir()
        installed_alone(f"acme-{kind}", packages / "site", site)
        code = ALONE.format(site=str(site), name=f"acme-{kind}", calls=kind == "handler")
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )

        assert succeeded(done) + done.stderr == ""


def installed_alone(name, site, folder):
    """Link a package and what it depends on, and nothing else, into a folder."""
    waiting, seen = [Requirement(name)], set()
    while waiting:
        wanted = waiting.pop()
        key = (wanted.name.lower(), *sorted(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        found = next(iter(importlib.metadata.distributions(name=wanted.name, path=[str(site), *sys.path])))
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in (wanted.extras or {""})):
                waiting.append(needed)
        link(Path(str(found._path)), folder)
        below = {Path(str(file)).parts[0] for file in found.files or () if ".." not in Path(str(file)).parts}
        for top in below:
            place = Path(str(found.locate_file(top)))
            if top.endswith(".pth") and place.exists():  # installed to be edited
                for source in place.read_text().splitlines():
                    for module in Path(source).iterdir() if Path(source).is_dir() else ():
                        link(module, folder)
            elif top != "__pycache__" and place.exists():
                link(place, folder)


def link(place, folder):
    if not (folder / place.name).is_symlink():
        (folder / place.name).symlink_to(place)


def test_mypy_accepts_a_new_page(packages):
    """Its operation and page have types, though it imports flexchat-web for a type checker only."""
    cache = f"--cache-dir={ROOT}/.mypy_cache/examples"
    succeeded(run("-m", "mypy", "--strict", cache, "acme-page/src/acme_page/plugin.py", folder=packages))


def test_what_is_written_is_written_well(packages):
    """The same linter and format as our own code."""
    pytest.importorskip("ruff")
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    rules = (f"--select={','.join(ruff['lint']['select'])}", f"--ignore={','.join([*ruff['lint']['ignore'], 'D1'])}")
    common = ("--isolated", "--no-cache", f"--line-length={ruff['line-length']}")
    for kind in KINDS:
        for command in (("check", *rules), ("format", "--check")):
            succeeded(run("-m", "ruff", *command, *common, ".", folder=packages / f"acme-{kind}"))
