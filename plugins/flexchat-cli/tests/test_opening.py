"""From options to plugins and tools: broken plugins, rivals, a configuration's own modules."""

import importlib.metadata
import json
import sys

import pytest
from flexchat.plugin import Implementation, ToolDefinition, hookimpl


class Dice:
    """A plugin with a tool that another has too, and with one of its own."""

    def __init__(self, own):
        self._own = own

    @hookimpl
    def flexchat_register_tools(self):
        for name in ("dice", self._own):
            yield ToolDefinition(
                name=name,
                description="Roll.",
                parameters={"type": "object"},
                implementation=Implementation(type="mock", settings={"response": 4}),
            )


class Entry:
    """An entry point, as the metadata of an installed package gives them."""

    dist = None
    group = "flexchat"

    def __init__(self, name, plugin):
        self.name = self.value = name
        self._plugin = plugin

    def load(self):
        if isinstance(self._plugin, Exception):
            raise self._plugin
        return self._plugin


class Found(list):
    """Entry points, with what importlib has for choosing among them."""

    def select(self, group=None):
        return Found(entry for entry in self if group in (None, entry.group))


def with_more(found, **group):
    installed = [entry for package in importlib.metadata.distributions() for entry in package.entry_points]
    return Found([*installed, *found]).select(**group)


@pytest.fixture
def install(monkeypatch):
    """Install plugins beside those that are there: an object each, or the error that loading raises."""

    def add(**plugins):
        found = [Entry(name, plugin) for name, plugin in plugins.items()]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda **group: with_more(found, **group))

    return add


def test_broken_plugins_are_one_line_in_all(run, install, script):
    script('{ text = "hi" }')
    install(typo=ImportError("no module"), dash=SyntaxError("bad"))

    ran = run("ask", "hello")

    assert (ran.status, ran.out) == (0, "hi\n")
    assert ran.err == "note: 2 plugins are left out (dash, typo): flexchat plugins says why\n"


@pytest.mark.parametrize("words", [["plugins"], ["--help"], ["--version"], ["ask", "--help"]])
def test_where_broken_plugins_are_listed_or_matter_to_nobody_nothing_is_said(run, install, words):
    install(typo=ImportError("no module"))

    ran = run(*words)

    assert (ran.status, ran.err) == (0, "")


@pytest.mark.parametrize("verb", ["call", "show"])
def test_a_tool_that_two_plugins_offer_is_refused_with_both_names(run, install, verb):
    install(alea=Dice("coin"), board=Dice("card"))

    ran = run("tools", verb, "dice")

    assert ran.status == 2
    assert "'dice' is offered by two plugins, alea and board; block one of them" in ran.err


def test_plugins_shows_what_is_withheld_from_both(run, install):
    install(alea=Dice("coin"), board=Dice("card"))

    out = run("plugins").out
    reports = {report["name"]: report for report in json.loads(run("plugins", "--json").out)}

    assert "withheld: tool dice, which 'board' offers too" in out
    assert "withheld: tool dice, which 'alea' offers too" in out
    assert reports["alea"]["provides"] == ["tool coin"]
    assert reports["alea"]["withheld"] == reports["board"]["withheld"] == ["tool dice"]
    assert reports["mock"]["withheld"] == []


def test_tools_need_no_model(run):
    """Without a configuration, and without the package that brings the rehearsal model."""
    assert "calculator(" in run("tools", "list", "--no-plugin", "mock").out
    assert '"calculator"' in run("tools", "show", "calculator", "--no-plugin", "mock").out
    assert json.loads(run("tools", "call", "calculator", "expression=6*7", "--no-plugin", "mock").out) == {"result": 42}


def test_a_function_beside_the_configuration_is_found_from_anywhere(run, script, tmp_path):
    """Its folder comes last, so that it hides nothing that is installed."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    module = f"booking_{tmp_path.name}"  # a name of its own: a module is imported once
    (folder / f"{module}.py").write_text('def book() -> str:\n    """Book."""\n    return "booked"\n')
    script(
        tools='registry = [{ name = "book", description = "Book.", parameters = { type = "object" }, '
        f'implementation = {{ type = "python", function = "{module}:book" }} }}]',
        name="elsewhere/chat.toml",
    )

    ran = run("tools", "call", "book", "--config", "elsewhere/chat.toml")

    assert (ran.status, ran.out) == (0, '"booked"\n')
    assert sys.path[-1] == str(folder.resolve())
    assert run("check", "elsewhere/chat.toml").status == 0


def test_without_a_configuration_the_working_folder_comes_last_and_once(run, tmp_path):
    for _ in range(2):
        run("tools", "list")

    assert sys.path.count(str(tmp_path)) == 1
    assert sys.path[-1] == str(tmp_path)


def test_a_folder_cannot_pose_as_a_plugin(run, tmp_path):
    """What lies in a folder that one happens to stand in is not installed, and is not run."""
    info = tmp_path / "posing-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: posing\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[flexchat]\nposing = posing\n")

    ran = run("tools", "list")

    assert (ran.status, ran.err) == (0, "")


class Policy:
    """A gate with a misspelt hook."""

    @hookimpl
    def flexchat_before_tool_cal(self, tool):
        """Never called."""


@pytest.mark.parametrize("words", [["ask", "hi"], ["check"], ["explain", "hi"], ["tools", "call", "calculator", "1"]])
def test_no_command_that_works_with_tools_goes_on_without_a_required_plugin(run, install, script, words):
    """All say the same sentence."""
    path = script('{ text = "hi" }')
    path.write_text(path.read_text() + '\n[plugins]\nrequire = ["policy"]\n')
    install(policy=Policy())

    ran = run(*words)

    assert ran.status == 2
    assert "plugins.require[0]: plugin 'policy' could not be loaded: unknown hook" in ran.out + ran.err


def test_a_required_plugin_cannot_be_left_out_for_once(run, install, script):
    path = script('{ text = "hi" }')
    path.write_text(path.read_text() + '\n[plugins]\nrequire = ["mock"]\n')

    ran = run("ask", "hi", "--no-plugin", "mock")

    assert ran.status == 2
    assert "plugin 'mock' is left out by --no-plugin" in ran.err


@pytest.mark.parametrize("words", [["ask", "hi"], ["tools", "call", "calculator", "expression=1"], ["tools", "list"]])
def test_nothing_starts_without_a_gate(run, monkeypatch, words):
    """Without a configuration either."""
    gate = Entry("policy", ImportError("no module named acme_rules"))
    gate.group = "flexchat.gates"
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **group: with_more([gate], **group))

    ran = run(*words)

    assert ran.status == 2
    assert "plugin 'policy' could not be loaded: import failed: ImportError: no module named acme_rules" in ran.err
    assert "gate: nothing starts without it" in run("plugins").out


def test_a_plugin_that_takes_long_to_load_is_named(run, install, script, monkeypatch):
    script('{ text = "hi" }')
    times = iter(range(0, 10_000, 10))
    monkeypatch.setattr("flexchat.plugin.host.time.perf_counter", lambda: next(times))

    ran = run("ask", "hello", "--no-plugin", "openai")

    assert "note: plugin mock took 20.0 s to load\n" in ran.err
    monkeypatch.undo()


def test_a_config_says_which_of_two_plugins_has_a_tool(run, install, tmp_path):
    """Also the list of plugins shows it."""
    install(alea=Dice("coin"), board=Dice("card"))
    (tmp_path / "flexchat.toml").write_text('[plugins]\nprefer = ["board"]\n')

    listed = run("plugins").out

    assert "withheld: tool dice, for that of 'board' (plugins.prefer)" in " ".join(listed.split())
    assert "failed" not in listed
