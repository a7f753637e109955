"""Spans of turns: their tree, what they state, and what they leave out."""

import asyncio
import json
import logging

import attrs
import pytest
from flexchat import (
    ConfigError,
    Embeddings,
    FlexChat,
    ProviderError,
    Reply,
    ToolContext,
    new_conversation_id,
    tool,
)
from flexchat.domain.prices import Usage
from flexchat_otel.settings import VERSIONS
from flexchat_testing import ScriptedProvider, calls, says
from opentelemetry import trace

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = int(GIVEN.split("-")[1], 16)
SECRET = "hunter2-hunter2"


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def fail(text: str = "") -> str:
    """Fail."""
    raise RuntimeError(text)


@tool(effect="read")
async def where(context: ToolContext) -> str:
    """Return the trace context that this tool's requests pass on."""
    return context.traceparent


def parent_of(span, spans):
    return next((each.name for each in spans if span.parent and each.context.span_id == span.parent.span_id), None)


def usage_of(text):
    return attrs.evolve(says(text), usage=Usage(input_tokens=7, output_tokens=3, cache_read_tokens=2), model="m1-0101")


async def test_the_tree_of_a_turn(sdk, chat_of):
    async with chat_of(calls(("add", {"a": 1, "b": 2})), usage_of("three"), tools=[add]) as chat:
        await chat.respond("1 + 2?", temperature=0.5, top_p=1, max_tokens=50, stop="END", seed=3)
    spans = sdk.spans
    assert sorted((span.name, parent_of(span, spans)) for span in spans) == [
        ("chat m1", "phase response generation"),
        ("chat m1", "phase response generation"),
        ("execute_tool add", "phase response generation"),
        ("invoke_agent main", None),
        ("phase response generation", "invoke_agent main"),
    ]
    assert len({span.context.trace_id for span in spans}) == 1
    chat_span = [span for span in spans if span.name == "chat m1"][1]
    assert chat_span.attributes["gen_ai.usage.input_tokens"] == 7
    assert chat_span.attributes["gen_ai.usage.cache_read.input_tokens"] == 2
    assert chat_span.attributes["gen_ai.response.model"] == "m1-0101"
    assert chat_span.attributes["gen_ai.request.temperature"] == 0.5
    assert chat_span.attributes["gen_ai.request.stop_sequences"] == ("END",)
    assert sdk.named("invoke_agent main").attributes["flexchat.turn.status"] == "done"
    sdk.check()


async def test_the_metrics_of_a_turn(sdk, chat_of):
    async with chat_of(calls(("add", {"a": 1, "b": 2})), usage_of("three"), tools=[add]) as chat:
        await chat.respond("1 + 2?")
    metrics = sdk.metrics
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum
        for point in metrics["gen_ai.client.token.usage"].data.data_points
    }
    assert tokens == {"input": 7, "output": 3}
    assert sum(p.count for p in metrics["gen_ai.client.operation.duration"].data.data_points) == 2
    (point,) = metrics["gen_ai.execute_tool.duration"].data.data_points
    span = sdk.named("execute_tool add")
    assert point.sum == pytest.approx((span.end_time - span.start_time) / 1e9)
    (ran,) = metrics["gen_ai.invoke_agent.duration"].data.data_points
    assert ran.attributes["flexchat.turn.status"] == "done"
    sdk.check()


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_keeps_to_its_data(sdk, chat_of, version):
    """Each file of names against the facts of that version, with content and without, failures included."""
    sdk.version = version
    script = (
        calls(("add", {"a": 1, "b": 2}), ("fail", {"text": "x"}), ("nothing", {}), ("add", {"a": "one"})),
        usage_of("done"),
        ProviderError("down", provider="scripted"),
    )
    for content in ((), ("invoke_agent", "chat", "execute_tool", "retrieval")):
        sdk.has_content = sdk.has_content or bool(content)
        async with chat_of(*script, tools=[add, fail], telemetry={"semconv": version, "content": content}) as chat:
            await chat.respond("go", conversation=new_conversation_id())
            with pytest.raises(ProviderError):
                await chat.respond("again")
    kinds = {span.attributes.get("error.type") for span in sdk.spans}
    assert {"tool_error", "not_found", "invalid_arguments", "ProviderError", None} <= kinds
    sdk.check()


async def test_content_is_off_by_default(sdk, chat_of):
    async with chat_of(calls(("add", {"a": 1234, "b": 2})), "the sum is 1236", tools=[add, fail]) as chat:
        await chat.respond("add twelve hundred")
    everything = json.dumps([dict(span.attributes) for span in sdk.spans])
    assert "1234" not in everything
    assert "1236" not in everything
    assert "twelve" not in everything


async def test_content_is_per_kind_and_masked(sdk, chat_of):
    telemetry = {"content": ["execute_tool"], "max_content_chars": 40}
    script = calls(("fail", {"text": f"password={SECRET}"})), "I failed with many words"
    async with chat_of(*script, tools=[fail], telemetry=telemetry) as chat:
        await chat.respond("go")
    span = sdk.named("execute_tool fail")
    assert SECRET not in json.dumps(dict(span.attributes))
    assert "***" in span.attributes["gen_ai.tool.call.arguments"]
    assert all("gen_ai.input.messages" not in each.attributes for each in sdk.spans)


CANARY = "canary-4711-in-a-message"
KEY = "sk-canary-1234567890abcdefghij"
KINDS = ("invoke_agent", "chat", "execute_tool", "retrieval")


@tool(effect="read")
async def echo(text: str) -> str:
    """Return the text."""
    return f"{text}, again"


async def everything_recorded(sdk, caplog, content):
    """Run turns full of a canary and of a key; return all that spans, metrics and logs hold, in two texts."""
    asked = f"{CANARY} {KEY}"
    script = (
        calls(("echo", {"text": asked}), ("fail", {"text": asked}), (asked, {}), ("echo", {"wrong": asked})),
        usage_of(f"the answer: {asked}"),
        ProviderError(f"the service failed: {asked}", provider="scripted"),
    )
    config = {
        "llms": {"other": {"provider": "openai", "api_key": KEY}},
        "stores": {"notes": {"provider": "memory", "documents": [{"id": "a", "text": asked, "title": asked}]}},
        "responses": [
            {"name": "main", "llm": "m", "model": "m1", "prompt": "{{documents}}", "tools": {"enabled": True}}
        ],
        "telemetry": {"content": content},
    }
    provider = Embedder(script)
    with caplog.at_level(logging.DEBUG):
        async with FlexChat.from_config(config, tools=[echo, fail], providers={"m": provider}) as chat:
            await chat.embed([asked], model="e1", llm="m")
            await chat.respond(asked, idempotency_key="k")
            with pytest.raises(ProviderError):
                await chat.respond(asked)
    spans = [span.to_json() for span in sdk.spans]
    logs = [f"{record.getMessage()} {getattr(record, 'fields', '')} {record.exc_text}" for record in caplog.records]
    return "\n".join([*spans, sdk.reader.get_metrics_data().to_json()]), "\n".join(logs)


async def test_no_content_is_anywhere_unless_it_is_asked_for(sdk, caplog):
    recorded, logged = await everything_recorded(sdk, caplog, ())
    assert "execute_tool echo" in recorded
    assert "execute_tool _OTHER" in recorded  # a model has invented the tool's name
    assert CANARY not in recorded
    assert KEY not in recorded
    assert KEY not in logged


@pytest.mark.parametrize("kind", KINDS)
async def test_content_is_on_spans_of_its_kind_alone_and_without_keys(sdk, caplog, kind):
    recorded, logged = await everything_recorded(sdk, caplog, (kind,))
    assert KEY not in recorded
    assert KEY not in logged
    content = {"input", "output", "arguments", "result", "documents", "query"}
    shows = {
        span.name.partition(" ")[0]
        for span in sdk.spans
        for name in span.attributes
        if name.startswith("gen_ai.")
        and content & {*name.split(".")}
        and "usage" not in name
        and "output.type" not in name
    }
    assert shows == {kind}


async def test_long_content_is_shortened(sdk, chat_of):
    telemetry = {"content": ["chat"], "max_content_chars": 40}
    async with chat_of("y" * 1000, telemetry=telemetry) as chat:
        await chat.respond("x" * 1000)
    (message,) = json.loads(sdk.named("chat m1").attributes["gen_ai.input.messages"])
    assert message["parts"][0]["content"] == "x" * 40 + "…"


async def test_a_tool_passes_its_own_span_on(sdk, chat_of):
    async with chat_of(calls(("where", {})), "ok", tools=[where]) as chat:
        turn = await chat.respond("where?", traceparent=GIVEN)
    span = sdk.named("execute_tool where")
    assert turn.tool_calls[0].result.result == f"00-{TRACE:032x}-{span.context.span_id:016x}-01"
    root = sdk.named("invoke_agent main")
    assert root.context.trace_id == TRACE
    assert root.parent.span_id == int(GIVEN.split("-")[2], 16)
    assert turn.traceparent == f"00-{TRACE:032x}-{root.context.span_id:016x}-01"


async def test_the_span_around_a_turn_is_its_parent(sdk, chat_of):
    async with chat_of("hi") as chat:
        with trace.get_tracer("app").start_as_current_span("request") as outer:
            await chat.respond("hello")
            assert trace.get_current_span() is outer
    assert sdk.named("invoke_agent main").parent.span_id == outer.get_span_context().span_id
    assert not trace.get_current_span().get_span_context().is_valid


async def test_spans_of_the_tools_own_are_inside(sdk, chat_of):
    @tool(effect="read")
    def sync() -> str:
        """Run in a thread, with a span."""
        with trace.get_tracer("app").start_as_current_span("query"):
            return "ok"

    async with chat_of(calls(("sync", {}), ("sync", {})), "ok", tools=[sync]) as chat:
        await chat.respond("go")
    spans = sdk.spans
    assert [parent_of(span, spans) for span in spans if span.name == "query"] == ["execute_tool sync"] * 2


async def test_a_failed_turn_leaves_no_span_behind(sdk, chat_of):
    async with chat_of(ProviderError("down", provider="scripted"), "hi") as chat:
        with pytest.raises(ProviderError):
            await chat.respond("hello")
        assert not trace.get_current_span().get_span_context().is_valid
        await chat.respond("hello")
    first, second = [span for span in sdk.spans if span.name == "invoke_agent main"]
    assert first.attributes["error.type"] == "ProviderError"
    assert first.attributes["flexchat.turn.status"] == "failed"
    assert first.context.trace_id != second.context.trace_id
    sdk.check()


async def test_a_cancelled_turn_ends_all_its_spans(sdk, chat_of):
    begun = asyncio.Event()

    @tool(effect="read")
    async def wait() -> None:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()

    async with chat_of(calls(("wait", {})), tools=[wait]) as chat:
        task = asyncio.create_task(chat.respond("go"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert sdk.named("invoke_agent main").attributes["flexchat.turn.status"] == "cancelled"
    assert sdk.named("execute_tool wait").attributes["error.type"] == "CancelledError"
    sdk.check()


async def test_a_nested_turn_is_linked_from_its_tool(sdk, chat_of):
    @tool(effect="read")
    async def ask() -> str:
        """Ask the chat itself."""
        return (await chat.respond("inner")).content

    async with chat_of(calls(("ask", {})), "inner answer", "outer answer", tools=[ask]) as chat:
        await chat.respond("outer")
    inner, outer = [span for span in sdk.spans if span.name == "invoke_agent main"]
    span = sdk.named("execute_tool ask")
    assert inner.parent.span_id == span.context.span_id
    assert [(link.context.span_id, dict(link.attributes)) for link in span.links] == [
        (inner.context.span_id, {"flexchat.link": "nested_turn"})
    ]
    assert outer.parent is None
    sdk.check()


async def test_waiting_for_a_person_has_its_own_span(sdk, chat_of):
    @tool(effect="read")
    async def sure(context: ToolContext) -> str:
        """Ask."""
        return (await context.ask("Sure?")).action

    async def person(question):
        await asyncio.sleep(0.01)
        return Reply(action="accept")

    async with chat_of(calls(("sure", {})), "ok", tools=[sure]) as chat:
        await chat.respond("go", on_question=person)
    spans = sdk.spans
    assert parent_of(sdk.named("wait person"), spans) == "execute_tool sure"
    (point,) = sdk.metrics["flexchat.wait.duration"].data.data_points
    assert point.attributes["flexchat.wait.reason"] == "person"
    sdk.check()


async def test_a_suspended_turn_goes_on_in_its_trace(sdk, chat_of):
    @tool(effect="read", approve=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    config = {"questions": {"expires": "1h"}}
    async with chat_of(calls(("pay", {})), tools=[pay], **config) as chat:
        turn = await chat.respond("pay", conversation=new_conversation_id(), traceparent=GIVEN)
        assert turn.status == "suspended"
        (question,) = await chat.pending()
    async with chat_of("paid", tools=[pay], **config) as other:
        handle = await other.answer(question.id, Reply(action="accept"))
        await handle.result()
    first, second = [span for span in sdk.spans if span.name == "invoke_agent main"]
    assert first.context.trace_id == second.context.trace_id == TRACE
    assert (first.attributes["flexchat.turn.status"], second.attributes["flexchat.turn.status"]) == (
        "suspended",
        "done",
    )
    assert second.attributes["flexchat.turn.is_resumed"] is True
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert "wait person" in [span.name for span in sdk.spans]
    sdk.check()


async def test_a_worker_goes_on_in_the_trace(sdk, chat_of):
    async with chat_of() as chat:
        await chat.submit("hello", conversation=new_conversation_id(), traceparent=GIVEN)
    async with chat_of("hi") as worker:
        (handle,) = await worker.resume_interrupted()
        await handle.result()
    accepted, ran = [span for span in sdk.spans if span.name.startswith("invoke_agent")]
    assert accepted.attributes["flexchat.turn.status"] == "accepted"
    assert ran.parent.span_id == accepted.context.span_id
    assert {span.context.trace_id for span in sdk.spans} == {TRACE}
    assert "wait queue" in [span.name for span in sdk.spans]
    sdk.check()


async def test_calls_outside_turns_are_traced(sdk, chat_of):
    async with chat_of(tools=[add]) as chat:
        await chat.call_tool("add", {"a": 1, "b": 2})
        await chat.call_tool("add", {"a": "one", "b": 2})
    first, second = sdk.spans
    assert (first.name, first.parent) == ("execute_tool add", None)
    assert second.attributes["error.type"] == "invalid_arguments"
    sdk.check()


async def test_what_is_only_explained_ends_as_well(sdk, chat_of):
    async with chat_of() as chat:
        await chat.explain("hello")
    assert sdk.named("invoke_agent main")
    sdk.check()


async def test_retrieval(sdk, tmp_path):
    chat = FlexChat.from_config(
        {
            "stores": {"notes": {"provider": "memory", "documents": []}},
            "responses": [{"name": "main", "llm": "m", "model": "m1", "prompt": "{{documents}}"}],
            "telemetry": {"content": ["retrieval"]},
        },
        providers={"m": ScriptedProvider(["hi"])},
    )
    sdk.has_content = True
    async with chat:
        await chat.respond("hello")
    spans = sdk.spans
    (span,) = [each for each in spans if each.name.startswith("retrieval")]
    assert parent_of(span, spans) == "phase rag collection"
    sdk.check()


class Embedder(ScriptedProvider):
    """Makes vectors of three numbers; fails on the text "bad"."""

    name = "openai"

    async def embed(self, texts, model, **_):
        if "bad" in texts:
            raise ProviderError("down", provider="scripted", code="overloaded")
        usage = Usage(input_tokens=2 * len(texts), output_tokens=0)
        return Embeddings(vectors=tuple((1.0, 0.0, 0.0) for _ in texts), model=f"{model}-0101", usage=usage)


@pytest.mark.parametrize("version", VERSIONS)
async def test_embeddings(sdk, version):
    sdk.version = version
    config = {"responses": [{"llm": "m", "model": "m1"}], "telemetry": {"semconv": version}}
    async with FlexChat.from_config(config, providers={"m": Embedder([])}) as chat:
        await chat.embed(["a secret text", "another"], model="e1")
        with pytest.raises(ProviderError):
            await chat.embed(["bad"], model="e1")
    first, second = sdk.spans
    assert first.name == "embeddings e1"
    assert first.attributes["gen_ai.embeddings.dimension.count"] == 3
    assert first.attributes["gen_ai.usage.input_tokens"] == 4
    assert first.attributes["flexchat.embeddings.texts"] == 2
    assert second.attributes["error.type"] == "overloaded"
    (tokens,) = sdk.metrics["gen_ai.client.token.usage"].data.data_points
    assert (tokens.attributes["gen_ai.token.type"], tokens.sum) == ("input", 4)
    assert "secret" not in json.dumps([dict(span.attributes) for span in sdk.spans])
    sdk.check()


@pytest.mark.slow
async def test_a_million_names_are_capped_and_reported(sdk, chat_of, caplog):
    """A model invents names of tools; a label has max_values of them."""
    async with chat_of(tools=[add], telemetry={"max_values": 10}) as chat:
        observer = next(step.step.observer for step in chat.hooks.steps if step.step.name == "telemetry")
        with caplog.at_level(logging.WARNING):
            for number in range(1_000_000):
                observer.metrics.limited("tool", f"tool_{number}")
        for number in range(30):
            await chat.call_tool(f"tool_{number}", {})
        observer.tools = frozenset(f"tool_{number}" for number in range(30))
        for number in range(30):
            await chat.call_tool(f"tool_{number}", {})
    names = {
        point.attributes["gen_ai.tool.name"] for point in sdk.metrics["gen_ai.execute_tool.duration"].data.data_points
    }
    assert len(names) == 11
    assert "_OTHER" in names
    assert len({span.name for span in sdk.spans}) == 11
    assert [r.getMessage() for r in caplog.records if "max_values" in r.getMessage()] == [
        "telemetry.max_values: over 10 values of 'tool'; further ones are counted as _OTHER"
    ]
    assert sum(p.value for p in sdk.metrics["flexchat.telemetry.capped"].data.data_points) >= 999_990


async def test_an_unsampled_turn_has_no_spans_and_all_its_metrics(sdk, chat_of, monkeypatch):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    provider = TracerProvider(sampler=ALWAYS_OFF)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    async with chat_of(calls(("where", {})), "ok", tools=[where]) as chat:
        turn = await chat.respond("go")
    assert not int(turn.tool_calls[0].result.result[-2:], 16) & trace.TraceFlags.SAMPLED
    assert sdk.spans == []
    assert sdk.metrics["gen_ai.execute_tool.duration"]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"semconv": "2026-1"}, "there are no conventions '2026-1' (did you mean '2026-10'?)"),
        ({"semconv": "latest"}, "there are no conventions 'latest' (1.41, 2026-10)"),
        ({"content": ["chats"]}, "chat"),
        ({"max_values": 0}, "max_values"),
        ({"contents": []}, "content"),
    ],
)
def test_a_wrong_table_is_refused(table, text):
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_config(
            {"responses": [{"llm": "m", "model": "m"}], "telemetry": table}, providers={"m": ScriptedProvider([])}
        )
    assert text in str(caught.value)


def test_without_an_sdk_nothing_is_registered():
    chat = FlexChat.from_config({"responses": [{"llm": "m", "model": "m"}]}, providers={"m": ScriptedProvider([])})
    assert not chat.hooks.traces
    assert chat.hooks.steps == ()
