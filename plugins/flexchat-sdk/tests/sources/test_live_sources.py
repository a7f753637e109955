"""Tool sources: opened when their tools are needed, offering what was accepted."""

import asyncio
import json
import threading

import pytest
from flexchat import ConfigError, FlexChat, LostTurnError, SyncFlexChat, ToolDefinition, ToolDefinitionError
from flexchat.config.model import ResponseRule, RuleTools
from flexchat.errors import ToolClashError, ToolsLockError, ToolSourceError, UnknownToolSourceError
from flexchat.plugin import ToolContext, hookimpl
from flexchat.plugin.contracts import ImplementationType
from flexchat.plugin.host import PluginHost
from flexchat_cli import check_config
from flexchat_sdk.sources import live_source, live_sources
from flexchat_sdk.sources.lock import ToolsLock
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, ScriptedSource, calls, says, sourced
from flexchat_testing.tool_sources import ScriptedSourceSettings

pytestmark = pytest.mark.anyio

CONFIG = """
[llms.bot]
provider = "scripted"

[[tools.scripted]]
name = "shop"
{source}

{more}

[[responses]]
llm = "bot"
model = "m"
tools = {{ {allowed} }}
"""


@pytest.fixture
def host():
    made = PluginHost()
    made.load_installed()
    return made


@pytest.fixture
def shop(host):
    """A source with two tools."""
    source = ScriptedSource([sourced("find"), sourced("order", effect="write")])
    assert host.register(source, "shop").status == "active"
    return source


@pytest.fixture
def config(tmp_path):
    def write(*, source="", more="", allowed='allowed_tools = ["shop/*"]', name="flexchat.toml"):
        path = tmp_path / name
        path.write_text(CONFIG.format(source=source, more=more, allowed=allowed))
        return path

    return write


def chat_of(path, host, *replies, repeat=False):
    model = ScriptedProvider(replies or [says("Hello.")], repeat=repeat)
    return FlexChat.from_config(path, plugins=host, providers={"bot": model})


def lock_of(path):
    return path.with_name("flexchat.tools.lock")


def offered(chat, turn=None):
    return chat.tools.offered_to(chat.config.responses[0])


async def test_nothing_is_opened_or_read_at_start(config, host, shop):
    path = config()
    lock_of(path).write_text("this would be an error")
    async with chat_of(path, host) as chat:
        assert chat.tools.is_enabled()
        assert (shop.opened, chat.tools.sources.lock._last_signature) == (0, None)
    assert shop.closed == 0


async def test_a_turn_opens_the_source_and_its_first_tools_are_accepted(config, host, shop):
    path = config()
    async with chat_of(path, host, calls(("find", {"q": "x"})), says("Found.")) as chat:
        turn = await chat.respond("Find x.")

        assert turn.response.tool_calls[0].result.result == {"answered by": "find"}
        assert offered(chat) == ("find", "order")
        assert chat.tools.get_registry().get("order").source == "shop"
    assert (shop.opened, shop.listed, shop.closed) == (1, 1, 1)
    kept = json.loads(lock_of(path).read_text())
    assert [*kept["sources"]["shop"]["tools"]] == ["find", "order"]


async def test_a_rule_that_needs_none_of_its_tools_opens_nothing(config, host, shop):
    path = config(more='[[tools.registry]]\nname = "calculator"', allowed='allowed_tools = ["calculator"]')
    async with chat_of(path, host, calls(("calculator", {"expression": "1+1"})), says("2")) as chat:
        await chat.respond("1+1?")
        assert (shop.opened, chat.tools.sources.lock._last_signature) == (0, None)


async def test_with_accepted_tools_everything_works_offline(config, host, shop):
    path = config()
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
    async with chat_of(path, host) as chat:
        assert [tool.name for tool in chat.tools.get_registry().list()] == ["find", "order"]
        assert (await chat.explain("Hello.")).tools == ("find", "order")
    assert shop.opened == 1


async def test_a_source_whose_fingerprint_was_accepted_is_not_listed_again(config, host, shop):
    path = config()
    shop.fingerprint = "v1"
    for _ in range(2):
        async with chat_of(path, host) as chat:
            await chat.respond("Hello.")
            assert chat.tools.sources.state("shop").status == "open"
    assert (shop.opened, shop.listed) == (2, 1)


async def test_a_changed_tool_is_offered_as_accepted_until_it_is_accepted(config, host, shop):
    path = config()
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
    shop.tools_now = [sourced("find", "Another text."), sourced("drop", effect="write")]
    async with chat_of(path, host, says("1"), says("2")) as chat:
        await chat.respond("Hello.")
        state = chat.tools.sources.state("shop")

        assert {change.name: (change.kind, change.offered) for change in state.changes} == {
            "drop": ("new", False),
            "find": ("changed", True),
            "order": ("gone", False),
        }
        assert offered(chat) == ("find",)
        assert chat.tools.get_registry().get("find").description == "The tool find."

        assert [change.name for change in await chat.tools.sources.accept("shop", ["find"])] == ["find"]
        assert chat.tools.get_registry().get("find").description == "Another text."
        assert offered(chat) == ("find",)
        await chat.tools.sources.accept("shop")
        assert offered(chat) == ("drop", "find")
        assert chat.tools.sources.state("shop").changes == ()


async def test_the_stricter_effect_of_a_changed_tool_counts(config, host, shop):
    """What writes now must not be repeated as if it read."""
    path = config()
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
    shop.tools_now = [sourced("find", effect="write"), sourced("order", effect="read")]
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
        effects = {tool.name: tool.effect for tool in chat.tools.get_registry().list()}
    assert effects == {"find": "write", "order": "write"}


async def test_the_source_may_say_what_can_still_be_called(config, host, shop):
    path = config()
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
    shop.tools_now = [sourced("find", "Changed.")]
    shop.still_callable = lambda accepted, now: now is None
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
        assert offered(chat) == ("order",)


async def test_a_list_that_changes_while_running_is_taken_note_of(config, host, shop):
    async with chat_of(config(), host) as chat:
        await chat.respond("Hello.")
        shop.change(sourced("find"))
        task = chat.tools.sources.by_name["shop"]._looking
        await task
        assert offered(chat) == ("find",)


async def test_a_source_that_reports_changes_without_pause_is_listed_once_in_a_while(config, host, shop, monkeypatch):
    monkeypatch.setattr(live_source, "AGAIN_S", 60)
    async with chat_of(config(), host) as chat:
        await chat.respond("Hello.")
        live = chat.tools.sources.by_name["shop"]
        for _ in range(500):
            shop.change(sourced("find"))
            if live._looking is not None:
                await live._looking

        assert shop.listed == 2

        await chat.tools.sources.look("shop")  # a person may look at any time
        assert shop.listed == 3


async def test_what_nobody_sees_in_a_definition_is_taken_out_and_reported(config, host, shop, caplog):
    schema = {
        "type": "object",
        "properties": {"q": {"type": "string", "description": "Words\u202e.", "enum": ["\u200b"]}},
    }
    shop.tools_now = [sourced("find", "Find\U000e0041 it.", parameters=schema)]
    async with chat_of(config(), host) as chat:
        await chat.respond("Hello.")
        tool = chat.tools.get_registry().get("find")

        assert tool.description == "Find it."
        assert tool.parameters["properties"]["q"] == {"type": "string", "description": "Words.", "enum": ["\u200b"]}
    assert "find: 3 characters that nobody sees in description, parameters.properties.q.description" in caplog.text


async def test_a_tool_the_source_leaves_out_is_reported_with_the_reason(config, host, shop, caplog):
    shop.left_out = {"broken": "it has no name"}
    async with chat_of(config(), host) as chat:
        await chat.respond("Hello.")

        assert chat.tools.sources.state("shop").left_out == {"broken": "it has no name"}
    assert "broken is left out: it has no name" in caplog.text


async def test_a_tool_that_goes_during_a_turn_is_no_longer_sent(config, host, shop):
    """And a call of it is answered, not raised."""
    async with chat_of(config(), host, calls(("order", {})), says("It is gone.")) as chat:
        gone = asyncio.Event()

        async def watch():
            async for event in chat.stream("Order."):
                if type(event).__name__ == "ModelRequestFinished" and not gone.is_set():
                    gone.set()
                    shop.change(sourced("find"))
                    await chat.tools.sources.by_name["shop"]._looking
                if type(event).__name__ == "TurnFinished":
                    return event.turn

        turn = await watch()
    assert turn.response.tool_calls[0].result.error == "Tool 'order' not found"


async def test_accepting_in_another_process_counts_at_the_next_turn(config, host, shop):
    path = config()
    async with chat_of(path, host, says("1"), says("2")) as chat, chat_of(path, host) as other:
        await chat.respond("Hello.")
        shop.tools_now = [*shop.tools_now, sourced("drop")]
        await other.tools.sources.accept("shop")
        assert offered(chat) == ("find", "order")
        await chat.respond("Hello.")
        assert offered(chat) == ("drop", "find", "order")


async def test_a_source_that_fails_costs_only_its_own_tools(config, host, shop):
    path = config(more='[[tools.registry]]\nname = "calculator"', allowed="enabled = true")
    shop.fault = OSError("no route")
    async with chat_of(path, host, says("1"), says("2")) as chat:
        await chat.respond("Hello.")
        await chat.respond("Hello.")
        assert offered(chat) == ("calculator",)
        state = chat.tools.sources.state("shop")
        assert (state.status, state.trouble) == ("failed", "tool source 'shop' cannot be opened: OSError: no route")
    assert shop.opened == 1  # not again at every turn


async def test_a_turn_does_not_hang_on_a_source(config, host, shop, monkeypatch):
    monkeypatch.setattr(live_sources, "WAIT_S", 0.05)
    async with chat_of(config(), host) as chat:
        await chat.respond("Hello.")
    path = config(source="timeout_ms = 100")
    shop.waits = asyncio.Event()
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
        assert offered(chat) == ("find", "order")
    lock_of(path).unlink()
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
        assert offered(chat) == ()
        assert "within 0.1 s" in chat.tools.sources.state("shop").trouble


@pytest.mark.parametrize("fault", [None, OSError("no route")])
async def test_no_turn_waits_for_a_source_that_is_read_again(config, host, shop, monkeypatch, fault):
    """What was accepted is offered meanwhile: a broken source would hold up the tools of all others."""
    monkeypatch.setattr(live_sources, "WAIT_S", 60)
    monkeypatch.setattr(live_source, "RETRY_S", 0)
    path = config()
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
    async with chat_of(path, host, says("1"), says("2")) as chat:
        shop.fault = fault
        await chat.respond("Hello.")
        shop.fault, shop.waits = None, asyncio.Event()
        shop.change(sourced("find"))
        async with asyncio.timeout(5):
            await chat.respond("Hello.")
        assert offered(chat) == ("find", "order")
        shop.waits.set()


@pytest.mark.slow
async def test_a_source_that_ignores_its_end_holds_up_nobody(config, host, shop, monkeypatch):
    monkeypatch.setattr(live_source, "CLOSING_S", 0.05)
    let_go = asyncio.Event()

    async def stubborn(settings, context):
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return shop

    path = config(source="timeout_ms = 50")
    chat = chat_of(path, host)
    chat.tools.sources.by_name["shop"].setup = attrs_evolve(chat, open=lambda context: stubborn(None, context))
    async with asyncio.timeout(5), chat:
        await chat.respond("Hello.")
        assert offered(chat) == ()
    let_go.set()
    await asyncio.sleep(0)


def attrs_evolve(chat, **changes):
    import attrs

    return attrs.evolve(chat.tools.sources.by_name["shop"].setup, **changes)


async def test_a_program_may_call_a_tool_of_a_source_nobody_has_opened(config, host, shop):
    async with chat_of(config(), host) as chat:
        assert (await chat.call_tool("find", {"q": "x"})).result == {"answered by": "find"}
        assert (await chat.call_tool("found", {})).error == "Tool 'found' not found"
    assert shop.opened == 1


async def test_calls_that_wait_for_the_first_tools_together_all_find_them(config, host, shop, monkeypatch):
    """One keeps them: the other finds them in the file before they are offered."""
    written, goes_on = asyncio.Event(), threading.Event()
    loop, calling = asyncio.get_running_loop(), []
    update, accept_first = ToolsLock.update, live_sources.LiveSources._accept_first

    def slow_update(self, change):
        update(self, change)
        loop.call_soon_threadsafe(written.set)
        assert goes_on.wait(10)

    async def one_after_the_other(self, needed):
        calling.append(1)
        if len(calling) == 2:
            await written.wait()
        await accept_first(self, needed)

    monkeypatch.setattr(ToolsLock, "update", slow_update)
    monkeypatch.setattr(live_sources.LiveSources, "_accept_first", one_after_the_other)
    async with chat_of(config(), host) as chat:
        both = [asyncio.ensure_future(chat.call_tool("find", {})) for _ in range(2)]
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        goes_on.set()

        assert [task.result().success for task in done] == [True]
        assert [(await task).success for task in both] == [True, True]


async def test_a_tool_knows_its_source_and_its_settings(config, host):
    seen = []

    async def run(settings, params, context: ToolContext):
        source = await context.source.opened()
        seen.append((context.source.name, context.source.settings.token, source))
        return "ok"

    class Kind:
        @hookimpl
        def flexchat_register_implementation_types(self):
            yield ImplementationType(name="asks", settings_class=ScriptedSourceSettings, run=run)

    host.register(Kind(), "kind")
    shop = ScriptedSource([sourced("ask", implementation="asks", settings={})])
    host.register(shop, "shop")
    async with chat_of(config(source='token = "very secret"'), host) as chat:
        assert (await chat.call_tool("ask", {})).success
    assert seen == [("shop", "very secret", shop)]


async def test_names_get_the_prefix(config, host, shop):
    more = '[[tools.scripted]]\nname = "second"\nprefix = "second."'
    async with chat_of(config(more=more, allowed="enabled = true"), host) as chat:
        await chat.respond("Hello.")
        assert offered(chat) == ("find", "order", "second.find", "second.order")


ORDER = """
[[tools.registry]]
name = "order"
description = "Ours."
parameters = { type = "object" }
implementation = { type = "mock", mock_response = 1 }
"""


@pytest.mark.parametrize(
    ("more", "sources"),
    [(ORDER, (None, "shop")), ('[[tools.scripted]]\nname = "second"', ("shop", "second"))],
    ids=["tools.registry", "another source"],
)
async def test_two_tools_of_one_name_in_one_offer_are_an_error(config, host, shop, more, sources):
    """Of the turn and of the check, naming the prefix to set."""
    path = config(more=more, allowed="enabled = true")
    async with chat_of(path, host) as chat:
        with pytest.raises(ToolClashError, match='prefix = "') as caught:
            await chat.respond("Hello.")

        assert caught.value.sources == sources
    problems, _ = check_config(path, host)
    assert [problem.text for problem in problems] == [str(caught.value)]


async def test_a_name_alone_means_the_tool_that_comes_from_no_source(config, host, shop):
    path = config(more=ORDER, allowed='allowed_tools = ["order"]')
    async with chat_of(path, host, calls(("order", {})), says("Ordered.")) as chat:
        turn = await chat.respond("Order.")

    assert turn.response.tool_calls[0].result.result == 1


TWO = """
[llms.bot]
provider = "scripted"

[[tools.scripted]]
name = "one"

[[tools.scripted]]
name = "two"

[[responses]]
llm = "bot"
model = "m"
match = { topic = "one" }
tools = { allowed_tools = ["one/*"] }

[[responses]]
llm = "bot"
model = "m"
tools = { allowed_tools = ["two/*"] }
"""


@pytest.fixture
def two(tmp_path, host):
    """A config of two sources that each have a tool ``act``, and of a rule for each."""
    assert host.register(ScriptedSource([sourced("act")]), "shop").status == "active"
    path = tmp_path / "flexchat.toml"
    path.write_text(TWO)
    return path


async def test_a_call_runs_the_tool_of_the_source_that_was_offered(two, host):
    """While its model thinks, another rule's turn opens a source with a tool of the same name."""
    asked, ran = [], []

    async def reply(messages, options):
        if any(message.role == "tool" for message in messages):
            return says("Done.")
        if options.tools:  # not for phase 1, which keeps the caller's topic as this is no answer to it
            asked.append(options)
            if len(asked) == 1:
                await chat.respond("Hello.", topic="one")
        return calls(("act", {}))

    class Gate:
        @hookimpl
        def flexchat_before_tool_call(self, tool):
            ran.append(tool.source)

    model = ScriptedProvider([reply], repeat=True)
    async with FlexChat.from_config(two, plugins=host, providers={"bot": model}, hooks=[Gate()]) as chat:
        turn = await chat.respond("Act.", topic="two")

    assert ran == ["one", "two"]
    assert [record.result.success for record in turn.response.tool_calls] == [True]


async def test_an_entry_that_fits_tools_of_two_sources_changes_neither(two, host):
    """It could make a tool that deletes everything count as one that reads."""
    two.write_text(TWO + '[[tools.registry]]\nname = "act"\neffect = "read"\n')
    model = ScriptedProvider([says("Hello.")], repeat=True)
    async with FlexChat.from_config(two, plugins=host, providers={"bot": model}) as chat:
        for name in ("one", "two"):
            await chat.tools.sources.look(name)

        assert chat.tools.get_registry().names() == ()
        assert all("give the source a prefix" in state.left_out["act"] for state in chat.tools.sources.states())


async def test_a_name_that_two_sources_have_is_no_tool_for_a_program(two, host):
    model = ScriptedProvider([says("Hello.")], repeat=True)
    async with FlexChat.from_config(two, plugins=host, providers={"bot": model}) as chat:
        for name in ("one", "two"):
            await chat.tools.sources.look(name)
        result = await chat.call_tool("act", {})

    assert result.hint == "several tool sources have one (one, two): give one of them a prefix"


async def test_an_entry_with_only_its_name_changes_a_tool(config, host, shop):
    more = '[[tools.registry]]\nname = "order"\ntimeout_ms = 5\neffect = "idempotent"\nexclusive = true'
    async with chat_of(config(more=more), host) as chat:
        await chat.respond("Hello.")
        order = chat.tools.get_registry().get("order")
        assert (order.timeout_ms, order.effect, order.exclusive, order.source) == (5, "idempotent", True, "shop")


async def test_a_change_that_does_not_fit_leaves_the_tool_out(config, host, shop):
    more = '[[tools.registry]]\nname = "find"\nverify = "order"'
    async with chat_of(config(more=more), host) as chat:
        await chat.respond("Hello.")
        assert offered(chat) == ("order",)
        assert 'verify is for tools with effect = "write"' in chat.tools.sources.state("shop").left_out["find"]


async def test_what_is_no_tool_is_left_out_and_said(config, host, shop):
    shop.tools_now = [
        sourced("good"),
        sourced("bad schema", parameters={"type": "object"}),
        sourced("worse", parameters={"type": "object", "properties": {"a": {"type": "nothing"}}}),
        sourced("set", settings={"a": {1, 2}}),
        sourced("twice"),
        sourced("twice"),
        sourced("leaks", settings={"mock_response": "very secret"}),
    ]
    async with chat_of(config(source='token = "very secret"'), host) as chat:
        await chat.respond("Hello.")
        assert offered(chat) == ("good", "twice")
        assert {*chat.tools.sources.state("shop").left_out} == {"bad schema", "worse", "set", "twice", "leaks"}


@pytest.mark.parametrize("wrong", [None, 5, ["find"], [None]])
async def test_a_source_that_returns_something_else_is_told(config, host, shop, wrong):
    class Wrong:
        def __iter__(self):
            return iter(wrong)

    shop.tools_now = Wrong()
    async with chat_of(config(), host) as chat:
        await chat.respond("Hello.")
        assert chat.tools.sources.state("shop").status == "failed"


async def test_too_many_tools_are_refused(config, host, shop, monkeypatch):
    monkeypatch.setattr(live_sources, "MAX_TOOLS", 3)
    shop.tools_now = [sourced(f"t{n}") for n in range(4)]
    async with chat_of(config(), host) as chat:
        await chat.respond("Hello.")
        assert "more than 3 tools" in chat.tools.sources.state("shop").trouble


async def test_a_damaged_lock_is_told_and_stays(config, host, shop, caplog):
    path = config()
    lock_of(path).write_text("<<<<<<< ours\n{}")
    async with chat_of(path, host, says("1"), says("2")) as chat:
        await chat.respond("Hello.")
        assert offered(chat) == ()
        assert "merge conflict" in chat.tools.sources.trouble
        with pytest.raises(ToolsLockError, match="damaged"):
            await chat.tools.sources.accept("shop")
        assert lock_of(path).read_text() == "<<<<<<< ours\n{}"
        lock_of(path).unlink()
        await chat.tools.sources.look("shop")
        assert (chat.tools.sources.trouble, offered(chat)) == ("", ("find", "order"))


async def test_a_folder_that_cannot_be_written_to_still_works(config, host, shop, monkeypatch):
    path = config(source="", more="")
    chat = chat_of(path, host)
    monkeypatch.setattr(type(chat.tools.sources.lock), "update", _read_only)
    async with chat:
        await chat.respond("Hello.")
        assert offered(chat) == ("find", "order")
        assert "cannot be kept" in chat.tools.sources.trouble


def _read_only(self, change):
    raise ToolsLockError(f"{self.path} cannot be written: read-only file system")


async def test_names_that_do_not_exist_are_told(config, host, shop):
    async with chat_of(config(), host) as chat:
        with pytest.raises(UnknownToolSourceError, match="did you mean 'shop'"):
            await chat.tools.sources.look("shopp")
        await chat.respond("Hello.")
        shop.tools_now = [sourced("find"), sourced("order", "Changed.")]
        with pytest.raises(UnknownToolSourceError, match="did you mean 'order'"):
            await chat.tools.sources.accept("shop", ["ordr"])
        shop.fault = ToolSourceError("the document is gone")
        with pytest.raises(ToolSourceError, match="the document is gone"):
            await chat.tools.sources.accept("shop")


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"mpc": [{"server": "x"}]}, "tools.mpc: no tool source is called 'mpc'"),
        ({"scriptd": [{}]}, "did you mean 'scripted'"),
        ({"regstry": [{}]}, "did you mean 'registry'"),
        ({"max_iteration": 3}, "did you mean 'max_iterations'"),
        ({"scripted": {}}, "write [[tools.scripted]] in double brackets"),
        ({"scripted": [1.5]}, "tools.scripted[0]: expected a table, got the number 1.5"),
        ({"scripted": [{}, None, "x"]}, "tools.scripted[2]: expected a table"),
        ({"scripted": [{"name": "a b"}]}, "tools.scripted[0].name: 'a b' is not"),
        ({"scripted": [{}, {}]}, "give each a 'name'"),
        ({"scripted": [{"name": "a"}, {"name": "a"}]}, "two sources are called 'a'"),
        ({"scripted": [{"prefix": "-"}]}, "tools.scripted[0].prefix"),
        ({"scripted": [{"documen": "x"}]}, "did you mean 'document'"),
        ({"scripted": [{"timeout_ms": 0}]}, "tools.scripted[0].timeout_ms"),
    ],
)
def test_a_source_that_is_written_wrong_is_a_problem(host, tables, told):
    host.register(ScriptedSource(), "shop")
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "tools": tables,
        "responses": [{"llm": "bot", "model": "m"}],
    }
    with pytest.raises(ConfigError) as refused:
        FlexChat.from_config(config, plugins=host)
    assert told in str(refused.value)


def test_the_package_that_brings_a_source_is_named():
    with pytest.raises(ConfigError, match=r"the package flexchat-http: pip install \./plugins/flexchat-http"):
        FlexChat.from_config({"tools": {"openapi": [{"document": "x"}]}}, plugins=PluginHost())


def test_a_pattern_without_a_source_is_a_problem(config, host, shop):
    with pytest.raises(ConfigError, match=r"no tool source is called 'shap' \(did you mean 'shop'\?\)"):
        chat_of(config(allowed='allowed_tools = ["shap/*"]'), host)


async def test_a_turn_warns_of_a_source_that_never_opened(config, host, shop):
    shop.fault = OSError("no route")
    async with chat_of(config(), host, says("hello")) as chat:
        turn = await chat.respond("hello")
    assert turn.response.warnings == ("tool source 'shop' cannot be opened: OSError: no route",)


def test_the_lock_is_beside_the_config_and_named_like_it(config, host, shop, tmp_path, data_folder):
    tables = {
        "llms": {"bot": {"provider": "scripted"}},
        "tools": {"scripted": [{}]},
        "responses": [{"llm": "bot", "model": "m"}],
    }
    in_code = FlexChat.from_config(tables, plugins=host)
    tables["tools"]["lock"] = str(tmp_path / "accepted.lock")
    named = FlexChat.from_config(tables, plugins=host)
    places = [
        chat.tools.sources.lock.path
        for chat in (chat_of(config(), host), chat_of(config(name="shop.toml"), host), in_code, named)
    ]
    assert places == [
        tmp_path / "flexchat.tools.lock",
        tmp_path / "shop.tools.lock",
        data_folder / "flexchat.tools.lock",
        tmp_path / "accepted.lock",
    ]


def test_a_definition_of_a_source_is_never_taken_for_one_of_ours():
    tool = sourced("find").definition("shop", "the.")
    assert isinstance(tool, ToolDefinition)
    assert (tool.name, tool.source) == ("the.find", "shop")
    with pytest.raises(ToolDefinitionError):
        sourced("find").definition("shop", "x" * 128)


async def test_a_program_may_give_a_source_in_code(tmp_path, host):
    """And a rule names its tools, or all of them."""
    source = ScriptedSource([sourced("find"), sourced("order")])
    tables = {
        "llms": {"bot": {"provider": "scripted"}},
        "tools": {"lock": str(tmp_path / "tools.lock")},
        "responses": [{"llm": "bot", "model": "m", "tools": {"allowed_tools": ["find"]}}],
    }
    model = {"bot": ScriptedProvider([calls(("find", {})), says("Found.")])}

    async def open_shop(context):
        return await source._open(None, context)

    async with FlexChat.from_config(tables, providers=model, plugins=host, sources={"shop": open_shop}) as chat:
        turn = await chat.respond("Find it.")
        assert turn.response.tool_calls[0].result.success
        assert chat.tools.sources.state("shop").type == "python"
    assert source.closed == 1


def test_a_program_without_an_event_loop_accepts_too(config, host, shop):
    model = {"bot": ScriptedProvider([says("Hello.")])}
    with SyncFlexChat.from_config(config(), plugins=host, providers=model) as chat:
        chat.respond("Hello.")
        shop.tools_now = [*shop.tools_now, sourced("drop")]
        assert [change.name for change in chat.run(lambda opened: opened.tools.sources.accept("shop"))] == ["drop"]
    assert shop.closed == 1


async def test_a_chat_for_one_rule_has_them_too(config, host, shop):
    """It shares the sources, and closes none."""
    async with chat_of(config(), host, calls(("find", {})), says("Found.")) as chat:
        async with chat.with_rule(ResponseRule(llm="bot", model="m", tools=RuleTools())) as one:
            turn = await one.respond("Find it.")
            assert turn.response.tool_calls[0].result.success
        assert shop.closed == 0
    assert shop.closed == 1


async def test_a_resumed_turn_calls_what_is_accepted_now(config, host, shop, tmp_path):
    """Its process counts as dead before the call; the tool has changed since, and somebody has accepted that."""
    path = config()
    store = SqliteConversations(tmp_path / "c.db")

    async def stands_still(messages, options):
        await store.database.write(lambda database: database.execute("DELETE FROM owners"))
        shop.tools_now = [sourced("find", settings={"mock_response": "new"})]
        await other.tools.sources.accept("shop")
        (waiting,) = await other.turns(states=["interrupted"])
        resumed.append(await other.resume(waiting.id))
        return "too late"

    resumed = []
    one, other = chat_of(path, host, stands_still), chat_of(path, host, calls(("find", {})), says("Found."))
    async with one, other:
        for chat in (one, other):
            chat.keep_in(store)
        with pytest.raises(LostTurnError):
            await one.respond("Find it.", conversation="c")
    await store.aclose()
    assert resumed[0].response.tool_calls[0].result.result == "new"


async def test_tools_that_are_switched_off_include_those_of_sources(config, host, shop):
    path = config()
    path.write_text(path.read_text() + "\n[tools]\nenabled = false\n")
    async with chat_of(path, host) as chat:
        await chat.respond("Hello.")
        assert (offered(chat), chat.tools.get_registry().list()) == ((), [])
        assert not (await chat.call_tool("find", {})).success
    assert shop.opened == 0


async def test_a_tool_that_nobody_knows_yet_is_missing_for_a_reason(config, host, shop):
    """Not only "not found": its source may have been too slow."""
    shop.fault = ToolSourceError("the shop is closed")
    async with chat_of(config(), host) as chat:
        result = await chat.call_tool("find", {})

    assert result.error == "Tool 'find' not found"
    assert result.hint == "available tools: none; tool source 'shop': the shop is closed"


async def test_tools_of_a_source_run_in_a_chat_that_was_given_them(config, host, shop):
    """Without a second opening; also in a chat made from that one."""
    async with chat_of(config(), host, calls(("find", {"q": "x"})), says("Found."), repeat=True) as chat:
        await chat.respond("Find x.")
        opened = shop.opened
        rule, tools = ResponseRule(llm="bot", model="m", tools=RuleTools()), chat.tools.get_registry().list()
        first = chat.with_rule(rule, tools=tools)
        for asked in (first, first.with_rule(rule, tools=tools)):
            (record,) = (await asked.respond("Find x.")).response.tool_calls
            assert record.result.result == {"answered by": "find"}, record.result
    assert (opened, shop.opened) == (1, 1)
