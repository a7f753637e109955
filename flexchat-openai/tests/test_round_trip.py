"""Laws of both APIs: what was said goes over the wire and back unchanged, and nothing a server sends breaks a turn."""

import copy
import json
import re
from typing import Any

import httpx
import pytest
from flexchat.plugin import ToolCall
from flexchat_openai.chat_answer import ChatStream
from flexchat_openai.chat_request import ChatRequestWriter
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.errors import REFUSALS
from flexchat_openai.provider import OpenAIProvider
from flexchat_openai.responses_answer import ResponsesStream
from flexchat_openai.responses_request import ResponsesRequestWriter
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatOptions,
    Message,
    ProviderData,
    ProviderError,
    ProviderProtocolError,
    TextPart,
    ToolMessage,
    UserMessage,
)
from flexchat_sdk.reading import SSE_DONE, AnswerReader
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

HERE = "https://here.example"
APIS = ("chat", "responses")


def writer(api: str, origin: str = HERE) -> ChatRequestWriter | ResponsesRequestWriter:
    return (
        ChatRequestWriter(origin, OpenAIConfig()) if api == "chat" else ResponsesRequestWriter(origin, OpenAIConfig())
    )


def reader(api: str) -> AnswerReader:
    def failed(body: object) -> ProviderError:
        return REFUSALS.error(body, status=None, headers={}, host="h", path="/x", model="m", mask=str)

    kind = ChatStream if api == "chat" else ResponsesStream
    return AnswerReader(kind(HERE), failed, ProviderProtocolError, SSE_DONE)


def sent(api: str, messages: list[Message], origin: str = HERE) -> list[Any]:
    return json.loads(b"[" + b",".join(map(bytes, writer(api, origin).messages(messages))) + b"]")  # type: ignore[no-any-return]


def received(api: str, items: list[Any]) -> AssistantMessage:
    """What an answer is that says this."""
    body: dict[str, Any] = {"status": "completed", "output": items}
    if api == "chat":
        body = {"choices": [{"message": items[0], "finish_reason": "stop"}]}
    end = [*reader(api).whole(json.dumps(body).encode())][-1]
    assert isinstance(end, AnswerEnd)
    return end.result.message


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(
    ToolCall.from_object,
    st.from_regex(r"[a-z_]{1,10}", fullmatch=True),
    st.dictionaries(texts, json_data, max_size=3),
)
answers = st.builds(
    lambda text, found: AssistantMessage(parts=((TextPart(text=text),) if text else ()) + tuple(found)),
    texts,
    st.lists(calls, max_size=3),
).filter(lambda message: message.parts)


def said(message: AssistantMessage) -> tuple[Any, ...]:
    return message.content, [(call.name, call.arguments) for call in message.tool_calls]


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=20)
@given(answers)
def test_what_was_said_survives_the_way_there_and_back(api: str, message: AssistantMessage) -> None:
    """Law: neutral to wire to neutral is the same, and from then on so is every byte."""
    items = sent(api, [message])
    back = received(api, items)

    assert said(back) == said(message)
    again = sent(api, [back])
    assert sent(api, [received(api, again)]) == again


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=20)
@given(st.lists(answers, max_size=3), st.booleans())
def test_every_result_follows_its_call_under_its_id(api: str, history: list[AssistantMessage], elsewhere: bool) -> None:
    """Law: in any conversation each call has an id of its own and one result, in order; at any server."""
    messages: list[Message] = [UserMessage(content="hi")]
    for answer in history:
        message = received(api, sent(api, [answer]))
        messages.append(message)
        messages += [ToolMessage(tool_call_id=c.id, name=c.name, content=c.name) for c in message.tool_calls]

    items = sent(api, messages, "https://x.example" if elsewhere else HERE)

    if api == "chat":
        asked = [(c["id"], c["function"]["name"]) for i in items for c in i.get("tool_calls", ())]
        replied = [(i["tool_call_id"], i["content"]) for i in items if i["role"] == "tool"]
    else:
        asked = [(i["call_id"], i["name"]) for i in items if i.get("type") == "function_call"]
        replied = [(i["call_id"], i["output"]) for i in items if i.get("type") == "function_call_output"]
    assert asked == replied
    assert len({call_id for call_id, _ in asked}) == len(asked)


@pytest.mark.parametrize("api", APIS)
def test_a_result_that_comes_late_names_its_call(api: str) -> None:
    """Also behind another answer, and where the server used an id twice, so that the second call has ours."""
    scope = "openai.chat" if api == "chat" else "openai.responses"
    data = ProviderData(scope=scope, origin=HERE, data={})
    calls = [ToolCall.from_text(name, "{}", wire_id="call_0", provider_data=data) for name in "fg"]
    messages: list[Message] = [UserMessage(content="hi")]
    for call in calls:
        messages += [AssistantMessage(parts=(call,)), AssistantMessage(parts=(TextPart(text="wait"),))]
        messages.append(ToolMessage(tool_call_id=call.id, name=call.name, content="late"))

    key = "tool_call_id" if api == "chat" else "call_id"
    answered = [i[key] for i in sent(api, messages) if key in i and i.get("type") != "function_call"]

    assert answered == ["call_0", calls[1].id]


CHAT_ANSWER = {
    "id": "r",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "a",
                "refusal": None,
                "reasoning_content": "hm",
                "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "hm"}],
                "annotations": [{"type": "url_citation"}],
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
}
RESPONSES_ANSWER = {
    "id": "r",
    "model": "m",
    "status": "completed",
    "incomplete_details": None,
    "error": None,
    "output": [
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "e",
        },
        {
            "type": "message",
            "id": "msg",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation"}]},
                {"type": "refusal", "refusal": "no"},
            ],
        },
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
    ],
    "usage": {"input_tokens": 1, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}},
}
CHAT_STREAM = [
    {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "a"}}]},
    {"choices": [{"index": 0, "delta": {"reasoning": "hm", "content": [{"type": "text", "text": "b"}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}, "extra_content": {"x": 1}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 1}, "x_groq": {"usage": {}}},
]  # fmt: skip
RESPONSES_STREAM = [
    {"type": "response.created", "response": {"id": "r", "model": "m"}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs", "summary": []}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "hm"},
    {"type": "response.output_item.done", "output_index": 0, "item": RESPONSES_ANSWER["output"][0]},  # type: ignore[index]
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "id": "msg", "content": []}},
    {"type": "response.output_text.delta", "output_index": 1, "item_id": "msg", "delta": "a"},
    {"type": "response.refusal.delta", "output_index": 1, "item_id": "msg", "delta": "no"},
    {"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "name": "f"}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}"},
    {"type": "response.output_item.done", "output_index": 2, "item": RESPONSES_ANSWER["output"][2]},  # type: ignore[index]
    {"type": "response.completed", "response": RESPONSES_ANSWER},
]
ERROR = {"error": {"message": "m", "type": "t", "param": "p", "code": "c", "metadata": {"raw": "r"}, "innererror": {}}}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every node of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *[place for key, item in inner for place in places(item, (*path, key))]]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A JSON value with another at one place."""
    if not path:
        return new
    made = copy.copy(value)
    made[path[0]] = replaced(value[path[0]], path[1:], new)
    return made


any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "x", "{}", "length", "error", "null"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "text", "index", "id", "name", "error", "content"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


BODIES: dict[str, Any] = {
    "chat": CHAT_ANSWER,
    "responses": RESPONSES_ANSWER,
    "chat stream": CHAT_STREAM,
    "responses stream": RESPONSES_STREAM,
}
ODD: list[Any] = [None, True, 7, float("nan"), "", "x", "null", "error", [], [[{}]], {}]
ODD += [
    {"type": "text", "text": 5},
    {"index": "x", "id": 3, "name": [], "error": {"content": {}}},
    [{"type": "message"}],
]


@pytest.mark.slow
@pytest.mark.parametrize("form", BODIES)
def test_any_value_in_any_place_gives_an_answer_or_an_error_of_ours(form: str) -> None:
    """Law: null, missing or of another type, in a body or in any event: no foreign exception, and it can go back."""
    for place in places(BODIES[form])[1:]:
        for value in ODD:
            read_and_write(form, replaced(BODIES[form], place, value))


@pytest.mark.slow
@pytest.mark.parametrize("form", BODIES)
@settings(max_examples=20)
@given(st.data())
def test_any_two_values_give_an_answer_or_an_error_of_ours(form: str, data: st.DataObject) -> None:
    """The same law, for two places at once."""
    body = BODIES[form]
    for _ in range(2):
        body = replaced(body, data.draw(st.sampled_from(places(body)[1:])), data.draw(any_json))
    read_and_write(form, body)


def read_and_write(form: str, body: Any) -> None:
    api = form.split()[0]
    stream = reader(api)

    try:
        if form.endswith("stream"):
            raw = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in body) + b"data: [DONE]\n\n"
            events = [*stream.feed(raw), *stream.end()]
        else:
            events = [*stream.whole(json.dumps(body).encode())]
    except ProviderError:
        return
    assert isinstance(events[-1], AnswerEnd)
    message = events[-1].result.message
    assert all(isinstance(event.call.name, str) for event in events if hasattr(event, "call"))
    for origin in (HERE, "https://x.example"):
        assert isinstance(sent(api, [message], origin), list)


@settings(max_examples=examples(100))
@given(st.data(), st.sampled_from([400, 401, 404, 422, 429, 500, None]))
def test_any_error_body_is_an_error_of_ours(data: st.DataObject, status: int | None) -> None:
    """Law: whatever a refusal says, it becomes one of our errors, with a text."""
    body = replaced(ERROR, data.draw(st.sampled_from(places(ERROR))), data.draw(any_json))

    error = REFUSALS.error(body, status=status, headers={}, host="h", path="/chat/completions", model="m", mask=str)

    assert isinstance(error, ProviderError)
    assert str(error)


@pytest.mark.parametrize("api", APIS)
async def test_streamed_and_whole_are_the_same_through_the_provider(api: Any) -> None:
    """With the request's warnings, whichever way the answer came."""
    body, events = (CHAT_ANSWER, CHAT_STREAM) if api == "chat" else (RESPONSES_ANSWER, RESPONSES_STREAM)
    raw = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)

    def handler(request: httpx.Request) -> httpx.Response:
        if json.loads(request.content).get("stream"):
            return httpx.Response(200, content=raw)
        return httpx.Response(200, json=body)

    made = OpenAIProvider(OpenAIConfig(base_url=HERE, api=api), transport=httpx.MockTransport(handler))
    options = ChatOptions(temperature=0, stop=("x",))
    whole = await made.generate_chat([UserMessage(content="hi")], "o3", options)
    last = [event async for event in made.stream_chat([UserMessage(content="hi")], "o3", options)][-1]

    assert isinstance(last, AnswerEnd)
    assert whole.warnings == last.result.warnings
    assert whole.warnings
    if api == "responses":
        assert re.sub(r"id='call_[\w-]{22}'", "", repr(whole)) == re.sub(r"id='call_[\w-]{22}'", "", repr(last.result))
