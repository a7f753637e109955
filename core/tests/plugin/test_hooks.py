"""A plugin's trouble is its own: it is logged under its name, and the turn goes on."""

import asyncio
import inspect

import attrs
import pytest
from flexchat.calls.manager import ToolManager
from flexchat.domain import ModelRequestStarted, ToolResult, TurnEvent, TurnInfo, TurnStarted
from flexchat.domain.events import TURN_EVENTS
from flexchat.errors import ConfigError
from flexchat.plugin import hookimpl, hookspecs
from flexchat.plugin.hooks import HookCall, Hooks, hook_of
from flexchat.plugin.host import PluginHost

STARTED = TurnStarted(info=TurnInfo(id="t"), user_message="x")
TROUBLE = [RuntimeError("bug"), asyncio.CancelledError(), SystemExit(3)]


def hooks(hook, function, *arguments):
    return Hooks({hook: [HookCall("mine", function, arguments)]})


@pytest.mark.parametrize("trouble", TROUBLE, ids=repr)
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_watcher_that_fails_is_logged(trouble, kind, caplog):
    """Raising, calling sys.exit(), or awaiting something of its own that was cancelled."""

    def plain(user_message):
        raise trouble

    async def later(user_message):
        raise trouble

    await hooks("flexchat_turn_started", plain if kind == "def" else later, "user_message").tell(STARTED)

    assert "mine" in caplog.text


async def test_cancelling_the_turn_gets_through_a_watcher():
    """That cancellation is meant."""
    begun = asyncio.Event()

    async def slow(user_message):
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(hooks("flexchat_turn_started", slow, "user_message").tell(STARTED))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("kind", TURN_EVENTS, ids=lambda kind: kind.__name__)
def test_every_happening_has_its_hook_with_its_fields(kind):
    """One happening, one set of data: whoever listens."""
    spec = getattr(hookspecs, hook_of(kind))

    assert sorted(inspect.signature(spec).parameters) == sorted(field.name for field in attrs.fields(kind))


def test_every_class_of_happenings_is_listed():
    def below(kind):
        return {each for sub in kind.__subclasses__() for each in ({sub} | below(sub))}

    assert {kind for kind in below(TurnEvent) if kind.__module__ == TurnEvent.__module__} == set(TURN_EVENTS)


def test_a_hook_is_called_as_its_happening_in_snake_case():
    assert hook_of(ModelRequestStarted) == "flexchat_model_request_started"


class OfChats:
    """Makes a gate that knows a chat's tables, or what else it is given."""

    def __init__(self, make):
        self.make = make

    @hookimpl
    def flexchat_register_chat_hooks(self, tables):
        return self.make(tables)


class Closed:
    @hookimpl
    def flexchat_before_tool_call(self, tool):
        return ToolResult.failed(tool.name, "closed")


class Registers:
    @hookimpl
    def flexchat_register_tools(self):
        return []


def _raises(tables):
    raise KeyError("domain")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_raises, "plugin mail: flexchat_register_chat_hooks failed: KeyError: 'domain'"),
        (lambda tables: 3, "plugin mail: flexchat_register_chat_hooks failed: TypeError"),
        (lambda tables: [object()], "plugin 'mail' implements no hook"),
        (lambda tables: [Registers()], "mail: flexchat_register_tools is for plugins"),
    ],
)
def test_a_plugin_that_cannot_make_its_hooks_keeps_the_chat_from_starting(make, said):
    """What they forbid would happen."""
    host = PluginHost()
    host.register(OfChats(make), "mail")

    with pytest.raises(ConfigError) as caught:
        host.hooks_of_chat({})

    assert said in caught.value.problems[0].text


def test_tools_without_a_chat_have_the_hooks_too():
    """Without tables; a plugin may yield nothing."""
    host = PluginHost()
    host.register(OfChats(lambda tables: [Closed(), Closed()] if tables == {} else []), "mail")
    host.register(OfChats(lambda tables: None), "nothing")
    manager = ToolManager.from_plugins(host)
    manager.add([idle])

    result = asyncio.run(manager.get_executor().execute("idle", {}))

    assert result.error == "closed"
    assert {call.plugin for call in host.hooks_of_chat({}).of("flexchat_before_tool_call")} == {"mail", "mail 2"}


def test_a_plugin_that_makes_hooks_of_a_chat_gets_the_chats_plugins():
    """To call hooks that it has defined."""
    given = []

    class Asks:
        @hookimpl
        def flexchat_register_chat_hooks(self, plugins):
            given.append(plugins)

    host = PluginHost()
    host.register(Asks(), "asks")

    host.hooks_of_chat({})

    assert given == [host]


def idle() -> str:
    """Do nothing."""
    return "done"
