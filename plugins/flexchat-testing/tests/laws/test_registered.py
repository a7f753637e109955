"""Each law of what a plugin registers catches a plugin that breaks it; the card says what became of all of them."""

import importlib.metadata
import subprocess
import sys
import unittest

import attrs
import httpx
import pytest
from flexchat.plugin import (
    ChatResult,
    ConfigTable,
    Implementation,
    ImplementationType,
    ToolDefinition,
    ToolHandler,
    hookimpl,
)
from flexchat.plugin.host import PluginHost
from flexchat.store import DocumentStoreType
from flexchat_sdk import HttpSettings, ProviderConnectionError, ProviderType, key, secret_key
from flexchat_testing import card as card_module
from flexchat_testing.card import NEEDS_EXTRA, UnknownPluginError, verdicts_of, verify_plugin
from flexchat_testing.laws.law import Conformance, law, laws_of
from flexchat_testing.laws.registered import Registered, RegisteredConformance

pytestmark = pytest.mark.slow

OBJECT = {"type": "object"}


@attrs.frozen(kw_only=True)
class Config(HttpSettings):
    api_key: str | None = secret_key("Key.")
    base_url: str = key("Address.", default="https://api.example.com")
    region: str = key("Needed.")


class Provider:
    name = "own"

    def __init__(self, config):
        self.config = config

    def tool_format(self, model):
        return "own"

    async def generate_chat(self, messages, model, options):
        raise ProviderConnectionError("nothing listens")

    async def list_models(self):
        raise ProviderConnectionError("nothing listens")

    async def aclose(self):
        pass


def encode(tools):
    return [{"name": tool.name} for tool in tools]


class Store:
    def __init__(self, config, context):
        pass

    async def query(self, text, *, collection, top_k, where=None):
        pass

    async def collections(self):
        pass

    async def aclose(self):
        pass


@attrs.frozen(kw_only=True)
class Settings:
    handler: str = "own"


async def run(settings, params, context):
    pass


PROVIDER = ProviderType(
    name="own", config_class=Config, create=Provider, tool_formats={"own": encode}, summary="Own service."
)
IMPLEMENTATION = ImplementationType(name="own", settings_class=Settings, run=run, summary="Own way.")
HANDLER = ToolHandler(kind="own", name="own", call=lambda params, context: 1)
RETRIEVER = DocumentStoreType(name="own", config_class=Settings, create=Store, summary="Own store.")
TOOL = ToolDefinition(
    name="own", description="Own tool", parameters=OBJECT, implementation=Implementation(type="own", settings={})
)


class Plugin:
    """A right plugin; records of a kind are taken from those that are given."""

    def __init__(self, **given):
        self.given = given

    @hookimpl
    def flexchat_register_providers(self):
        yield self.given.get("provider", PROVIDER)

    @hookimpl
    def flexchat_register_implementation_types(self):
        yield self.given.get("implementation", IMPLEMENTATION)

    @hookimpl
    def flexchat_register_tool_handlers(self):
        yield self.given.get("handler", HANDLER)

    @hookimpl
    def flexchat_register_tools(self):
        yield self.given.get("tool", TOOL)

    @hookimpl
    def flexchat_register_document_stores(self):
        yield self.given.get("retriever", RETRIEVER)


def registered(plugin, module="flexchat.plugin", rivals=()):
    alone, together = PluginHost(), PluginHost()
    for host in (alone, together):
        host.register(plugin, "own", "own 1.0")
    for rival in rivals:
        together.register(rival, "rival", "rival 1.0")
    return RegisteredConformance(Registered(name="own", module=module, alone=alone, all=together))


@attrs.frozen(kw_only=True)
class Open:
    base_url: str = "https://api.example.com"
    api_key: str = ""


def looks_up(settings, tool, handlers):
    return handlers["own", settings.handler]


def says_nothing(settings, tool, handlers):
    return ""


class RaisesOSErrors(Provider):
    async def list_models(self):
        raise OSError("no route")


class AnswersFromNowhere(Provider):
    async def generate_chat(self, messages, model, options):
        return ChatResult(message=None, finish_reason="stop")


class ConnectsWhenMade(Provider):
    def __init__(self, config):
        httpx.get("https://api.example.com/")


class OtherName(Provider):
    name = "other"


def changes(tools):
    return [{"made": object()}]


class ClosesAtOnce(Store):
    def aclose(self):
        pass


class WithTable:
    @hookimpl
    def flexchat_register_config_tables(self):
        yield ConfigTable(name="own", load=lambda: type("Plain", (), {}))


class WithHandler:
    @hookimpl
    def flexchat_register_tool_handlers(self):
        yield ToolHandler(kind="own", name="own", call=print, settings_class=type("Plain", (), {}))


def provider(**changed):
    return registered(Plugin(provider=attrs.evolve(PROVIDER, **changed)))


WRONG = {
    "test_it_loads": [(lambda: registered(object_with_typo()), "unknown hook")],
    "test_its_names_are_its_own": [(lambda: registered(Plugin(), rivals=[Plugin()]), "is offered by rival too")],
    "test_its_module_is_light": [
        (lambda: registered(Plugin(), "flexchat_sdk.http.client"), "imports aiohttp, httpx"),
        (lambda: registered(Plugin(), "no_such_module_anywhere"), "cannot be imported"),
    ],
    "test_its_records_say_what_they_are": [(lambda: provider(summary=""), "summary must be one line")],
    "test_strange_settings_are_read_or_refused": [
        (lambda: provider(config_class=type("Plain", (), {})), "must be an attrs class"),
        (lambda: registered(WithTable()), "config table own: Plain must be an attrs class"),
        (lambda: registered(WithHandler()), "tool handler own: Plain must be an attrs class"),
        (lambda: registered(Plugin(implementation=attrs.evolve(IMPLEMENTATION, check=looks_up))), "raised KeyError"),
        (
            lambda: registered(Plugin(implementation=attrs.evolve(IMPLEMENTATION, check=says_nothing))),
            "without a sentence",
        ),
    ],
    "test_secrets_are_kept": [(lambda: provider(config_class=Open), "api_key needs repr=False")],
    "test_providers_are_what_they_say": [
        (lambda: provider(create=OtherName), "is called 'other'"),
        (lambda: provider(create=ConnectsWhenMade), "api.example.com"),
        (lambda: provider(tool_formats={"own": encode, "another": encode}), "must be 'own' or begin with 'own.'"),
        (lambda: provider(tool_formats={"own.chat": encode}), "tool_format gives 'own'"),
        (lambda: provider(schema_dialects={"own": "strict"}), "schema_dialects holds"),
    ],
    "test_a_service_that_is_away_is_a_provider_error": [
        (lambda: provider(create=RaisesOSErrors), "where nothing listens, raised OSError, not ProviderError"),
        (lambda: provider(create=AnswersFromNowhere), "where nothing listens"),
    ],
    "test_tool_formats_are_pure": [(lambda: provider(tool_formats={"own": changes}), "not JSON")],
    "test_handlers_take_params_and_context": [
        (lambda: registered(Plugin(handler=attrs.evolve(HANDLER, call=lambda params: 1))), "call must take"),
    ],
    "test_its_tools_can_be_used": [
        (
            lambda: registered(Plugin(tool=attrs.evolve(TOOL, implementation=Implementation(type="elsewhere")))),
            "elsewhere",
        ),
        (
            lambda: registered(
                Plugin(tool=attrs.evolve(TOOL, implementation=Implementation(type="own", settings={"x": 1})))
            ),
            "unknown key 'x'",
        ),
    ],
    "test_implementation_types_can_be_awaited": [
        (lambda: registered(Plugin(implementation=attrs.evolve(IMPLEMENTATION, run=lambda *given: 1))), "async def"),
    ],
    "test_retrievers_are_made_and_closed": [
        (lambda: registered(Plugin(retriever=attrs.evolve(RETRIEVER, create=ClosesAtOnce))), "aclose must be"),
    ],
}


def object_with_typo():
    class Typo:
        @hookimpl
        def flexchat_register_provider(self):
            pass

    return Typo()


@pytest.mark.parametrize("name", [name for name, _ in laws_of(RegisteredConformance)])
def test_a_right_plugin_keeps_every_law(name):
    """One that registers a record of each kind."""
    getattr(registered(Plugin()), name)()


@pytest.mark.parametrize(("name", "make", "words"), [(n, *case) for n, cases in WRONG.items() for case in cases])
def test_a_law_catches_a_plugin_that_breaks_it(name, make, words):
    """The verdict says what is wrong."""
    with pytest.raises(Exception) as caught:
        getattr(make(), name)()

    assert not isinstance(caught.value, unittest.SkipTest)
    assert words in str(caught.value)


def test_every_law_is_shown_to_catch_something():
    assert {name for name, _ in laws_of(RegisteredConformance)} - {"test_no_law_is_replaced"} == WRONG.keys()


def test_settings_that_cannot_be_guessed_skip_a_law():
    """A stranger's provider may need what nobody can make up."""

    @attrs.frozen(kw_only=True)
    class Picky:
        colour: str = attrs.field(validator=attrs.validators.in_(["red"]))

    with pytest.raises(unittest.SkipTest, match="cannot guess its settings"):
        provider(config_class=Picky).test_providers_are_what_they_say()


class Kit(Conformance):
    @law()
    def test_it_holds(self):
        """It holds."""

    @law()
    def test_it_breaks(self):
        """It does not hold."""
        raise AssertionError("broken\nhere")

    @law()
    def test_it_crashes(self):
        """It does not even run."""
        raise RuntimeError

    @law()
    def test_it_lacks_the_extra(self):
        """It needs hypothesis."""
        raise ModuleNotFoundError(name="hypothesis")

    @law()
    def test_it_lacks_something_else(self):
        """It needs something of its own."""
        raise ModuleNotFoundError("no module acme", name="acme")

    @law()
    def test_it_is_known(self):
        """It breaks, and that is known."""
        raise AssertionError("known")


class Known(Kit):
    @pytest.mark.xfail(reason="being worked on")
    def test_it_is_known(self):
        super().test_it_is_known()


def test_a_verdict_says_what_became_of_a_law():
    """Kept, broken with the reason and the law, skipped, or known to be broken."""
    verdicts = {verdict.law: (verdict.status, verdict.reason) for verdict in verdicts_of(Known, Known)}

    assert verdicts == {
        "no law is replaced": ("kept", ""),
        "it holds": ("kept", ""),
        "it breaks": ("broken", "broken here\nthe law: It does not hold."),
        "it crashes": ("broken", "RuntimeError\nthe law: It does not even run."),
        "it lacks the extra": ("skipped", NEEDS_EXTRA),
        "it lacks something else": (
            "broken",
            "ModuleNotFoundError: no module acme\nthe law: It needs something of its own.",
        ),
        "it is known": ("expected", "being worked on"),
    }


def test_an_unknown_plugin_is_told_with_the_nearest():
    """By the plugin's name, or the package's."""
    with pytest.raises(UnknownPluginError, match=r"no plugin is called 'bultin' \(did you mean 'builtin'\?\)"):
        verify_plugin("bultin")
    assert verify_plugin("flexchat-mock").plugin == "mock"


def test_without_the_extra_what_needs_none_is_tried_all_the_same():
    """A user has FlexChat, and perhaps nothing else: what cannot be tried says what it needs."""
    code = (
        "import sys\n"
        "for name in ('hypothesis', 'pytest', 'httpx', 'aiohttp'): sys.modules[name] = None\n"
        "from flexchat_testing.card import verify_plugin\n"
        "cards = [verify_plugin(name) for name in ('internal', 'openai')]\n"
        "print(*[(len(c.chapters), c.count('broken'), c.note) for c in cards], sep='\\n')\n"
        "print([v.reason for c in cards[0].chapters for v in c.verdicts if 'any question' in v.law])\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    internal, openai, question = done.stdout.splitlines()
    assert internal == "(4, 0, '')"
    assert openai.startswith("(1, 0, 'the laws of flexchat_openai.conformance were not tried: that needs pip install")
    assert question == str([NEEDS_EXTRA])


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Install a package of files, as a plugin called stranger; returns its card."""
    folder = tmp_path / f"stranger_{tmp_path.name.replace('-', '_')}"

    def card(**files):
        folder.mkdir()
        for name, text in {"__init__": "", **files}.items():
            (folder / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        entry = importlib.metadata.EntryPoint("stranger", f"{folder.name}.plugin", "flexchat")
        monkeypatch.setattr(card_module, "_entry_point", lambda name: entry)
        return verify_plugin("stranger")

    return card


def broken(card):
    return [v.reason for chapter in card.chapters for v in chapter.verdicts if v.status == "broken"]


def test_a_plugin_that_cannot_be_imported_has_a_card_that_says_so(stranger):
    """Whatever it does at import: even ending the program."""
    card = stranger(plugin="raise SystemExit('no licence')")

    assert len(broken(card)) == 1
    assert "failed: SystemExit: no licence (at stranger_" in broken(card)[0]
    assert broken(card)[0].endswith("/plugin.py:1)")


def test_a_plugin_without_a_conformance_module_is_tried_as_far_as_it_goes(stranger):
    """The note says what is missing."""
    card = stranger(plugin="import httpx\n")

    assert broken(card)[0].startswith("importing stranger_")
    assert "the package ships no module stranger_" in card.note


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import acme_sdk_nowhere", "failed: ModuleNotFoundError: No module named 'acme_sdk_nowhere'"),
        ("1 / 0", "failed: ZeroDivisionError: division by zero (at stranger_"),
        ("raise SystemExit", "failed: SystemExit (at stranger_"),
        (
            "from flexchat_testing import HandlerConformance\n"
            "class Own(HandlerConformance):\n    supports = frozenset({'refusal'})",
            "did you mean 'refuses'?",
        ),
    ],
)
def test_a_conformance_module_that_breaks_is_a_broken_law(stranger, text, told):
    """It is the plugin's, so it is the plugin's trouble."""
    card = stranger(plugin="", conformance=text)

    assert any(told in reason for reason in broken(card)), broken(card)


OWN_HANDLER = """
from flexchat.plugin import ConfigTable, ToolHandler, hookimpl
def call(params, context):
    {body}
HANDLER = ToolHandler(kind="builtin", name="strange", call=call)
@hookimpl
def flexchat_register_tool_handlers():
    yield HANDLER
"""
OWN_LAWS = """
from flexchat_testing import HandlerConformance
from .plugin import HANDLER
class Own(HandlerConformance):
    supports = frozenset({"refuses"})
    handler, good, bad, deadline_s = HANDLER, ({},), ({},), 0.05
    plugin = __package__ + ".plugin"
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise SystemExit(3)", "it ended the program (SystemExit: 3): a plugin raises an error of its own instead"),
        ("return params['x']", "KeyError: 'x'"),
        ("import threading; threading.Event().wait()", "took longer than 0.05 s"),
    ],
)
def test_whatever_a_handler_does_is_a_verdict_that_says_where(stranger, body, told):
    """Ending the program, a mistake, never answering: the card is written all the same, and soon."""
    card = stranger(plugin=OWN_HANDLER.format(body=body), conformance=OWN_LAWS)

    verdicts = {v.law: v for v in card.chapters[1].verdicts}
    for name in ("its answer is json", "it leaves the loop free"):
        assert verdicts[name].status == "broken"
        assert told in verdicts[name].reason
        assert "the law: " in verdicts[name].reason
    assert verdicts["its errors are for the model"].status == "broken"
    if "took" not in told:
        assert "/plugin.py:4)" in verdicts["its answer is json"].reason


def test_what_a_package_without_laws_of_its_own_should_write_is_named(stranger):
    """By what it registers."""
    card = stranger(plugin=OWN_HANDLER.format(body="return 1"))

    assert card.note.endswith("only what it registers was tried: write a subclass of HandlerConformance")


def test_a_conformance_module_with_nothing_in_it_is_told(stranger):
    """What is imported into it, or private, is no law of its own."""
    card = stranger(plugin="", conformance="from flexchat_testing import HandlerConformance\n")

    assert "holds no conformance class" in card.note
    assert broken(card) == []
