"""Loading plugins: what is broken is reported, nothing stops, and nothing is taken silently."""

import importlib.metadata
import types
import warnings

import attrs
import pytest
from flexchat.errors import PluginConflictError, PluginLoadError
from flexchat.installing import how_to_install
from flexchat.plugin import ImplementationType, ToolHandler, hookimpl, hookspec
from flexchat.plugin.host import PluginHost, _Source


@attrs.frozen(kw_only=True)
class NoSettings:
    """None."""


def offering(*handlers: str, **attributes) -> types.ModuleType:
    """A plugin module that registers handlers of these names."""
    module = types.ModuleType("made")

    @hookimpl
    def flexchat_register_tool_handlers():
        return [ToolHandler(kind="builtin", name=name, call=print) for name in handlers]

    module.flexchat_register_tool_handlers = flexchat_register_tool_handlers
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def test_a_plugin_is_active_and_says_what_it_provides():
    """The report of a healthy plugin."""
    host = PluginHost()

    report = host.register(offering("roll"), "dice", "acme-dice 1.2")

    assert (report.status, report.reason, report.package) == ("active", "", "acme-dice 1.2")
    assert report.hooks == ("flexchat_register_tool_handlers",)
    assert report.provides == ("tool handler builtin roll",)
    assert ("builtin", "roll") in host.handlers.by_name


@pytest.mark.parametrize("error", [ImportError("no acme_sdk"), SystemExit(1), ValueError("x"), SyntaxError("bad")])
def test_a_plugin_whose_import_fails_is_reported(monkeypatch, error):
    """One broken plugin does not keep the others from loading."""

    class Entry(importlib.metadata.EntryPoint):
        def load(self):
            if self.name == "broken":
                raise error
            return offering(self.name)

    entries = importlib.metadata.EntryPoints(Entry(name, "x:y", "flexchat") for name in ("broken", "fine"))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda: entries)
    host = PluginHost()

    host.load_installed()

    broken, fine = host.reports
    assert (broken.status, fine.status) == ("failed", "active")
    assert "import failed" in broken.reason
    assert type(error).__name__ in broken.reason


def test_an_unknown_hook_is_refused_with_the_nearest_name():
    """A typo in a hook's name is not silence."""
    module = types.ModuleType("made")

    @hookimpl
    def flexchat_register_provider():
        return []

    module.flexchat_register_provider = flexchat_register_provider
    report = PluginHost().register(module, "typo")

    assert report.status == "failed"
    assert report.reason == "unknown hook 'flexchat_register_provider'; did you mean 'flexchat_register_providers'?"


def test_an_unknown_argument_is_refused():
    """A hook that asks for what FlexChat does not give."""
    module = types.ModuleType("made")

    @hookimpl
    def flexchat_turn_started(info, mood):
        pass

    module.flexchat_turn_started = flexchat_turn_started
    host = PluginHost()

    report = host.register(module, "moody")

    assert report.status == "failed"
    assert "mood" in report.reason
    assert host.hooks().of("flexchat_turn_started") == ()


def test_a_registration_that_raises_registers_nothing():
    """All or nothing."""
    module = offering("roll")

    @hookimpl
    def flexchat_register_implementation_types():
        raise RuntimeError("bug")

    module.flexchat_register_implementation_types = flexchat_register_implementation_types
    host = PluginHost()

    assert host.register(module, "half").status == "failed"
    assert host.handlers.by_name == {}


def test_a_record_of_the_wrong_kind_is_refused():
    """A hook yields its own records."""
    module = types.ModuleType("made")

    @hookimpl
    def flexchat_register_tool_handlers():
        return [ImplementationType(name="x", settings_class=NoSettings, run=lambda s, p, c: None)]

    module.flexchat_register_tool_handlers = flexchat_register_tool_handlers
    report = PluginHost().register(module, "odd")

    assert "must yield ToolHandler, got ImplementationType" in report.reason


def test_a_contested_name_belongs_to_nobody_and_both_are_named():
    """Two plugins, one name: the one that is there must not win by chance."""
    host = PluginHost()
    host.register(offering("roll", "flip"), "first")

    report = host.register(offering("roll", "toss"), "second")

    assert (report.status, report.provides) == ("failed", ("tool handler builtin toss",))
    assert ("builtin", "roll") not in host.handlers.by_name
    assert {("builtin", "flip"), ("builtin", "toss")} <= set(host.handlers.by_name)
    text = host.handlers.missing(("builtin", "roll"))
    assert "first" in text
    assert "second" in text


def test_one_plugin_name_from_two_packages():
    """The second is refused, and the first is named."""
    host = PluginHost()
    host.register(offering("a"), "dice", "acme-dice 1")

    report = host.register(offering("b"), "dice", "other-dice 2")

    assert (report.status, report.package) == ("failed", "other-dice 2")
    assert "acme-dice 1" in report.reason


def test_a_blocked_plugin_is_not_imported():
    """Blocking works where importing is the trouble."""
    host = PluginHost(block={"dice": "FLEXCHAT_BLOCK_PLUGINS"})

    report = host.register(offering("a"), "dice")

    assert (report.status, report.reason) == ("blocked", "by FLEXCHAT_BLOCK_PLUGINS")
    assert host.handlers.by_name == {}


def test_a_plugin_for_a_later_surface_says_what_to_update():
    """FLEXCHAT_API."""
    host = PluginHost()
    assert host.register(offering("a", FLEXCHAT_API=(0, 1)), "now").status == "active"

    report = host.register(offering("b", FLEXCHAT_API=(9, 0)), "later")

    assert report.status == "failed"
    assert "9.0" in report.reason


def test_a_hook_that_may_change_warns_plugins_that_do_not_name_their_api():
    class Source:
        @hookimpl
        def flexchat_register_tool_sources(self):
            return ()

    host = PluginHost()
    with pytest.warns(PendingDeprecationWarning, match=r"may change before 1\.0.*FLEXCHAT_API = \(0, 1\)"):
        assert host.register(Source(), "unaware").status == "active"

    Source.FLEXCHAT_API = (0, 1)
    with warnings.catch_warnings(record=True, action="always") as said:
        assert host.register(Source(), "aware").status == "active"
    assert said == []


@pytest.mark.parametrize("version", ["0.1", ("0", "1"), 1])
def test_a_surface_version_that_cannot_be_read_is_reported(version):
    """FLEXCHAT_API is two numbers; anything else is that plugin's trouble alone."""
    report = PluginHost().register(offering("a", FLEXCHAT_API=version), "odd")

    assert report.status == "failed"
    assert "reading it failed" in report.reason


class Quitting:
    """A plugin that tries to end the program when it is asked what it brings."""

    @hookimpl
    def flexchat_register_tool_handlers(self):
        raise SystemExit(1)


def test_a_plugin_that_quits_while_it_registers_is_reported():
    """The others stay."""
    host = PluginHost()

    assert host.register(Quitting(), "odd").status == "failed"
    assert host.register(offering("roll"), "dice").status == "active"


def test_strict_mode_raises():
    """Authors want to see it at once."""
    host = PluginHost(strict=True)
    host.register(offering("roll"), "first")
    with pytest.raises(PluginConflictError):
        host.register(offering("roll"), "second")
    with pytest.raises(PluginLoadError, match="taken by"):
        host.register(offering("x"), "first")


def test_a_missing_name_says_what_to_install():
    """A first-party name names its package; a near name is suggested."""
    host = PluginHost()
    assert how_to_install("flexchat-mock") in host.implementation_types.missing("mock")
    host.register(offering("roll"), "dice")
    assert "did you mean 'builtin roll'?" in host.handlers.missing(("builtin", "rol"))


def test_an_object_that_answers_to_everything_is_no_plugin():
    """Mocks and lazy modules have every attribute; they implement no hook."""

    class Everything:
        def __getattr__(self, name):
            return lambda *a: None

    assert PluginHost().register(Everything(), "mock").hooks == ()


def test_our_own_packages_load_without_a_failure():
    """What is installed for the tests is active."""
    host = PluginHost()
    host.load_installed()
    assert [r for r in host.reports if r.status != "active"] == []


class AcmeHooks:
    @hookspec
    def acme_words(self, language):
        """Return words of a language."""


class Defines:
    @hookimpl
    def flexchat_add_hookspecs(self):
        yield AcmeHooks()


class Answers:
    @hookimpl
    def acme_words(self, language):
        return [f"{language} word"]


class AnswersIfItCan:
    @hookimpl(optionalhook=True)
    def acme_words(self):
        return ["any word"]


def test_a_plugin_defines_hooks_that_others_implement():
    """In any order of loading; only the arguments that one names are given."""
    host = PluginHost()
    plugins = {"a": Answers(), "b": AnswersIfItCan(), "c": Defines()}
    host._load([_Source(name, "", lambda p=plugin: p, False) for name, plugin in plugins.items()])

    assert [report.status for report in host.reports] == ["active"] * 3
    assert host.ask("acme_words", language="German") == [("b", ["any word"]), ("a", ["German word"])]
    assert host.configured(["b"], ()).ask("acme_words", language="German") == [("a", ["German word"])]


def test_a_hook_of_a_plugin_that_is_not_there():
    """Is unknown, unless it is marked as one that need not be there."""
    host = PluginHost()

    assert host.register(Answers(), "a").reason == "unknown hook 'acme_words'"
    assert host.register(AnswersIfItCan(), "b").status == "active"
    assert host.ask("acme_words", language="German") == [("b", ["any word"])]


def test_a_plugin_that_breaks_when_it_is_asked_is_left_out(caplog):
    """In strict mode it is an error."""

    class Breaks:
        @hookimpl
        def acme_words(self, language):
            raise SystemExit(language)

    def host_of(*, strict):
        host = PluginHost(strict=strict)
        for name, plugin in (("c", Defines()), ("a", Breaks()), ("b", Answers())):
            host.register(plugin, name)
        return host

    assert host_of(strict=False).ask("acme_words", language="German") == [("b", ["German word"])]
    assert "plugin a: acme_words failed: SystemExit: German" in caplog.text
    with pytest.raises(PluginLoadError, match="acme_words failed"):
        host_of(strict=True).ask("acme_words", language="German")


def test_hooks_that_cannot_be_defined_are_that_plugins_trouble():
    """Nothing else is touched."""

    class Wrong:
        @hookimpl
        def flexchat_add_hookspecs(self):
            yield object()

    report = PluginHost().register(Wrong(), "wrong")

    assert report.status == "failed"
    assert report.reason.startswith("flexchat_add_hookspecs failed: ValueError")
