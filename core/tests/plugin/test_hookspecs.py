"""The examples of docs/hooks.md run as they are copied, imports included: loaded, called in turns, and used."""

import asyncio
import functools
import inspect
import re
import tempfile
import tomllib
import types
from pathlib import Path

import attrs
import pytest
from flexchat import ConfigError, FlexChat, LostTurnError, Reply, ToolContext, tool
from flexchat.assembly import installed_plugins
from flexchat.config.model import ResponseRule
from flexchat.plugin import FetchRequest, hookimpl, hookspecs
from flexchat.plugin.host import CHAT_HOOKS
from flexchat_sdk import ProviderOverloadedError
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

HOOKS = {name for name in vars(hookspecs) if name.startswith("flexchat_")}
PAGE = Path(__file__).resolve().parents[3] / "docs" / "hooks.md"
SECTIONS = dict(re.findall(r"^## (flexchat_.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE))
BASE = {
    "llms": {"bot": {"provider": "scripted"}},
    "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def make_sure(context: ToolContext) -> str:
    """Ask a person."""
    await context.report_progress(1, 2)
    return (await context.ask("Sure?")).action


def block(section, language):
    found = re.findall(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)
    assert len(found) <= 1
    return found[0] if found else ""


def loaded(section):
    """The example as an installed plugin beside all others, and the names of its hooks that were called."""
    module, called = types.ModuleType("example"), set()
    exec(block(section, "python"), vars(module))
    for name in HOOKS & vars(module).keys():
        setattr(module, name, told(getattr(module, name), called))
    is_one_of_a_kind = section in ("flexchat_register_fetchers", "flexchat_register_source_loaders")
    host = installed_plugins({"sdk": "this test"} if is_one_of_a_kind else None)
    report = host.register(module, "example")
    assert (report.status, report.reason) == ("active", "")
    return host, called


def told(hook, called):
    @functools.wraps(hook)
    def wrapped(*args, **named):
        called.add(hook.__name__)
        return hook(*args, **named)

    return wrapped


def is_offered(section):
    return section.startswith(("flexchat_register_", "flexchat_add_"))


async def one_of_each(host, tables):
    """A turn that calls a tool, one that fails, one that is stopped."""
    busy = ProviderOverloadedError("busy", provider="scripted")
    reached, never = asyncio.Event(), asyncio.Event()

    async def hangs(messages, options):
        reached.set()
        await never.wait()

    model = ScriptedProvider([calls(("add", {"a": 2, "b": 3}), ("make_sure", {})), "It is 5.", busy, hangs])
    tools = [add, make_sure]
    async with FlexChat.from_config({**BASE, **tables}, providers={"bot": model}, tools=tools, plugins=host) as chat:
        turn = await chat.respond("What is 2 + 3?", on_question=lambda question: Reply(action="accept"))
        assert [record.result.success for record in turn.response.tool_calls] == [True, True]
        with pytest.raises(ProviderOverloadedError):
            await chat.respond("And now?")
        stopped = asyncio.create_task(chat.respond("And now?"))
        await reached.wait()
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
    await a_resumed_turn(host, {**BASE, **tables})


async def a_resumed_turn(host, config):
    """One whose process counts as dead, although it is here and finds out too late; one that waits, one for later."""
    tools = [add, make_sure]
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteConversations(f"{folder}/c.db")

        async def stands_still(messages, options):
            await store.database.write(lambda database: database.execute("DELETE FROM owners"))
            (waiting,) = await other.turns(states=["interrupted"])
            await other.resume(waiting.id)
            return "too late"

        one, other = (
            FlexChat.from_config(config, providers={"bot": ScriptedProvider(replies)}, tools=tools, plugins=host)
            for replies in ([stands_still, calls(("make_sure", {}))], ["Hello again."])
        )
        for chat in (one, other):
            chat.keep_in(store)
        with pytest.raises(LostTurnError):
            await one.respond("Hello", conversation="c")
        one.questions_expire_s = 60.0
        assert (await one.respond("Hello", conversation="d")).status == "suspended"
        await one.submit("Hello", conversation="e")
        await store.aclose()


def test_every_hook_has_an_example():
    """A newcomer copies it."""
    assert {name for section in SECTIONS for name in section.split(", ")} == HOOKS


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_an_example_is_called_and_nothing_goes_wrong(section, caplog, capsys):
    """Registration at the start, events and gates in turns; none raises, and what only watches says what it saw."""
    host, called = loaded(section)
    assert {hook for hook in section.split(", ") if is_offered(hook) and hook != CHAT_HOOKS} <= called

    asyncio.run(one_of_each(host, {}))

    assert called >= set(section.split(", "))
    assert [r.getMessage() for r in caplog.records if "example" in r.getMessage()] == []
    if not is_offered(section) and "before" not in section and section != "flexchat_refusal":
        assert len(capsys.readouterr().out.splitlines()) >= len(called)


async def _provider(chat, host):
    assert (await chat.respond("Hello")).content == "You said: Hello"


async def _tool(chat, host):
    assert 1 <= (await chat.call_tool("roll_die", {"sides": 6})).result["rolled"] <= 6


async def _implementation_type(chat, host):
    assert (await chat.call_tool("motto", {})).result == "Measure twice, cut once."


async def _tool_source(chat, host):
    assert (await chat.call_tool("say_abracadabra", {})).result == "abracadabra!"


async def _store(chat, host):
    hits = await chat.stores["plants"].query("who likes shade", collection=None, top_k=1)
    assert [document.text for document in hits.documents] == ["Ferns like shade"]


async def _reranker(chat, host):
    scores = await host.rerankers.by_name["shortest"].create().rerank("tea", ["a long passage", "short"])
    assert scores[0] < scores[1]


async def _fetcher(chat, host):
    with pytest.raises(NotImplementedError):
        await chat.tools.fetcher.fetch(FetchRequest(method="GET", url="https://example.com/"))
    assert chat.tools.fetcher.log == ["https://example.com/"]


async def _source_loader(chat, host):
    assert not chat.tools.sources.by_name
    tables = {**BASE, "tools": {"listed": [{"file": "tools.json"}]}}
    with pytest.raises(ConfigError, match="tool sources are not permitted here"):
        FlexChat.from_config(tables, providers={"bot": ScriptedProvider(["Yes."])}, plugins=host)


async def _conversations(chat, host):
    await chat.respond("One", conversation="c")
    await chat.respond("Two", conversation="c")
    assert [turn.title for turn in await chat.conversations.turns("c")][:1] == ["One"]


async def _step(chat, host):
    assert (await chat.call_tool("add", {"a": 1, "b": 1})).result == 2


async def _config_table(chat, host):
    assert (chat.config.tables["glossary"].file, chat.config.tables["glossary"].most) == ("words.txt", 10)


async def _check(chat, host):
    notes = []
    read = types.SimpleNamespace(config=attrs.evolve(chat.config, responses=(ResponseRule(llm="bot"),)))
    read.note = lambda place, text: notes.append((place, text))
    host.config_checks.by_name["models are named"].run(read)
    assert notes == [(("responses", 0), "names no model, and one is required here")]


async def _chat_hooks(chat, host):
    def send_mail(to: str) -> str:
        """Send a mail."""
        return "sent"

    model = {"bot": ScriptedProvider(["Yes."])}
    tables = {"mail_gate": {"domain": "evil.org"}}
    other = FlexChat.from_config({**BASE, **tables}, providers=model, tools=[tool(send_mail)], plugins=host)
    assert not (await other.call_tool("send_mail", {"to": "ann@acme.com"})).success
    one = FlexChat.from_config(
        {**BASE, "mail_gate": {"domain": "acme.com"}}, providers=model, tools=[tool(send_mail)], plugins=host
    )
    assert (await one.call_tool("send_mail", {"to": "ann@acme.com"})).success
    assert not (await one.call_tool("send_mail", {"to": "ann@evil.org"})).success
    assert (await other.call_tool("send_mail", {"to": "ann@evil.org"})).success


async def _hookspecs(chat, host):
    other = types.ModuleType("other")
    other.acme_words = hookimpl(optionalhook=True)(lambda language: ["Haus"] if language == "de" else [])
    assert host.register(other, "other").status == "active"
    assert host.ask("acme_words", language="de") == [("other", ["Haus"])]


USES = {
    "flexchat_register_providers": _provider,
    "flexchat_register_tools, flexchat_register_tool_handlers": _tool,
    "flexchat_register_implementation_types": _implementation_type,
    "flexchat_register_tool_sources": _tool_source,
    "flexchat_register_document_stores": _store,
    "flexchat_register_rerankers": _reranker,
    "flexchat_register_fetchers": _fetcher,
    "flexchat_register_source_loaders": _source_loader,
    "flexchat_register_conversation_stores": _conversations,
    "flexchat_register_steps": _step,
    "flexchat_register_config_tables": _config_table,
    "flexchat_register_checks": _check,
    "flexchat_register_chat_hooks": _chat_hooks,
    "flexchat_add_hookspecs": _hookspecs,
}


@pytest.mark.parametrize("section", [section for section in SECTIONS if is_offered(section)])
def test_what_an_example_registers_is_used(section):
    """With the config that stands below it."""

    async def use():
        host, _ = loaded(section)
        tables = tomllib.loads(block(section, "toml"))
        model = {} if "llms" in tables else {"bot": ScriptedProvider([says("Yes.")], repeat=True)}
        async with FlexChat.from_config({**BASE, **tables}, providers=model, tools=[add], plugins=host) as chat:
            await USES[section](chat, host)

    asyncio.run(use())


PLUGINS_PAGE = PAGE.with_name("plugins.md").read_text()


@pytest.mark.parametrize("example", re.findall(r"^```python\n(.*?)^```", PLUGINS_PAGE, re.DOTALL | re.MULTILINE))
def test_the_examples_of_the_page_about_plugins_load(example):
    """Each is a whole plugin module, too."""
    module = types.ModuleType("example")
    exec(example, vars(module))

    report = installed_plugins().register(module, "example")

    assert (report.status, report.reason, bool(report.hooks)) == ("active", "", True)


@pytest.mark.parametrize(("said", "deleted"), [("y", True), ("n", False)])
def test_the_gate_of_the_page_about_plugins_asks(monkeypatch, said, deleted):
    """A person says yes or no."""
    monkeypatch.setattr("builtins.input", lambda question: said)
    module = types.ModuleType("gate")
    exec(re.search(r"```python\n(import asyncio\n.*?)```", PLUGINS_PAGE, re.DOTALL)[1], vars(module))
    host = installed_plugins()
    host.register(module, "gate")

    @tool
    def delete_all() -> str:
        """Delete everything."""
        return "gone"

    async def call():
        async with FlexChat.from_model("rehearsal/any", tools=[delete_all], plugins=host) as chat:
            return await chat.call_tool("delete_all", {})

    assert asyncio.run(call()).success is deleted


def test_examples_stand_on_the_page_alone():
    """One home for each."""
    assert not any("Example:" in (inspect.getdoc(getattr(hookspecs, name)) or "") for name in HOOKS)
