"""Putting a FlexChat together: what is wrong is said in a user's words, and all of it at once."""

import asyncio
import contextvars
import subprocess
import sys

import pytest
from flexchat import ConfigError, FlexChat, SyncFlexChat, ToolContext, tool
from flexchat.errors import ChatRequestError, ToolDefinitionError
from flexchat.installing import how_to_install
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost, _Source
from flexchat_cli import check_config
from flexchat_testing import ScriptedProvider, calls, says

RULE = {"llm": "bot", "model": "m"}


def book(people: int, name: str = "") -> str:  # no docstring: a config describes it
    return f"{people} {name}"


def entry(**changes):
    made = {
        "name": "book",
        "description": "Book a table.",
        "parameters": {"type": "object", "properties": {"people": {"type": "integer"}}},
        "implementation": {"type": "python", "function": "shop_for_tests:book"},
    }
    return {**made, **changes}


@pytest.fixture(autouse=True)
def shop(monkeypatch):
    """The module that the config's functions are in."""
    import types

    module = types.ModuleType("shop_for_tests")
    module.book = book
    monkeypatch.setitem(sys.modules, "shop_for_tests", module)


def check(*registry, llm=None):
    config = {"llms": {"bot": llm or {"provider": "scripted"}}, "tools": {"registry": [*registry]}, "responses": [RULE]}
    problems, notes = check_config(config)
    return [str(p) for p in problems], [str(n) for n in notes]


async def test_a_config_names_a_python_function_and_describes_it_itself():
    """No docstring is needed; the model's arguments reach it."""
    assert check(entry()) == ([], [])
    chat = FlexChat.from_config(
        {"llms": {"bot": {"provider": "scripted"}}, "tools": {"registry": [entry()]}, "responses": [RULE]}
    )
    assert (await chat.call_tool("book", {"people": 3})).result == "3 "


@pytest.mark.parametrize(
    ("properties", "words"),
    [({"peple": {}, "people": {}}, "has no parameter 'peple' (did you mean 'people'?)"), ({}, "needs 'people'")],
)
def test_a_python_functions_parameters_are_compared_with_the_tools(properties, words):
    """A mistake that no model could get around is found when the config is read."""
    [problem], _ = check(entry(parameters={"type": "object", "properties": properties}))

    assert words in problem


def test_tools_that_cannot_be_registered_are_told_beside_the_other_problems():
    """In one go."""
    odd = entry(name="odd", parameters={"type": "array"})
    wrong = entry(name="wrong", implementation={"type": "nope"})

    problems, notes = check(odd, wrong)

    assert any("'nope'" in p for p in problems)
    assert "tools.registry[0]: tool 'odd': Tool parameters must be an object schema" in problems
    assert notes == []


def test_an_address_that_cannot_be_used_is_a_problem_of_its_entry():
    """Not an error without a place."""
    [problem], _ = check(llm={"provider": "openai", "base_url": "http://[::1/v1"})

    assert problem.startswith("llms.bot.base_url: ")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"api_kye": "x"}, "unknown key 'api_kye' (did you mean 'api_key'?)"),
        ({"timeout_s": "60"}, 'timeout_s: expected a number, got the text "60"'),
        ({"extra_headers": {"a": 5}}, "extra_headers.a: expected text"),
    ],
)
def test_settings_given_in_code_have_the_errors_of_a_config(settings, words):
    """from_model says it as from_config does."""
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_model("openai/m", **settings)

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("opnai/gpt-5.2", "no provider is called 'opnai' (did you mean 'openai'?)"),
        ("mistral/x", "no provider is called 'mistral' (installed: "),
        ("gpt-5.2", '\'gpt-5.2\' must be "PROVIDER/MODEL", as in "openai/gpt-5.2" (providers installed: '),
        ("openai/", 'names a provider and no model: write "openai/MODEL"'),
        ("openai", 'names a provider and no model: write "openai/MODEL"'),
        ("/x", 'must be "PROVIDER/MODEL"'),
        ("", 'must be "PROVIDER/MODEL"'),
        (5, "not int"),
    ],
)
def test_a_model_that_is_misnamed_is_told_apart(model, words):
    """An unknown provider, a model alone, a provider alone, nothing at all."""
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_model(model)

    assert words in str(caught.value)


def test_a_mistyped_provider_that_is_not_installed_says_its_package():
    """The nearest name, and what to install for it."""
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_model("opnai/gpt-5.2", plugins=PluginHost())

    assert "did you mean 'openai'?" in str(caught.value)
    assert how_to_install("flexchat-openai") in str(caught.value)


def test_a_models_name_may_hold_slashes():
    """Only the first one ends the provider."""
    chat = FlexChat.from_model("openai/meta-llama/Llama-3/8B", base_url="http://127.0.0.1:1/v1")

    assert chat.config.responses[0].llm == "openai"
    assert chat.config.responses[0].model == "meta-llama/Llama-3/8B"


async def test_a_model_takes_core_keys_plugin_tables_and_tools_by_name():
    """retries; a list of tables; a tool a plugin offers."""
    replies = [{"tool_calls": [{"name": "calculator", "arguments": {"expression": "6*7"}}]}, {"text": "42"}]
    async with FlexChat.from_model("scripted/m", replies=replies, retries=0, tools=["calculator"]) as chat:
        turn = await chat.respond("x", history=None)

    assert [r.result.result for r in turn.response.tool_calls] == [{"result": 42}]
    with pytest.raises(ToolDefinitionError, match=r"called calculater \(did you mean 'calculator'\?\)"):
        FlexChat.from_model("scripted/m", tools=["calculater"])


async def test_what_is_no_message_is_called_what_it_is():
    """A number is not an empty text."""
    async with FlexChat.from_model("rehearsal/m") as chat:
        for thing in (None, 5, b"x", ["a"]):
            with pytest.raises(ChatRequestError, match=f"not {type(thing).__name__}"):
                await chat.respond(thing)


def test_a_plugins_secret_stays_out_of_its_report():
    """Whatever it raises."""

    def explode():
        raise RuntimeError("cannot log in with password=hunter22")

    report = PluginHost()._load([_Source("loud", "", explode, gate=False)])[0]

    assert "cannot log in" in report.reason
    assert "hunter22" not in report.reason


@pytest.mark.slow
def test_a_library_that_nobody_configured_is_silent_and_ends_cleanly():
    """No log lines, no warnings about open connections, even if close was forgotten."""
    code = (
        "from flexchat import SyncFlexChat\n"
        "chat = SyncFlexChat.from_model('scripted/m', replies=[{'text': 'cut', 'finish_reason': 'length'}])\n"
        "print(chat.respond('x').content)\n"
    )
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "cut\n", "")


async def test_another_rule_answers_over_the_same_services_and_leaves_them_open():
    """with_rule: one rule and other tools, the connections of the chat it was made from, and nothing else of it."""
    from flexchat.config.model import ResponseRule, RuleTools

    replies = [{"tool_calls": [{"name": "guests", "arguments": {}}]}, {"text": "Two."}]
    config = {
        "llms": {"bot": {"provider": "scripted", "replies": replies}},
        "tools": {"registry": [entry()]},
        "topic": {"llm": "bot", "model": "m"},
        "conversations": {},
        "responses": [RULE],
    }

    def guests() -> int:
        """Count the guests."""
        return 2

    async with FlexChat.from_config(config) as chat:
        tried = chat.with_rule(ResponseRule(llm="bot", model="m", tools=RuleTools()), tools=[guests])
        turn = await tried.respond("How many?")
        await tried.aclose()

        assert [(call.tool, call.result.result) for call in turn.response.tool_calls] == [("guests", 2)]
        assert tried.conversations is None
        assert turn.phases[0].skipped
        assert chat.tools.get_registry().names() == ("book",)
        assert chat.packages["bot"].startswith("flexchat-testing ")
        assert chat.with_rule(ResponseRule(llm="bot", model="m")).tools is chat.tools
        assert await chat.list_models()
        assert await chat.list_models(llms=("another",)) == {}


class Opened:
    """Notes when the chat is opened and closed."""

    def __init__(self):
        self.told = []

    @hookimpl
    def flexchat_app_opened(self, app):
        self.told.append(("opened", app.tools))

    @hookimpl
    def flexchat_app_closed(self, app):
        self.told.append(("closed", app.tools))


def talking(*replies, **rest):
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
    }
    return FlexChat.from_config(config, providers={"bot": ScriptedProvider(replies, repeat=True)}, **rest)


@pytest.mark.parametrize("first", ["respond", "stream", "call_tool", "async with"])
async def test_plugins_are_told_once_that_a_chat_is_in_use_and_once_that_it_closes(first):
    """Whatever it is used for first; a chat by another rule is the same one."""
    hooks = Opened()
    chat = talking(says("ok"), hooks=[hooks])
    if first == "async with":
        await chat.__aenter__()
    elif first == "stream":
        [event async for event in chat.stream("x")]
    elif first == "call_tool":
        await chat.call_tool("none", {})
    await asyncio.gather(chat.respond("x"), chat.respond("y"))
    other = chat.with_rule(chat.config.responses[0])
    await other.respond("z")
    await other.aclose()
    assert hooks.told == [("opened", ())]

    await chat.aclose()
    await chat.aclose()
    assert hooks.told == [("opened", ()), ("closed", ())]


async def test_a_hook_of_a_chat_gets_the_chat():
    class Keeping:
        @hookimpl
        def flexchat_app_opened(self, app):
            self.chat = app.chat

    hooks = Keeping()
    async with talking(says("ok"), hooks=[hooks]) as chat:
        assert hooks.chat is chat


async def test_a_chat_that_was_never_used_is_never_told_of():
    hooks = Opened()
    await talking(says("ok"), hooks=[hooks]).aclose()

    assert hooks.told == []


async def test_plugins_hear_that_a_chat_closes_while_its_stores_are_open():
    """One may want to write down what it has: what is held is closed behind them."""
    closed = []

    class Model(ScriptedProvider):
        async def aclose(self):
            closed.append("model")

    class Closing:
        @hookimpl
        def flexchat_app_closed(self):
            closed.append("told")

    config = {"llms": {"bot": {"provider": "scripted"}}, "responses": [{"llm": "bot", "model": "m"}]}
    chat = FlexChat.from_config(config, providers={"bot": Model([says("ok")])}, hooks=[Closing()])
    await chat.respond("x")
    await chat.aclose()

    assert closed == ["told", "model"]


@pytest.mark.parametrize("hook", ["flexchat_app_opened", "flexchat_app_closed"])
async def test_a_hook_that_hangs_keeps_no_chat_from_opening_or_closing(hook, monkeypatch, caplog):
    monkeypatch.setattr("flexchat.app.NOTIFY_TIMEOUT_S", 0.01)

    async def hang(self):
        await asyncio.Event().wait()

    chat = talking(says("ok"), hooks=[type("Hanging", (), {hook: hookimpl(hang)})()])
    await chat.respond("x")
    await chat.aclose()

    assert f"for {hook}" in caplog.text


LANGUAGE = contextvars.ContextVar("language", default="none")


@pytest.mark.parametrize("way", ["respond", "stream", "start", "sync respond", "sync stream"])
@pytest.mark.parametrize("kind", ["async", "thread"])
def test_what_the_caller_gives_reaches_tools_and_hooks(way, kind):
    """``context`` as it is, and the context variables of the call."""
    seen, given = [], object()

    @tool
    async def later(context: ToolContext) -> str:
        """Note."""
        seen.append((context.context, LANGUAGE.get()))
        return "ok"

    @tool
    def plain(context: ToolContext) -> str:
        """Note, in a thread."""
        seen.append((context.context, LANGUAGE.get()))
        return "ok"

    class Hears:
        @hookimpl
        def flexchat_tool_finished(self):
            seen.append((given, LANGUAGE.get()))

    noting = later if kind == "async" else plain
    chat = talking(calls((noting.definition.name, {})), says("ok"), tools=[noting], hooks=[Hears()])

    async def ask():
        if way == "respond":
            await chat.respond("x", context=given)
        elif way == "start":
            await chat.start("x", context=given).result()
        else:
            events = chat.stream("x", context=given)
            LANGUAGE.set("changed")  # the call counts, not when it is read
            async for _ in events:
                pass

    token = LANGUAGE.set("de")
    try:
        if way.startswith("sync"):
            with SyncFlexChat(chat) as sync:
                [*sync.stream("x", context=given)] if way == "sync stream" else sync.respond("x", context=given)
        else:
            asyncio.run(ask())
    finally:
        LANGUAGE.reset(token)

    assert seen == [(given, "de"), (given, "de")]


async def test_what_the_caller_gives_is_shown_to_no_model_and_kept_nowhere():
    chat = talking(says("ok"))
    turn = await chat.respond("x", context="a secret")

    assert "a secret" not in repr(chat.llms["bot"].provider.requests)
    assert "a secret" not in repr(turn)
