"""Calls, and everything that may happen to them: the model gets a sentence, the turn goes on, effects happen once."""

import asyncio
import json
import time

import pytest
from flexchat import Reply, ToolProgress
from flexchat_mcp.tool_call import call_tool

from .conftest import ERAS, MODERN_FIRST, gone, until

pytestmark = pytest.mark.anyio


def effects(folder):
    return len(folder.lines("effects"))


@pytest.mark.quick
@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_is_called(chat_of, folder, era):
    """MCP servers as sources of tools, in both eras of the protocol (TC-9, TC-128)."""
    chat = chat_of(era)

    found = await chat.call_tool("add", {"a": 1, "b": 2})

    assert (found.success, found.result) == (True, "3")
    state = chat.tools.sources.by_name["fake"]._source.server.state
    assert (state.status, state.version) == ("running", {"modern": "2026-07-28", "handshake": "2025-11-25"}[era])


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_half_a_character_ends_no_connection(chat_of, folder, era):
    """Another call under way gets its answer, and the tool gets text that can be sent."""
    folder.tools({"name": "count", "inputSchema": {"type": "object"}})
    chat = chat_of(era)
    await chat.tools.sources.look("fake")
    folder.fault("wait for go")
    slow = asyncio.create_task(chat.call_tool("count", {"n": 1}))
    await until(lambda: len(folder.lines("calls")) == 1)

    found = await chat.call_tool("count", {"text": "a\ud83d", "\udc00": ["\ud83d\ude00"]})
    (folder.path / "go").touch()

    assert found.success
    assert (await slow).success
    assert len(folder.lines("starts")) == 1
    assert json.loads(folder.lines("effects")[1]) == {"text": "a\ufffd", "\ufffd": ["\U0001f600"]}


async def test_text_without_a_form_is_replaced_also_when_no_step_has_done_so(source_of, folder):
    source = source_of()
    result = await source.server.ask(lambda client: call_tool(client, "count", {"text": "a\ud83d"}))

    assert "isError" not in result
    assert json.loads(folder.lines("effects")[0]) == {"text": "a\ufffd"}


@pytest.mark.quick
async def test_wrong_arguments_do_not_get_to_the_server(chat_of, folder):
    chat = chat_of()

    found = await chat.call_tool("add", {"a": "one"})

    assert "Invalid parameters" in found.error
    assert folder.lines("calls") == []


@pytest.mark.quick
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("fault", ["die", "half", "say why and die"])
async def test_a_write_whose_answer_was_lost_is_unknown_and_not_sent_again(chat_of, folder, era, fault):
    chat = chat_of(era)
    folder.fault(fault)

    found = await chat.call_tool("count", {"n": 1})

    assert not found.success
    assert "the MCP server 'fake' did not answer: it ended with exit code" in found.error
    assert "it is unknown whether 'count' took effect" in found.hint
    assert effects(folder) == 1
    if fault.startswith("say"):
        assert "its last words: boom: no more room" in found.error
    assert (await chat.call_tool("count", {"n": 2})).result == "counted"
    assert effects(folder) == 2


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("fault", ["die", "half"])
async def test_a_read_is_asked_again_of_a_fresh_server_once(chat_of, folder, era, fault):
    chat = chat_of(era, effects={"add": "read"})
    folder.fault(fault)
    assert (await chat.call_tool("add", {"a": 1})).result == "1"
    folder.fault(f"always {fault}")
    found = await chat.call_tool("add", {"a": 1})

    assert "did not answer" in found.error
    assert len(folder.lines("calls")) == 4


@pytest.mark.slow
@pytest.mark.quick
async def test_a_server_that_takes_keys_gets_the_same_one_again(chat_of, folder):
    """Of a call that is made again with its key, after its answer was lost."""
    chat = chat_of(idempotency_meta="example.com/key", restarts=50)
    assert chat.tools.sources is not None
    folder.fault("die")
    await chat.call_tool("count", {}, idempotency_key="order-7")
    await chat.call_tool("count", {}, idempotency_key="order-7")
    metas = [json.loads(line)["meta"] for line in folder.lines("calls")]

    assert all(len(meta["example.com/key"]) == 64 for meta in metas)
    assert len({meta["example.com/key"] for meta in metas}) == 1


@pytest.mark.parametrize("era", MODERN_FIRST)
@pytest.mark.parametrize("fault", ["die", "half"])
async def test_a_keyed_call_whose_answer_was_lost_is_made_again(chat_of, folder, era, fault):
    """Without being configured so: the key makes that safe."""
    chat = chat_of(era, idempotency_meta="example.com/key", restarts=50)
    folder.fault(fault)

    found = await chat.call_tool("count", {})

    metas = [json.loads(line)["meta"]["example.com/key"] for line in folder.lines("calls")]
    assert (found.success, len(metas), len(set(metas))) == (True, 2, 1)


@pytest.mark.parametrize("takes_keys", [True, False])
async def test_a_lost_answer_is_tried_again_as_configured_if_the_server_takes_keys(chat_of, folder, takes_keys):
    """All attempts have the same key. Without, nothing that writes is tried again."""
    rest = {"idempotency_meta": "example.com/key"} if takes_keys else {}
    more = {"registry": [{"name": "count", "retry": {"max_attempts": 2, "backoff_ms": 1}}]}
    chat = chat_of(more=more, **rest)
    await chat.tools.sources.look("fake")
    folder.fault("die")

    found = await chat.call_tool("count", {})

    metas = [json.loads(line)["meta"] for line in folder.lines("calls")]
    assert (found.success, len(metas)) == ((True, 2) if takes_keys else (False, 1))
    assert len({meta.get("example.com/key") for meta in metas}) == 1
    assert [effect.state for effect in await chat.effects()] == ["done" if takes_keys else "unknown"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_takes_too_long_is_cancelled(chat_of, folder, era):
    """The server hears of it, and goes on to live if it does."""
    chat = chat_of(era, call_timeout_ms=400)
    await chat.tools.sources.look("fake")
    folder.fault("hang until cancelled")

    found = await chat.call_tool("count", {})

    assert found.error == "Tool execution timed out after 400ms"
    assert "it is unknown whether 'count' took effect" in found.hint
    assert (await chat.call_tool("add", {"a": 2})).result == "2"
    assert len(folder.lines("cancelled")) == 1
    assert len(folder.lines("starts")) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"call_timeout_ms": 500}, "the MCP server 'fake' was not ready in time"),
        ({"start_ms": 400}, "the MCP server 'fake' cannot be used: it did not answer within 0.4 s of its start"),
    ],
)
async def test_a_write_that_never_reached_the_server_is_not_unknown(chat_of, folder, limits, said):
    await chat_of(call_timeout_ms=limits.get("call_timeout_ms")).tools.sources.look("fake")
    chat = chat_of("both", "never start", env={"TOKEN": "hunter2-secret"}, **limits)

    found = await chat.call_tool("count", {})

    assert found.error.partition(";")[0] == said
    assert found.hint is None
    assert effects(folder) == 0


@pytest.mark.slow
async def test_a_list_that_is_asked_for_meanwhile_does_not_vouch_for_a_server(chat_of, folder):
    """It waits for the same server, and would hold up every call until its own time is up."""
    chat = chat_of(call_timeout_ms=400)
    await chat.tools.sources.look("fake")
    folder.fault("stop")
    call = asyncio.ensure_future(chat.call_tool("count", {}))
    await until(lambda: folder.lines("effects"))
    looking = asyncio.ensure_future(chat.tools.sources.look("fake"))

    assert "timed out" in (await call).error
    async with asyncio.timeout(5):
        assert (await looking).status == "open"
    assert len(folder.lines("starts")) == 2


@pytest.mark.slow
async def test_a_server_that_stands_still_is_ended_and_started_again(chat_of, folder):
    chat = chat_of(call_timeout_ms=400)
    await chat.tools.sources.look("fake")
    folder.fault("stop")
    assert "timed out" in (await chat.call_tool("count", {})).error

    started = time.monotonic()
    found = [await chat.call_tool("add", {"a": 2}) for _ in range(6)]

    assert found[-1].result == "2"
    assert time.monotonic() - started < 30
    assert len(folder.lines("starts")) == 2
    assert await asyncio.to_thread(gone, folder.pids()[:1])


async def test_a_turn_that_is_cancelled_leaves_the_server_to_others(chat_of, folder):
    chat = chat_of()
    await chat.call_tool("add", {"a": 1})
    folder.fault("hang until cancelled")
    call = asyncio.ensure_future(chat.call_tool("count", {}))
    await until(lambda: folder.lines("effects"))
    other = await chat.call_tool("add", {"a": 5})
    call.cancel()
    await asyncio.wait([call])

    assert other.result == "5"
    assert (await chat.call_tool("add", {"a": 6})).result == "6"
    assert len(folder.lines("starts")) == 1


@pytest.mark.parametrize("fault", ["flood", "nonsense", "endless line"])
async def test_a_server_that_floods_is_ended(chat_of, folder, fault):
    chat = chat_of(max_bytes=100_000, call_timeout_ms=20_000)
    await chat.call_tool("add", {"a": 1})
    folder.fault(fault)

    found = await chat.call_tool("count", {})

    assert "did not answer: it " in found.error
    assert ("printed" if fault == "nonsense" else "sent") in found.error
    assert (await chat.call_tool("add", {"a": 2})).result == "2"
    assert await asyncio.to_thread(gone, folder.pids()[:1])


@pytest.mark.parametrize(("tool", "unknown"), [("add", False), ("count", True)])
async def test_an_answer_that_is_too_large_is_said(chat_of, folder, tool, unknown):
    """The server lives. What was to change something has done so, perhaps."""
    chat = chat_of(max_bytes=100_000, effects={"add": "read"})
    folder.fault("large 500000")

    found = await chat.call_tool(tool, {"a": 1})

    assert "its answer is longer than 100,000 bytes" in found.error
    assert ("unknown whether" in found.hint) is unknown
    assert (await chat.call_tool("add", {"a": 2})).result == "2"
    assert len(folder.lines("starts")) == 1


@pytest.mark.parametrize("era", MODERN_FIRST)
@pytest.mark.parametrize(("tool", "unknown"), [("add", False), ("count", True)])
async def test_so_is_one_of_too_many_parts(chat_of, folder, era, tool, unknown):
    chat = chat_of(era, max_bytes=10**6, effects={"add": "read"})
    folder.fault(json.dumps({"content": [1] * 150_000}))

    found = await chat.call_tool(tool, {"a": 1})

    assert "its answer has more than 100,000 parts" in found.error
    assert ("unknown whether" in (found.hint or "")) is unknown
    assert (await chat.call_tool("add", {"a": 2})).result == "2"


@pytest.mark.slow
@pytest.mark.timed
async def test_an_answer_of_wrong_parts_takes_no_time(chat_of, folder):
    """To list the faults of each would take a minute for these."""
    chat = chat_of(max_bytes=10**6, effects={"add": "read"})
    await chat.tools.sources.look("fake")
    folder.fault(json.dumps({"content": [1] * 90_000}))
    started = time.monotonic()

    found = await chat.call_tool("add", {"a": 1})

    assert found.result.startswith("1\n1\n")
    assert time.monotonic() - started < 20


@pytest.mark.slow
@pytest.mark.timed
async def test_a_large_answer_takes_linear_time(source_of, folder):
    """Of 30 MB, about 1 s. The SDK's own transport takes 7 s for 10 MB, and more than a minute for 30 MB."""
    source = source_of(max_bytes=40 * 2**20)
    await source.tools()
    folder.fault("large 30000000")
    started = time.monotonic()
    result = await source.server.ask(lambda client: call_tool(client, "add", {"a": 1}))

    assert len(result["content"][0]["text"]) == 30_000_000
    assert time.monotonic() - started < 40


async def test_prints_on_stdout_are_borne(chat_of, folder, caplog):
    chat = chat_of("both", "print first")
    folder.fault("print")

    assert (await chat.call_tool("count", {})).result == "fine"
    assert [r.message for r in caplog.records if "prints on its stdout" in r.message] == [
        "MCP server 'fake' prints on its stdout, which is for messages"
    ]


@pytest.mark.parametrize("era", MODERN_FIRST)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("refuse", "the MCP server 'fake' refused the call: Unknown tool: add (-32602)"),
        ("not a result", "its answer is not what MCP says: content: Input should be a valid list"),
        ({"content": [{"type": "text", "text": "no such city"}], "isError": True}, "no such city"),
        ({"content": [], "isError": True}, "the tool failed and does not say why"),
    ],
)
async def test_what_the_server_refuses_is_said(chat_of, folder, era, fault, said):
    chat = chat_of(era, effects={"*": "read"})
    folder.fault(fault if isinstance(fault, str) else json.dumps(fault))

    found = await chat.call_tool("add", {"a": 1})

    assert said in found.error
    assert "MCP says: MCP" not in found.error
    assert (await chat.call_tool("add", {"a": 2})).result == "2"


@pytest.mark.parametrize("era", MODERN_FIRST)
@pytest.mark.parametrize(
    ("meta", "state"),
    [({"flexchat.dev/effect": "unknown"}, "unknown"), ({"flexchat.dev/effect": "failed"}, "failed"), ({}, "failed")],
)
async def test_an_error_that_the_server_marks_as_unknown_is_unknown(chat_of, folder, era, meta, state):
    """Recorded as failed, it could be called again under a key that the server refuses, or under none."""
    chat = chat_of(era)
    folder.fault(answers({"type": "text", "text": "who knows"}, isError=True, _meta=meta))

    found = await chat.call_tool("count", {}, idempotency_key="k")

    (effect,) = await chat.effects()
    assert (found.error, found.is_unknown, effect.state) == ("who knows", state == "unknown", state)


@pytest.mark.quick
@pytest.mark.parametrize("era", ERAS)
async def test_a_person_answers_what_a_server_asks(chat_of, folder, era):
    """And the tool that changes something has done it once."""
    chat, asked = chat_of(era), []
    folder.fault("ask")

    def on_question(question):
        asked.append(question)
        return Reply(action="accept", content={"seat": "aisle"})

    found = await chat.call_tool("count", {"n": 1}, on_question=on_question)

    assert json.loads(found.result) == {"action": "accept", "content": {"seat": "aisle"}}
    assert [(one.message, one.tool) for one in asked] == [("Which seat?", "count")]
    assert asked[0].schema["properties"]["seat"]["default"] == "any"
    assert effects(folder) == 1


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("on_question", "action", "why"),
    [
        (None, "decline", "nobody can be asked here"),
        (lambda question: Reply(action="accept", content={"seat": 7}), "cancel", "seat must be a string"),
        (lambda question: 1 / 0, "cancel", "it could not be asked"),
    ],
)
async def test_a_question_without_an_answer_is_declined_and_the_model_reads_why(
    chat_of, folder, era, on_question, action, why
):
    chat = chat_of(era)
    folder.fault("ask")

    found = await chat.call_tool("add", {"a": 1}, on_question=on_question)

    assert json.loads(found.result["result"]) == {"action": action}
    assert found.result["note"].startswith("the tool asked: Which seat? It got no answer: ")
    assert why in found.result["note"]


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_who_says_no_is_not_explained(chat_of, folder, era):
    chat = chat_of(era)
    folder.fault("ask")

    found = await chat.call_tool("add", {"a": 1}, on_question=lambda question: Reply(action="decline"))

    assert json.loads(found.result) == {"action": "decline"}


async def test_a_server_that_does_not_say_which_call_asks_gets_no_answer_of_another_person(chat_of, folder):
    """Of the older era; two people's calls are under way."""
    chat, asked = chat_of("handshake"), []

    async def one(question):
        asked.append("one")
        return Reply(action="accept", content={"seat": "aisle"})

    async def other(question):
        asked.append("other")
        return Reply(action="accept", content={"seat": "window"})

    folder.fault("hang until cancelled")
    hanging = asyncio.create_task(chat.call_tool("add", {"a": 1}, on_question=one))
    await until(lambda: len(folder.lines("calls")) == 1)
    folder.fault("ask")
    found = await chat.call_tool("add", {"a": 2}, on_question=other)
    hanging.cancel()
    await asyncio.wait({hanging})

    assert json.loads(found.result) == {"action": "cancel"}
    assert asked == []


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_a_call_that_is_stopped_asks_nobody_any_more(chat_of, folder, era):
    chat, asked, stopped = chat_of(era), asyncio.Event(), []

    async def on_question(question):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(question.message)

    folder.fault("ask")
    calling = asyncio.create_task(chat.call_tool("add", {"a": 1}, on_question=on_question))
    await asked.wait()
    calling.cancel()
    await asyncio.wait({calling})
    await until(lambda: stopped)

    assert stopped == ["Which seat?"]
    folder.fault("")
    assert (await chat.call_tool("add", {"a": 2})).result == "2"


async def test_structured_content_is_held_to_what_was_accepted(chat_of, folder):
    """A write that broke its promise has happened all the same."""
    output = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema = {"type": "object"}
    folder.tools(
        {"name": "look", "description": "Look.", "inputSchema": schema, "outputSchema": output},
        {"name": "count", "description": "Count.", "inputSchema": schema, "outputSchema": output},
    )
    chat = chat_of(effects={"look": "read"})
    fault = json.dumps({"content": [{"type": "text", "text": "hm"}], "structuredContent": {"n": "x"}})

    folder.fault(fault)
    found = await chat.call_tool("look", {})
    folder.fault(fault)
    written = await chat.call_tool("count", {})
    folder.fault(json.dumps({"content": [{"type": "text", "text": "hm"}]}))
    only_text = await chat.call_tool("look", {})

    assert "the tool's answer is not what it promises: n must be an integer" in found.error
    assert written.success
    assert only_text.result == "hm"


async def test_structured_content_that_cannot_be_checked_is_refused(chat_of, folder):
    output = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    folder.tools({"name": "look", "description": "Look.", "inputSchema": {"type": "object"}, "outputSchema": output})
    chat = chat_of(effects={"look": "read"})

    folder.fault(json.dumps({"content": [], "structuredContent": {"n": [1] * 60_000 + ["x"]}}))
    found = await chat.call_tool("look", {})

    assert "not what it promises: it holds too many values to be checked in time" in found.error


async def test_an_unusable_output_schema_is_reported_and_promises_nothing(chat_of, folder, caplog):
    tool = {
        "name": "look",
        "description": "Look.",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "flaot"},
    }
    folder.tools(tool)
    chat = chat_of(effects={"look": "read"})

    folder.fault(json.dumps({"content": [{"type": "text", "text": "hm"}]}))
    found = await chat.call_tool("look", {})

    assert found.result == "hm"
    assert "'look': its results are not checked, because its outputSchema is unusable" in caplog.text


@pytest.mark.quick
@pytest.mark.slow
async def test_one_broken_server_does_not_touch_another(chat_of, folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    command = [*folder.command()[:3], str(other)]
    chat = chat_of("both", "never start", start_ms=300, others=[{"name": "good", "command": command, "prefix": "g_"}])

    broken, good = await asyncio.gather(chat.call_tool("add", {"a": 1}), chat.call_tool("g_add", {"a": 1}))

    assert good.result == "1"
    assert broken.error == "Tool 'add' not found"
    (missing,) = chat.tools.sources.missing(["fake/*"])
    assert missing.startswith("tool source 'fake': it did not answer within 0.3 s of its start")
    assert "hunter2" not in missing


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_how_far_a_server_is_reaches_who_watches_the_turn(chat_of, folder, era):
    chat = chat_of(era, effects={"add": "read"})
    folder.fault("progress")
    told = []

    async for event in chat.stream("add a 1 and b 2 with fake"):
        if isinstance(event, ToolProgress):
            told.append((event.tool, event.progress, event.total, event.message))

    assert told == [("add", 1, 2, "adding")]


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_a_trace_goes_on_in_the_server(chat_of, folder, era):
    """W3C trace context in _meta, where OpenTelemetry has a span."""
    from opentelemetry import trace

    chat = chat_of(era)
    span = trace.NonRecordingSpan(trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1)))
    with trace.use_span(span):
        await chat.call_tool("add", {"a": 1})

    (call,) = [json.loads(line) for line in folder.lines("calls")]
    assert call["meta"]["traceparent"].split("-")[1] == f"{0xABC:032x}"


# Media


IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def answers(*blocks, **rest):
    return json.dumps({"content": [*blocks], **rest})


@pytest.mark.quick
@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_an_image_is_part_of_the_result(chat_of, folder, era):
    chat = chat_of(era)
    picture = {"type": "image", "data": IMAGE, "mimeType": "image/png"}
    folder.fault(answers({"type": "text", "text": "a dot"}, picture))

    found = await chat.call_tool("add", {"a": 1})

    assert (found.success, found.result, found.left_out) == (True, "a dot", ())
    assert [(part.kind, part.mime_type, part.data[:4]) for part in found.media] == [("image", "image/png", b"\x89PNG")]


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"data": "PGh0bWw+", "mimeType": "image/png"}, "image/png, 6 bytes: left out, its data are not image/png"),
        ({"data": "", "mimeType": "image/png"}, "image/png, 0 bytes: left out, it is empty"),
        ({"data": IMAGE, "mimeType": "png"}, "'png': left out, that is not a media type such as image/png"),
        ({"data": IMAGE, "mimeType": ""}, "'': left out, that is not a media type such as image/png"),
    ],
)
async def test_an_image_that_is_none_is_told_in_words(chat_of, folder, block, said):
    """It never gets to a model's service, which would refuse the conversation from then on."""
    chat = chat_of()
    folder.fault(answers({"type": "image", **block}))

    found = await chat.call_tool("add", {"a": 1})

    assert (found.success, found.media, found.left_out) == (True, (), (said,))


async def test_an_error_is_a_text(chat_of, folder):
    chat = chat_of()
    folder.fault(answers({"type": "image", "data": IMAGE, "mimeType": "image/png"}, isError=True))

    found = await chat.call_tool("add", {"a": 1})

    assert (found.success, found.media) == (False, ())
    assert found.error == "[image image/png, 70 bytes: not shown]"
