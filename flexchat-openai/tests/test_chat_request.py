"""Messages and options become the body of a request: right for this server, and encoded only once."""

import json
from typing import Any

import attrs
import pytest
from flexchat.plugin import Implementation, ToolCall, ToolDefinition
from flexchat_openai.chat_request import SCOPE, ChatRequestWriter
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.tools import encode_tools
from flexchat_sdk import (
    AssistantMessage,
    ChatOptions,
    MediaPart,
    Message,
    ProviderData,
    ProviderRequestError,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st

HERE = "https://here.example"
HI = (UserMessage(content="hi"),)


def data(origin: str = HERE, scope: str = SCOPE, **content: Any) -> ProviderData:
    return ProviderData(scope=scope, origin=origin, data=content)


def body(
    *messages: Message, options: ChatOptions | None = None, model: str = "m", stream: bool = False, **settings: Any
) -> dict[str, Any]:
    writer = ChatRequestWriter(HERE, OpenAIConfig(**settings))
    raw, _ = writer.body(messages, model, options or ChatOptions(), stream=stream)
    return json.loads(raw)


def sent(*messages: Message, origin: str = HERE, **settings: Any) -> list[dict[str, Any]]:
    return [
        json.loads(bytes(piece)) for piece in ChatRequestWriter(origin, OpenAIConfig(**settings)).messages(messages)
    ]


def test_the_least_request_holds_model_and_messages() -> None:
    """What is not set is not sent."""
    assert body(*HI) == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_all_options_are_sent_under_their_names() -> None:
    """Zero is a value; tool_choice and parallel_tool_calls go with tools only (TC-77, C13)."""
    tools = ({"type": "function", "function": {"name": "f"}},)
    options = ChatOptions(
        max_tokens=5, temperature=0, top_p=0.5, stop=("x",), seed=0, tools=tools, tool_choice="required"
    )

    assert body(options=options, parallel_tool_calls=False) == {
        "model": "m",
        "max_tokens": 5,
        "temperature": 0,
        "top_p": 0.5,
        "stop": ["x"],
        "seed": 0,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "messages": [],
        "tools": list(tools),
    }
    assert "tool_choice" not in body(options=ChatOptions(tool_choice="none"), parallel_tool_calls=True)
    assert body(options=ChatOptions(tools=tools))["tool_choice"] == "auto"
    assert (
        body(options=ChatOptions(max_tokens=5), max_tokens_field="max_completion_tokens")["max_completion_tokens"] == 5
    )


def test_a_stream_is_asked_for_with_its_usage() -> None:
    """Old servers that refuse stream_options are spared them."""
    assert body(stream=True)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in body(stream=True, stream_usage=False)


def test_extra_is_merged_last() -> None:
    """What the user adds wins, over our own fields too, and the request's over the config's."""
    extra = {"temperature": 1, "messages": ["theirs"], "tools": []}
    made = body(
        *HI,
        options=ChatOptions(temperature=0, tools=({},), extra=extra),
        extra_body={"temperature": 2, "reasoning_effort": "low"},
    )

    ours = {"model": "m", "reasoning_effort": "low", "tool_choice": "auto"}
    assert made == {**ours, "temperature": 1, "messages": ["theirs"], "tools": []}


@pytest.mark.parametrize(
    "options",
    [
        ChatOptions(temperature=float("nan")),
        ChatOptions(extra={"x": object()}),
        ChatOptions(tools=({"parameters": {"default": float("inf")}},)),
    ],
)
def test_what_is_no_json_is_refused_in_words(options: ChatOptions) -> None:
    """NaN and foreign objects never reach the wire."""
    with pytest.raises(ProviderRequestError, match="cannot be written as JSON"):
        body(options=options)


@pytest.mark.parametrize(
    ("model", "dropped", "kept"),
    [
        ("gpt-5-mini", ("temperature", "top_p"), ("stop",)),
        ("o3", ("temperature", "top_p", "stop"), ()),
        ("gpt-5.4", (), ("temperature", "top_p", "stop")),
        ("gpt-4o", (), ("temperature", "top_p", "stop")),
        ("o3000-of-someone-else", (), ("temperature", "top_p", "stop")),
    ],
)
def test_what_a_model_refuses_is_left_out_with_one_warning(
    model: str, dropped: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    """Reasoning models take no temperature; an unknown model is sent what the user set."""
    options = ChatOptions(temperature=0.5, top_p=0.5, stop=("x",))

    raw, warnings = ChatRequestWriter(HERE, OpenAIConfig()).body(HI, model, options, stream=False)

    assert [n for n in ("temperature", "top_p", "stop") if n in json.loads(raw)] == list(kept)
    assert len(warnings) == bool(dropped)
    assert all(name in warnings[0] and model in warnings[0] for name in dropped)


def test_a_model_that_does_not_reason_keeps_its_temperature() -> None:
    """reasoning_effort none switches the restriction off where the model accepts it, another one switches it on."""
    off = ChatOptions(temperature=0.5, extra={"reasoning_effort": "none"})
    low = ChatOptions(temperature=0.5, extra={"reasoning_effort": "low"})

    assert "temperature" in body(model="gpt-5.6-terra", options=off)
    assert "temperature" not in body(model="gpt-6-astra", options=off)
    assert "temperature" not in body(model="gpt-5.1", options=low)
    assert "temperature" not in body(model="gpt-5.6", options=ChatOptions(temperature=0.5))


def test_leading_instructions_are_merged() -> None:
    """Some servers take one system message, and only at the start; later ones stay where they are."""
    messages = (SystemMessage(content="a"), SystemMessage(content=""), SystemMessage(content="b"), *HI)

    assert sent(*messages, SystemMessage(content="c"), system_role="developer") == [
        {"role": "developer", "content": "a\n\nb"},
        {"role": "user", "content": "hi"},
        {"role": "developer", "content": "c"},
    ]
    assert sent(SystemMessage(content=""), *HI) == [{"role": "user", "content": "hi"}]


def call(**rest: Any) -> ToolCall:
    return ToolCall.from_text("f", '{"a": 1}', id="call_ours", wire_id="theirs", **rest)


def turn(one: ToolCall) -> tuple[Message, ...]:
    return AssistantMessage(parts=(one,)), ToolMessage(tool_call_id=one.id, name="f", content="r")


def test_a_server_gets_its_own_id_back_and_no_other_does() -> None:
    """The wire id goes to the same dialect and origin; our id everywhere else."""
    ids = {
        origin: [
            m.get("tool_call_id") or m["tool_calls"][0]["id"]
            for m in sent(*turn(call(provider_data=made)), origin=origin)
        ]
        for origin, made in ((HERE, data()), ("https://other.example", data()))
    }

    assert ids == {HERE: ["theirs", "theirs"], "https://other.example": ["call_ours", "call_ours"]}
    assert sent(*turn(call(provider_data=data(scope="gemini"))))[1]["tool_call_id"] == "call_ours"
    assert sent(*turn(call()))[1]["tool_call_id"] == "call_ours"


def test_one_history_serves_two_servers() -> None:
    """Bytes kept for one server are never sent to another."""
    history = turn(call(provider_data=data()))

    for _ in range(2):
        assert [m.get("tool_call_id") for m in sent(*history)] == [None, "theirs"]
        assert [m.get("tool_call_id") for m in sent(*history, origin="https://x.example")] == [None, "call_ours"]


def test_a_tool_message_follows_the_call_it_stands_with() -> None:
    """The same tool message with another call of the same id is encoded anew."""
    first, answer = turn(call(provider_data=data()))
    second = AssistantMessage(parts=(attrs.evolve(call(provider_data=data()), wire_id="new"),))

    assert sent(first, answer)[1]["tool_call_id"] == "theirs"
    assert sent(second, answer)[1]["tool_call_id"] == "new"


def test_an_answer_without_its_call_is_sent_under_our_id() -> None:
    """Histories that were cut, or answers that come late, do not stop a request."""
    assistant, answer = turn(call(provider_data=data()))

    assert sent(answer)[0]["tool_call_id"] == "call_ours"
    assert sent(assistant, AssistantMessage(parts=(TextPart(text="x"),)), answer)[2]["tool_call_id"] == "theirs"


@pytest.mark.parametrize("host", ["api.deepseek.com", "api.moonshot.cn", "api.xiaomimimo.com", "api.siliconflow.cn"])
def test_answers_without_a_thought_are_sent_with_a_blank_one_where_it_is_required(host: str) -> None:
    """Those of another service as well, with calls and without."""
    origin = f"https://{host}"
    text = AssistantMessage(parts=(TextPart(text="Hi"),))

    foreign, _, plain = sent(*turn(call(provider_data=data(scope="other"))), text, origin=origin)
    (elsewhere, _) = sent(*turn(call()), origin="https://deepseek.com.example")

    assert foreign["reasoning_content"] == plain["reasoning_content"] == " "
    assert "reasoning_content" not in elsewhere


def test_the_config_decides_whether_thoughts_are_required() -> None:
    """At a gateway that leads to such a model, or at such a host without thinking; a message is encoded for each."""
    messages = turn(call())

    assert sent(*messages, needs_reasoning=True)[0]["reasoning_content"] == " "
    assert "reasoning_content" not in sent(*messages)[0]
    assert "reasoning_content" not in sent(*messages, origin="https://api.deepseek.com", needs_reasoning=False)[0]


@pytest.mark.parametrize("host", ["api.deepseek.com", "api.moonshot.ai"])
def test_a_services_own_thought_goes_back_unchanged(host: str) -> None:
    origin = f"https://{host}"
    ours = data(message={"reasoning_content": "Hm."}, origin=origin)
    thought = ReasoningPart(text="Hm.", provider_data=ours)

    (said, _) = sent(AssistantMessage(parts=(thought, call())), turn(call())[1], origin=origin)

    assert said["reasoning_content"] == "Hm."


def test_mistral_gets_ids_of_nine_characters() -> None:
    """Call and result are shortened alike."""
    assistant, answer = sent(*turn(call()), origin="https://api.mistral.ai")

    assert assistant["tool_calls"][0]["id"] == answer["tool_call_id"]
    assert len(answer["tool_call_id"]) == 9
    assert answer["tool_call_id"].isalnum()


@pytest.mark.parametrize(
    ("made", "arguments"),
    [
        (ToolCall.from_text("f", '{"a":  1}', provider_data=data()), '{"a":  1}'),
        (ToolCall.from_text("f", '{"a":', provider_data=data()), '{"a":'),
        (ToolCall.from_text("f", "", provider_data=data()), "{}"),
        (ToolCall.from_text("f", '{"a":  1}', provider_data=data(scope="other")), '{"a":1}'),
        (ToolCall.from_text("f", '{"a":'), "{}"),
        (ToolCall.from_object("f", {"a": float("nan"), "b": [float("inf")]}), '{"a":null,"b":[null]}'),
        (ToolCall.from_object("f", None), "{}"),
    ],
)
def test_arguments_are_replayed_as_written_in_this_dialect(made: ToolCall, arguments: str) -> None:
    """The model's own spelling comes back, wrong JSON too; what another dialect made is written anew, without NaN."""
    assert sent(AssistantMessage(parts=(made,)))[0]["tool_calls"][0]["function"]["arguments"] == arguments


def test_what_came_beside_a_call_goes_back_to_its_origin() -> None:
    """Gemini's layer wants extra_content again; nobody else may see it."""
    made = call(provider_data=data(extra_content={"google": {"thought_signature": "s"}}))

    assert sent(AssistantMessage(parts=(made,)))[0]["tool_calls"][0]["extra_content"]["google"]
    assert "extra_content" not in sent(AssistantMessage(parts=(made,)), origin="https://x.example")[0]["tool_calls"][0]


def test_reasoning_goes_back_to_its_origin_only() -> None:
    """Under the name it came by; to others not at all, and a message of nothing else is not sent."""
    thought = ReasoningPart(text="hm", provider_data=data(message={"reasoning_content": "hm"}))
    message = AssistantMessage(parts=(thought, call()))

    assert sent(message)[0]["reasoning_content"] == "hm"
    assert "reasoning_content" not in sent(message, origin="https://x.example")[0]
    assert sent(AssistantMessage(parts=(thought,)), AssistantMessage()) == []


def test_text_stands_beside_calls_and_refusals_are_said() -> None:
    """Content is null only with calls; a refusal goes back as one, elsewhere as text."""
    refused = AssistantMessage(parts=(RefusalPart(text="no", provider_data=data()),))

    assert sent(AssistantMessage(parts=(TextPart(text="a"), call(), TextPart(text="b"))))[0]["content"] == "ab"
    assert sent(AssistantMessage(parts=(call(),)))[0]["content"] is None
    assert sent(refused) == [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]
    assert sent(refused, origin="https://x.example") == [{"role": "assistant", "content": "no"}]


def test_media_are_sent_in_the_forms_chat_completions_knows() -> None:
    """Images by address or inline, sound and documents inline."""
    media = (
        MediaPart(kind="image", mime_type="image/png", url="https://i.example/a.png"),
        MediaPart(kind="image", mime_type="image/png", data=b"\x89"),
        MediaPart(kind="audio", mime_type="audio/mpeg", data=b"a"),
        MediaPart(kind="document", mime_type="application/pdf", data=b"p", name="a.pdf"),
    )

    assert sent(UserMessage(content="see", media=media))[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://i.example/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iQ=="}},
        {"type": "input_audio", "input_audio": {"data": "YQ==", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cA=="}},
    ]
    with pytest.raises(ProviderRequestError, match="not accept video"):
        sent(UserMessage(content="", media=(MediaPart(kind="video", mime_type="video/mp4", data=b"v"),)))


def test_media_of_results_follow_in_one_message_of_the_user() -> None:
    """Behind all results of the answer: a tool's message takes text only."""
    image = MediaPart(kind="image", mime_type="image/png", data=b"\x89", name="a.png")
    pdf = MediaPart(kind="document", mime_type="application/pdf", data=b"p", name="file:///x/report")
    one, two = call(), call()
    history = (
        AssistantMessage(parts=(one, two)),
        ToolMessage(tool_call_id=one.id, name="f", content="1", media=(image, pdf)),
        ToolMessage(tool_call_id=two.id, name="f", content="2", media=(image,)),
        UserMessage(content="and?"),
    )

    said, *results, shown, more = sent(*history, origin="https://api.openai.com")
    elsewhere = sent(*history, origin="https://x.example")

    assert [message["role"] for message in (said, *results, shown, more)] == [
        "assistant",
        "tool",
        "tool",
        "user",
        "user",
    ]
    assert [message["content"] for message in results] == ["1", "2"]
    assert [part["type"] for part in shown["content"]] == ["text", "image_url", "file", "image_url"]
    assert shown["content"][2]["file"]["filename"] == "report.pdf"
    assert shown["content"][0]["text"].splitlines() == [
        "[Not from the user: what the tools returned, in this order]",
        "1. f: a.png (image/png, 1 byte)",
        "2. f: file:///x/report (application/pdf, 1 byte)",
        "3. f: a.png (image/png, 1 byte)",
    ]
    assert "application/pdf, 1 byte): not shown" in elsewhere[1]["content"]
    assert [part["type"] for part in elsewhere[3]["content"]] == ["text", "image_url", "image_url"]


def test_mistral_takes_no_users_message_behind_results() -> None:
    """There the media are words."""
    one = call()
    image = MediaPart(kind="image", mime_type="image/png", data=b"\x89")
    result = ToolMessage(tool_call_id=one.id, name="f", content="1", media=(image,))

    messages = sent(AssistantMessage(parts=(one,)), result, origin="https://api.mistral.ai")

    assert [message["role"] for message in messages] == ["assistant", "tool"]
    assert messages[1]["content"] == "1\n[image/png, 1 byte: not shown, you cannot see it here]"


@given(st.text(st.characters() | st.characters(categories=("Cs",))), st.text(st.characters(categories=("Cs", "Ll"))))
def test_any_text_becomes_valid_utf8(text: str, result: str) -> None:
    """Law: whatever the characters, the body is JSON in UTF-8; only halves of pairs are replaced."""
    one = ToolCall.from_object("f", {"a": text}, id="i")
    history = (
        UserMessage(content=text),
        AssistantMessage(parts=(one,)),
        ToolMessage(tool_call_id="i", name="f", content=result),
    )

    user, assistant, _ = sent(*history)

    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert user["content"] == whole
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"])["a"] == whole


def test_messages_and_tools_are_encoded_once() -> None:
    """In the next request of a conversation the same bytes objects are used again."""
    writer = ChatRequestWriter(HERE, OpenAIConfig())
    history = (SystemMessage(content="s"), *HI, *turn(call(provider_data=data())))
    tools = ({"type": "function", "function": {"name": "f"}},)

    first, second = writer.messages(history), writer.messages(history)

    assert all(a is b for a, b in zip(first, second, strict=True))
    assert writer._tools.array(tools) is writer._tools.array(tools)
    assert writer._tools.array(({"a": 1},)) == b'[{"a":1}]'
    for number in range(40):
        assert json.loads(writer._tools.array(({"n": number},))) == [{"n": number}]


def test_a_tool_is_described_in_openais_words() -> None:
    """Type function, with name, description and parameters (TC-31); nothing of its implementation leaves the house."""
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = ToolDefinition(
        name="f", description="d", parameters=parameters, implementation=Implementation(type="mock", settings={"k": 1})
    )

    assert encode_tools([tool]) == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": parameters}}
    ]
