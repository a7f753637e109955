"""Whatever a tool or a plugin does, the outcome is a ToolResult that can be shown to a model."""

import asyncio
import datetime
import json
import math
from typing import Any

import pytest
from flexchat.calls.calls import ToolParts
from flexchat.calls.manager import ToolManager
from flexchat.domain import ToolResult
from flexchat.plugin.contracts import ToolContext, ToolHandler
from flexchat.plugin.hooks import HookCall, Hooks
from flexchat.tools.results import for_the_model


class Unspeakable(Exception):
    """An exception whose text is another exception."""

    def __str__(self):
        raise ValueError("no text")


async def outcome(tool, params=None, hooks=None):
    made = ToolManager(parts=ToolParts(hooks=hooks or Hooks()))
    made.add([tool])
    result = await made.get_executor().execute(tool.__name__, params or {})
    json.loads(for_the_model(result, 1000))
    return result


@pytest.mark.parametrize(
    ("error", "words"),
    [(Unspeakable(), "Unspeakable"), (asyncio.CancelledError(), "CancelledError"), (SystemExit(), "end the program")],
    ids=repr,
)
async def test_odd_errors_of_async_tools_are_results(error, words):
    """Among them the cancellation of something the tool itself waited for (TC-43)."""

    async def fail() -> str:
        """Fail."""
        raise error

    result = await outcome(fail)

    assert not result.success
    assert words in result.error


HALF = "a\ud83d"


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"text": HALF}, {"text": "a\ufffd"}),
        ({"text": "\ud83d\ude00"}, {"text": "\U0001f600"}),
        ({"items": [{"deep": [HALF, {HALF: "\udc00"}]}]}, {"items": [{"deep": ["a\ufffd", {"a\ufffd": "\ufffd"}]}]}),
        ({"items": '["a\\ud83d"]'}, {"items": ["a\ufffd"]}),
        ({"text": "ÅÄ😀"}, {"text": "ÅÄ😀"}),
    ],
)
async def test_a_tool_only_gets_text_that_can_be_sent(given, seen):
    """Half of a surrogate pair has no UTF-8 form, also one that was an escape in JSON text inside an argument."""
    got = []

    def keep(text: str = "", items: list[Any] | None = None) -> str:
        """Keep it."""
        got.append({key: value for key, value in (("text", text), ("items", items)) if value})
        return "kept"

    result = await outcome(keep, given)

    assert result.success
    assert got == [seen]
    assert any("UTF-8" in note for note in result.notes) == ("ÅÄ😀" not in given.values())


class Strange(BaseException):
    """Not an Exception."""


STRANGE = [
    Strange("odd"),
    KeyboardInterrupt(),
    GeneratorExit(),
    BaseExceptionGroup("several", [Strange(), KeyboardInterrupt()]),
    StopAsyncIteration(),
    StopIteration(),
    RecursionError(),
    MemoryError(),
]


@pytest.mark.parametrize("error", STRANGE, ids=repr)
@pytest.mark.parametrize("kind", ["async", "sync", "in its value", "in its error"])
async def test_a_tool_ends_nothing_but_itself(error, kind):
    """Whatever it raises, wherever it raises it; the server and the turn go on (TC-43)."""

    class Value:
        def model_dump(self, mode):
            raise error

    class Wordless(Exception):
        def __str__(self):
            raise error

    async def fail_async() -> Any:
        """Fail."""
        if kind == "in its value":
            return Value()
        raise Wordless if kind == "in its error" else error

    def fail_sync() -> str:
        """Fail."""
        raise error

    result = await outcome(fail_sync if kind == "sync" else fail_async)

    assert not result.success
    assert ("Wordless" if kind == "in its error" else type(error).__name__) in result.error


@pytest.mark.parametrize("params", [None, [1], "text", 3, True, '{"city": "Rome"}'], ids=repr)
async def test_arguments_that_are_not_an_object_are_a_result(params):
    """Every door that takes a call takes anything (TE-3)."""

    async def look(city: str = "x") -> str:
        """Look."""
        return city

    made = ToolManager()
    made.add([look])
    result = await made.get_executor().execute("look", params)

    assert result.error == "Invalid parameters: the arguments must be an object"
    assert result.hint.startswith("got ")
    assert made.get_executor().validate(made.get_registry().get("look"), params) == ["the arguments must be an object"]


@pytest.mark.parametrize("name", [None, ["a"], {}, 3], ids=repr)
async def test_a_name_that_is_not_a_text_is_a_tool_that_is_not_there(name):
    """Whatever a program hands in."""
    result = await ToolManager().get_executor().execute(name, {})

    assert result.error == f"Tool '{json.dumps(name)}' not found"
    assert json.loads(for_the_model(result, 1000))["tool_name"] == json.dumps(name)


async def test_a_plain_function_around_an_async_one_is_awaited():
    """Decorators make such functions; their coroutine is the tool's work."""

    async def work(n: int) -> int:
        return n + 1

    def wrapped(n: int) -> int:
        """Work."""
        return work(n)

    assert (await outcome(wrapped, {"n": 1})).result == 2
    handler = ToolHandler(kind="builtin", name="h", call=lambda params, context: work(params["n"]))
    assert await ToolContext(tool=None).call(handler, {"n": 2}) == 3


def nothing() -> None:
    """Do nothing."""


def gate(answer):
    return Hooks({"flexchat_before_tool_call": [HookCall("mine", lambda: answer, ())]})


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"success": True, "result": datetime.date(2024, 2, 29)}, "2024-02-29"),
        ({"success": True, "result": [1, math.nan]}, [1, None]),
        ({"success": True, "result": object()}, "not JSON"),
        ({"success": True, "result": {"a": 1}, "encoded": "broken"}, {"a": 1}),
        ({"success": False}, "The call was refused"),
    ],
)
async def test_a_plugins_answer_is_held_to_what_a_tools_is(answer, shown):
    """flexchat_before_tool_call may answer in a tool's place, but not break the turn (TE-18, TE-19)."""
    result = await outcome(nothing, hooks=gate(ToolResult(tool_name="x", notes=("kept",), **answer)))

    told = result.result if result.success else result.error
    assert shown in told if isinstance(shown, str) else told == shown
    assert result.tool_name == "nothing"
    assert json.loads(result.to_json())["success"] is result.success
    assert result.success is (answer["success"] and "not JSON" not in str(told))


async def test_a_plugins_notes_stay_in_the_record():
    """Beside those of the check of the arguments."""
    result = await outcome(nothing, hooks=gate(ToolResult(success=True, tool_name="x", notes=("from a cache",))))

    assert result.notes == ("from a cache",)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ToolResult.failed("x", ValueError("not today")), "not today"),
        (ToolResult.failed("x", 42), "42"),
        (ToolResult(success=False, tool_name="x", error="no", notes=None), "'NoneType' object is not iterable"),
    ],
)
async def test_a_plugins_careless_answer_is_a_result_all_the_same(answer, error):
    """What a gate says can be read by a model, whatever it put into it."""

    def nothing() -> None:
        """Do nothing."""

    assert (await outcome(nothing, hooks=gate(answer))).error == error


@pytest.mark.parametrize("error", STRANGE, ids=repr)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_gate_that_raises_anything_is_shut(error, kind):
    """The call is refused; the turn and the server go on."""
    ran = []

    def nothing() -> None:
        """Do nothing."""
        ran.append(1)

    async def later():
        raise error

    def plain():
        raise error

    watcher = HookCall("mine", plain if kind == "sync" else later, ())
    result = await outcome(nothing, hooks=Hooks({"flexchat_before_tool_call": [watcher]}))

    assert result.error == "plugin mine could not decide about this call"
    assert ran == []


async def test_arguments_that_are_nested_too_deeply_are_refused_in_plain_text():
    async def count(items: list) -> int:
        """Count items."""
        return len(items)

    nested: list[Any] = []
    for _ in range(5_000):
        nested = [nested]

    result = await outcome(count, {"items": nested})

    assert result.error == "Invalid parameters: they are nested too deeply"
