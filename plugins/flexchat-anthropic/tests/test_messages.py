"""Our messages in Anthropic's words."""

import json
from typing import Any

import attrs
import pytest
from flexchat.plugin import ToolCall
from flexchat_anthropic.messages import MessagesWriter, container_of, instructions_of, lacks_thinking, legal_id
from flexchat_sdk import (
    AssistantMessage,
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
from hypothesis import given
from hypothesis import strategies as st

HERE = "https://here.example"
HI = UserMessage(content="hi")


def data(block: Any = None, **rest: Any) -> ProviderData:
    return ProviderData(scope="anthropic", origin=HERE, data={"block": block} if block is not None else rest)


def written(*messages: Message, **how: Any) -> list[dict[str, Any]]:
    return json.loads(bytes(MessagesWriter(HERE).messages(messages, **how)[0]))  # type: ignore[no-any-return]


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def call(name: str = "f", id: str | None = None, wire_id: str | None = None, **arguments: Any) -> ToolCall:
    own = {"id": id} if id is not None else {}
    given = {"wire_id": wire_id, "provider_data": data({})} if wire_id else {}
    return ToolCall.from_object(name, arguments, **own, **given)


def answer(to: ToolCall, content: str = "r", **rest: Any) -> ToolMessage:
    return ToolMessage(tool_call_id=to.id, name=to.name, content=content, **rest)


def said(*parts: Any, **rest: Any) -> AssistantMessage:
    return AssistantMessage(parts=parts, **rest)


def test_instructions_stand_beside_the_conversation() -> None:
    """All of them, wherever they stood; blank ones are none."""
    messages = (SystemMessage(content="a"), HI, SystemMessage(content=" "), SystemMessage(content="b"))

    assert instructions_of(messages) == "a\n\nb"
    assert written(*messages) == [{"role": "user", "content": [text("hi")]}]


def test_neighbours_of_one_role_are_one_message() -> None:
    """The service would merge them too."""
    assert written(HI, HI, said(TextPart(text="a")), said(TextPart(text="b")), HI) == [
        {"role": "user", "content": [text("hi"), text("hi")]},
        {"role": "assistant", "content": [text("a"), text("b")]},
        {"role": "user", "content": [text("hi")]},
    ]


def test_results_of_a_round_are_one_message_and_come_first() -> None:
    """In the order of the calls, errors marked; what the user says follows in the same message (rules 1 to 4)."""
    one, two = call(wire_id="toolu_1", a=1), call("g", wire_id="toolu_2")

    assert written(HI, said(one, two), answer(one), answer(two, "no", is_error=True), HI)[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": True},
                text("hi"),
            ],
        },
    ]
    late = written(HI, said(one), HI, answer(one))[2]["content"]
    assert [block["type"] for block in late] == ["tool_result", "text"]


def test_empty_texts_are_left_out() -> None:
    """The service refuses them, and text of white space only; so are messages that say nothing."""
    one = call(wire_id="toolu_1")
    sent = written(
        HI, said(TextPart(text="\n\n"), one), answer(one, " "), UserMessage(content=""), said(TextPart(text=""))
    )

    assert sent[1:] == [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]},
    ]
    assert written() == written(UserMessage(content=" ")) == []


def test_what_came_from_here_goes_back_as_it_came() -> None:
    """Thinking with its signature, redacted thinking, citations, a call's caller, blocks nobody reads, in order."""
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    message = said(
        ReasoningPart(text="Hm", provider_data=data({"signature": "s"})),
        ReasoningPart(redacted=True, provider_data=data({"type": "redacted_thinking", "data": "e"})),
        ReasoningPart(redacted=True, provider_data=data({"signature": "omitted"})),
        OpaquePart(kind="server_tool_use", provider_data=data(search)),
        TextPart(text="x", citations=({"url": "u"},), provider_data=data({})),
        attrs.evolve(call(wire_id="toolu_1"), provider_data=data({"caller": {"type": "direct"}})),
    )

    assert written(HI, message)[1]["content"] == [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "e"},
        {"type": "thinking", "thinking": "", "signature": "omitted"},
        search,
        {"type": "text", "text": "x", "citations": [{"url": "u"}]},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": {"type": "direct"}},
    ]


@pytest.mark.parametrize(
    "elsewhere",
    [
        ProviderData(scope="anthropic", origin="https://elsewhere.example", data={"block": {"signature": "secret"}}),
        ProviderData(scope="gemini", origin=HERE, data={"block": {"signature": "secret"}}),
        None,
    ],
)
def test_what_came_from_elsewhere_goes_without_its_data(elsewhere: ProviderData | None) -> None:
    """Foreign thinking is dropped; texts and calls stay, under ids of ours; a picture is described."""
    foreign = ToolCall.from_object("f", {}, wire_id="functions.f:0", provider_data=elsewhere)
    block = elsewhere or ProviderData(scope="x", origin="x", data={})
    message = said(
        ReasoningPart(text="thought", provider_data=elsewhere),
        TextPart(text="x", citations=({"url": "u"},), provider_data=elsewhere),
        RefusalPart(text="No.", provider_data=elsewhere),
        OpaquePart(kind="k", provider_data=block),
        MediaPart(kind="image", mime_type="image/png", data=b"x"),
        foreign,
        provider_data=elsewhere,
    )

    assert written(HI, message, answer(foreign))[1:] == [
        {
            "role": "assistant",
            "content": [
                *(text("x"), text("No."), text("[image/png, 1 byte: not shown, you cannot see it here]")),
                {"type": "tool_use", "id": foreign.id, "name": "f", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": foreign.id, "content": "r"}]},
    ]


@given(st.text(max_size=100), st.text(max_size=100))
def test_any_id_becomes_a_legal_one(one: str, two: str) -> None:
    """The same for the same, another for another, and a legal one stays."""
    legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
    for id in (one, two):
        made = legal_id(id)
        assert 1 <= len(made) <= 64
        assert set(made) <= set(legal)
        assert legal_id(made) == made
    assert (legal_id(one) == legal_id(two)) is (one == two)


def test_foreign_ids_are_replaced_in_call_and_result() -> None:
    """A log of another program: "functions.f:0"."""
    one = call(id="functions.f:0")
    use, result = written(HI, said(one), answer(one))[1:]

    assert use["content"][0]["id"] == result["content"][0]["tool_use_id"] == legal_id("functions.f:0")


def test_an_id_is_used_once_in_a_conversation() -> None:
    """Other programs count from 0 in every answer, and some within none: each call gets its own, and its result."""
    first, second, third = call(wire_id="toolu_1"), call(wire_id="toolu_1"), call(id="toolu_1")
    messages = (HI, said(first), answer(first, "1"), said(second), answer(second, "2"), said(third), answer(third, "3"))
    sent = written(*messages, said(call(id="x"), call(id="x")))

    uses = [block["id"] for m in sent if m["role"] == "assistant" for block in m["content"]]
    results = [block for m in sent if m["role"] == "user" for block in m["content"] if block["type"] == "tool_result"]
    assert len(set(uses)) == 5
    assert uses[:3] == ["toolu_1", second.id, "toolu_1_2"]
    (one_message,) = [m for m in written(HI, said(*[call(id="x")] * 3)) if m["role"] == "assistant"]
    assert [block["id"] for block in one_message["content"]] == ["x", "x_2", "x_3"]
    assert [(r["tool_use_id"], r["content"]) for r in results] == [*zip(uses, "123", strict=False)]


def test_thinking_is_no_end_of_an_answer() -> None:
    """An answer that the limit ended while the model thought: the service refuses it as last block."""
    thought = ReasoningPart(text="Hm", provider_data=data({"signature": "s"}))

    assert written(HI, said(TextPart(text="x"), thought), HI)[1]["content"] == [text("x")]
    assert written(HI, said(thought), HI) == [{"role": "user", "content": [text("hi"), text("hi")]}]


def test_a_prefill_ends_in_a_letter() -> None:
    """Trailing white space is refused; models that take no prefill are asked to go on."""
    messages = (HI, said(TextPart(text="Once \n")))

    assert written(*messages)[-1] == {"role": "assistant", "content": [text("Once")]}
    assert written(*messages, HI)[1]["content"] == [text("Once \n")]
    body, warnings = MessagesWriter(HERE).messages(messages, prefill=False)
    assert json.loads(body)[-1] == {"role": "user", "content": [text("Go on.")]}
    assert len(warnings) == 1


def test_a_paused_answer_goes_back_unchanged_and_last() -> None:
    """No user's message follows: that is how the service goes on."""
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    thought = ReasoningPart(text="Hm", provider_data=data({"signature": "s"}))
    paused = data(stop_reason="pause_turn")
    for parts in (
        (TextPart(text="I look. "), OpaquePart(kind="server_tool_use", provider_data=data(search))),
        (TextPart(text="I look. "),),
        (TextPart(text="I look. "), thought),
    ):
        body, warnings = MessagesWriter(HERE).messages((HI, said(*parts, provider_data=paused)), prefill=False)
        content = json.loads(body)[-1]
        assert content["role"] == "assistant"
        assert content["content"][0] == text("I look. ")
        assert len(content["content"]) == len(parts)
        assert warnings == ()
        again = written(HI, said(*parts, provider_data=paused), HI)[1]["content"]
        assert again == [block for block in content["content"] if block["type"] != "thinking"]


def test_a_refused_answer_is_left_out() -> None:
    """With its calls' results: the service wants it so; elsewhere it stays."""
    one = call(wire_id="toolu_1")
    messages = (HI, said(TextPart(text="I"), one, provider_data=data(stop_reason="refusal")), answer(one), HI)

    assert written(*messages) == [{"role": "user", "content": [text("hi"), text("hi")]}]
    assert len(json.loads(MessagesWriter("https://other").messages(messages)[0])) == 3


def test_thinking_can_be_left_out() -> None:
    """Where the service refused it."""
    thought = ReasoningPart(text="Hm", provider_data=data({"signature": "s"}))
    message = said(thought, TextPart(text="x"))

    assert written(HI, message, HI, thinking=False)[1]["content"] == [text("x")]
    assert len(written(HI, message, HI)[1]["content"]) == 2


def test_results_for_an_answer_that_was_not_thought_about_are_noticed() -> None:
    """An answer of another provider, in the middle of a tool loop; thinking with a budget is refused there."""
    one = call(wire_id="toolu_1")
    thought = ReasoningPart(text="Hm", provider_data=data({"signature": "s"}))

    assert lacks_thinking((HI, said(one), answer(one)), HERE)
    assert lacks_thinking((HI, said(attrs.evolve(thought, provider_data=None), one), answer(one)), HERE)
    assert not lacks_thinking((HI, said(TextPart(text="\n"), thought, one), answer(one)), HERE)
    assert not lacks_thinking((HI, said(one), answer(one), said(TextPart(text="x")), HI), HERE)
    assert not lacks_thinking((), HERE)


def test_a_container_is_named_while_its_code_waits() -> None:
    """Until the user speaks again."""
    waiting = said(call(wire_id="toolu_1"), provider_data=data(container="c"))

    assert container_of((HI, waiting), HERE) == "c"
    assert container_of((HI, waiting, answer(waiting.tool_calls[0])), HERE) == "c"
    assert container_of((HI, waiting, HI), HERE) is None
    assert container_of((HI, waiting), "https://other") is None
    assert container_of((HI, said(provider_data=data(container=1))), HERE) is None


def test_media_are_inline_or_by_address() -> None:
    """Before the text, where models read them best; what the API does not take is an error that says so."""
    media = (
        MediaPart(kind="image", mime_type="image/png", data=b"\xff"),
        MediaPart(kind="image", mime_type="image/png", url="https://x"),
        MediaPart(kind="document", mime_type="application/pdf", data=b"\xff", name="a.pdf"),
        MediaPart(kind="document", mime_type="text/plain", data=b"words"),
    )
    (message,) = written(UserMessage(content="look", media=media))

    assert message["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "/w=="}},
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "/w=="},
            "title": "a.pdf",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
        text("look"),
    ]
    with pytest.raises(ProviderRequestError, match="no audio"):
        written(UserMessage(content="", media=(MediaPart(kind="audio", mime_type="audio/wav", data=b"x"),)))


def test_media_of_a_result_stand_in_it() -> None:
    """What the service takes there, up to its size; of an error it takes text only."""
    one = call(wire_id="toolu_1")
    image = MediaPart(kind="image", mime_type="image/png", data=b"\xff")
    large = attrs.evolve(image, data=bytes(4_000_000))
    film = MediaPart(kind="video", mime_type="video/mp4", data=b"x")

    def block(*media: MediaPart, content: str = "words", **rest: Any) -> Any:
        return written(said(one), answer(one, content, media=media, **rest))[-1]["content"][0]

    source = {"type": "base64", "media_type": "image/png", "data": "/w=="}
    assert block(image)["content"] == [text("words"), {"type": "image", "source": source}]
    assert block(image, content="")["content"] == [{"type": "image", "source": source}]
    assert block(film)["content"] == "words\n[video/mp4, 1 byte: not shown, you cannot see it here]"
    assert block(large)["content"].startswith("words\n[image/png, 4,000,000 bytes: not shown")
    assert block(image, is_error=True) == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "words\n[image/png, 1 byte: not shown, you cannot see it here]",
        "is_error": True,
    }


def test_the_last_block_is_marked_for_the_cache() -> None:
    """If it is ours: what the service said goes back as it came."""
    mark = {"type": "ephemeral", "ttl": "5m"}
    one = call(wire_id="toolu_1")

    assert written(HI, mark=mark)[0]["content"] == [{**text("hi"), "cache_control": mark}]
    assert written(HI, said(one), answer(one), mark=mark)[-1]["content"][0]["cache_control"] == mark
    assert "cache_control" not in json.dumps(written(HI, said(one), mark=mark))
    assert written(mark=mark) == []
    again = (HI, said(one), answer(one))
    written(*again, mark=mark)
    assert "cache_control" not in json.dumps(written(*again))


def test_a_message_is_encoded_once() -> None:
    """A request in a long conversation is put together from pieces, for each server its own."""
    one = call(wire_id="toolu_1")
    messages = (HI, said(ReasoningPart(text="Hm", provider_data=data({"signature": "s"})), one), answer(one))
    first = written(*messages)

    assert all(message.memo for message in messages)
    assert written(*messages) == first
    elsewhere = json.loads(MessagesWriter("https://other").messages(messages)[0])[1]["content"]
    assert [block["type"] for block in elsewhere] == ["tool_use"]
    assert written(*messages) == first


def test_arguments_that_could_not_be_read_are_none() -> None:
    """The service wants an object; the result tells the story."""
    broken = ToolCall.from_text("f", "{oops")
    assert written(HI, said(broken), answer(broken))[1]["content"][0]["input"] == {}


def test_tampered_data_raises_nothing() -> None:
    """A stored conversation can hold anything."""
    for odd in (None, 1, "x", [1], {"type": 1}, {"text": None}):
        tampered = ProviderData(
            scope="anthropic", origin=HERE, data={"block": odd, "stop_reason": odd, "container": odd}
        )
        message = said(
            ReasoningPart(text="t", redacted=True, provider_data=tampered),
            OpaquePart(kind="k", provider_data=tampered),
            attrs.evolve(call(), provider_data=tampered),
            TextPart(text="x", provider_data=tampered),
            provider_data=tampered,
        )
        assert written(HI, message)
    typeless = OpaquePart(kind="k", provider_data=data({"text": "x"}))
    assert written(HI, said(typeless))[1]["content"] == [{"text": "x"}]
    endless = attrs.evolve(call(), arguments={"n": float("inf")})
    assert written(HI, said(endless))[1]["content"][0]["input"] == {"n": None}
