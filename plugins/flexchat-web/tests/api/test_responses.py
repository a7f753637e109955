"""OpenAI's Responses: its official client talks to a configuration."""

import asyncio
import json

import openai
import pytest
from flexchat import Usage
from flexchat_sdk import ProviderOverloadedError
from flexchat_testing import calls, says

LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}
BOTH = calls(("look", {"at": "sky"}), ("get_weather", {"city": "Rome"}), text="One moment.")
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
USED = Usage(input_tokens=10, output_tokens=4, cache_read_tokens=3)


@pytest.fixture
async def asking(told, client_of, tmp_path):
    """Make an official client of the app, which keeps conversations: await asking(model's replies)."""
    made = []

    async def make(*replies, kept=True, **settings):
        told.model = told.says(*replies)
        told.tables.pop("conversations", None)
        if kept:
            told.tables["conversations"] = {"path": str(tmp_path / "chat.db")}
        http = client_of(told.app(**settings))
        url = "http://127.0.0.1/v1"
        made.append(openai.AsyncOpenAI(api_key="x", base_url=url, http_client=http, max_retries=0))
        return made[-1]

    yield make
    for client in made:
        await client.close()


async def ask(client, given, stream=False, **more):
    """Ask, and return the response; of a stream, the last one, after its events have been checked."""
    more = {"model": "flexchat", "input": given, **more}
    if not stream:
        return await client.responses.create(**more)
    events = [event async for event in await client.responses.create(stream=True, **more)]
    assert [event.sequence_number for event in events] == [*range(len(events))]
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    added = [event for event in events if event.type == "response.output_item.added"]
    done = [event for event in events if event.type == "response.output_item.done"]
    assert [event.item.id for event in added] == [event.item.id for event in done]
    assert [event.output_index for event in done] == [*range(len(done))]
    last = events[-1]
    if last.type != "response.failed":
        assert [event.item for event in done] == last.response.output
        texts = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert "".join(texts) == last.response.output_text
    return last.response


def output_of(response, output="a cloud"):
    found = [item for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": item.call_id, "output": output} for item in found]


def after(gate, text):
    """A reply that comes once the gate is open."""

    async def reply(messages, options):
        await gate.wait()
        return text

    return reply


async def ended(client, id):
    """The response, once it has ended."""
    async with asyncio.timeout(30):
        while (shown := await client.responses.retrieve(id)).status in ("queued", "in_progress"):  # noqa: ASYNC110  polled
            await asyncio.sleep(0.01)
    return shown


def roles(messages):
    return [message.role for message in messages]


def sent(told, at=-1):
    return told.model.requests[at].messages


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["flexchat", "robot/r1"])
async def test_a_response_has_the_text_and_the_usage(asking, told, stream, model):
    """As OpenAI has them, with the whole turn beside them; instructions come first."""
    client = await asking(calls(("get_weather", {"city": "Rome"}), usage=USED), says("It is warm.", usage=USED))
    found = await ask(client, "Rome?", stream, model=model, instructions="Be brief.", metadata={"a": "b"})
    assert (found.object, found.status, found.model, found.output_text) == (
        *("response", "completed", model, "It is warm."),
    )
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.total_tokens) == (20, 8, 28)
    assert found.usage.input_tokens_details.cached_tokens == 6
    assert (found.instructions, found.metadata) == ("Be brief.", {"a": "b"})
    assert found.flexchat["tool_calls"][0]["result"]["result"] == {"celsius": 21}
    assert [(m.role, m.content) for m in sent(told, 0)] == [("system", "Be brief."), ("user", "Rome?")]
    assert found.store is (model == "flexchat")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stored_response_is_continued_and_shown(asking, told, stream):
    """previous_response_id has the earlier messages, but not its instructions."""
    client = await asking(says("Hello."), says("Ada."))
    first = await ask(client, "I am Ada.", stream, instructions="Be brief.")
    second = await ask(client, "Who am I?", stream, previous_response_id=first.id)
    assert [(m.role, m.content) for m in sent(told)] == [
        *(("user", "I am Ada."), ("assistant", "Hello."), ("user", "Who am I?")),
    ]
    shown = await client.responses.retrieve(second.id)
    assert (shown.status, shown.output_text, shown.previous_response_id) == ("completed", "Ada.", first.id)
    assert (await client.responses.retrieve(first.id)).instructions == "Be brief."
    items = await client.responses.input_items.list(second.id)
    assert [item.content[0].text for item in items.data] == ["Who am I?"]
    with pytest.raises(openai.BadRequestError, match="has no branches"):
        await ask(client, "And now?", stream, previous_response_id=first.id)


async def test_a_response_that_is_not_stored_cannot_be_shown(asking, told):
    """store = false, or no conversations are kept."""
    client = await asking(says("Hello."), says("Hello."))
    found = await ask(client, "Hi", store=False)
    assert found.store is False
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(found.id)
    with pytest.raises(openai.NotFoundError):
        await ask(client, "Hi", previous_response_id=found.id)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("way", ["previous", "whole", "unstored", "reference", "conversation"])
async def test_tools_of_both_sides(asking, told, stream, way):
    """Ours run at once; the results of both are in their places, however the client goes on."""
    client = await asking(BOTH, says("A cloud."), says("Bye."))
    options = {"tools": [LOOK], **({"store": False} if way == "unstored" else {})}
    more = {**options, "conversation": "c"} if way == "conversation" else options
    first = await ask(client, "Look!", stream, **more)
    (item,) = [item for item in first.output if item.type == "function_call"]
    assert (item.name, item.arguments) == ("look", '{"at": "sky"}')
    assert first.output_text == "One moment."
    asked = [{"role": "user", "content": "Look!"}]
    if way == "previous":
        second = await ask(client, output_of(first), stream, previous_response_id=first.id, **options)
    elif way == "conversation":
        second = await ask(client, output_of(first), stream, **more)
    elif way == "reference":
        references = [{"type": "item_reference", "id": item.id} for item in first.output]
        second = await ask(client, [*asked, *references, *output_of(first)], stream, **options)
    else:
        items = [item.model_dump(exclude_none=True) for item in first.output]
        second = await ask(client, [*asked, *items, *output_of(first)], stream, **options)
    assert second.output_text == "A cloud."
    whole = sent(told)
    assert roles(whole) == ["user", "assistant", "tool", "tool"]
    assert [message.tool_call_id for message in whole[2:]] == [call.id for call in whole[1].tool_calls]
    if way not in ("unstored", "conversation"):
        await ask(client, "Bye!", stream, previous_response_id=second.id)
        assert roles(sent(told)) == ["user", "assistant", "tool", "tool", "assistant", "user"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("background", [False, True])
async def test_calls_of_the_client_wait_beside_an_approval(asking, told, stream, background):
    """The response has them once there is a reply; then it goes on with their results."""
    pay = {"name": "pay", "description": "Pay.", "effect": "write", "approve": True, "parameters": {"type": "object"}}
    told.tables["tools"]["registry"].append({**pay, "implementation": {"type": "mock", "mock_response": "paid"}})
    client = await asking(calls(("look", {}), ("pay", {}), ("get_weather", {"city": "Rome"})), says("A cloud."))
    more = {"background": True} if background else {"stream": stream}
    first = await ask(client, "Look, and pay!", tools=[LOOK], **more)
    while not (questions := (await client.get("/../api/questions", cast_to=dict[str, list[dict]]))["questions"]):
        pass
    assert (await client.responses.retrieve(first.id)).output == []
    await client.post(f"/../api/questions/{questions[0]['id']}/reply", body={"action": "accept"}, cast_to=dict)
    done = await ended(client, first.id)
    assert (done.status, [item.type for item in done.output]) == ("completed", ["function_call"])
    second = await ask(client, output_of(done), stream, tools=[LOOK], previous_response_id=first.id)
    assert second.output_text == "A cloud."
    contents = [message.content for message in sent(told) if message.role == "tool"]
    assert (contents[0], "paid" in contents[1], "21" in contents[2]) == ("a cloud", True, True)


@pytest.mark.parametrize("store", [True, False])
async def test_instructions_come_with_the_outputs_of_calls(asking, told, store):
    """They stand before the dialogue, not after the results."""
    client = await asking(BOTH, says("A cloud."))
    more = {"instructions": "Be brief.", "tools": [LOOK], "store": store}
    first = await ask(client, "Look!", **more)
    items = [item.model_dump(exclude_none=True) for item in first.output]
    await ask(client, [{"role": "user", "content": "Look!"}, *items, *output_of(first)], **more)
    assert roles(sent(told)) == ["system", "user", "assistant", "tool", "tool"]


async def test_items_before_the_last_are_stored_with_the_response(asking, told):
    """So that the next one has them."""
    client = await asking(says("c"), says("e"))
    given = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "go on"}]},
    ]
    first = await ask(client, given)
    await ask(client, "d", previous_response_id=first.id)
    assert [m.content for m in sent(told)] == ["a", "b", "go on", "c", "d"]


@pytest.mark.parametrize("store", [True, False])
async def test_an_image_is_an_attachment(asking, told, store):
    """Of the message, stored with it."""
    client = await asking(says("A dot."))
    parts = [
        {"type": "input_text", "text": "What?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{DOT}"},
    ]
    await ask(client, [{"role": "user", "content": parts}], store=store)
    (message,) = sent(told)
    assert (message.content, [part.mime_type for part in message.media]) == ("What?", ["image/png"])


async def test_a_repeated_request_is_the_same_response(asking, told):
    """Nothing is stored twice."""
    client = await asking(says("c"), says("d"))
    given = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c?"}]
    key = {"extra_headers": {"Idempotency-Key": "k"}}
    first, again = await ask(client, given, **key), await ask(client, given, **key)
    assert first.id == again.id
    assert len(told.model.requests) == 1
    await ask(client, "d", previous_response_id=first.id)
    assert [m.content for m in sent(told)] == ["a", "b", "c?", "c", "d"]


@pytest.mark.parametrize("way", ["previous", "whole", "message"])
async def test_a_repeated_continuation_is_the_same_response(asking, told, way):
    """Of results, as of a message, though the conversation has gone on by then."""
    client = await asking(BOTH, says("A cloud."), says("Bye."))
    first = await ask(client, "Look!", tools=[LOOK])
    items = [item.model_dump(exclude_none=True) for item in first.output]
    given, more = output_of(first), {"previous_response_id": first.id, "extra_headers": {"Idempotency-Key": "k"}}
    if way == "whole":
        given = [{"role": "user", "content": "Look!"}, *items, *given]
        del more["previous_response_id"]
    elif way == "message":
        given = "Never mind."
    second = await ask(client, given, tools=[LOOK], **more)
    await ask(client, "Bye!", previous_response_id=second.id)
    assert (await ask(client, given, tools=[LOOK], **more)).id == second.id
    assert len(told.model.requests) == 3


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_texts_of_a_turn_come_back_once(asking, told, stream, store):
    """A response has an item for each; with their calls, the turn takes the place of all."""
    replies = calls(("get_weather", {"city": "Rome"}), text="First."), calls(("look", {}), text="Then.")
    client = await asking(*replies, says("A cloud."))
    first = await ask(client, "Look!", stream, tools=[LOOK], store=store)
    assert [item.content[0].text for item in first.output[:2]] == ["First.", "Then."]
    items = [item.model_dump(exclude_none=True) for item in first.output]
    await ask(client, [{"role": "user", "content": "Look!"}, *items, *output_of(first)], stream, store=store)
    assert [m.content for m in sent(told) if m.role == "assistant"] == ["First.", "Then."]
    assert roles(sent(told)) == ["user", "assistant", "tool", "assistant", "tool"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_form_is_kept(asking, stream):
    """text.format is response_format."""
    client = await asking(says("no json"), says('{"celsius": 21}'))
    schema = {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}
    form = {"format": {"type": "json_schema", "name": "weather", "schema": schema}}
    assert json.loads((await ask(client, "Rome?", stream, text=form)).output_text) == {"celsius": 21}


async def test_a_response_in_the_background(asking, told):
    """It is shown while it runs, and when it is done."""
    gate = asyncio.Event()
    client = await asking(after(gate, "Done."))
    found = await ask(client, "Hi", background=True)
    assert (found.status, found.background) == ("queued", True)
    assert (await client.responses.retrieve(found.id)).status in ("queued", "in_progress")
    while (shown := await client.responses.retrieve(found.id)).status != "completed":
        gate.set()
        await asyncio.sleep(0.01)
    assert shown.output_text == "Done."
    assert (await client.responses.cancel(found.id)).status == "completed"


@pytest.mark.slow
async def test_a_response_in_the_background_is_stored_when_it_is_answered(asking, told):
    """Also behind one that still runs: it is queued until that has ended, and can be repeated, and cancelled."""
    gate, key = asyncio.Event(), {"extra_headers": {"Idempotency-Key": "k"}}
    client = await asking(after(gate, "a"), says("b"))
    found = [await ask(client, text, background=True, conversation="c") for text in ("1", "2", "3")]
    last = await ask(client, "4", background=True, conversation="c", **key)
    assert (await ask(client, "4", background=True, conversation="c", **key)).id == last.id
    for response in (*found, last):
        assert (await client.responses.retrieve(response.id)).status in ("queued", "in_progress")
    assert (await client.responses.cancel(last.id)).status == "cancelled"
    gate.set()
    assert [(await ended(client, response.id)).output_text for response in found] == ["a", "b", "a"]
    assert [m.content for m in sent(told) if m.role == "user"] == ["1", "2", "3"]


async def test_a_response_is_deleted(asking):
    """Unless its conversation has others."""
    client = await asking(says("a"), says("b"))
    first = await ask(client, "Hi")
    second = await ask(client, "Hi", previous_response_id=first.id)
    with pytest.raises(openai.ConflictError, match="has other responses"):
        await client.responses.delete(second.id)
    client = await asking(says("c"))
    alone = await ask(client, "Hi")
    await client.responses.delete(alone.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(alone.id)


async def test_responses_belong_to_their_tenant(asking):
    """Another's is unknown: 404."""
    client = await asking(says("a"), tokens={"a-token-0123456789": "red", "b-token-0123456789": "blue"})
    red, blue = (client.with_options(api_key=f"{name}-token-0123456789") for name in "ab")
    found = await ask(red, "Hi")
    for request in (
        blue.responses.retrieve,
        blue.responses.cancel,
        blue.responses.delete,
        blue.responses.input_items.list,
    ):
        with pytest.raises(openai.NotFoundError):
            await request(found.id)
    with pytest.raises(openai.NotFoundError, match="no stored response"):
        await ask(blue, "Hi", previous_response_id=found.id)


@pytest.mark.parametrize("stream", [False, True])
async def test_errors_before_the_answer_have_a_status(asking, stream):
    """And later ones are the event response.failed."""
    client = await asking(ProviderOverloadedError("busy"))
    with pytest.raises(openai.InternalServerError):
        await ask(client, "Hi", stream)
    if stream:
        client = await asking(
            calls(("get_weather", {"city": "Rome"}), text="One moment."), ProviderOverloadedError("busy")
        )
        failed = await ask(client, "Hi", stream)
        assert (failed.status, failed.error.message) == ("failed", "busy")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"tools": [{"type": "web_search"}]}, "are functions here, not 'web_search'"),
        ({"tools": [{**LOOK, "name": "get_weather"}]}, "'get_weather' has the name of the tool"),
        ({"prompt": {"id": "x"}}, "does not support it"),
        ({"include": ["message.output_text.logprobs"]}, "does not return"),
        ({"input": [{"type": "computer_call"}]}, "does not read items of type 'computer_call'"),
        ({"input": [{"role": "user", "content": " "}]}, "is empty"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "must be the user's"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "no item of a response"),
        ({"input": [{"type": "item_reference", "id": "msg_x_0"}]}, "is not stored here"),
        ({"input": [{"type": "function_call_output", "call_id": "call_x", "output": "x"}]}, "'call_x'"),
        ({"background": True, "store": False}, "such a response is stored"),
        ({"model": "robot/r1", "background": True}, "this needs the model 'flexchat'"),
        ({"input": []}, "input"),
    ],
)
async def test_what_cannot_be_done_is_refused(asking, more, problem):
    """400, naming it."""
    client = await asking(says("x"))
    with pytest.raises(openai.BadRequestError, match=problem):
        await ask(client, **{"given": "Hi", **({"given": more.pop("input")} if "input" in more else {}), **more})


async def test_without_conversations_nothing_is_stored(asking):
    """What needs it is refused."""
    client = await asking(says("Hello."), kept=False)
    assert (await ask(client, "Hi")).store is False
    with pytest.raises(openai.BadRequestError, match="a configuration with conversations"):
        await ask(client, "Hi", background=True)
