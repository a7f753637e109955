"""One try: what a model is asked, what its tools answer meanwhile, and what the outcome is."""

import asyncio
import json

import attrs
import pytest
from flexchat import FlexChat, ToolDefinition, TurnTimeoutError, Usage, tool
from flexchat.plugin import Implementation, hookimpl
from flexchat_sdk import (
    NO_CONNECTION,
    ContentFilterError,
    ContextLengthError,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
)
from flexchat_testing import ScriptedProvider, ScriptedSource, calls, says, sourced
from flexchat_validation.attempting import attempt_case, split_model
from flexchat_validation.attempts import ModelKey
from flexchat_validation.cases import (
    AnswerCheck,
    Case,
    CaseTool,
    ExpectedCall,
    ExpectedTurn,
    Price,
    ToolMock,
    ValidationTable,
)
from flexchat_validation.fingerprint import case_hash

KEY = ModelKey(model_id="scripted/m")
SENT = []
MOCK = Implementation(type="mock", settings={"mock_response": 1})


@tool(effect="write")
def send_mail(to: str) -> str:
    """Send a mail.

    Args:
        to: Whom to.
    """
    SENT.append(to)
    return f"sent to {to}"


@tool(effect="read")
def read_mail(number: int) -> str:
    """Read a mail.

    Args:
        number: Which.
    """
    return f"mail {number}"


@pytest.fixture(autouse=True)
def _nothing_sent():
    SENT.clear()


@pytest.fixture
def attempt(flexchat_app):
    """Put a case to a model that says these replies."""

    async def make(case, *replies, table=None, model_id="scripted/m", **app):
        async with flexchat_app(ScriptedProvider(replies), tools=[send_mail, read_mail], **app) as chat:
            outcome = await attempt_case(
                chat, model_id, case, table or ValidationTable(), key=KEY, run="r", repetition=2
            )
            return outcome.attempt

    return make


MAIL = Case(name="mail", message="Write to Ann", calls=(ExpectedCall(tool="send_mail", arguments={"to": "ann"}),))


async def test_a_tool_that_changes_something_only_says_success(attempt):
    """Trying a model sends no mails. The model reads {"success": true} as the result."""
    made = await attempt(MAIL, calls(("send_mail", {"to": "ann"})), "done")

    assert SENT == []
    assert made.outcome == "passed"
    assert made.calls[0].result["result"] == {"success": True}


async def test_a_tool_that_only_reads_runs(attempt):
    """What has no effect needs no stand-in."""
    case = Case(name="c", message="read", calls=(ExpectedCall(tool="read_mail"),))

    made = await attempt(case, calls(("read_mail", {"number": 3})), "done")

    assert made.calls[0].result["result"] == "mail 3"


async def test_run_tools_lets_tools_run(attempt):
    """validation.run_tools, or --run-tools."""
    made = await attempt(MAIL, calls(("send_mail", {"to": "ann"})), "done", table=ValidationTable(run_tools=True))

    assert SENT == ["ann"]
    assert made.calls[0].result["result"] == "sent to ann"


async def test_a_mock_answers_even_where_tools_run(attempt):
    """The case's word is the last."""
    case = Case(name="c", message="x", calls=MAIL.calls, mocks={"send_mail": ToolMock(result={"id": 7})})

    made = await attempt(case, calls(("send_mail", {"to": "ann"})), "done", table=ValidationTable(run_tools=True))

    assert SENT == []
    assert made.calls[0].result["result"] == {"id": 7}


async def test_a_mock_fails_as_often_as_it_says(attempt):
    """Then it returns its result; the aspect "recovers" is judged."""
    case = Case(
        name="c",
        message="x",
        calls=MAIL.calls,
        mocks={"send_mail": ToolMock(error="the server is busy", times=1, result="ok")},
    )

    made = await attempt(case, *[calls(("send_mail", {"to": "ann"}))] * 2, "done")

    assert [call.result.get("error") for call in made.calls] == ["the server is busy", None]
    assert (made.outcome, made.aspects["recovers"]) == ("passed", True)


async def test_a_mock_does_not_take_what_the_schema_forbids(attempt):
    """Arguments are checked as ever."""
    case = Case(name="c", message="x", calls=MAIL.calls, mocks={"send_mail": ToolMock(result="ok")})

    made = await attempt(case, calls(("send_mail", {})), "done")

    assert "Invalid parameters" in made.calls[0].result["error"]
    assert made.outcome == "failed"


async def test_a_mock_begins_anew_with_each_try(flexchat_app):
    """One try knows nothing of another."""
    case = Case(name="c", message="x", calls=MAIL.calls, mocks={"send_mail": ToolMock(error="no", times=1)})
    replies = [calls(("send_mail", {"to": "ann"})), calls(("send_mail", {"to": "ann"})), "done"]
    async with flexchat_app(ScriptedProvider(replies, repeat=True), tools=[send_mail]) as chat:
        made = [(await attempt_case(chat, "scripted/m", case, ValidationTable(), key=KEY)).attempt for _ in range(2)]

    assert [[call.result["success"] for call in attempt.calls] for attempt in made] == [[False, True]] * 2


async def test_the_model_is_offered_the_tools_of_the_case(flexchat_app):
    """Those named, and the case's own beside them or in their place; with its prompt and the table's limits."""
    model = ScriptedProvider(["done"])
    own = CaseTool(name="send_mail", description="Another.", parameters={"type": "object", "properties": {}})
    case = Case(name="c", message="hello", no_call=True, tools=("send_mail",), own_tools=(own,), prompt="Be brief.")
    async with flexchat_app(model, tools=[send_mail, read_mail]) as chat:
        table = ValidationTable(max_tokens=33, temperature=0)
        made = (await attempt_case(chat, "scripted/m", case, table, key=KEY)).attempt

    asked = model.requests[0]
    assert [t["function"]["description"] for t in asked.options.tools] == ["Another."]
    assert [m.content for m in asked.messages] == ["Be brief.", "hello"]
    assert (asked.model, asked.options.max_tokens, asked.options.temperature) == ("m", 33, 0)
    assert made.outcome == "passed"


async def test_messages_follow_each_other_with_their_history(flexchat_app):
    """Calls know which message they answered; tokens and cost are of all of them."""
    model = ScriptedProvider(
        [
            calls(("read_mail", {"number": 1}), usage=Usage(input_tokens=100, output_tokens=10)),
            says("first", usage=Usage(input_tokens=200, output_tokens=20)),
            calls(("read_mail", {"number": 2}), usage=Usage(input_tokens=300, output_tokens=30)),
            says("second", usage=Usage(input_tokens=400, output_tokens=40)),
        ]
    )
    expected = tuple(
        ExpectedTurn(message=f"read {n}", calls=(ExpectedCall(tool="read_mail", arguments={"number": n}),))
        for n in (1, 2)
    )
    table = ValidationTable(prices={"scripted/m": Price(input=2, output=10)})
    async with flexchat_app(model, tools=[read_mail]) as chat:
        made = (await attempt_case(chat, "scripted/m", Case(name="c", turns=expected), table, key=KEY)).attempt

    assert made.outcome == "passed"
    assert [(call.turn, call.params) for call in made.calls] == [(0, {"number": 1}), (1, {"number": 2})]
    assert [m.content for m in model.requests[2].messages if m.role == "user"] == ["read 1", "read 2"]
    assert "first" in [m.content for m in model.requests[2].messages]
    assert made.usage == Usage(input_tokens=1000, output_tokens=100)
    assert made.cost == pytest.approx((1000 * 2 + 100 * 10) / 1e6)
    assert made.content == "second"


async def test_without_a_price_the_cost_is_not_known(attempt):
    """None, and not nothing."""
    assert (await attempt(MAIL, says("x", usage=Usage(input_tokens=1, output_tokens=1)))).cost is None


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ProviderAuthError("no key"), "error"),
        (ProviderConnectionError("away", retryable=False), "error"),
        (ProviderRateLimitError("slow down", kind="quota"), "error"),
        (ProviderOverloadedError("busy", retryable=False), "error"),
        (ProviderTimeoutError("too slow"), "failed"),
        (ProviderTimeoutError("no connection", code=NO_CONNECTION), "error"),
        (TurnTimeoutError(1000, "phase 6"), "failed"),
        (ProviderProtocolError("no JSON"), "error"),
        (ModelNotFoundError("no such model", status=404), "error"),
        (ProviderRequestError("nothing here", kind="not_found", status=404), "error"),
        (ProviderRequestError("m does not support tools", kind="unsupported_tools", status=400), "failed"),
        (ProviderRequestError("tools is not a parameter", status=400), "failed"),
        (ContextLengthError("too long", status=400), "failed"),
        (ContentFilterError("refused", status=400), "failed"),
        (ZeroDivisionError("a plugin's own fault"), "error"),
    ],
)
async def test_only_what_says_something_of_the_model_counts_against_it(attempt, error, outcome):
    """Trouble of its service is an error; a model that refuses tools, or is late, has failed."""
    made = await attempt(MAIL, error)

    assert made.outcome == outcome
    assert str(error) in made.problems[0]
    assert made.aspects == ({"right_tool": False, "right_arguments": False} if outcome == "failed" else {})


@pytest.mark.parametrize(
    ("case", "model_id", "text"),
    [
        (MAIL, "scirpted/m", "no service is called 'scirpted' (did you mean 'scripted'?)"),
        (MAIL, "scripted", "scripted has no default_model"),
        (Case(name="c", message="x", no_call=True, tools=("read_mial",)), "scripted/m", "did you mean 'read_mail'?"),
        (Case(name="c", message="", no_call=True), "scripted/m", "message"),
    ],
)
async def test_what_cannot_be_tried_is_an_error_with_its_sentence(attempt, case, model_id, text):
    """Nothing is raised."""
    made = await attempt(case, "done", model_id=model_id)

    assert made.outcome == "error"
    assert text in made.problems[0]


@pytest.mark.parametrize(
    "replies", [("I will not",), (calls(("send_mail", "{broken")), "done"), (calls(("x", {})), "d")]
)
async def test_a_test_without_the_expected_call_is_no_success(attempt, replies):
    """Whatever else the model does: no call, arguments that are no JSON, a tool that is not there."""
    made = await attempt(MAIL, *replies)

    assert (made.outcome, made.successes) == ("failed", 0)
    assert made.problems


async def test_no_secret_gets_into_what_is_kept(attempt, monkeypatch):
    """Neither from an error, nor from an answer, a call or its result."""
    secret = "sk-abcdefghijklmnop"
    case = Case(name="c", message="x", calls=MAIL.calls, answer=AnswerCheck(contains=("y",)))

    failed = await attempt(case, calls(("send_mail", {"to": secret})), f"it is {secret}")
    broken = await attempt(case, ProviderAuthError(f"the key {secret} was refused"))

    assert secret not in repr((failed, broken))


async def test_an_attempt_says_what_it_was(attempt):
    """Model, run, repetition, case and the hash of its text, time."""
    made = await attempt(MAIL, calls(("send_mail", {"to": "ann"})), "done")

    assert (made.key, made.run, made.case, made.repetition, made.successes, made.tests) == (KEY, "r", "mail", 2, 1, 1)
    assert made.case_hash
    assert made.elapsed_ms > 0
    assert made.at.endswith("+00:00")
    json.dumps([dict(call.result) for call in made.calls])


async def test_cancelling_a_try_cancels_it(flexchat_app):
    """It is the one thing that is not swallowed."""
    waiting = asyncio.Event()

    async def never(messages, options):
        waiting.set()
        await asyncio.Event().wait()

    async with flexchat_app(ScriptedProvider([never]), tools=[send_mail]) as chat:
        task = asyncio.create_task(attempt_case(chat, "scripted/m", MAIL, ValidationTable(), key=KEY))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_models_name_may_have_slashes_and_colons(flexchat_app):
    """The first slash ends the service's name."""
    async with flexchat_app(ScriptedProvider(["x"])) as chat:
        assert split_model(chat, "scripted/org/model:7b") == ("scripted", "org/model:7b")


TWO_SOURCES = """
[llms.scripted]
provider = "scripted"

[[tools.scripted]]
name = "one"

[[tools.scripted]]
name = "two"

[[responses]]
llm = "scripted"
model = "m"
tools = { allowed_tools = ["one/*"] }
"""


@pytest.fixture
def attempt_at_sources(tmp_path, plugin_host):
    """Put a case to a model, with two tool sources that each have a tool ``act``."""
    source = ScriptedSource([sourced("act", effect="write"), sourced("look")])
    assert plugin_host.register(source, "source").status == "active"
    path = tmp_path / "flexchat.toml"
    path.write_text(TWO_SOURCES)

    async def make(case, hooks=()):
        model = ScriptedProvider([calls(("act", {})), says("done")])
        async with FlexChat.from_config(path, plugins=plugin_host, providers={"scripted": model}, hooks=hooks) as chat:
            outcome = await attempt_case(chat, "scripted/m", case, ValidationTable(), key=KEY)
            return outcome.attempt, model

    return make


@pytest.mark.parametrize("source", ["one", "two"])
async def test_the_tool_of_the_named_source_is_offered_and_mocked(attempt_at_sources, source):
    """Its identity is source and name: that another source has a tool of its name changes nothing."""
    ran = []

    class Gate:
        @hookimpl
        def flexchat_before_tool_call(self, tool):
            ran.append((tool.source, tool.name))

    expected = (ExpectedCall(tool="act"),)
    case = Case(
        name="c", message="x", calls=expected, tools=(f"{source}/*",), mocks={"act": ToolMock(result={"by": source})}
    )

    made, model = await attempt_at_sources(case, hooks=[Gate()])

    assert (made.outcome, made.problems) == ("passed", ())
    assert made.calls[0].result["result"] == {"by": source}
    assert ran == [(source, "act")]
    assert len(model.requests[0].options.tools) == 2


@pytest.mark.slow
@pytest.mark.parametrize("tools", [None, ("act",), ("one/*", "two/act"), ("one/*", "two/*")], ids=str)
async def test_two_tools_of_one_name_are_offered_by_no_case(attempt_at_sources, tools):
    """Nor is one of them chosen. The error is not the model's."""
    case = Case(name="c", message="x", calls=(ExpectedCall(tool="act"),), tools=tools)

    made, model = await attempt_at_sources(case)

    assert made.outcome == "error"
    assert "prefix" in made.problems[0] or "no tool is called 'two/act'" in made.problems[0]
    assert model.requests == []


async def test_a_result_does_not_depend_on_another_sources_tool_of_the_same_name():
    """Neither does its hash: only what the case offers counts."""
    ours = ToolDefinition(name="act", description="a", parameters={"type": "object"}, source="one", implementation=MOCK)
    theirs = attrs.evolve(ours, source="two", description="b")
    case = Case(name="c", message="x", no_call=True, tools=("one/*",))

    assert case_hash(case, [ours, theirs]) == case_hash(case, [ours])
    assert case_hash(case, [theirs]) != case_hash(case, [ours])
