"""The list of steps: what a step may do, and what becomes of a call whose step breaks."""

import asyncio
import contextvars
import json

import pytest
from flexchat import FlexChat, tool
from flexchat.calls.calls import ToolParts
from flexchat.calls.manager import ToolManager
from flexchat.domain import ToolResult, TurnInfo
from flexchat.errors import ConfigError, PluginConflictError, PluginLoadError
from flexchat.plugin import Call, ToolContext, hookimpl
from flexchat.plugin.call import MAX_AGAIN, MAX_DEPTH, STAGES, PluginStep
from flexchat.plugin.hooks import Hooks
from flexchat.plugin.host import PluginHost
from flexchat_testing import ScriptedProvider, calls, says

TROUBLE = [RuntimeError("bug"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()]


CONFIG = {
    "llms": {"bot": {"provider": "scripted"}},
    "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
}


def chat_of(*replies, **rest):
    return FlexChat.from_config(CONFIG, providers={"bot": ScriptedProvider(replies)}, **rest)


def host_of(**plugins):
    host = PluginHost()
    host.load_installed()
    reports = [host.register(plugin, name) for name, plugin in plugins.items()]
    return host, reports


class Acting:
    """A step that does what it is given."""

    def __init__(self, act, stage="authorize", name="acting"):
        self.act, self.stage, self.name = act, stage, name

    async def __call__(self, call, rest):
        return await self.act(call, rest)


@pytest.fixture
def ran():
    return []


@pytest.fixture
def double(ran):
    @tool
    async def double(n: int) -> int:
        """Double a number."""
        ran.append(n)
        return 2 * n

    return double


def manager(tools, *steps):
    hooks = Hooks(steps=[PluginStep(f"plugin{i}", step) for i, step in enumerate(steps)])
    made = ToolManager(parts=ToolParts(hooks=hooks or Hooks()))
    made.add(tools)
    return made


def call(n=2, **rest):
    return Call(**{"name": "double", "arguments": {"n": n}, "origin": "program", **rest})


async def outcome(double, act, stage="authorize", **rest):
    asked = call(**rest)
    return asked, await manager([double], Acting(act, stage)).calls.run(asked)


@pytest.mark.parametrize("trouble", TROUBLE, ids=repr)
@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "run"])
async def test_a_step_that_breaks_before_the_tool_refuses_the_call(stage, trouble, double, ran, caplog):
    """In whatever way it breaks, at whatever stage."""

    async def act(call, rest):
        raise trouble

    _, result = await outcome(double, act, stage)

    assert result.error == "plugin plugin0 could not decide about this call"
    assert ran == []
    assert "plugin0" in caplog.text


@pytest.mark.parametrize("trouble", TROUBLE, ids=repr)
async def test_a_step_that_breaks_after_the_tool_leaves_its_result(trouble, double, ran):
    """What was done is done: the result stands, with a note."""

    async def act(call, rest):
        await rest()
        raise trouble

    _, result = await outcome(double, act)

    assert (result.result, ran) == (4, [2])
    assert result.notes == ("plugin plugin0: the step acting failed after the tool had run",)


@pytest.mark.parametrize("answer", [None, 4, {"success": True}])
async def test_an_answer_that_is_none_refuses_the_call(answer, double, ran):
    """Only a ToolResult is an answer."""

    async def act(call, rest):
        return answer

    _, result = await outcome(double, act)

    assert result.error == "plugin plugin0 could not decide about this call"
    assert ran == []


async def test_a_step_may_answer_in_the_tools_place(double, ran):
    """Its answer is held to what a tool's must be."""

    async def act(call, rest):
        return ToolResult(success=True, tool_name="x", result={"kept": {3}})

    _, result = await outcome(double, act)

    assert (result.tool_name, result.result, ran) == ("double", {"kept": [3]}, [])
    assert json.loads(result.to_json())["result"] == {"kept": [3]}


async def test_the_rest_is_awaited_once(double, ran):
    """A second time raises, and the first result stands: nothing runs twice."""

    async def act(call, rest):
        await rest()
        return await rest()

    _, result = await outcome(double, act)

    assert (result.result, ran) == (4, [2])


async def test_the_rest_is_over_with_the_answer(double, ran):
    """A step that answers, and goes on by itself afterwards, runs no tool."""
    later = []

    async def act(call, rest):
        later.append(rest)
        return ToolResult.failed(call.name, "no")

    await outcome(double, act)

    with pytest.raises(RuntimeError, match="awaited once"):
        await later[0]()
    assert ran == []


async def test_a_step_that_breaks_off_a_running_tool_leaves_the_unknown(ran):
    """A limit of the step's own: what the tool did is unknown, and that is said."""

    @tool
    async def double(n: int) -> int:
        """Hang."""
        ran.append(n)
        await asyncio.Event().wait()

    async def act(call, rest):
        async with asyncio.timeout(0.01):
            return await rest()

    _, result = await outcome(double, act)

    assert "so what it did is unknown" in result.error
    assert ran == [2]


async def test_a_cancelled_turn_gets_through_every_step(ran):
    """Also through one that wants to hold it up."""
    begun = asyncio.Event()

    @tool
    async def double(n: int) -> int:
        """Hang."""
        begun.set()
        await asyncio.Event().wait()

    async def act(call, rest):
        try:
            return await rest()
        except asyncio.CancelledError:
            return ToolResult.failed(call.name, "swallowed")

    task = asyncio.create_task(outcome(double, act))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_notes_and_facts_are_added_to_the_record():
    """Facts are JSON data; what is none is left out."""

    @tool
    def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    class Audit:
        name = "audit"
        stage = "report"

        async def __call__(self, call, rest):
            call.note("looked at")
            call.facts.update(approved={"by": "ann", "of": {1}}, odd=object())
            return await rest()

        @hookimpl
        def flexchat_register_steps(self):
            yield self

    chat = chat_of(calls(("double", {"n": 2})), says("4"), tools=[double], hooks=[Audit()])

    [record] = (await chat.respond("x")).response.tool_calls

    assert record.facts == {"approved": {"by": "ann", "of": [1]}}
    assert record.to_dict()["facts"] == record.facts
    assert record.result.notes == ("looked at",)


async def test_again_lets_every_gate_see_what_will_run(double, ran):
    """Starting over goes through the check and through every gate, the one that asked for it, too."""
    seen = []

    async def look(call, rest):
        seen.append(call.arguments["n"])
        return await rest()

    async def edit(call, rest):
        return await (rest() if call.arguments["n"] == 10 else call.again({"n": "10"}))

    made = manager([double], Acting(look, name="look"), Acting(edit, name="edit"))
    result = await made.calls.run(call())

    assert (result.result, ran, seen) == (20, [10], [2, 10])
    assert result.notes == ('n: "10" read as 10',)


async def test_again_with_wrong_arguments_runs_nothing(double, ran):
    """The check refuses them, and the rest cannot be asked any more."""

    async def act(call, rest):
        await call.again({"n": "many"})
        return await rest()

    _, result = await outcome(double, act)

    assert not result.success
    assert ran == []


async def test_a_call_starts_over_a_few_times_at_most(double, ran):
    """Steps that never agree hold a call no longer than that."""
    asked = []

    async def act(call, rest):
        asked.append(1)
        return await call.again({"n": 1})

    _, result = await outcome(double, act)

    assert "could not decide" in result.error
    assert (len(asked), ran) == (MAX_AGAIN + 1, [])


@pytest.mark.parametrize(
    "rest",
    [
        {"name": "trouble"},
        {"name": ["odd"]},
        {"arguments": {}},
        {"arguments": None},
        {"refusal": "repeated"},
        {"offered": ()},
        {"seconds_left": lambda: 0.0},
        {},
    ],
    ids=lambda rest: next(iter(rest), "plain"),
)
async def test_every_call_is_told_twice(rest, double):
    """That it begins and what came of it, whatever came of it."""
    told = []

    async def tell(call, result):
        told.append(result)

    result = await manager([double]).calls.run(call(tell=tell, **rest))

    assert told == [None, result]


async def test_the_hook_hears_of_calls_that_never_ran(double):
    """An unknown tool, wrong arguments, a refusal of the round: flexchat_tool_finished is told."""
    heard = []

    class Observer:
        @hookimpl
        def flexchat_tool_finished(self, info, record):
            heard.append((record.call_id, record.tool, record.params, record.result.error))

    chat = chat_of(tools=[double], hooks=[Observer()])
    for asked in (call(id="a", name="nobody"), call(id="b", arguments={}), call(id="c", refusal="no")):
        await chat.tools.calls.run(asked)

    assert heard == [
        ("a", "nobody", {"n": 2}, "Tool 'nobody' not found"),
        ("b", "double", {}, "Invalid parameters: missing 'n'"),
        ("c", "double", {"n": 2}, "no"),
    ]


def test_a_digest_is_the_same_for_the_same_call():
    """Whatever the order of its arguments."""
    one, two = call(arguments={"a": 1, "b": [2]}), call(arguments={"b": [2], "a": 1})

    assert one.digest == two.digest != call(arguments={"a": 1, "b": [3]}).digest
    assert len(one.digest) == 64
    with pytest.raises(ValueError, match="not JSON"):
        assert call(arguments={"a": object()}).digest


async def test_a_tool_calls_another_tool(double):
    """Through the same steps, in the same turn, with the same context."""
    seen = []

    async def look(call, rest):
        seen.append((call.name, call.origin, call.turn.id, call.context, call.parent and call.parent.name))
        return await rest()

    @tool
    async def outer(context: ToolContext) -> int:
        """Call another."""
        return (await context.call_tool("double", {"n": 4})).result

    asked = call(name="outer", arguments={}, turn=TurnInfo(id="t"), context="given")
    result = await manager([double, outer], Acting(look)).calls.run(asked)

    assert result.result == 8
    assert seen == [("outer", "program", "t", "given", None), ("double", "tool", "t", "given", "outer")]


async def test_tools_that_call_themselves_come_to_an_end():
    """At a depth that no program needs."""

    @tool
    async def outer(context: ToolContext) -> str:
        """Call itself."""
        result = await context.call_tool("outer", {})
        return f"{result.result or result.error}."

    result = await manager([outer]).calls.run(call(name="outer", arguments={}))

    assert result.result.startswith(f"Not executed: tools may call tools {MAX_DEPTH} deep")


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_tool_knows_its_call_and_what_its_caller_set(kind):
    """Ids, tenant, context, and context variables."""
    user = contextvars.ContextVar("user", default="nobody")
    seen, given = [], object()

    def note(context):
        seen.append((context.call_id, context.turn_id, context.conversation, context.tenant, user.get()))
        assert context.context is given

    @tool(name="who")
    async def later(context: ToolContext) -> None:
        """Say who asks."""
        note(context)

    @tool(name="who")
    def plain(context: ToolContext) -> None:
        """Say who asks."""
        note(context)

    user.set("ann")
    asked = call(name="who", arguments={}, id="c1", turn=TurnInfo(id="t1", conversation="k", tenant="acme"))
    asked.context = given
    result = await manager([later if kind == "async" else plain]).calls.run(asked)

    assert result.success, result.error
    assert seen == [("c1", "t1", "k", "acme", "ann")]


async def test_call_tool_hands_on_origin_tenant_and_context(double):
    """What a program says of a call reaches gates and the tool."""
    seen = []

    class Gate:
        name = "gate"
        stage = "authorize"

        async def __call__(self, call, rest):
            seen.append((call.origin, call.turn.tenant, call.context))
            return await rest()

        @hookimpl
        def flexchat_register_steps(self):
            yield self

    chat = chat_of(tools=[double], hooks=[Gate()])

    await chat.call_tool("double", {"n": 1}, origin="api", tenant="acme", context=seen)

    assert seen == [("api", "acme", seen)]


def test_steps_stand_in_the_order_of_places_and_plugins():
    """Core's first at a stage, then by the name of the plugin, those given in code last."""

    def offering(*steps):
        class Plugin:
            @hookimpl
            def flexchat_register_steps(self):
                yield from steps

        return Plugin()

    def step(name, stage):
        return Acting(None, stage, name)

    host, _ = host_of(
        b=offering(step("b1", "authorize"), step("b2", "claim")),
        a=offering(step("a1", "authorize"), step("a2", "report")),
    )
    chat = chat_of(plugins=host, hooks=[offering(step("own", "authorize"))])

    names = [getattr(each, "step", each).name for each in chat.tools.calls.steps]
    assert names == [
        "report",
        "recall",
        "a2",
        "look up",
        "arguments",
        "a1",
        "b1",
        "own",
        "approve",
        "keep approval",
        "claim",
        "b2",
        "run",
    ]


@pytest.mark.parametrize(
    ("stage", "words"),
    [("autorize", "did you mean 'authorize'?"), ("run", "'claim' is right around it"), (None, "no stage 'None'")],
)
def test_a_step_at_no_place_keeps_everything_from_starting(stage, words):
    """What it forbids would happen without it."""

    class Plugin:
        @hookimpl
        def flexchat_register_steps(self):
            yield Acting(None, stage)

    host, [report] = host_of(budget=Plugin())

    assert words in report.reason
    with pytest.raises(ConfigError, match="budget"):
        chat_of(plugins=host)
    with pytest.raises(ConfigError, match="Plugin"):
        chat_of(hooks=[Plugin()])
    with pytest.raises(PluginLoadError):
        manager([], Acting(None, stage))


def test_two_steps_of_one_name_keep_everything_from_starting():
    """Neither would be in the list."""

    class Plugin:
        @hookimpl
        def flexchat_register_steps(self):
            yield Acting(None)

    host, _ = host_of(one=Plugin(), two=Plugin())

    with pytest.raises(ConfigError, match="one and two"):
        chat_of(plugins=host)
    with pytest.raises(ConfigError, match="two steps are called 'acting'"):
        chat_of(hooks=[Plugin(), Plugin()])
    with pytest.raises(PluginConflictError):
        manager([], Acting(None), Acting(None))
    with pytest.raises(PluginConflictError):
        manager([], Acting(None, name="run"))


class NotMarked:
    """Forgot @hookimpl."""

    def flexchat_before_tool_call(self, tool):
        return None


class Misspelt:
    """A hook that is not there."""

    @hookimpl
    def flexchat_before_tool_cal(self, tool):
        return None


class Registers:
    """What only a plugin can."""

    @hookimpl
    def flexchat_register_tools(self):
        yield from ()


@pytest.mark.parametrize(
    ("hooks", "words"),
    [(NotMarked(), "@hookimpl"), (Misspelt(), "did you mean"), (Registers(), "is for plugins"), (object(), "no hook")],
    ids=lambda each: type(each).__name__,
)
def test_hooks_that_would_do_nothing_are_refused(hooks, words):
    """A gate that is not there forbids nothing."""
    with pytest.raises(ConfigError, match=words):
        chat_of(hooks=[hooks])


async def test_hooks_are_those_of_one_chat(double):
    """They are merged into this chat's, never registered in the host that others share."""

    class Gate:
        @hookimpl
        def flexchat_before_tool_call(self, tool):
            return ToolResult.failed(tool.name, "mine says no")

    host, _ = host_of()
    mine = chat_of(plugins=host, tools=[double], hooks=[Gate()])
    other = chat_of(plugins=host, tools=[double])

    assert (await mine.call_tool("double", {"n": 1})).error == "mine says no"
    assert (await other.call_tool("double", {"n": 1})).result == 2


async def test_a_call_has_the_rule_that_answers_its_turn():
    """Index and name; the calls of its tools have it, calls outside turns have none."""
    rules = []

    class Notes:
        name, stage = "notes", "authorize"

        async def __call__(self, call, rest):
            rules.append((call.name, call.rule))
            return await rest()

    class Steps:
        @hookimpl
        def flexchat_register_steps(self):
            return [Notes()]

    @tool
    def inner() -> str:
        """Do nothing."""
        return "done"

    @tool
    async def outer(context: ToolContext) -> str:
        """Call another tool."""
        await context.call_tool("inner", {})
        return "done"

    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "name": "desk", "tools": {"enabled": True}}],
    }
    provider = ScriptedProvider([calls(("outer", {})), says("Done.")])
    async with FlexChat.from_config(config, tools=[inner, outer], providers={"bot": provider}, hooks=[Steps()]) as chat:
        await chat.respond("Go")
        await chat.call_tool("inner", {})

    assert rules == [("outer", (0, "desk")), ("inner", (0, "desk")), ("inner", None)]
