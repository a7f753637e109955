"""An effect happens once: whoever asks again, in time or too late, whatever broke in between."""

import asyncio
import json
import threading

import attrs
import pytest
from flexchat import EffectUnknownError, MediaPart, ToolContext, ToolDefinition, WithMedia, tool
from flexchat.calls.calls import ToolParts
from flexchat.calls.effects import Effects
from flexchat.calls.manager import ToolManager
from flexchat.conversations.memory_ledger import MemoryLedger
from flexchat.domain import EffectCall, ToolResult, TurnInfo
from flexchat.domain.conversation import result_from_json, result_to_json
from flexchat.domain.effects import arguments_digest, effect_key
from flexchat.domain.masking import Mask
from flexchat.errors import StorageError, ToolDefinitionError, ToolError
from flexchat.plugin.call import Call, PluginStep
from flexchat.plugin.hooks import Hooks
from flexchat_sqlite.conversations import SqliteConversations

TENANT = "default"


class Till:
    """A service that counts what it was asked to do."""

    def __init__(self):
        self.paid, self.keys = [], []
        self.ask = asyncio.Event()


@pytest.fixture
def till():
    return Till()


class Watched(MemoryLedger):
    """A ledger that tells when an effect has ended, and that cannot be used while it is told so."""

    def __init__(self):
        super().__init__()
        self.broken, self.written = "", asyncio.Queue()

    async def claim(self, *args, **rest):
        self._check("claim")
        return await super().claim(*args, **rest)

    async def finish(self, *args, **rest):
        self._check("finish")
        written = await super().finish(*args, **rest)
        self.written.put_nowait(written)
        return written

    def _check(self, name):
        if self.broken == name:
            raise StorageError("the disk is full")


@pytest.fixture
def ledger():
    return Watched()


@pytest.fixture
def pay(till):
    @tool
    async def pay(amount: int, context: ToolContext) -> dict:
        """Pay."""
        till.paid.append(amount)
        till.keys.append(context.key)
        return {"receipt": len(till.paid)}

    return pay


def calls_of(ledger, *tools, steps=(), lease_s=30.0):
    made = ToolManager(
        parts=ToolParts(
            effects=Effects(ledger, lease_s=lease_s), hooks=Hooks(steps=[PluginStep("plugin", step) for step in steps])
        )
    )
    made.add(tools)
    return made.calls


def call(amount=5, *, path="k", name="pay", **rest):
    return Call(name=name, arguments={"amount": amount}, origin="program", path=path, **rest)


async def rows(ledger, *states):
    return await ledger.list(tenant=TENANT, states=states or None)


async def left_behind(ledger, *, path="k", name="pay", amount=5, lease_s=0.0, honours_key=False):
    """Claim an effect as a process that has died since."""
    wanted = EffectCall(
        key=effect_key(TENANT, None, "", path),
        tenant=TENANT,
        conversation=None,
        turn="",
        place=path,
        tool=name,
        digest=arguments_digest(name, {"amount": amount}),
        honours_key=honours_key,
    )
    return (await ledger.claim(wanted, owner="dead", lease_s=lease_s)).effect


# Once


async def test_the_same_key_again_gets_the_stored_result(ledger, pay, till):
    first = await calls_of(ledger, pay).run(call())
    again = call()
    second = await calls_of(ledger, pay).run(again)

    assert (first.result, second.result, till.paid) == ({"receipt": 1}, {"receipt": 1}, [5])
    assert second.notes == ("the stored result of an earlier call",)
    assert again.facts["effect"]["state"] == "done"


async def test_calls_outside_of_turns_have_keys_of_their_own(ledger, pay, till):
    for _ in range(2):
        await calls_of(ledger, pay).run(Call(name="pay", arguments={"amount": 5}, origin="program"))
    assert till.paid == [5, 5]
    assert len({*till.keys}) == 2


async def test_places_of_turns_have_keys_of_their_own(ledger, pay, till):
    """Turn, answer and index make the place: a turn that goes on finds its effects again."""

    def at(turn, iteration, index):
        return Call(
            name="pay",
            arguments={"amount": 5},
            origin="model",
            turn=TurnInfo(id=turn),
            iteration=iteration,
            index=index,
        )

    places = [("t", 1, 0), ("t", 1, 1), ("t", 2, 0), ("u", 1, 0)]
    for place in [*places, *places]:
        await calls_of(ledger, pay).run(at(*place))
    assert len(till.paid) == 4
    assert till.keys[0] == effect_key(TENANT, None, "t", "1.0")


async def test_other_arguments_under_one_key_are_refused(ledger, pay, till):
    await calls_of(ledger, pay).run(call())
    result = await calls_of(ledger, pay).run(call(6))
    assert result.error == "Not executed: this key has been used for another call, of 'pay'"
    in_turn = {"turn": TurnInfo(id="t"), "path": "1.0"}
    await calls_of(ledger, pay).run(call(**in_turn))
    result = await calls_of(ledger, pay).run(call(6, **in_turn))
    assert result.error == "Not executed: this place of the turn has been used for another call, of 'pay'"
    assert till.paid == [5, 5]


async def test_a_tool_that_changes_nothing_has_no_row(ledger):
    @tool(effect="read")
    async def look(amount: int, context: ToolContext) -> str:
        """Look."""
        return str(context.key)

    @tool(effect="idempotent")
    async def put(amount: int) -> int:
        """Put."""
        return amount

    calls = calls_of(ledger, look, put)
    for _ in range(2):
        assert (await calls.run(call(name="look"))).result == "None"
        assert (await calls.run(call(name="put"))).result == 5
    assert await rows(ledger) == []


async def test_calls_that_tools_make_have_places_inside(ledger, pay, till):
    @tool
    async def twice(amount: int, context: ToolContext) -> list:
        """Pay twice."""
        return [(await context.call_tool("pay", {"amount": amount})).result for _ in range(2)]

    calls = calls_of(ledger, pay, twice)
    await calls.run(call(name="twice"))
    assert [row.place for row in await rows(ledger)] == ["k/1", "k/0", "k"]
    assert till.paid == [5, 5]


async def test_whoever_comes_while_it_runs_waits_for_its_result(ledger, till):
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def pay(amount: int) -> int:
        """Pay."""
        till.paid.append(amount)
        begun.set()
        await may_end.wait()
        return 1

    calls = calls_of(ledger, pay)
    first = asyncio.create_task(calls.run(call()))
    await begun.wait()
    second = asyncio.create_task(calls.run(call()))
    await asyncio.sleep(0)
    may_end.set()
    assert ((await first).result, (await second).result, till.paid) == (1, 1, [5])


async def test_whoever_has_no_time_is_told_that_it_runs(ledger, pay, till):
    await left_behind(ledger, lease_s=60)
    result = await calls_of(ledger, pay).run(call(seconds_left=lambda: 0.01))
    assert result.error == "Not executed: this very call of 'pay' is still running, started by another process"
    assert till.paid == []


# How it ends


async def test_a_failure_is_stored(ledger, till):
    @tool
    async def pay(amount: int) -> None:
        """Pay."""
        till.paid.append(amount)
        raise ToolError("no money", hint="earn some")

    for _ in range(2):
        result = await calls_of(ledger, pay).run(call())
        assert (result.error, result.hint) == ("no money", "earn some")
    assert till.paid == [5]
    assert [row.state for row in await rows(ledger)] == ["failed"]


async def test_a_call_that_is_refused_further_inside_is_given_back(ledger, pay, till):
    """Its tool was never started, so it may run when it is asked again."""

    class Busy:
        name, stage, refuses = "busy", "claim", True

        async def __call__(self, call, rest):
            return ToolResult.failed(call.name, "busy") if self.refuses else await rest()

    busy = Busy()
    calls = calls_of(ledger, pay, steps=[busy])
    assert (await calls.run(call())).error == "busy"
    assert [(row.state, row.note) for row in await rows(ledger)] == [("failed", "busy")]
    busy.refuses = False
    assert (await calls.run(call())).result == {"receipt": 1}
    assert [(row.state, row.fence) for row in await rows(ledger)] == [("done", 2)]
    assert till.paid == [5]


@pytest.mark.parametrize(
    "error",
    [EffectUnknownError("no answer came"), TimeoutError("no answer came"), ConnectionResetError("no answer came")],
    ids=repr,
)
async def test_a_tool_that_cannot_tell_is_unknown(ledger, till, error):
    @tool
    async def pay(amount: int) -> None:
        """Pay."""
        till.paid.append(amount)
        try:
            raise error
        except OSError as broken:
            raise RuntimeError("no answer came") from broken

    calls = calls_of(ledger, pay)
    first, second = await calls.run(call()), await calls.run(call())
    assert first.error == "no answer came"
    assert first.hint.startswith("it is unknown whether 'pay' took effect")
    assert second.error == (
        "It is unknown whether 'pay' took effect: no answer came. Do not call it again for the same purpose; "
        "tell the user, who can check."
    )
    assert second.hint is None, "flexchat effects would not find what is kept in memory"
    assert till.paid == [5]


async def test_a_tool_that_knows_that_nothing_was_done_has_failed(ledger):
    """Even if a timeout was the cause."""

    @tool
    async def pay(amount: int) -> None:
        """Pay."""
        try:
            raise TimeoutError("no connection")
        except TimeoutError:
            raise ToolError("the till is closed", nothing_done=True) from None

    result = await calls_of(ledger, pay).run(call())
    assert (result.error, result.hint) == ("the till is closed", None)
    assert [row.state for row in await rows(ledger)] == ["failed"]


async def test_what_is_unknown_and_kept_is_shown_by_a_command(tmp_path, till, monkeypatch):
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        till.paid.append(amount)
        raise EffectUnknownError("no answer came")

    ledger = Watched()
    monkeypatch.setattr(Effects, "is_kept", True)
    calls = calls_of(ledger, pay)
    first, second = await calls.run(call()), await calls.run(call())
    assert first.notes == ("the effect is unknown: flexchat effects list --unknown",)
    assert second.hint == "flexchat effects list --unknown"
    assert till.paid == [5]


async def test_a_timeout_is_unknown(ledger, till):
    @tool(timeout_ms=20)
    async def pay(amount: int) -> None:
        """Pay."""
        till.paid.append(amount)
        await asyncio.Event().wait()

    result = await calls_of(ledger, pay).run(call())
    assert result.error == "Tool execution timed out after 20ms"
    assert [(row.state, row.note) for row in await rows(ledger)] == [("unknown", "it was not finished after 20 ms")]


async def test_a_cancelled_turn_leaves_it_unknown(ledger, till):
    begun = asyncio.Event()

    @tool
    async def pay(amount: int) -> None:
        """Pay."""
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(calls_of(ledger, pay).run(call()))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (row,) = await rows(ledger)
    assert (row.state, row.note) == ("unknown", "the call was cancelled while the tool was running")


async def test_a_turn_that_is_cancelled_before_the_tool_gives_it_back(ledger, pay):
    begun = asyncio.Event()

    class Waiting:
        name, stage = "waiting", "claim"

        async def __call__(self, call, rest):
            begun.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(calls_of(ledger, pay, steps=[Waiting()]).run(call()))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [row.note for row in await rows(ledger)] == ["the call was cancelled before the tool was started"]
    assert (await calls_of(ledger, pay).run(call())).success


@pytest.mark.parametrize("late", ["in time to settle", "after a person"])
async def test_a_thread_that_answers_late_settles_its_effect(ledger, till, late):
    may_end = threading.Event()

    @tool(timeout_ms=20)
    def pay(amount: int) -> int:
        """Pay."""
        may_end.wait(5)
        return 17

    result = await calls_of(ledger, pay).run(call())
    assert result.hint.startswith("it may still be running; it is unknown")
    (row,) = await rows(ledger)
    if late == "after a person":
        await ledger.settle(row.key, tenant=TENANT, state="failed", by="ann")
    may_end.set()
    assert [await ledger.written.get(), await ledger.written.get()] == [True, late == "in time to settle"]
    (row,) = await rows(ledger)
    assert row.state == ("failed" if late == "after a person" else "done")
    if row.state == "done":
        assert (await calls_of(ledger, pay).run(call())).result == 17


@pytest.mark.parametrize("made", [b"x", object()])
async def test_a_tool_that_returns_what_is_not_json_took_effect(ledger, till, made):
    """It came to its end, and has changed what it changes: that is known, and is not done again."""

    @tool
    async def pay(amount: int):
        """Pay."""
        till.paid.append(amount)
        return made

    result = await calls_of(ledger, pay).run(call())
    again = await calls_of(ledger, pay).run(call())

    assert result.error.startswith("the tool returned something that is not JSON: ")
    assert "'pay' ran to its end and took effect; only its result is missing. Do not call it again" in result.hint
    assert (again.error, again.hint) == (result.error, result.hint)
    assert [row.state for row in await rows(ledger)] == ["done"]
    assert till.paid == [5]


async def test_so_did_a_thread_that_returns_it_late(ledger):
    may_end = threading.Event()

    @tool(timeout_ms=20)
    def pay(amount: int):
        """Pay."""
        may_end.wait(5)
        return object()

    calls = calls_of(ledger, pay)
    await calls.run(call())
    may_end.set()

    assert [await ledger.written.get(), await ledger.written.get()] == [True, True]
    assert [row.state for row in await rows(ledger)] == ["done"]


# After a crash


async def test_without_key_or_verify_a_lost_effect_is_unknown(ledger, pay, till):
    await left_behind(ledger)
    result = await calls_of(ledger, pay).run(call())
    assert result.error.startswith("It is unknown whether 'pay' took effect: the process that ran it has died.")
    assert till.paid == []
    assert [row.state for row in await rows(ledger)] == ["unknown"]


async def test_a_tool_that_honours_keys_runs_again_with_the_same_key(ledger, till):
    @tool(honours_key=True)
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        till.keys.append(context.key)
        return "paid"

    lost = await left_behind(ledger, honours_key=True)
    result = await calls_of(ledger, pay).run(call())
    assert (result.result, till.keys) == ("paid", [lost.key])
    assert [(row.state, row.fence) for row in await rows(ledger)] == [("done", 2)]
    assert not await ledger.finish(lost.key, lost.fence, state="failed", result=None)


def checked(answer, till):
    """Return a tool with a tool that is asked whether it took effect."""

    @tool(verify="was_paid")
    async def pay(amount: int) -> str:
        """Pay."""
        till.paid.append(amount)
        return "paid now"

    @tool(effect="read")
    async def was_paid(amount: int, key: str) -> dict:
        """Say whether it was paid."""
        till.keys.append((amount, key))
        if isinstance(answer, Exception):
            raise answer
        return answer

    return pay, was_paid


@pytest.mark.parametrize(
    ("answer", "outcome", "paid"),
    [
        ({"done": True, "result": "paid then"}, "paid then", []),
        ({"done": True}, {"done": True}, []),
        ({"done": False}, "paid now", [5]),
        ({"done": None}, None, []),
        ({}, None, []),
        (RuntimeError("the service is down"), None, []),
    ],
    ids=repr,
)
async def test_the_tool_that_verifies_is_asked(ledger, till, answer, outcome, paid):
    lost = await left_behind(ledger)
    result = await calls_of(ledger, *checked(answer, till)).run(call())
    assert (result.result, till.paid, till.keys) == (outcome, paid, [(5, lost.key)])
    assert [row.state for row in await rows(ledger)] == ["unknown" if outcome is None else "done"]
    if outcome is None:
        assert "and was_paid cannot tell" in result.error


@pytest.mark.parametrize("how", ["refused", "fails", "cancelled"])
async def test_a_repetition_that_does_not_succeed_stays_unknown(ledger, till, how):
    """The earlier call may have taken effect: nobody may take it for failed, or run it under other arguments."""
    begun = asyncio.Event()

    class Step:
        name, stage = "step", "claim"

        async def __call__(self, call, rest):
            begun.set()
            if how == "cancelled":
                await asyncio.Event().wait()
            return ToolResult.failed(call.name, "no") if how == "refused" else await rest()

    @tool(honours_key=True)
    async def pay(amount: int) -> None:
        """Pay."""
        raise ToolError("no")

    await left_behind(ledger, honours_key=True)
    running = asyncio.create_task(calls_of(ledger, pay, steps=[Step()]).run(call()))
    await begun.wait()
    if how == "cancelled":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        assert (await running).hint.startswith("it is unknown whether 'pay' took effect")
    assert [row.state for row in await rows(ledger)] == ["unknown"]


async def test_a_turn_that_ends_while_it_is_verified_leaves_it_unknown(ledger, till):
    begun = asyncio.Event()

    @tool(verify="was_paid")
    async def pay(amount: int) -> None:
        """Pay."""
        till.paid.append(amount)

    @tool(effect="read")
    async def was_paid() -> None:
        """Never answer."""
        begun.set()
        await asyncio.Event().wait()

    await left_behind(ledger)
    running = asyncio.create_task(calls_of(ledger, pay, was_paid).run(call()))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [row.state for row in await rows(ledger)] == ["unknown"]


# A job that is started elsewhere, and whose handle is kept


class Press:
    """A service that takes jobs: each is printed once, and then says so."""

    def __init__(self):
        self.jobs, self.asked, self.says = [], [], {"status": "printed"}
        self.begun, self.end = asyncio.Event(), asyncio.Event()


@pytest.fixture
def press():
    return Press()


@pytest.fixture
def print_it(press):
    @tool
    async def pay(amount: int, context: ToolContext) -> dict:
        """Have something printed."""
        job = context.handle
        if job is None:
            press.jobs.append(amount)
            job = {"job": len(press.jobs)}
            await context.remember(job)
            press.begun.set()
            await press.end.wait()
        press.asked.append(job)
        if isinstance(press.says, Exception):
            raise press.says
        return press.says

    return pay


async def broken_off(ledger, press, print_it):
    """Start a job in a call that is cancelled, as if its turn were."""
    running = asyncio.create_task(calls_of(ledger, print_it).run(call()))
    await press.begun.wait()
    running.cancel()
    await asyncio.wait([running])
    ((row,), jobs) = await rows(ledger), press.jobs
    assert (row.state, row.handle, jobs) == ("unknown", '{"job": 1}', [5])


async def test_a_call_that_broke_off_is_made_again_to_ask_after_its_job(ledger, press, print_it):
    await broken_off(ledger, press, print_it)
    again = call()
    result = await calls_of(ledger, print_it).run(again)

    assert (result.result, press.jobs, press.asked) == ({"status": "printed"}, [5], [{"job": 1}])
    assert again.notes == ["an earlier call broke off: the tool asks about the job that it started"]
    (row,) = await rows(ledger)
    assert (row.state, row.fence) == ("done", 2)
    assert (await calls_of(ledger, print_it).run(call())).notes == ("the stored result of an earlier call",)
    assert len(press.asked) == 1


async def test_so_is_one_whose_process_has_died(ledger, press, print_it):
    lost = await left_behind(ledger)
    await ledger.remember(lost.key, 1, handle='{"job": 8}')
    results = await asyncio.gather(*[calls_of(ledger, print_it).run(call()) for _ in range(3)])

    assert [result.result for result in results] == [{"status": "printed"}] * 3
    assert (press.jobs, press.asked) == ([], [{"job": 8}])


async def test_a_handle_goes_before_a_key_and_a_tool_that_verifies(ledger, press):
    for declared in ({"honours_key": True}, {"verify": "was_paid"}):

        @tool(**declared)
        async def pay(amount: int, context: ToolContext) -> dict:
            """Have something printed."""
            press.asked.append(context.handle)
            return {}

        @tool(effect="read")
        async def was_paid() -> dict:
            """Would say that nothing was done."""
            return {"done": False}

        path = next(iter(declared))
        lost = await left_behind(ledger, path=path)
        await ledger.remember(lost.key, 1, handle="7")
        await calls_of(ledger, pay, was_paid).run(call(path=path))
    assert press.asked == [7, 7]


@pytest.mark.parametrize(
    ("says", "state"),
    [
        (ToolError("it was not printed: no paper"), "failed"),
        (EffectUnknownError("nobody knows the job"), "unknown"),
        (KeyError("status"), "unknown"),
        (OSError("no route"), "unknown"),
        (TimeoutError("no answer"), "unknown"),
    ],
    ids=repr,
)
async def test_only_what_the_tool_says_of_the_job_is_a_failure(ledger, press, print_it, says, state):
    """A tool that breaks while it asks knows nothing of the job; it can be asked again."""
    await broken_off(ledger, press, print_it)
    press.says = says
    result = await calls_of(ledger, print_it).run(call())

    assert not result.success
    assert [row.state for row in await rows(ledger)] == [state]
    press.says = {"status": "printed"}
    again = await calls_of(ledger, print_it).run(call())
    assert (again.success, press.jobs) == (state == "unknown", [5])


async def test_a_call_refused_while_its_job_runs_is_not_given_back(ledger, press, print_it):
    """Otherwise the next one would start another."""

    class Refuses:
        name, stage = "refuses", "claim"

        async def __call__(self, call, rest):
            return ToolResult.failed(call.name, "not now")

    await broken_off(ledger, press, print_it)
    await calls_of(ledger, print_it, steps=[Refuses()]).run(call())
    assert [(row.state, row.handle) for row in await rows(ledger)] == [("unknown", '{"job": 1}')]
    assert (await calls_of(ledger, print_it).run(call())).success
    assert press.jobs == [5]


async def test_whoever_has_lost_the_claim_cannot_remember(ledger, press):
    """A process that stood still is told so, and its job is in the ledger as unknown, or as the other has it."""
    said = []

    @tool(honours_key=True, retry={"max_attempts": 1})
    async def pay(amount: int, context: ToolContext) -> str:
        """Have something printed, after a long sleep."""
        if not said:
            said.append("asleep")
            ledger.renew((await rows(ledger))[0].owner, 0.0)
            other = await calls_of(ledger, pay).run(call())
            assert other.result == "printed"
            try:
                await context.remember({"job": 1})
            except EffectUnknownError as error:
                said.append(str(error))
                raise
        return "printed"

    result = await calls_of(ledger, pay).run(call())
    assert said == ["asleep", "another process has taken this call over, or somebody has settled it"]
    assert not result.success
    assert [(row.state, row.fence, row.handle) for row in await rows(ledger)] == [("done", 2, None)]


async def test_a_process_that_stood_still_may_remember_while_nobody_else_has_acted(ledger, press):
    """It was taken for dead, and its effect for unknown: now there is something to ask about."""

    @tool
    async def pay(amount: int, context: ToolContext) -> str:
        """Have something printed, after a long sleep."""
        if context.handle is not None:
            return "printed"
        ledger.renew((await rows(ledger))[0].owner, 0.0)
        assert not (await calls_of(ledger, pay).run(call())).success
        await context.remember({"job": 1})
        raise EffectUnknownError("and it broke off")

    assert not (await calls_of(ledger, pay).run(call())).success
    assert (await calls_of(ledger, pay).run(call())).result == "printed"


@pytest.mark.parametrize(
    ("handle", "why"),
    [
        (None, "it is empty"),
        ("x" * 5_000, "is 5,002 characters long"),
        (float("nan"), "not JSON data"),
        ({1, 2}, "not JSON data"),
    ],
    ids=["none", "long", "nan", "set"],
)
async def test_a_handle_that_cannot_be_kept_leaves_the_effect_unknown(ledger, press, handle, why):
    """The job has been started all the same."""

    @tool
    async def pay(amount: int, context: ToolContext) -> str:
        """Have something printed."""
        await context.remember(handle)
        return "printed"

    result = await calls_of(ledger, pay).run(call())
    assert why in result.error
    assert [row.state for row in await rows(ledger)] == ["unknown"]


async def test_nor_can_it_be_kept_on_a_full_disk(ledger, press, print_it, monkeypatch):
    async def full(*args, **rest):
        raise StorageError("the disk is full")

    monkeypatch.setattr(ledger, "remember", full)
    result = await calls_of(ledger, print_it).run(call())
    assert result.error == "its handle could not be recorded: the disk is full"
    assert [row.state for row in await rows(ledger)] == ["unknown"]


async def test_any_json_is_a_handle_and_a_later_one_replaces_it(ledger, press):
    @tool(retry={"max_attempts": 2, "backoff_ms": 1}, honours_key=True)
    async def pay(amount: int, context: ToolContext) -> str:
        """Have something printed, in two attempts."""
        press.asked.append(context.handle)
        if context.handle is None:
            await context.remember(1)
            await context.remember({"job": ["ä\0😀", None]})
            raise TimeoutError
        return "printed"

    assert (await calls_of(ledger, pay).run(call())).result == "printed"
    assert press.asked == [None, {"job": ["ä\0😀", None]}]


async def test_a_tool_that_changes_nothing_has_no_place_for_a_handle(ledger):
    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        await context.remember({"job": 1})
        return str(context.handle)

    assert (await calls_of(ledger, look).run(Call(name="look", arguments={}, origin="program"))).result == "None"


async def test_a_take_over_that_is_cancelled_gives_nothing_back(tmp_path, till, pay):
    """An earlier call may have taken effect: the next one must not run the tool as if nothing had happened."""
    store = SqliteConversations(tmp_path / "kept.db")
    ledger = store.ledger()
    lost = await left_behind(ledger)
    effects = Effects(ledger)
    wanted = EffectCall(**{field.name: getattr(lost, field.name) for field in attrs.fields(EffectCall)})
    taking = asyncio.create_task(effects.claim(wanted, take_over=True))
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking

    assert [row.state for row in await rows(ledger)] == ["unknown"]
    assert not (await calls_of(ledger, pay).run(call())).success
    assert till.paid == []
    await effects.aclose()
    await store.aclose()


async def test_of_several_that_find_a_lost_effect_one_runs_it(ledger, till):
    @tool(honours_key=True)
    async def pay(amount: int) -> str:
        """Pay."""
        till.paid.append(amount)
        await asyncio.sleep(0.01)
        return "paid"

    await left_behind(ledger, honours_key=True)
    results = await asyncio.gather(*[calls_of(ledger, pay).run(call()) for _ in range(5)])
    assert ([result.result for result in results], till.paid) == (["paid"] * 5, [5])


# A ledger that fails


async def test_what_cannot_be_claimed_does_not_run(ledger, pay, till):
    ledger.broken = "claim"
    result = await calls_of(ledger, pay).run(call())
    assert result.error == "Not executed: 'pay' changes something, and its start could not be recorded"
    assert (result.hint, till.paid) == ("the disk is full", [])


async def test_a_result_that_cannot_be_recorded_is_not_told(ledger, pay, monkeypatch):
    """What is told must still be known after a crash. It is tried again, until it can be written."""
    monkeypatch.setattr("flexchat.calls.effects._AGAIN_S", 0.01)
    ledger.broken = "finish"
    result = await calls_of(ledger, pay).run(call())
    assert result.error == "'pay' took effect, but that could not be recorded, so its result is withheld"
    assert [row.state for row in await rows(ledger)] == ["claimed"]
    ledger.broken = ""
    assert await ledger.written.get()
    assert (await calls_of(ledger, pay).run(call())).result == {"receipt": 1}


# The lease


@pytest.mark.timed
async def test_a_blocked_event_loop_keeps_its_lease(ledger, till):
    taken = []

    @tool
    async def pay(amount: int) -> int:
        """Pay, and let nobody else do anything meanwhile."""
        threading.Event().wait(0.4)
        taken.append((await ledger.claim(wanted, owner="other", lease_s=1)).outcome)
        return 1

    wanted = EffectCall(
        key=effect_key(TENANT, None, "", "k"),
        tenant=TENANT,
        conversation=None,
        turn="",
        place="k",
        tool="pay",
        digest=arguments_digest("pay", {"amount": 5}),
    )
    while not taken:  # a process that stood still before the tool was started has not called it
        await calls_of(ledger, pay, lease_s=0.15).run(call())
    assert taken == ["running"]


async def test_a_process_that_stood_still_does_not_begin(ledger, pay, till, monkeypatch):
    calls = calls_of(ledger, pay)
    monkeypatch.setattr(Effects, "is_held", lambda self: False)
    assert (await calls.run(call())).error == "Not executed: the process stood still before the tool was started"
    assert till.paid == []


# What is kept


async def test_secrets_are_masked_and_long_results_are_cut(ledger):
    @tool
    async def log_in(amount: int, password: str) -> dict:
        """Log in."""
        return {"token": "t-12345678", "url": "https://ann:hunter2@host/", "text": "x" * 100_000}

    asked = {"amount": 1, "password": "hunter22"}
    calls = calls_of(ledger, log_in)
    first = await calls.run(Call(name="log_in", arguments=asked, origin="program", path="k"))
    (row,) = await rows(ledger)
    assert json.loads(row.arguments) == {"amount": 1, "password": "***"}
    assert first.result["token"] == "t-12345678"
    for secret in ("hunter2", "t-1234"):
        assert secret not in row.arguments + row.result
    assert len(row.result) < 70_000


async def test_what_a_person_said_is_told(ledger, pay, till):
    for state, path in (("done", "a"), ("failed", "b")):
        lost = await left_behind(ledger, path=path)
        await calls_of(ledger, pay).run(call(path=path))
        await ledger.settle(lost.key, tenant=TENANT, state=state, by="ann", note="I asked the bank")
        result = await calls_of(ledger, pay).run(call(path=path))
        assert result.success == (state == "done")
        assert "settled by ann: I asked the bank" in result.to_json()
    assert till.paid == []


async def test_a_call_whose_effect_is_claimed_cannot_start_over(ledger, pay, till):
    class Changing:
        name, stage = "changing", "claim"

        async def __call__(self, call, rest):
            return await call.again({"amount": 500})

    result = await calls_of(ledger, pay, steps=[Changing()]).run(call())
    assert result.error == "plugin plugin could not decide about this call"
    assert till.paid == []


def test_a_tool_that_changes_nothing_needs_no_key():
    table = {"name": "t", "description": "T.", "effect": "read", "verify": "v", "parameters": {"type": "object"}}
    with pytest.raises(ToolDefinitionError, match='verify is for tools with effect = "write"'):
        ToolDefinition.from_dict(table, lambda arguments: arguments)


def test_stored_results_are_json():
    assert json.loads(result_to_json(ToolResult(success=True, tool_name="t", result=1)))["result"] == 1


# Media


def drawing(size):
    data = b"\x89PNG\r\n\x1a\n" + b"secret!" * (size // 7)

    @tool
    async def pay(amount: int):
        """Pay, and return the receipt as a picture."""
        return WithMedia({"receipt": amount}, [MediaPart(kind="image", mime_type="image/png", data=data, name="r.png")])

    return pay


async def test_a_stored_result_has_its_image(ledger):
    """As long as it fits into the ledger."""
    first = await calls_of(ledger, drawing(700)).run(call())
    again = await calls_of(ledger, drawing(700)).run(call())

    assert len(first.media) == 1
    assert (again.result, again.media, again.left_out) == (first.result, first.media, ())


@pytest.mark.parametrize("size", [50_000, 3_000_000])
async def test_an_image_too_large_for_the_ledger_is_told_in_words(ledger, size):
    """The value stays; a sentence says that there was more."""
    first = await calls_of(ledger, drawing(size)).run(call())
    again = await calls_of(ledger, drawing(size)).run(call())

    told = f"r.png (image/png, {len(first.media[0].data):,} bytes): it was there, but is no longer kept"
    assert (again.result, again.media, again.left_out) == ({"receipt": 5}, (), (told,))
    (row,) = await rows(ledger)
    assert len(row.result) < 1000
    assert told in again.to_json()


async def test_a_large_result_and_its_image_are_both_cut(ledger):
    """What the ledger keeps of a result never gets longer than its limit."""

    @tool
    async def pay(amount: int):
        """Pay."""
        return WithMedia("x" * 60_000, MediaPart(kind="image", mime_type="image/gif", data=b"GIF89a" + b"x" * 40_000))

    await calls_of(ledger, pay).run(call())

    (row,) = await rows(ledger)
    assert len(row.result) <= 65_536
    assert "no longer kept" in row.result


# What changed between a crash and the resumption


def pay_as(till, **said):
    """Return the tool with what is said of it now."""

    @tool(**said)
    async def pay(amount: int) -> str:
        """Pay."""
        till.paid.append(amount)
        return "paid"

    return pay


@pytest.mark.parametrize("effect", ["read", "idempotent", "write"])
async def test_a_call_that_was_claimed_is_not_repeated_as_a_read(ledger, till, effect):
    """Its row decides, whatever effect the tool is now said to have."""
    await left_behind(ledger)
    result = await calls_of(ledger, pay_as(till, effect=effect)).run(call())

    assert (till.paid, result.success) == ([], False)
    assert result.error.startswith("It is unknown whether 'pay' took effect")
    assert [row.state for row in await rows(ledger)] == ["unknown"]


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_stored_result_is_that_of_a_tool_said_to_read(ledger, till, effect):
    await calls_of(ledger, pay_as(till)).run(call())
    again = await calls_of(ledger, pay_as(till, effect=effect)).run(call())

    assert (till.paid, again.result) == ([5], "paid")


async def test_a_claim_that_was_given_back_does_not_keep_a_read_from_running(ledger, till):
    lost = await left_behind(ledger)
    await ledger.release(lost.key, lost.fence, note="refused")
    result = await calls_of(ledger, pay_as(till, effect="read")).run(call())

    assert (result.result, till.paid) == ("paid", [5])


async def test_a_key_that_was_not_sent_makes_no_repetition_safe(ledger, till):
    """The first attempt went out before the tool was said to honour keys."""
    await left_behind(ledger)
    result = await calls_of(ledger, pay_as(till, honours_key=True)).run(call())

    assert (result.success, till.paid) == (False, [])
    assert [(row.state, row.honours_key) for row in await rows(ledger)] == [("unknown", False)]


async def test_an_unknown_effect_with_a_key_is_cleared_up_by_the_next_call(ledger, till):
    """A key chosen by the caller, given again: the service does it once."""
    lost = await left_behind(ledger, honours_key=True)
    await ledger.finish(lost.key, lost.fence, state="unknown", result=None, note="the answer was lost")
    result = await calls_of(ledger, pay_as(till, honours_key=True)).run(call())

    assert (result.result, till.paid) == ("paid", [5])
    assert [row.state for row in await rows(ledger)] == ["done"]


@pytest.mark.slow
async def test_a_lost_answer_to_a_call_with_a_key_is_asked_for_once_more(ledger, till):
    """The tool has no retry of its own; its service acts once per key."""

    @tool(honours_key=True)
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay."""
        till.keys.append(context.key)
        if len(till.keys) == 1:
            raise EffectUnknownError("the connection was lost")
        return "paid"

    result = await calls_of(ledger, pay).run(call())

    assert (result.result, len(till.keys), len({*till.keys})) == ("paid", 2, 1)
    assert [row.state for row in await rows(ledger)] == ["done"]


class Refuses:
    """A gate that has been installed since."""

    name, stage = "refuses", "authorize"

    async def __call__(self, call, rest):
        return ToolResult.failed(call.name, "no")


@pytest.mark.parametrize("now", ["refused", "other arguments", "gone"])
async def test_a_call_that_is_refused_now_is_told_what_it_did(ledger, till, now):
    turn = {"turn": TurnInfo(id="t"), "iteration": 1, "index": 0}

    def made():
        return Call(name="pay", arguments={"amount": 5}, origin="model", **turn)

    await calls_of(ledger, pay_as(till)).run(made())

    @tool
    async def pay(amount: str) -> str:
        """Pay; the schema is another one now."""
        raise AssertionError

    tools = [] if now == "gone" else [pay if now == "other arguments" else pay_as(till)]
    again = await calls_of(ledger, *tools, steps=[Refuses()] if now == "refused" else ()).run(made())

    assert (again.result, till.paid) == ("paid", [5])


async def test_a_key_with_other_arguments_is_not_told_of_the_first_call(ledger, till):
    await calls_of(ledger, pay_as(till)).run(call())
    other = await calls_of(ledger, pay_as(till), steps=[Refuses()]).run(call(7))

    assert (other.error, till.paid) == ("no", [5])


# Before anything is sent


@pytest.mark.parametrize("how", ["late", "broken", "wrapped", "cancelled"])
async def test_what_ends_before_anything_is_sent_is_not_unknown(ledger, till, how):
    """A token service that does not answer has not paid."""
    begun = asyncio.Event()

    @tool(timeout_ms=30)
    async def pay(amount: int, context: ToolContext) -> str:
        """Sign in, and pay."""
        try:
            with context.preparing():
                begun.set()
                if how in ("broken", "wrapped"):
                    raise ConnectionResetError("the token service hung up")
                await asyncio.Event().wait()
        except ConnectionResetError as error:
            if how == "wrapped":
                raise ToolError("cannot sign in") from error
            raise
        till.paid.append(amount)
        return "paid"

    running = asyncio.create_task(calls_of(ledger, pay).run(call()))
    await begun.wait()
    if how == "cancelled":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    else:
        assert not (await running).success

    assert till.paid == []
    assert [row.state for row in await rows(ledger)] == ["failed"]


async def test_what_was_sent_before_stays_unknown_when_the_repetition_cannot_begin(ledger, till):
    @tool(honours_key=True, retry={"max_attempts": 2, "backoff_ms": 0})
    async def pay(amount: int, context: ToolContext) -> str:
        """Pay; the second time, there is no token any more."""
        if till.paid:
            with context.preparing():
                raise ConnectionRefusedError("no token")
        till.paid.append(amount)
        raise ConnectionResetError("the answer was lost")

    result = await calls_of(ledger, pay).run(call())

    assert "it is unknown whether 'pay' took effect" in result.hint
    assert [row.state for row in await rows(ledger)] == ["unknown"]


# In memory, a call that cannot have been made before


def calls_in_memory(*tools, steps=()):
    made = ToolManager(
        parts=ToolParts(mask=Mask(["hush-hush-1"]), hooks=Hooks(steps=[PluginStep("plugin", step) for step in steps]))
    )
    made.add(tools)
    return made.calls, made.effects.ledger


def new_call(amount=5, **rest):
    return call(amount, path="", is_new=True, **rest)


async def test_a_new_call_is_listed_like_any_other(pay, till):
    calls, ledger = calls_in_memory(pay)
    result = await calls.run(new_call())

    (row,) = await rows(ledger)

    assert (row.key, row.state, row.tool, row.arguments) == (till.keys[0], "done", "pay", '{"amount": 5}')
    assert result_from_json(row.result).result == result.result
    assert row.digest == arguments_digest("pay", {"amount": 5})
    assert row.claimed_at <= row.ended_at
    assert await ledger.get(row.key[:12], tenant=TENANT) == row


async def test_a_new_call_can_be_read_while_it_runs():
    seen = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        seen.extend(row.state for row in await rows(ledger))
        return "paid"

    calls, ledger = calls_in_memory(pay)
    assert (await calls.run(new_call())).success
    assert seen == ["claimed"]
    assert [row.state for row in await rows(ledger)] == ["done"]


async def test_secrets_of_new_calls_are_masked_in_the_ledger():
    @tool
    async def pay(to: str) -> str:
        """Pay."""
        return "paid"

    calls, ledger = calls_in_memory(pay)
    for to in ("ann", "hush-hush-1"):
        await calls.run(Call(name="pay", arguments={"to": to}, origin="program", is_new=True))
    assert [row.arguments for row in await rows(ledger)] == ['{"to": "***"}', '{"to": "ann"}']


@pytest.mark.parametrize("size", [10, 100_000])
async def test_results_of_new_calls_are_kept_as_those_of_others(size):
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return "x" * size

    calls, ledger = calls_in_memory(pay)
    await calls.run(new_call())
    await calls.run(call(5, path="k"))
    new, keyed = sorted(await rows(ledger), key=lambda row: row.place == "k")
    assert new.result == keyed.result


async def test_new_calls_whose_outcome_is_unknown_can_be_settled():
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        raise TimeoutError("no answer")

    calls, ledger = calls_in_memory(pay)
    await calls.run(new_call(1))
    await calls.run(new_call(2))
    unknown = await rows(ledger, "unknown")
    assert [row.arguments for row in unknown] == ['{"amount": 2}', '{"amount": 1}']
    settled = await ledger.settle(unknown[1].key, tenant=TENANT, state="done", by="ann")
    assert settled.state == "done"
    assert len(await rows(ledger, "unknown")) == 1


async def test_a_new_call_refused_before_its_tool_leaves_a_released_row(till, pay):
    class Refuse:
        name, stage = "refuse", "claim"

        async def __call__(self, call, rest):
            return ToolResult.failed(call.name, "not now")

    calls, ledger = calls_in_memory(pay, steps=[Refuse()])
    assert not (await calls.run(new_call())).success
    (row,) = await rows(ledger)
    assert (row.state, row.owner, till.paid) == ("failed", "", [])


async def test_pages_of_new_calls_begin_after_the_one_named(pay):
    calls, ledger = calls_in_memory(pay)
    for amount in range(5):
        await calls.run(new_call(amount))
    first = await ledger.list(tenant=TENANT, limit=2)
    rest = await ledger.list(tenant=TENANT, before=first[-1].key)
    assert [json.loads(row.arguments)["amount"] for row in (*first, *rest)] == [4, 3, 2, 1, 0]


async def test_texts_of_a_conversation_are_forgotten_before_anyone_reads_them(pay):
    calls, ledger = calls_in_memory(pay)
    turn = TurnInfo(id="t", conversation="c", tenant=TENANT)
    await calls.run(new_call(turn=turn, iteration=1))
    await ledger.forget_conversation("c", tenant=TENANT)
    (row,) = await rows(ledger)
    assert (row.state, row.arguments, row.result) == ("done", "", None)


@pytest.mark.parametrize("is_new", [False, True])
async def test_a_new_call_whose_place_is_used_again_gets_the_stored_result(pay, till, is_new):
    """As when its turn is resumed in the same process."""
    calls, ledger = calls_in_memory(pay)
    turn = TurnInfo(id="t", conversation="c", tenant=TENANT)
    first = await calls.run(call(path="", turn=turn, iteration=1, is_new=True))

    second = await calls.run(call(path="", turn=turn, iteration=1, is_new=is_new))

    assert (first.result, second.result, till.paid) == ({"receipt": 1}, {"receipt": 1}, [5])
    assert len(await rows(ledger)) == 1


async def test_a_new_call_that_runs_is_not_run_beside_itself(till):
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        till.paid.append(amount)
        runs.set()
        await till.ask.wait()
        return "paid"

    calls, _ = calls_in_memory(pay)
    turn, runs = TurnInfo(id="t", conversation="c", tenant=TENANT), asyncio.Event()
    first = asyncio.create_task(calls.run(call(path="", turn=turn, iteration=1, is_new=True)))
    await runs.wait()
    second = asyncio.create_task(calls.run(call(path="", turn=turn, iteration=1)))
    await asyncio.sleep(0)
    till.ask.set()

    assert [(await each).result for each in (first, second)] == ["paid", "paid"]
    assert till.paid == [5]
