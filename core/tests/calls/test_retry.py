"""Tools that fail for the moment are tried again, and nothing that changes something happens twice (TC-54, TC-102)."""

import asyncio

import pytest
from flexchat import EffectUnknownError, FlexChat, Implementation, ToolContext, ToolDefinition, ToolRetry, tool
from flexchat.calls.calls import ToolParts
from flexchat.calls.effects import Effects
from flexchat.calls.manager import ToolManager
from flexchat.conversations.memory_ledger import MemoryLedger
from flexchat.errors import ToolDefinitionError, ToolError
from flexchat.plugin.call import Call
from flexchat_cli import check_config
from hypothesis import given
from hypothesis import strategies as st

AT_ONCE = ToolRetry(max_attempts=3, backoff_ms=0)


class Service:
    """Raises what it is told to, one after the other, and then answers; counts the attempts and their keys."""

    def __init__(self, *troubles):
        self.troubles, self.keys, self.seen, self.asked = list(troubles), [], [], asyncio.Event()

    def ask(self, context, what):
        self.keys.append(context.key)
        self.seen.append([*what])
        what.append("mine")
        self.asked.set()
        if self.troubles:
            raise self.troubles.pop(0)
        return "answered"

    def tool(self, *, retry=AT_ONCE, **settings):
        async def ask(context: ToolContext, what: list[str]) -> str:
            """Ask."""
            return self.ask(context, what)

        return tool(name="ask", retry=retry, **settings)(ask)


async def outcome(made, *, ledger=None, **rest):
    arguments = {"what": ["1"]} if made.definition.parameters["properties"] else {}
    manager = ToolManager(parts=ToolParts(effects=Effects(ledger or MemoryLedger())))
    manager.add([made])
    return await manager.calls.run(Call(name="ask", arguments=arguments, origin="program", path="k", **rest))


def wrapped(cause):
    error = RuntimeError("it did not work")
    error.__cause__ = cause
    return error


PASSING = [
    ConnectionError("gone"),
    ConnectionRefusedError(111, "refused"),
    TimeoutError("late"),
    wrapped(ConnectionResetError("reset")),
    ToolError("busy", retryable=True),
    EffectUnknownError("it broke off", retryable=True),
]
LASTING = [
    ValueError("never"),
    ToolError("no such city"),
    ToolError("forbidden", retryable=False),
    wrapped(ValueError("never")),
    wrapped(ToolError("busy", retryable=True)),
]


@pytest.mark.parametrize("error", PASSING, ids=repr)
async def test_what_passes_is_tried_again(error):
    """TC-102."""
    service = Service(error, error)

    result = await outcome(service.tool(effect="read"))

    assert (result.success, result.result, len(service.keys)) == (True, "answered", 3)
    assert [note[:17] for note in result.notes] == ["attempt 1 of 3 fa", "attempt 2 of 3 fa"]


@pytest.mark.parametrize("error", LASTING, ids=repr)
async def test_what_does_not_pass_is_not(error):
    service = Service(error)

    result = await outcome(service.tool(effect="read"))

    assert (result.success, len(service.keys), result.notes) == (False, 1, ())


async def test_the_last_error_is_the_result():
    service = Service(*(ConnectionError(f"gone {n}") for n in range(5)))

    result = await outcome(service.tool(effect="idempotent"))

    assert (result.error, len(service.keys)) == ("gone 2", 3)


async def test_its_own_time_is_each_attempts():
    attempts = []

    async def ask() -> str:
        """Ask."""
        attempts.append(1)
        if len(attempts) < 3:
            await asyncio.Event().wait()
        return "answered"

    result = await outcome(tool(name="ask", effect="read", timeout_ms=5, retry=AT_ONCE)(ask))

    assert result.result == "answered"


@pytest.mark.parametrize("error", PASSING, ids=repr)
async def test_a_write_without_a_key_is_never_tried_again(error):
    service, ledger = Service(error), MemoryLedger()

    result = await outcome(service.tool(), ledger=ledger)

    assert (result.success, len(service.keys)) == (False, 1)


async def test_attempts_of_a_write_have_one_key_and_one_row():
    service, ledger = Service(ConnectionError("gone"), TimeoutError("late")), MemoryLedger()

    result = await outcome(service.tool(honours_key=True), ledger=ledger)

    [row] = await ledger.list(tenant="default")
    assert (result.success, row.state) == (True, "done")
    assert service.keys == [row.key] * 3


async def test_an_attempt_that_may_have_acted_leaves_the_effect_unknown():
    """The second one failed for certain; nobody knows of the first."""
    service, ledger = Service(TimeoutError("late"), ToolError("no such account")), MemoryLedger()

    result = await outcome(service.tool(honours_key=True), ledger=ledger)

    [row] = await ledger.list(tenant="default")
    assert (result.success, row.state) == (False, "unknown")
    assert "late" in row.note


async def test_a_wait_that_is_cancelled_leaves_the_effect_unknown():
    service, ledger = Service(TimeoutError("late")), MemoryLedger()
    slowly = ToolRetry(max_attempts=2, backoff_ms=60_000)
    task = asyncio.create_task(outcome(service.tool(honours_key=True, retry=slowly), ledger=ledger))
    await service.asked.wait()
    await asyncio.sleep(0)  # until it waits for the next attempt
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    [row] = await ledger.list(tenant="default")
    assert (row.state, len(service.keys)) == ("unknown", 1)


@pytest.mark.parametrize("requested_s", [30.0, 61.0, 3600.0])
async def test_nobody_waits_longer_than_the_turn_or_a_minute(requested_s):
    service = Service(ToolError("busy", retryable=True, retry_after_s=requested_s))

    result = await outcome(service.tool(effect="read"), seconds_left=lambda: 20.0)

    assert (result.error, len(service.keys)) == ("busy", 1)


async def test_an_attempt_cannot_spoil_the_arguments_of_the_next():
    service = Service(ConnectionError("gone"))

    await outcome(service.tool(effect="read"))

    assert service.seen == [["1"], ["1"]]


@given(
    attempts=st.integers(1, 10),
    backoff=st.integers(0, 60_000),
    done=st.integers(1, 12),
    wish=st.none() | st.floats(0, 1e6),
)
def test_waits_double_up_to_a_limit(attempts, backoff, done, wish):
    """C11."""
    wait = ToolRetry(max_attempts=attempts, backoff_ms=backoff).wait_s(done, wish)

    if done >= attempts or (wish or 0) > 60:
        assert wait is None
    else:
        most = min(backoff / 1000 * 2 ** (done - 1), 30.0)
        assert max(most / 2, wish or 0) <= wait <= max(most, wish or 0)


def definition(**settings):
    return ToolDefinition(
        name="t",
        description="T.",
        parameters={"type": "object"},
        implementation=Implementation(type="http", **settings),
    )


def test_a_retry_in_the_implementation_is_the_tools():
    """Where the specification has it, with its defaults (TC-54)."""
    made = definition(settings={"url": "x", "retry": {"max_attempts": 3}})

    assert made.retry == ToolRetry(max_attempts=3, backoff_ms=1000)
    assert made.implementation.settings == {"url": "x"}


def test_a_tool_in_another_format_may_have_one():
    table = {
        "parameters": {"type": "object"},
        "name": "t",
        "description": "T.",
        "retry": {"max_attempts": 2, "backoff_ms": 5},
    }

    assert ToolDefinition.from_dict(table, lambda given: 1).retry == ToolRetry(max_attempts=2, backoff_ms=5)


@pytest.mark.parametrize(
    ("retry", "words"),
    [
        ({"max_attempts": 0}, "max_attempts must be a whole number from 1 to 10, got 0"),
        ({"max_attempts": True}, "max_attempts must be"),
        ({"max_attempts": 11}, "from 1 to 10"),
        ({"backoff_ms": -1}, "backoff_ms must be a whole number from 0 to 60000"),
        ({"backoff_ms": 1.5}, "backoff_ms must be"),
        ({"attempts": 2}, "retry has no key 'attempts'"),
    ],
)
def test_a_bad_retry_is_refused(retry, words):
    with pytest.raises(ToolDefinitionError, match=words):
        definition(settings={"retry": retry})


def config(**settings):
    inner = {"type": "mock", "mock_response": 1, **settings.pop("inside", {})}
    entry = {"name": "t", "description": "T.", "parameters": {"type": "object"}, "implementation": inner, **settings}
    rule = {"llm": "r", "model": "rehearsal"}
    return {"llms": {"r": {"provider": "rehearsal"}}, "responses": [rule], "tools": {"registry": [entry]}}


@pytest.mark.parametrize("place", ["tool", "implementation"])
def test_a_config_may_have_it_at_either_place(place):
    table = {"retry": {"max_attempts": 3, "backoff_ms": 200}}
    chat = FlexChat.from_config(config(effect="read", **({"inside": table} if place == "implementation" else table)))

    assert chat.tools.get_registry().get("t").retry == ToolRetry(max_attempts=3, backoff_ms=200)


@pytest.mark.parametrize(
    ("settings", "noted"),
    [
        ({}, True),
        ({"honours_key": True}, False),
        ({"effect": "read"}, False),
        ({"effect": "idempotent"}, False),
        ({"retry": {"max_attempts": 1}}, False),
    ],
)
def test_a_retry_that_will_not_happen_is_noted(settings, noted):
    problems, notes = check_config(config(**{"retry": {"max_attempts": 2}, **settings}))

    assert (problems, any("is not retried" in note.text for note in notes)) == ([], noted)
