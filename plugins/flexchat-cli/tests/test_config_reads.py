"""A command reads its configuration once, and hands on what it has read."""

import sys
from pathlib import Path

import pytest
from flexchat_cli.entry_points import installed_commands
from flexchat_cli.main import OWN

opened: list[str] = []
_watching = False


def _note(event, args):
    if _watching and event == "open" and str(args[0]).endswith("flexchat.toml"):
        opened.append(str(args[0]))


sys.addaudithook(_note)  # cannot be taken away again, hence the switch

MORE = """
[stores.docs]
provider = "sqlite"
path = "documents.db"

[validation]
store = "validation.db"
models = ["script/any"]
runs = 1
cases = [{ name = "greeting", message = "hello", no_call = true }]

[conversations]
path = "conversations.db"
"""

READ_IT = {
    "approvals approve": ("abc",),
    "approvals list": (),
    "approvals reject": ("abc",),
    "approvals rules list": (),
    "approvals rules revoke": ("abc",),
    "approvals show": ("abc",),
    "ask": ("hello",),
    "batch": ("prompts.jsonl",),
    "cases check": (),
    "cases list": (),
    "can": ("support", "calculator"),
    "chat": (),
    "check": (),
    "conversations delete": ("abc",),
    "costs": (),
    "conversations export": ("abc",),
    "conversations list": (),
    "conversations rename": ("abc", "new"),
    "conversations show": ("abc",),
    "demo": ("--config", "flexchat.toml"),
    "effects list": (),
    "effects settle": ("abc", "done"),
    "effects show": ("abc",),
    "explain": ("hello",),
    "logs": (),
    "migrate": (),
    "mcp add": ("time", "uvx"),
    "mcp call": ("time", "now"),
    "mcp resources": ("time",),
    "mcp prompts": ("time",),
    "mcp doctor": (),
    "mcp import": ("servers.json",),
    "mcp inspect": (),
    "mcp list": (),
    "mcp login": ("time",),
    "mcp logout": ("time",),
    "mcp serve": ("--print-config", "claude"),
    "aliases set": ("fast", "rehearsal/any"),
    "keys list": (),
    "prompts list": (),
    "prompts show": ("any",),
    "models": (),
    "models default": ("rehearsal/any",),
    "plugins": (),
    "rag add": ("text.md",),
    "rag delete": ("docs", "--yes"),
    "rag export": (),
    "rag list": (),
    "rag query": ("hello",),
    "rag show": ("text.md",),
    "rag stats": (),
    "record": (),
    "serve": (),
    "tools accept": ("shop",),
    "tools call": ("calculator", "expression=1+1"),
    "tools cost": (),
    "tools diff": (),
    "tools find": ("sum",),
    "tools lint": (),
    "tools list": (),
    "tools record": ("calculator", "expression=1+1"),
    "slo": (),
    "stats": (),
    "tools show": ("calculator",),
    "turns cancel": ("abc",),
    "turns list": (),
    "turns resume": ("abc",),
    "turns show": ("abc",),
    "validate": (),
    "validations export": ("to.json",),
    "validations import": ("from.json",),
    "validations list": (),
    "validations show": ("script/any",),
    "worker": (),
}
"""The commands that work with the configuration, and what each is called with here."""

LEAVE_IT = {
    "aliases list",
    "aliases remove",
    "cases import",
    "completion",
    "config schema",
    "init",
    "keys delete",
    "keys get",
    "keys set",
    "new",
    "plugins verify",
    "restore",
    "tokens add",
    "tokens list",
    "tokens remove",
    "tools import",
}
"""Those that work without one."""

WRITES_ITS_OWN = {"demo rag"}
"""These read configurations of their own making."""
READS_OTHERS = {"backup", "conversations import"}
"""These read other files as well, and the configuration after them."""


@pytest.fixture
def reads(monkeypatch, tmp_path, script):
    """The names under which the configuration's file was opened."""
    path = script('{ text = "hi" }')
    path.write_text(path.read_text() + MORE)
    (tmp_path / "text.md").write_text("hello")
    (tmp_path / "prompts.jsonl").write_text('"hello"\n')
    (tmp_path / "servers.json").write_text('{"mcpServers": {"time": {"command": "uvx"}}}')
    opened.clear()
    monkeypatch.setattr(sys.modules[__name__], "_watching", True)
    return opened


@pytest.fixture(scope="module")
def theirs():
    return {*installed_commands().by_name}


@pytest.mark.parametrize(("command", "words"), READ_IT.items(), ids=READ_IT)
def test_a_command_reads_its_config_once(run, reads, theirs, monkeypatch, command, words):
    if command not in OWN and command not in theirs:
        pytest.skip(f"the package of {command} is not installed")
    if command == "serve":
        monkeypatch.setattr("flexchat_web.commands.server.Server.serve", served)

    ran = run(*command.split(), *words)

    assert len(reads) == 1, ran


async def served(self, sockets):
    """Stand in for a server that is told to end at once."""


def test_every_command_is_here(theirs):
    """A new one is added above, with words that let it go as far as its work."""
    known = READ_IT.keys() | LEAVE_IT | WRITES_ITS_OWN | READS_OTHERS

    assert [name for name in (*OWN, *sorted(theirs)) if name not in known] == []


def test_a_command_reads_its_config_once_where_plugins_are_blocked(run, reads):
    """What it blocks is known before plugins are loaded."""
    path = Path("flexchat.toml")
    path.write_text(path.read_text() + '\n[plugins]\nblock = ["mock"]\n')
    reads.clear()

    assert "blocked" in run("plugins").out
    assert len(reads) == 1


def test_a_config_that_is_changed_is_read_again_by_the_next_command(run, reads):
    run("check")
    run("check")

    assert len(reads) == 2
