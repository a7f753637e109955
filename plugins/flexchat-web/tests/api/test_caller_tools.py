"""Tools of OpenAI's clients, beside ours."""

import openai
import pytest
from flexchat import AssistantMessage, ToolCall
from flexchat_sdk import ChatResult, ProviderData
from flexchat_testing import calls, says

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
ASKED = [{"role": "user", "content": "Look, and how warm is Rome?"}]
BOTH = calls(("look", {"at": "sky"}), ("get_weather", {"city": "Rome"}), text="One moment.")


@pytest.fixture
async def asking(told, client_of):
    """Make an official client of the app: await asking(model's replies)."""
    made = []

    async def make(*replies, **settings):
        told.model = told.says(*replies)
        url = "http://127.0.0.1/v1"
        made.append(openai.AsyncOpenAI(api_key="x", base_url=url, http_client=client_of(told.app(**settings))))
        return made[-1]

    yield make
    for client in made:
        await client.close()


@pytest.fixture(params=["memory", "store"])
def keeping(request, told, tmp_path):
    """Where held answers are: in memory, or with the conversations."""
    told.tables.pop("conversations", None)
    if request.param == "store":
        told.tables["conversations"] = {"path": str(tmp_path / "chat.db")}
    return request.param


async def completion(client, messages, stream=False, **more):
    """Ask, and return the only choice, put together by the client's own helper if it is streamed."""
    more = {"model": "flexchat", "messages": messages, "tools": [LOOK], **more}
    if not stream:
        return (await client.chat.completions.create(**more)).choices[0]
    async with client.chat.completions.stream(**more) as events:
        async for _ in events:
            pass
        return (await events.get_final_completion()).choices[0]


def with_results(messages, choice, text="a cloud"):
    answer = choice.message.model_dump(include={"role", "content", "tool_calls"})
    results = [{"role": "tool", "tool_call_id": call.id, "content": text} for call in choice.message.tool_calls]
    return [*messages, answer, *results]


def sent(told, at=-1):
    return told.model.requests[at].messages


def roles(messages):
    return [message.role for message in messages]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["flexchat", "robot/r1"])
async def test_calls_of_the_clients_tools_are_returned(asking, told, stream, model):
    """finish_reason tool_calls; then it goes on from the results."""
    client = await asking(calls(("look", {"at": "sky"})), says("A cloud."))
    choice = await completion(client, ASKED, stream, model=model)
    (call,) = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content or "") == ("tool_calls", "")
    assert (call.function.name, call.function.arguments) == ("look", '{"at": "sky"}')
    after = await completion(client, with_results(ASKED, choice), stream, model=model)
    assert (after.finish_reason, after.message.content) == ("stop", "A cloud.")
    assert roles(sent(told)) == ["user", "assistant", "tool"]
    assert sent(told)[-1].content == "a cloud"


@pytest.mark.parametrize("stream", [False, True])
async def test_ours_run_at_once_and_their_results_are_inserted_later(asking, told, keeping, stream):
    """The client never sees them, and the model sees both, each in its place."""
    client = await asking(BOTH, says("A cloud, 21 degrees."), says("You are welcome."))
    choice = await completion(client, ASKED, stream)
    assert [call.function.name for call in choice.message.tool_calls] == ["look"]
    messages = with_results(ASKED, choice)
    after = await completion(client, messages, stream)
    assert after.message.content == "A cloud, 21 degrees."
    whole = sent(told)
    assert roles(whole) == ["user", "assistant", "tool", "tool"]
    assert [call.name for call in whole[1].tool_calls] == ["look", "get_weather"]
    assert [message.tool_call_id for message in whole[2:]] == [call.id for call in whole[1].tool_calls]
    assert "21" in whole[3].content
    said = {"role": "assistant", "content": after.message.content}
    await completion(client, [*messages, said, {"role": "user", "content": "Thanks!"}], stream)
    assert roles(sent(told)) == ["user", "assistant", "tool", "tool", "assistant", "user"]


async def test_held_answers_outlive_the_server_where_conversations_are_kept(told, asking, tmp_path):
    """And belong to their tenant."""
    told.tables["conversations"] = {"path": str(tmp_path / "chat.db")}
    tokens = {"a-token-0123456789": "red", "b-token-0123456789": "blue"}
    client = await asking(BOTH, tokens=tokens)
    choice = await completion(client.with_options(api_key="a-token-0123456789"), ASKED)
    client = await asking(says("A cloud."), tokens=tokens)
    with pytest.raises(openai.BadRequestError, match=r"no call 'call_[0-9a-f]{32}_0'") as caught:
        await completion(client.with_options(api_key="b-token-0123456789"), with_results(ASKED, choice))
    assert caught.value.param == "messages[1].tool_calls[0].id"
    await completion(client.with_options(api_key="a-token-0123456789"), with_results(ASKED, choice))
    assert roles(sent(told)) == ["user", "assistant", "tool", "tool"]


async def test_held_answers_expire(told, asking, tmp_path, monkeypatch):
    """After a day, and then they are deleted."""
    monkeypatch.setattr("flexchat_web.api.caller_tools.HELD_S", 0.0)
    told.tables["conversations"] = {"path": str(tmp_path / "chat.db")}
    client = await asking(BOTH, BOTH)
    choice = await completion(client, ASKED)
    with pytest.raises(openai.BadRequestError, match="waits for a result"):
        await completion(client, with_results(ASKED, choice))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_kept_conversation_is_continued_with_results_alone(asking, told, tmp_path, stream):
    """The ids are looked up in it; others are refused."""
    told.tables["conversations"] = {"path": str(tmp_path / "chat.db")}
    client = await asking(BOTH, says("A cloud."), says("Bye."))
    kept = {"extra_body": {"conversation": "c"}}
    choice = await completion(client, ASKED, stream, **kept)
    results = with_results([], choice)[1:]
    assert (await completion(client, results, stream, **kept)).message.content == "A cloud."
    await completion(client, [{"role": "user", "content": "Bye!"}], stream, **kept)
    assert roles(sent(told)) == ["user", "assistant", "tool", "tool", "assistant", "user"]
    stray = [{**results[0], "tool_call_id": "call_of_nothing"}]
    with pytest.raises(openai.BadRequestError, match="no call 'call_of_nothing'"):
        await completion(client, stray, stream, **kept)
    with pytest.raises(openai.BadRequestError, match=r"no call|not of the calls"):
        await completion(client, [{**results[0], "content": "again"}], stream, **kept)


@pytest.mark.parametrize("stream", [False, True])
async def test_results_of_earlier_calls_are_refused(asking, told, tmp_path, stream):
    """Once others wait for theirs, or a message has come instead."""
    told.tables["conversations"] = {"path": str(tmp_path / "chat.db")}
    client = await asking(BOTH, calls(("look", {"at": "sea"})), says("A boat."), calls(("look", {})), says("Bye."))
    kept = {"extra_body": {"conversation": "c"}}
    first = with_results([], await completion(client, ASKED, stream, **kept))[1:]
    second = with_results([], await completion(client, first, stream, **kept))[1:]
    with pytest.raises(openai.BadRequestError, match="waits for a result"):
        await completion(client, first, stream, **kept)
    assert (await completion(client, second, stream, **kept)).message.content == "A boat."
    third = with_results([], await completion(client, ASKED, stream, **kept))[1:]
    await completion(client, [{"role": "user", "content": "Never mind."}], stream, **kept)
    with pytest.raises(openai.BadRequestError, match="waits for a result"):
        await completion(client, third, stream, **kept)
    assert len(told.model.requests) == 5


async def test_repeated_results_get_the_answer_of_the_first(asking, told, tmp_path):
    """Though the conversation has gone on by then."""
    told.tables["conversations"] = {"path": str(tmp_path / "chat.db")}
    client = await asking(BOTH, says("A cloud."), says("Bye."))
    kept = {"extra_body": {"conversation": "c"}}
    results = with_results([], await completion(client, ASKED, **kept))[1:]
    again = {**kept, "extra_headers": {"Idempotency-Key": "k"}}
    first = await completion(client, results, **again)
    await completion(client, [{"role": "user", "content": "Bye!"}], **kept)
    assert (await completion(client, results, **again)).message.content == first.message.content == "A cloud."
    assert len(told.model.requests) == 3


async def test_a_call_that_the_client_leaves_out_is_answered(asking, told):
    """A person may have rejected it."""
    client = await asking(calls(("look", {"at": 1}), ("look", {"at": 2}), ("get_weather", {"city": "Rome"})), says("x"))
    choice = await completion(client, ASKED)
    messages = with_results(ASKED, choice)
    await completion(client, messages[:-1])
    assert roles(sent(told)) == ["user", "assistant", "tool", "tool", "tool"]
    assert "never answered" in sent(told)[3].content


async def test_data_of_the_provider_go_back_with_the_results(asking, told):
    """A signature beside a call: services refuse the next request without it."""
    data = ProviderData(scope="scripted", origin="https://a.example", data={"signature": "s"})
    call = ToolCall(name="look", arguments={}, provider_data=data)
    answer = ChatResult(message=AssistantMessage((call,)), finish_reason="tool_calls")
    client = await asking(answer, says("x"))
    choice = await completion(client, ASKED)
    await completion(client, with_results(ASKED, choice))
    assert sent(told)[1].tool_calls[0].provider_data == data


async def test_histories_of_other_servers_are_read(asking, told):
    """Ids that are not ours."""
    client = await asking(says("x"))
    call = {"id": "call_abc", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    await completion(client, [*ASKED, answer, {"role": "tool", "tool_call_id": "call_abc", "content": "seen"}])
    assert roles(sent(told)) == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("choice", "offered", "how"),
    [
        ("auto", ["get_weather", "look", "see"], "auto"),
        ("none", ["get_weather", "look", "see"], "none"),
        ("required", ["get_weather", "look", "see"], "required"),
        ({"type": "function", "function": {"name": "see"}}, ["see"], "required"),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "see"}}]},
            },
            ["get_weather", "see"],
            "auto",
        ),
    ],
)
async def test_tool_choice_counts_with_tools_of_the_client(asking, told, choice, offered, how):
    """Also with the model "flexchat", whose rule decides otherwise."""
    client = await asking(says("x"))
    see = {"type": "function", "function": {"name": "see"}}
    await completion(client, ASKED, tools=[LOOK, see], tool_choice=choice)
    options = told.model.requests[0].options
    assert [tool["function"]["name"] for tool in options.tools] == offered
    assert (options.tool_choice or "auto") == how


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            {"tools": [{"type": "function", "function": {"name": "get_weather"}}]},
            "'get_weather' has the name of the tool",
        ),
        ({"tools": [LOOK, LOOK]}, r"tools\[1\]: another tool before it is called 'look'"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "name"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": 3}}}]}, r"tools\[0\]"),
        ({"tool_choice": {"type": "function", "function": {"name": "hear"}}}, "'hear' is none of this request's tools"),
        ({"messages": [*ASKED, {"role": "tool", "tool_call_id": "call_x", "content": ""}]}, "'call_x' belongs to no"),
    ],
)
async def test_what_cannot_be_done_is_refused(asking, more, problem):
    """400, naming the place."""
    client = await asking(says("x"))
    with pytest.raises(openai.BadRequestError, match=problem):
        await completion(client, **{"messages": ASKED, **more})
