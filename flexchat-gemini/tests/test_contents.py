"""Messages as contents: roles, order, responses, signatures."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from flexchat.plugin import ToolCall, ToolResult
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.contents import NO_SIGNATURE, ContentsWriter
from flexchat_gemini.request import RequestWriter
from flexchat_sdk import (
    AssistantMessage,
    ChatOptions,
    MediaPart,
    Message,
    OpaquePart,
    ProviderData,
    ProviderRequestError,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

HERE = "https://here.example"
HI = UserMessage(content="hi")
USER = {"role": "user", "parts": [{"text": "hi"}]}


def written(*messages: Message, model: str = "gemini-2.5-flash") -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = body(messages, model)["contents"]
    return contents


def body(messages: Sequence[Message], model: str = "gemini-2.5-flash") -> dict[str, Any]:
    content, _ = RequestWriter(HERE, GeminiConfig()).body(messages, model, ChatOptions())
    made: dict[str, Any] = json.loads(bytes(content))
    return made


def data(origin: str = HERE, scope: str = "gemini", **kept: Any) -> ProviderData:
    return ProviderData(scope=scope, origin=origin, data=kept)


def call(name: str = "f", wire_id: str | None = None, signature: str | None = None, **rest: Any) -> ToolCall:
    part = {"thoughtSignature": signature} if signature else {}
    return ToolCall.from_object(name, {"a": 1}, wire_id=wire_id, provider_data=data(part=part), **rest)


def said(*parts: Any) -> AssistantMessage:
    return AssistantMessage(parts=parts)


def answer(to: ToolCall, content: str = '{"x":1}', **rest: Any) -> ToolMessage:
    return ToolMessage(tool_call_id=to.id, name=to.name, content=content, **rest)


def test_instructions_stand_in_front() -> None:
    """Leading system messages are the systemInstruction; a later one is a marked text of the user."""
    made = body([SystemMessage(content="a"), SystemMessage(content="b"), HI, SystemMessage(content="c")])

    assert made["systemInstruction"] == {"parts": [{"text": "a\n\nb"}]}
    assert made["contents"] == [{"role": "user", "parts": [{"text": "hi"}, {"text": "<system>\nc\n</system>"}]}]
    assert "systemInstruction" not in body([SystemMessage(content=""), HI])


def test_contents_begin_with_the_user() -> None:
    """An empty text comes before a model's, and is all there is of an empty conversation."""
    empty = {"role": "user", "parts": [{"text": " "}]}

    assert written(said(TextPart(text="x")), HI) == [empty, {"role": "model", "parts": [{"text": "x"}]}, USER]
    assert written() == written(SystemMessage(content="s")) == written(UserMessage(content="")) == [empty]


def test_neighbours_of_one_role_are_one_content() -> None:
    """And a message of which nothing is left is none."""
    assert written(HI, said(), HI, said(TextPart(text="a")), said(TextPart(text="b"))) == [
        {"role": "user", "parts": [{"text": "hi"}, {"text": "hi"}]},
        {"role": "model", "parts": [{"text": "a"}, {"text": "b"}]},
    ]


def test_all_responses_of_a_turn_are_one_content_in_call_order() -> None:
    """The id only where one was given, the call's name always, and what the user says next apart (TC-82)."""
    one, two = call("f", wire_id="w1"), call("g")

    assert written(HI, said(one, two), answer(two, '{"y":2}'), answer(one), HI)[2:] == [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "w1", "name": "f", "response": {"x": 1}}},
                {"functionResponse": {"name": "g", "response": {"y": 2}}},
            ],
        },
        USER,
    ]


def test_ids_of_other_histories_may_repeat() -> None:
    """A result belongs to the last call of its id."""
    first, second = call("f", id="call_0", wire_id="a"), call("g", id="call_0", wire_id="b")
    made = written(HI, said(first), answer(first), said(second), answer(second))

    assert [made[at]["parts"][0]["functionResponse"]["name"] for at in (2, 4)] == ["f", "g"]
    assert [made[at]["parts"][0]["functionResponse"]["id"] for at in (2, 4)] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "is_error", "response"),
    [
        (ToolResult(success=True, tool_name="f", result=[1]).to_json(), False, {"output": [1]}),
        (ToolResult(success=True, tool_name="f", result=None).to_json(), False, {"output": None}),
        (ToolResult(success=True, tool_name="f", result={"output": 1}).to_json(), False, {"output": {"output": 1}}),
        (ToolResult.failed("f", "Tool 'f' not found").to_json(), True, {"error": "Tool 'f' not found"}),
        (ToolResult.failed("f", "no", hint="try g").to_json(), True, {"error": "no", "hint": "try g"}),
        ('{"temperature": 3}', False, {"temperature": 3}),
        ('{"success": true, "data": 1}', False, {"success": True, "data": 1}),
        ("{}", False, {}),
        ("[1]", False, {"output": [1]}),
        ("3.5", False, {"output": 3.5}),
        ("plain words", False, {"output": "plain words"}),
        ("", False, {"output": ""}),
        ("NaN", False, {"output": None}),
        ("it broke", True, {"error": "it broke"}),
        ('{"error": "e"}', True, {"error": "e"}),
        ('{"why": "e"}', True, {"error": {"why": "e"}}),
        ('{"a": {"$ref": "#/b"}}', False, {"output": '{"a":{"$ref":"#/b"}}'}),
        (
            '{"success":true,"result":[{"$ref":"#"}],"tool_name":"f","execution_time_ms":1}',
            False,
            {"output": '[{"$ref":"#"}]'},
        ),
        ('{"text": "\\"$ref\\""}', False, {"text": '"$ref"'}),
        ("[" * 5000, False, {"output": "[" * 5000}),
        ("[" * 600 + "]" * 600, False, None),
    ],
)
def test_a_result_is_output_or_error(content: str, is_error: bool, response: dict[str, Any] | None) -> None:
    """Our envelope becomes one of the two keys the service knows; a $ref goes as text, which is not looked up."""
    made = call()
    part = written(HI, said(made), answer(made, content, is_error=is_error))[2]["parts"][0]

    sent = part["functionResponse"]["response"]
    assert isinstance(sent, dict)
    assert response is None or sent == response


def test_what_came_from_here_goes_back_as_it_came() -> None:
    """Signatures and side fields on exactly their part, ids, thoughts, code, files; an empty text if it is signed."""
    parts = [
        {"text": "hm", "thought": True},
        {"text": "hm!", "thought": True, "thoughtSignature": "s0"},
        {"text": "a"},
        {"text": "b", "thoughtSignature": "s1"},
        {"text": "", "thoughtSignature": "s2"},
        {"executableCode": {"code": "1"}, "thoughtSignature": "s3"},
        {"functionCall": {"id": "w", "name": "f", "args": {"a": 1}, "new": 2}, "partMetadata": {"k": 1}},
        {"inlineData": {"mimeType": "image/png", "data": "AAEC", "displayName": "n"}},
    ]
    message = said(
        ReasoningPart(text="hm", provider_data=data(part={"thought": True})),
        ReasoningPart(text="hm!", provider_data=data(part={"thought": True, "thoughtSignature": "s0"})),
        TextPart(text="a"),
        TextPart(text="b", provider_data=data(part={"thoughtSignature": "s1"})),
        TextPart(text="", provider_data=data(part={"thoughtSignature": "s2"})),
        OpaquePart(kind="executableCode", provider_data=data(part=parts[5])),
        ToolCall.from_object(
            "f", {"a": 1}, wire_id="w", provider_data=data(part={"partMetadata": {"k": 1}}, payload={"new": 2})
        ),
        MediaPart(
            kind="image", mime_type="image/png", data=b"\0\1\2", provider_data=data(payload={"displayName": "n"})
        ),
    )

    assert written(HI, message)[1] == {"role": "model", "parts": parts}


@pytest.mark.parametrize("elsewhere", [data("https://aiplatform.example"), data(scope="openai.chat")])
def test_what_came_from_elsewhere_goes_without_its_data(elsewhere: ProviderData) -> None:
    """Text and calls stay, thoughts and blocks go, no id is invented; the message may be gone entirely."""
    signed = ProviderData(
        scope=elsewhere.scope, origin=elsewhere.origin, data={"part": {"thoughtSignature": "s", "thought": True}}
    )
    message = said(
        ReasoningPart(text="hm", provider_data=signed),
        OpaquePart(kind="k", provider_data=signed),
        TextPart(text="", provider_data=signed),
        TextPart(text="t", provider_data=signed),
        RefusalPart(text="no"),
        ToolCall.from_object("f", {}, wire_id="w", provider_data=signed),
    )

    assert written(HI, message)[1]["parts"] == [
        {"text": "t"},
        {"text": "no"},
        {"functionCall": {"name": "f", "args": {}}},
    ]
    assert written(HI, said(*message.parts[:3])) == [USER]


def test_a_missing_signature_is_replaced_where_the_model_insists() -> None:
    """On the first call of each of the model's turns, from Gemini 3 on; a signed one stays as it is."""
    one, two = call("f"), call("g")
    again = call("h", signature="s", wire_id="w")
    messages = (HI, said(TextPart(text="t"), one, two), answer(one), answer(two), said(again), answer(again))

    new, old = written(*messages, model="gemini-3-pro-preview"), written(*messages)

    assert [p.get("thoughtSignature") for p in new[1]["parts"]] == [None, NO_SIGNATURE, None]
    assert new[3]["parts"][0]["thoughtSignature"] == old[3]["parts"][0]["thoughtSignature"] == "s"
    assert not any("thoughtSignature" in part for part in old[1]["parts"])
    assert written(*messages, model="models/gemini-9")[1]["parts"][1]["thoughtSignature"] == NO_SIGNATURE
    assert "thoughtSignature" not in written(*messages, model="tunedModels/mine")[1]["parts"][1]


def test_a_signature_alone_is_not_replayed() -> None:
    """A part with nothing else is refused by the service."""
    lonely = OpaquePart(kind="thoughtSignature", provider_data=data(part={"thoughtSignature": "s"}))

    assert written(HI, said(lonely)) == [USER]


def test_media_are_inline_or_by_address() -> None:
    """Bytes as base64, an address as fileUri; without a text there is no empty one."""
    image = MediaPart(kind="image", mime_type="image/png", data=b"\xff\xfe")
    film = MediaPart(kind="video", mime_type="video/mp4", url="gs://b/f")

    assert written(UserMessage(content="", media=(image, film)))[0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "//4="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/f"}},
    ]
    with pytest.raises(ProviderRequestError, match="needs data or a url"):
        written(UserMessage(content="x", media=(MediaPart(kind="image", mime_type="image/png"),)))


def test_media_of_a_result_stand_in_it_from_gemini_3_and_behind_it_before() -> None:
    """In a content of their own: a content of responses holds nothing else."""
    one, image = call(), MediaPart(kind="image", mime_type="image/png", data=b"\xff", name="a.png")
    messages = (HI, said(one), answer(one, media=(image,)), UserMessage(content="more"))
    inline = {"inlineData": {"mimeType": "image/png", "data": "/w=="}}

    inside = json.loads(bytes(ContentsWriter(HERE).contents(messages, signatures=True, media=True)))
    behind = json.loads(bytes(ContentsWriter(HERE).contents(messages, signatures=False, media=False)))

    assert inside[-2]["parts"] == [{"functionResponse": {"name": "f", "response": {"x": 1}, "parts": [inline]}}]
    assert behind[-2]["parts"] == [{"functionResponse": {"name": "f", "response": {"x": 1}}}]
    assert behind[-1]["role"] == "user"
    assert [[*part] for part in behind[-1]["parts"]] == [["text"], ["inlineData"], ["text"]]
    assert "1. f: a.png (image/png, 1 byte)" in behind[-1]["parts"][0]["text"]


def test_what_came_and_is_not_shown_is_beside_the_output() -> None:
    """Our envelope is read with what it tells of media."""
    one = call()
    content = ToolResult(success=True, tool_name="f", result=[1], left_out=("a.svg: no",)).to_json()

    (response,) = written(HI, said(one), answer(one, content))[-1]["parts"]

    assert response["functionResponse"]["response"] == {"output": [1], "left_out": ["a.svg: no"]}


def test_arguments_that_could_not_be_read_are_none() -> None:
    """Gemini needs an object; the error result tells the story. What is no number of JSON becomes null."""
    bad = ToolCall.from_text("f", "{nope")
    odd = ToolCall.from_object("g", {"x": float("nan")})

    assert [p["functionCall"] for p in written(HI, said(bad, odd))[1]["parts"]] == [
        {"name": "f", "args": {}},
        {"name": "g", "args": {"x": None}},
    ]


def test_a_message_is_encoded_once_for_each_kind_of_model() -> None:
    """The memo of a message keeps its bytes; models that insist on signatures have their own."""
    message = said(call())
    writer = RequestWriter(HERE, GeminiConfig())

    for _ in range(3):
        writer.body((HI, message), "gemini-2.5-flash", ChatOptions())
    assert len(message.memo) == 1
    writer.body((HI, message), "gemini-3-flash-preview", ChatOptions())
    assert len(message.memo) == 2
    assert body((HI, message)) == body((HI, said(*message.parts)))


def test_a_result_follows_its_call_when_the_history_changes() -> None:
    """One tool message after two different calls of its id: each time that call's name and id."""
    one, two = call("f", id="c", wire_id="a"), call("g", id="c", wire_id="b")
    result = answer(one)

    names = [written(HI, said(c), result)[2]["parts"][0]["functionResponse"] for c in (one, two)]
    assert [(n["name"], n["id"]) for n in names] == [("f", "a"), ("g", "b")]


def test_tampered_data_raises_nothing() -> None:
    """A stored history may have been edited."""
    for odd in ({}, {"part": None}, {"part": [1]}, {"payload": "x"}):
        message = said(
            TextPart(text="t", provider_data=data(**odd)),
            OpaquePart(kind="k", provider_data=data(**odd)),
            ToolCall.from_object("f", {}, provider_data=data(**odd)),
        )
        assert len(written(HI, message)[1]["parts"]) == 2
