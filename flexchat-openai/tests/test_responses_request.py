"""Messages and options become the body of a Responses request, the server's own items as it said them."""

import json
from typing import Any

import attrs
import pytest
from flexchat.plugin import ToolCall
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.responses_answer import ResponsesStream
from flexchat_openai.responses_items import SCOPE
from flexchat_openai.responses_request import ResponsesRequestWriter
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatOptions,
    MediaPart,
    Message,
    OpaquePart,
    ProviderData,
    ProviderRequestError,
    Reasoning,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from flexchat_sdk.reading import SSE_DONE, AnswerReader

HERE, OPENAI = "https://here.example", "https://api.openai.com"
HI = (UserMessage(content="hi"),)
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "f",
    "arguments": '{"a": 1}',
    "status": "completed",
}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "phase": "final_answer",
    "status": "completed",
    "content": [{"type": "output_text", "text": "ok", "annotations": [], "logprobs": []}],
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}


def body(
    *messages: Message, options: ChatOptions | None = None, model: str = "m", stream: bool = False, **settings: Any
) -> dict[str, Any]:
    writer = ResponsesRequestWriter(HERE, OpenAIConfig(**settings))
    raw, _ = writer.body(messages, model, options or ChatOptions(), stream=stream)
    return json.loads(raw)


def sent(*messages: Message, origin: str = HERE, **settings: Any) -> list[dict[str, Any]]:
    return json.loads(
        b"[" + b",".join(map(bytes, ResponsesRequestWriter(origin, OpenAIConfig(**settings)).messages(messages))) + b"]"
    )


def answered(*items: dict[str, Any], origin: str = HERE) -> AssistantMessage:
    """The message that an answer of these items is."""
    stream = AnswerReader(ResponsesStream(origin), lambda b: RuntimeError(str(b)), RuntimeError, SSE_DONE)  # type: ignore[arg-type,return-value]
    end = [*stream.whole(json.dumps({"status": "completed", "output": items}).encode())][-1]
    assert isinstance(end, AnswerEnd)
    return end.result.message


def test_the_least_request_stores_nothing_and_asks_for_thoughts() -> None:
    """What is not set is not sent."""
    assert body(*HI) == {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": "hi"}],
    }


def test_a_model_that_never_reasons_is_not_asked_for_thoughts() -> None:
    """It would refuse: 400 "Encrypted content is not supported with this model."."""
    assert "include" not in body(model="gpt-4.1-mini")
    assert "include" in body(model="gpt-5.4")


def test_all_options_are_sent_under_their_names() -> None:
    """Zero is a value; what the API has no word for is a warning (TC-77)."""
    tools = ({"type": "function", "name": "f"},)
    options = ChatOptions(
        max_tokens=5,
        temperature=0,
        top_p=0.5,
        stop=("x",),
        seed=0,
        tools=tools,
        tool_choice="required",
        parallel_tool_calls=True,
        reasoning=Reasoning(effort="low", summary=True),
    )

    raw, warnings = ResponsesRequestWriter(HERE, OpenAIConfig(parallel_tool_calls=False)).body(
        HI, "m", options, stream=True
    )

    assert json.loads(raw) == {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "max_output_tokens": 5,
        "temperature": 0,
        "top_p": 0.5,
        "tool_choice": "required",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "low", "summary": "auto"},
        "input": [{"role": "user", "content": "hi"}],
        "tools": [*tools],
    }
    assert warnings == ("the Responses API does not accept stop or seed: left out",)
    assert body(options=ChatOptions(tools=tools), parallel_tool_calls=False)["parallel_tool_calls"] is False
    assert "tool_choice" not in body(options=ChatOptions(tool_choice="none"))


def test_what_a_model_refuses_is_left_out_with_one_warning() -> None:
    """Temperature while it reasons; with effort none it may have one. A 1 is what it does anyway."""

    def left(model: str, options: ChatOptions) -> tuple[bool, int]:
        raw, warnings = ResponsesRequestWriter(HERE, OpenAIConfig()).body(HI, model, options, stream=False)
        return "temperature" in json.loads(raw), len(warnings)

    assert left("gpt-5.6", ChatOptions(temperature=0)) == (False, 1)
    assert left("gpt-5.6", ChatOptions(temperature=1)) == (False, 0)
    assert left("gpt-5.6", ChatOptions(temperature=0, reasoning=Reasoning(effort="none"))) == (True, 0)
    assert left("gpt-5.4", ChatOptions(temperature=0, extra={"reasoning": {"effort": "low"}})) == (False, 1)
    assert left("gpt-4.1", ChatOptions(temperature=0)) == (True, 0)
    assert left("gpt-5.6", ChatOptions(extra={"temperature": 0})) == (True, 0)


def test_extra_is_merged_last() -> None:
    """What the user adds wins; tables of reasoning and text are merged key by key."""
    options = ChatOptions(
        max_tokens=5,
        reasoning=Reasoning(effort="low"),
        extra={"reasoning": {"summary": "detailed"}, "max_output_tokens": 6, "input": "theirs"},
    )

    made = body(*HI, options=options, extra_body={"store": True, "include": [], "text": {"verbosity": "low"}})

    assert made == {
        "model": "m",
        "store": True,
        "include": [],
        "max_output_tokens": 6,
        "reasoning": {"effort": "low", "summary": "detailed"},
        "text": {"verbosity": "low"},
        "input": "theirs",
    }


def test_leading_instructions_are_instructions() -> None:
    """Joined by a blank line; later ones stay where they are."""
    messages = (SystemMessage(content="a"), SystemMessage(content=""), SystemMessage(content="b"), *HI)

    made = body(*messages, SystemMessage(content="c"), system_role="developer")

    assert made["instructions"] == "a\n\nb"
    assert made["input"] == [{"role": "user", "content": "hi"}, {"role": "developer", "content": "c"}]
    assert "instructions" not in body(SystemMessage(content=""), *HI)


def test_every_item_goes_back_as_it_came() -> None:
    """In its order, with all its keys; the result follows under the call's id."""
    message = answered(THOUGHT, SEARCH, SAID, CALL)
    result = ToolMessage(tool_call_id=message.tool_calls[0].id, name="f", content="r")

    assert sent(message, result) == [
        THOUGHT,
        SEARCH,
        SAID,
        CALL,
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
    ]


def test_another_server_sees_text_and_calls_only() -> None:
    """No thoughts, no items of its own, no ids; calls and results under an id of ours."""
    message = answered(THOUGHT, SEARCH, SAID, CALL)
    call_id = message.tool_calls[0].id
    result = ToolMessage(tool_call_id=call_id, name="f", content="r")

    assert sent(message, result, origin="https://x.example") == [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
        {"type": "function_call", "call_id": call_id, "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": call_id, "output": "r"},
    ]


def test_reasoning_goes_back_only_with_what_followed_it() -> None:
    """Alone it is refused; so it is with a text that was changed. A call may follow in any form."""
    thought, text = answered(THOUGHT, SAID).parts
    changed = attrs.evolve(text, text="else")  # type: ignore[call-arg]
    plain = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "else"}]}

    assert sent(AssistantMessage(parts=(thought,))) == []
    assert sent(AssistantMessage(parts=(thought, changed))) == [plain]
    assert sent(AssistantMessage(parts=(thought, ToolCall.from_text("f", "{}", id="i")))) == [
        THOUGHT,
        {"type": "function_call", "call_id": "i", "name": "f", "arguments": "{}"},
    ]


def test_an_item_loses_its_id_where_its_reasoning_is_missing() -> None:
    """By the id the service would miss it; what needs no reasoning keeps its id."""
    parts = answered(THOUGHT, CALL, SAID).parts

    assert sent(AssistantMessage(parts=parts[1:])) == [
        {k: v for k, v in CALL.items() if k != "id"},
        {k: v for k, v in SAID.items() if k != "id"},
    ]
    assert sent(AssistantMessage(parts=parts)) == [THOUGHT, CALL, SAID]
    assert sent(answered(CALL)) == [CALL]


def test_openai_gets_no_reasoning_it_could_not_read() -> None:
    """Nothing is stored there, so an item without its content is unknown; elsewhere it is kept."""
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}

    assert sent(answered(bare, CALL, origin=OPENAI), origin=OPENAI) == [{k: v for k, v in CALL.items() if k != "id"}]
    assert sent(answered(bare, CALL, origin=OPENAI), origin=OPENAI, extra_body={"store": True}) == [bare, CALL]
    assert sent(answered(bare, CALL)) == [bare, CALL]


def test_a_changed_call_goes_back_changed() -> None:
    """The message's own words win over the item they came with; the model's spelling stays where it is unchanged."""
    call = attrs.evolve(answered(CALL).tool_calls[0], name="g")

    assert sent(AssistantMessage(parts=(call,))) == [{**CALL, "name": "g"}]


def test_ids_that_came_twice_are_made_different() -> None:
    """Some servers count from 0 in every answer; each result must find its call."""
    first, second = answered(CALL), answered(CALL)
    history: list[Message] = []
    for message in (first, second):
        history += [message, ToolMessage(tool_call_id=message.tool_calls[0].id, name="f", content="r")]

    for _ in range(2):
        items = sent(*history)
        assert [item["call_id"] for item in items[:2]] == ["c1", "c1"]
        assert items[2]["call_id"] == items[3]["call_id"] == second.tool_calls[0].id


def test_ids_that_are_too_long_are_shortened_alike() -> None:
    """In a call and its result."""
    call = ToolCall.from_text("f", "{}", id="x" * 100)

    one, two = sent(AssistantMessage(parts=(call,)), ToolMessage(tool_call_id="x" * 100, name="f", content="r"))

    assert one["call_id"] == two["call_id"]
    assert len(one["call_id"]) <= 40


def test_a_refusal_goes_back_as_one_and_elsewhere_as_text() -> None:
    """Beside text of the same item it is not said twice."""
    refusal = {"type": "refusal", "refusal": "no"}
    both = {**SAID, "content": [*SAID["content"], refusal]}  # type: ignore[misc]
    alone = {**SAID, "content": [refusal]}

    assert sent(answered(alone)) == [alone]
    assert sent(answered(both)) == [both]
    assert [i["content"][0]["text"] for i in sent(answered(both), origin="https://x.example")] == ["ok", "no"]
    lone = answered(both).parts[1]
    assert sent(AssistantMessage(parts=(lone,)))[0]["content"][0]["text"] == "no"


def test_foreign_parts_are_said_or_left_out() -> None:
    """Text, refusals and calls of another dialect are said in this one; its thoughts and blocks are not."""
    theirs = ProviderData(scope="gemini", origin=HERE, data={"item": SAID})
    parts = (
        ReasoningPart(text="hm", provider_data=theirs),
        OpaquePart(kind="x", provider_data=theirs),
        TextPart(text="a", provider_data=theirs),
        TextPart(text=""),
        RefusalPart(text="no"),
    )

    assert [item["content"][0]["text"] for item in sent(AssistantMessage(parts=parts))] == ["a", "no"]
    assert sent(AssistantMessage()) == []


def test_media_are_sent_in_the_forms_the_api_knows() -> None:
    """Images and documents, by address or inline."""
    media = (
        MediaPart(kind="image", mime_type="image/png", url="https://i.example/a.png"),
        MediaPart(kind="image", mime_type="image/png", data=b"\x89"),
        MediaPart(kind="document", mime_type="application/pdf", data=b"p", name="a.pdf"),
        MediaPart(kind="document", mime_type="application/pdf", url="https://i.example/a.pdf"),
    )

    assert sent(UserMessage(content="see", media=media))[0]["content"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "https://i.example/a.png"},
        {"type": "input_image", "image_url": "data:image/png;base64,iQ=="},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,cA=="},
        {"type": "input_file", "file_url": "https://i.example/a.pdf"},
    ]
    with pytest.raises(ProviderRequestError, match="not accept audio"):
        sent(UserMessage(content="", media=(MediaPart(kind="audio", mime_type="audio/wav", data=b"v"),)))


def test_media_of_a_result_stand_in_its_output() -> None:
    """A list of text, images and files; a text alone where none of them can go."""
    image = MediaPart(kind="image", mime_type="image/png", data=b"\x89")
    pdf = MediaPart(kind="document", mime_type="application/pdf", data=b"p")
    sound = MediaPart(kind="audio", mime_type="audio/wav", data=b"s")

    def output(*media: MediaPart, **rest: Any) -> Any:
        return sent(ToolMessage(tool_call_id="c", name="f", content="r", media=media, **rest))[0]["output"]

    assert output(image, pdf) == [
        {"type": "input_text", "text": "r"},
        {"type": "input_image", "image_url": "data:image/png;base64,iQ=="},
        {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,cA=="},
    ]
    assert output(sound) == "r\n[audio/wav, 1 byte: not shown, you cannot see it here]"
    assert isinstance(output(image, is_error=True), str)


def test_messages_are_encoded_once() -> None:
    """In the next request of a conversation the same bytes objects are used again, and for each API its own."""
    writer = ResponsesRequestWriter(HERE, OpenAIConfig())
    message = answered(THOUGHT, CALL)
    history = (*HI, message, ToolMessage(tool_call_id=message.tool_calls[0].id, name="f", content="r"))

    first, second = writer.messages(history), writer.messages(history)

    assert all(a is b for a, b in zip(first, second, strict=True))
    assert SCOPE in str(sorted(message.memo))
    assert ResponsesRequestWriter("https://x.example", OpenAIConfig()).messages(history)[1] != first[1]
