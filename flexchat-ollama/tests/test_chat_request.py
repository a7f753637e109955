"""What is sent: our messages and options in the words of /api/chat."""

import base64
import json
from typing import Any

import pytest
from flexchat.plugin import Implementation, ToolCall, ToolDefinition
from flexchat_ollama.chat_answer import ChatAnswer
from flexchat_ollama.chat_request import SCOPE, ChatRequestWriter, think_value
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.models import UNKNOWN, ModelFacts
from flexchat_ollama.tools import encode_tools
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatOptions,
    MediaPart,
    Message,
    ProviderData,
    ProviderRequestError,
    Reasoning,
    ReasoningPart,
    RefusalPart,
    ResponseFormat,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st

HERE = "http://here.example"
HI = (UserMessage(content="hi"),)
OURS = ProviderData(scope=SCOPE, origin=HERE, data={})
ELSEWHERE = ProviderData(scope=SCOPE, origin="http://elsewhere.example", data={"secret": 1})
IMPLEMENTATION = Implementation(type="builtin")


def tool(name: str) -> ToolDefinition:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return ToolDefinition(name=name, description=f"Does {name}", parameters=schema, implementation=IMPLEMENTATION)


TOOLS = tuple(encode_tools([tool("f"), tool("g")]))


def written(
    messages: tuple[Message, ...] = HI,
    options: ChatOptions | None = None,
    facts: ModelFacts = UNKNOWN,
    *,
    model: str = "m",
    stream: bool = False,
    **config: Any,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    writer = ChatRequestWriter(HERE, OllamaConfig(**config))
    body, _ = writer.write(messages, model, options or ChatOptions(), facts, stream=stream)
    return json.loads(bytes(body.content)), body.warnings


def test_a_plain_request() -> None:
    """stream is always sent, since it is true by default; nothing is that was not asked for (TC-79)."""
    body, warnings = written()

    assert body == {
        "model": "m",
        "stream": False,
        "options": {"num_ctx": 16384},
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert written(stream=True)[0]["stream"] is True
    assert warnings == ()


def test_options_go_into_the_options_table() -> None:
    """Limits and sampling have Ollama's names; a stop sequence is always a list; temperature 0 stays 0 (TC-79)."""
    options = ChatOptions(max_tokens=5, temperature=0, top_p=0.0, seed=0, stop=("x",))
    body, warnings = written(options=options, num_ctx=77)

    assert body["options"] == {
        "num_ctx": 77,
        "num_predict": 5,
        "temperature": 0,
        "top_p": 0.0,
        "seed": 0,
        "stop": ["x"],
    }
    assert warnings == ()


def test_extra_is_merged_last() -> None:
    """An options table merges into the options; the request's extra wins over the configuration's."""
    body, _ = written(
        options=ChatOptions(temperature=1, extra={"options": {"top_k": 2, "temperature": 0.5}, "logprobs": True}),
        extra_body={"options": {"top_k": 1, "min_p": 0.1}, "keep_alive": "1h"},
    )

    assert body["options"] == {"num_ctx": 16384, "temperature": 0.5, "top_k": 2, "min_p": 0.1}
    assert (body["logprobs"], body["keep_alive"]) == (True, "1h")


def test_extra_may_replace_what_is_written_otherwise() -> None:
    """It is unread: whoever sets messages or tools there means it."""
    body, _ = written(options=ChatOptions(tools=TOOLS, extra={"messages": [], "tools": []}))

    assert (body["messages"], body["tools"]) == ([], [])


@pytest.mark.parametrize(
    ("facts", "config", "num_ctx"),
    [
        (ModelFacts(context_length=8192), {}, 8192),
        (ModelFacts(context_length=262144), {}, 16384),
        (ModelFacts(context_length=262144), {"max_num_ctx": 32768}, 32768),
        (ModelFacts(context_length=8192), {"num_ctx": 40000}, 40000),
        (ModelFacts(context_length=262144, num_ctx=65536), {}, 65536),
        (UNKNOWN, {}, 16384),
        (ModelFacts(context_length=262144, is_remote=True), {}, None),
    ],
)
def test_num_ctx_is_chosen_and_never_left_to_the_server(
    facts: ModelFacts, config: dict[str, Any], num_ctx: int | None
) -> None:
    """The configuration wins, then the Modelfile, then what the model reads up to a limit; the cloud has its own."""
    body, _ = written(facts=facts, **config)

    assert body.get("options", {}).get("num_ctx") == num_ctx


def test_a_request_that_may_not_fit_is_warned_of() -> None:
    """Ollama leaves out what does not fit and does not say so; above 90 % of num_ctx we do. Pictures count too."""
    long = (UserMessage(content="word " * 1000),)
    picture = MediaPart(kind="image", mime_type="image/png", data=b"\x89" * 100_000)

    assert "num_ctx is 1000" in written(long, num_ctx=1000)[1][0]
    assert written(long, num_ctx=2000)[1] == ()
    assert written((UserMessage(content="", media=(picture,)),), num_ctx=900)[1] == ()
    assert "num_ctx" in written((UserMessage(content="", media=(picture, picture)),), num_ctx=900)[1][0]
    assert written(long, ChatOptions(extra={"options": {"num_ctx": 9000}}), num_ctx=1000)[1] == ()


def test_without_truncation_the_server_refuses_what_is_too_long() -> None:
    """truncate = false sends both switches, and then the server's word is better than an estimate."""
    body, warnings = written((UserMessage(content="word " * 1000),), num_ctx=10, truncate=False)

    assert (body["truncate"], body["shift"]) == (False, False)
    assert warnings == ()
    assert "truncate" not in written()[0]


def test_keep_alive_is_sent_where_it_is_set() -> None:
    """0 unloads the model, and is no "unset"."""
    assert written(keep_alive=0)[0]["keep_alive"] == 0
    assert written(keep_alive="5m")[0]["keep_alive"] == "5m"


def test_tools_are_sent_in_ollamas_shape() -> None:
    """Type function, and a function with name, description and parameters (TC-33)."""
    body, warnings = written(options=ChatOptions(tools=TOOLS))

    assert body["tools"] == list(TOOLS)
    assert body["tools"][0]["type"] == "function"
    assert body["tools"][0]["function"]["name"] == "f"
    assert body["tools"][0]["function"]["parameters"]["properties"] == {"n": {"type": "integer"}}
    assert warnings == ()


def test_a_schema_the_server_would_empty_is_written_out() -> None:
    """A reference would leave an empty property: what it points to stands in its place."""
    schema = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/place"}},
        "$defs": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
    }
    made = encode_tools([ToolDefinition(name="f", description="d", parameters=schema, implementation=IMPLEMENTATION)])

    assert made[0]["function"]["parameters"]["properties"]["at"]["properties"] == {"x": {"type": "number"}}


def test_a_schema_that_cannot_be_said_is_an_error() -> None:
    """With the name of the tool and the reasons: there are no references at Ollama, so nothing can hold itself."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = {"type": "object", "properties": {"first": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    endless = ToolDefinition(name="f", description="d", parameters=schema, implementation=IMPLEMENTATION)

    with pytest.raises(ProviderRequestError, match=r"tool f .*leads back to itself") as caught:
        encode_tools([endless])
    assert caught.value.kind == "invalid_schema"


@pytest.mark.parametrize(
    ("choice", "allowed", "names", "warnings"),
    [
        ("auto", (), ["f", "g"], 0),
        ("auto", ("g",), ["g"], 0),
        ("none", ("unknown",), None, 0),
        ("none", (), None, 0),
        ("required", (), ["f", "g"], 1),
        ("required", ("f",), ["f"], 1),
    ],
)
def test_the_choice_of_tools_is_kept_as_far_as_ollama_can(
    choice: Any, allowed: tuple[str, ...], names: list[str] | None, warnings: int
) -> None:
    """There is no tool_choice: tools are left out, and that none can be forced is a warning."""
    body, said = written(options=ChatOptions(tools=TOOLS, tool_choice=choice, allowed_tools=allowed))

    assert ([t["function"]["name"] for t in body["tools"]] if "tools" in body else None) == names
    assert len(said) == warnings


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_choice_among_tools_that_are_not_offered_is_refused(choice: Any) -> None:
    """Nothing is dropped silently."""
    with pytest.raises(ProviderRequestError, match="none of the allowed tools is offered: unknown"):
        written(options=ChatOptions(tools=TOOLS, tool_choice=choice, allowed_tools=("unknown",)))


def test_calls_one_at_a_time_cannot_be_had() -> None:
    """parallel_tool_calls = false is a warning where there are tools."""
    assert "one tool call" in written(options=ChatOptions(tools=TOOLS, parallel_tool_calls=False))[1][0]
    assert written(options=ChatOptions(parallel_tool_calls=False))[1] == ()


def test_a_tuple_of_tools_is_encoded_once() -> None:
    """Every request of a turn hands over the same tuple; another one with other tools is not mistaken for it."""
    writer = ChatRequestWriter(HERE, OllamaConfig())
    for tools in (TOOLS, TOOLS, (TOOLS[1],)):
        body, _ = writer.write(HI, "m", ChatOptions(tools=tools), UNKNOWN, stream=False)
        assert json.loads(body.content)["tools"] == list(tools)
    assert writer._tools.array(TOOLS) is writer._tools.array(TOOLS)


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("wanted", "format"),
    [
        (ResponseFormat(type="json_object"), "json"),
        (ResponseFormat(schema=SCHEMA), SCHEMA),
        (ResponseFormat(), "json"),
    ],
)
def test_a_response_format_is_sent_as_format(wanted: ResponseFormat, format: object) -> None:
    """A schema goes out whole: it becomes a grammar."""
    body, warnings = written(options=ChatOptions(response_format=wanted))

    assert body["format"] == format
    assert warnings == ()


def test_tools_win_over_a_format() -> None:
    """The grammar would keep the model from calling; with tool_choice none there are no tools to win."""
    options = ChatOptions(response_format=ResponseFormat(schema=SCHEMA), tools=TOOLS)
    body, warnings = written(options=options)

    assert "format" not in body
    assert "response_format is left out" in warnings[0]
    none = ChatOptions(response_format=ResponseFormat(schema=SCHEMA), tools=TOOLS, tool_choice="none")
    assert written(options=none) == (written(options=ChatOptions(response_format=ResponseFormat(schema=SCHEMA))))


def test_the_cloud_does_not_hold_a_model_to_a_format() -> None:
    """It accepts one: that is a warning."""
    options = ChatOptions(response_format=ResponseFormat(schema=SCHEMA))

    assert "cloud" in written(options=options, facts=ModelFacts(is_remote=True))[1][0]


@pytest.mark.parametrize(
    ("effort", "model", "value", "is_exact"),
    [
        ("none", "qwen3:4b", False, True),
        ("medium", "qwen3:4b", True, True),
        ("high", "qwen3:4b", "high", False),
        ("minimal", "qwen3:4b", "low", False),
        ("low", "gpt-oss:20b", "low", True),
        ("high", "library/gpt-oss:120b-cloud", "high", True),
        ("max", "gpt-oss", "high", False),
        ("xhigh", "gpt-oss", "high", False),
        ("minimal", "gpt-oss", "low", False),
        ("none", "gpt-oss", "low", False),
        ("max", "glimmer:9b", "max", True),
        ("none", "qwen3.8", False, True),
    ],
)
def test_effort_is_a_switch_or_a_level_by_model(effort: Any, model: str, value: object, is_exact: bool) -> None:
    """What is not exactly what was asked for is a warning, and so is a level for a model not known to have any."""
    body, warnings = written(options=ChatOptions(reasoning=Reasoning(effort=effort)), model=model)

    assert body["think"] == value
    assert (warnings == ()) is is_exact


def test_think_is_sent_only_where_somebody_asked() -> None:
    """Absent it means on, for models that can."""
    assert "think" not in written()[0]
    assert "think" not in written(options=ChatOptions(reasoning=Reasoning(summary=True)))[0]
    assert written(think=False)[0]["think"] is False
    assert written(think="high")[0]["think"] == "high"
    assert written(options=ChatOptions(reasoning=Reasoning(effort="none")), think=True)[0]["think"] is False


def test_a_default_to_think_is_left_out_for_a_model_that_cannot() -> None:
    """One entry may serve several models."""
    body, warnings = written(facts=ModelFacts(capabilities=frozenset({"chat"})), think=True)

    assert "think" not in body
    assert "cannot think" in warnings[0]


def test_what_ollama_does_not_know_of_reasoning_is_a_warning() -> None:
    """Tokens are not counted, and thoughts always come along."""
    assert think_value(Reasoning(budget_tokens=5), "m", None)[0] is None
    assert "budget_tokens" in think_value(Reasoning(budget_tokens=5), "m", None)[1][0]
    assert "summary" in think_value(Reasoning(summary=False), "m", None)[1][0]


def sent(*messages: Message) -> list[dict[str, Any]]:
    return [json.loads(bytes(data)) for data in ChatRequestWriter(HERE, OllamaConfig()).messages(messages)]


def test_system_messages_stay_where_they_are() -> None:
    """Ollama takes them anywhere; one that says nothing is not sent."""
    messages = (SystemMessage(content="a"), *HI, SystemMessage(content=""), SystemMessage(content="b"))

    assert [(m["role"], m["content"]) for m in sent(*messages)] == [("system", "a"), ("user", "hi"), ("system", "b")]


def test_media_are_bare_base64_beside_the_text() -> None:
    """No data: prefix; sound and films go the same way."""
    media = tuple(MediaPart(kind=kind, mime_type="x/y", data=b"\x00\xff") for kind in ("image", "audio", "video"))
    (message,) = sent(UserMessage(content="look", media=media))

    assert message == {"role": "user", "content": "look", "images": [base64.b64encode(b"\x00\xff").decode()] * 3}


def test_images_of_results_follow_in_a_users_message() -> None:
    """Renderers leave out those of a tool's; what is not an image is told in words."""
    one = ToolCall.from_object("f", {})
    image = MediaPart(kind="image", mime_type="image/png", data=b"\x00\xff")
    sound = MediaPart(kind="audio", mime_type="audio/wav", data=b"s")
    result = ToolMessage(tool_call_id=one.id, name="f", content="r", media=(image, sound))

    _, said, shown = sent(AssistantMessage(parts=(one,)), result)

    assert (said["role"], said["content"]) == ("tool", "r\n[audio/wav, 1 byte: not shown, you cannot see it here]")
    assert (shown["role"], shown["images"]) == ("user", ["AP8="])


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (MediaPart(kind="image", mime_type="image/png", url="https://x.example/a.png"), "fetches no addresses"),
        (MediaPart(kind="document", mime_type="application/pdf", data=b"%PDF"), "takes no documents"),
    ],
)
def test_media_ollama_cannot_take_are_an_error(part: MediaPart, text: str) -> None:
    """It says what to give instead."""
    with pytest.raises(ProviderRequestError, match=text) as caught:
        sent(UserMessage(content="look", media=(part,)))
    assert caught.value.kind == "unsupported_feature"


def test_an_answer_goes_back_as_it_came() -> None:
    """Thinking, text and calls, with the server's id, the index and what else it wrote; arguments are an object."""
    call = ToolCall.from_object(
        "f",
        {"b": 1, "a": 2},
        wire_id="call_x",
        provider_data=ProviderData(scope=SCOPE, origin=HERE, data={"kind": "k", "function": {"index": 3}}),
    )
    thought = ReasoningPart(text="hm", provider_data=OURS)
    message = AssistantMessage(parts=(thought, TextPart(text="So"), call))

    assert sent(message, ToolMessage(tool_call_id=call.id, name="f", content="r")) == [
        {
            "role": "assistant",
            "content": "So",
            "thinking": "hm",
            "tool_calls": [
                {"id": "call_x", "kind": "k", "function": {"index": 3, "name": "f", "arguments": {"b": 1, "a": 2}}}
            ],
        },
        {"role": "tool", "tool_name": "f", "tool_call_id": "call_x", "content": "r"},
    ]


def test_another_servers_answer_goes_out_without_what_was_its_own() -> None:
    """No thinking, no index, no id but ours; the call and its result stay together (scope and origin must match)."""
    call = ToolCall.from_object("f", {}, wire_id="theirs", provider_data=ELSEWHERE)
    message = AssistantMessage(parts=(ReasoningPart(text="hm", provider_data=ELSEWHERE), call))

    assert sent(message, ToolMessage(tool_call_id=call.id, name="f", content="r")) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": call.id, "function": {"name": "f", "arguments": {}}}],
        },
        {"role": "tool", "tool_name": "f", "tool_call_id": call.id, "content": "r"},
    ]


def test_a_message_is_encoded_for_each_server() -> None:
    """What is kept with a message for one origin is not sent to another."""
    message = AssistantMessage(parts=(ReasoningPart(text="hm", provider_data=OURS), TextPart(text="So")))

    assert sent(message)[0].get("thinking") == "hm"
    there = ChatRequestWriter("http://there.example", OllamaConfig()).messages((message,))
    assert json.loads(there[0]) == {"role": "assistant", "content": "So"}


def test_a_call_without_an_id_gets_ours() -> None:
    """Servers before ids gave none; call and result are still tied by one."""
    call = ToolCall.from_object("f", {}, provider_data=OURS)
    said, result = sent(AssistantMessage(parts=(call,)), ToolMessage(tool_call_id=call.id, name="f", content="r"))

    assert said["tool_calls"][0]["id"] == result["tool_call_id"] == call.id


def test_results_stand_in_the_order_of_the_calls() -> None:
    """Many templates go by position alone; a result of no known call comes last."""
    calls = [ToolCall.from_object("f", {"n": n}) for n in range(3)]
    answers = [ToolMessage(tool_call_id=c.id, name="f", content=str(n)) for n, c in enumerate(calls)]
    stray = ToolMessage(tool_call_id="?", name="s", content="stray")
    messages = sent(AssistantMessage(parts=tuple(calls)), stray, answers[2], answers[0], answers[1], *HI)

    assert [m["content"] for m in messages[1:]] == ["0", "1", "2", "stray", "hi"]
    assert messages[4]["tool_call_id"] == "?"


def test_arguments_that_could_not_be_read_become_an_empty_object() -> None:
    """Text would be a 400; the result tells the story."""
    call = ToolCall.from_text("f", "{broken", provider_data=OURS)

    assert sent(AssistantMessage(parts=(call,)))[0]["tool_calls"][0]["function"]["arguments"] == {}
    infinite = ToolCall.from_object("f", {"a": [float("inf")]})
    assert sent(AssistantMessage(parts=(infinite,)))[0]["tool_calls"][0]["function"]["arguments"] == {"a": [None]}


def test_an_answer_that_says_nothing_is_not_sent() -> None:
    """A refusal says something, and so does a thought that is this server's own."""
    assert sent(AssistantMessage(parts=(ReasoningPart(text="x", provider_data=ELSEWHERE),))) == []
    assert sent(AssistantMessage(parts=(RefusalPart(text="no"),)))[0]["content"] == "no"
    assert sent(AssistantMessage(parts=(ReasoningPart(text="x", provider_data=OURS),)))[0]["thinking"] == "x"


def test_what_is_not_json_is_an_error() -> None:
    """With a sentence, not a traceback."""
    with pytest.raises(ProviderRequestError, match="cannot be written as JSON"):
        written(options=ChatOptions(extra={"x": object()}))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)
texts = st.text(min_size=1, max_size=20)


@st.composite
def wire_messages(draw: st.DrawFn) -> dict[str, Any]:
    """An assistant's message as a server may write it."""
    message: dict[str, Any] = {"role": "assistant", "content": draw(st.just("") | texts)}
    if draw(st.booleans()):
        message["thinking"] = draw(texts)
    names = draw(st.lists(texts, max_size=3))
    if names:
        message["tool_calls"] = [
            {"id": f"call_{n}", "function": {"index": n, "name": name, "arguments": draw(objects)}}
            for n, name in enumerate(names)
        ]
    return message


@given(wire_messages())
def test_wire_to_neutral_to_wire_is_the_same_json(message: dict[str, Any]) -> None:
    """Law: what a server said goes back to it as it said it; true is not 1, and 1 not 1.0."""
    answer = ChatAnswer(HERE)
    end = [*answer.take({"message": message, "done": True, "done_reason": "stop"}), *answer.end()][-1]
    assert isinstance(end, AnswerEnd)
    again = ChatRequestWriter(HERE, OllamaConfig()).messages((end.result.message,))

    is_silent = not (message["content"] or len(message) > 2)
    expected = [] if is_silent else [json.dumps(message, sort_keys=True)]
    assert [json.dumps(json.loads(data), sort_keys=True) for data in again] == expected


@given(st.lists(st.text(), max_size=4), st.lists(objects, max_size=3))
def test_any_conversation_is_written_as_json(contents: list[str], arguments: list[dict[str, Any]]) -> None:
    """Law: whatever people and models say, the body is UTF-8 and JSON, and each message stands in its place."""
    calls = tuple(ToolCall.from_object("f", value) for value in arguments)
    answers = [ToolMessage(tool_call_id=c.id, name="f", content="r") for c in calls]
    body, _ = written((*[UserMessage(content=c) for c in contents], AssistantMessage(parts=calls), *answers))

    roles = ["user"] * len(contents) + ["assistant"] * bool(calls) + ["tool"] * len(calls)
    assert [m["role"] for m in body["messages"]] == roles
    assert [m["content"] for m in body["messages"][: len(contents)]] == contents
