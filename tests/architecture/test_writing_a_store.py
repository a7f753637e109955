"""What docs/writing-a-store.md tells its readers to write keeps the laws of the kit."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from flexchat import FlexChat
from flexchat.assembly import installed_plugins
from flexchat_testing import ConversationStoreConformance, DocumentStoreConformance, ScriptedProvider
from flexchat_testing.card import verdicts_of
from flexchat_testing.commands.new import files_of, write

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "writing-a-store.md").read_text()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package as ``flexchat new`` writes it, with the files of the page in their places."""
    folder = tmp_path_factory.mktemp("store") / "acme-shelf"
    files = files_of("store", "acme-shelf")
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
    assert [path for path, _ in blocks] == [
        f"src/acme_shelf/{n}.py" for n in ("store", "conversations", "plugin", "conformance")
    ]
    write(folder, {**files, **dict(blocks)})
    sys.path.insert(0, str(folder / "src"))
    yield folder
    sys.path.remove(str(folder / "src"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_shelf"]:
        del sys.modules[name]


@pytest.mark.parametrize(("name", "least"), [("AcmeShelfConformance", 25), ("AcmeConversationsConformance", 17)])
def test_the_stores_of_the_page_keep_the_laws(package, name, least):
    """All that they say they support."""
    cls = getattr(importlib.import_module("acme_shelf.conformance"), name)
    verdicts = [*verdicts_of(cls, cls, "acme_shelf.plugin")]

    assert [v for v in verdicts if v.status not in ("kept", "skipped")] == []
    assert sum(v.status == "kept" for v in verdicts) >= least


async def test_the_config_of_the_page_opens_both(package):
    """And a turn is kept."""
    host = installed_plugins()
    host.register(importlib.import_module("acme_shelf.plugin"), "acme-shelf")
    model = ScriptedProvider(["Water."])
    config = {
        **tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]),
        "llms": {"scripted": {"provider": "scripted"}},
        "responses": [{"llm": "scripted", "model": "m"}],
    }

    async with FlexChat.from_config(config, providers={"scripted": model}, plugins=host) as chat:
        await chat.respond("What do ferns like?", conversation="c")
        kept = await chat.conversations.turns("c")

        assert type(chat.conversations.store).__name__ == "AcmeConversations"
        assert [m.content for m in kept[0].messages] == ["What do ferns like?", "Water."]


def test_every_capability_of_both_kits_is_explained():
    explained = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))

    assert explained == {*DocumentStoreConformance.capabilities, *ConversationStoreConformance.capabilities}


def test_what_the_page_shows_is_written_well(package):
    """The same linter and format as our own code."""
    pytest.importorskip("ruff")
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    rules = (f"--select={','.join(lint['select'])}", f"--ignore={','.join(lint['ignore'])}")
    for command in (("check", *rules), ("format", "--check")):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", "--line-length=120"]
        done = subprocess.run([*ruff, str(package / "src")], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
