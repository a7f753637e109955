"""Our messages in LangChain's words, and back."""

import pytest
from flexchat.plugin import ToolCall
from flexchat_langchain.messages import CARRIED, ai_message, from_langchain, to_langchain
from flexchat_sdk import (
    AssistantMessage,
    MediaPart,
    OpaquePart,
    ProviderData,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st
from langchain_core import messages as lc

texts = st.text(max_size=12)
filled = st.text(min_size=1, max_size=12)
json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, json_data, max_size=3)
data = st.builds(ProviderData, scope=filled, origin=texts, data=objects)
kept = st.none() | data
media = st.builds(
    MediaPart,
    kind=st.sampled_from(["image", "audio", "video", "document"]),
    mime_type=st.just("application/x-any"),
    data=st.binary(min_size=1, max_size=8),
    name=st.none() | filled,
) | st.builds(
    MediaPart, kind=st.just("image"), mime_type=st.just("image/png"), url=st.just("https://example.com/a.png")
)
calls = st.builds(ToolCall.from_object, filled, objects, provider_data=kept, wire_id=st.none() | filled) | st.builds(
    ToolCall.from_text, filled, texts, provider_data=kept
)
parts = (
    st.builds(TextPart, text=texts, provider_data=kept)
    | st.builds(ReasoningPart, text=texts, redacted=st.booleans(), provider_data=kept)
    | st.builds(RefusalPart, text=texts)
    | st.builds(
        OpaquePart, kind=filled, provider_data=st.builds(ProviderData, scope=filled, origin=texts, data=objects)
    )
    | media
    | calls
)
assistants = st.builds(AssistantMessage, parts=st.lists(parts, max_size=4).map(tuple), provider_data=kept)
messages = (
    st.builds(SystemMessage, content=texts)
    | st.builds(UserMessage, content=texts, media=st.lists(media, max_size=2).map(tuple))
    | assistants
    | st.builds(
        ToolMessage,
        tool_call_id=filled,
        name=filled,
        content=texts,
        is_error=st.booleans(),
        media=st.lists(media, max_size=2).map(tuple),
    )
)


@given(st.lists(messages, max_size=4).map(tuple))
def test_what_goes_to_langchain_comes_back_the_same(said):
    """Every message of ours, as LangChain's and back, is equal to what it was: nothing is lost on the way."""
    assert from_langchain(to_langchain(said)) == said


@given(assistants)
def test_an_assistant_message_is_langchains_own_class_with_plain_calls(said):
    """The turn is an AIMessage with content and tool_calls; args are objects, ids are texts (LC-3, LC-4, LC-12)."""
    message = ai_message(said)
    assert type(message) is lc.AIMessage
    assert [(c["id"], c["name"]) for c in message.tool_calls] == [
        (c.id, c.name) for c in said.tool_calls if c.arguments is not None
    ]
    assert all(type(call["args"]) is dict for call in message.tool_calls)
    assert {c["id"] for c in message.invalid_tool_calls} == {c.id for c in said.tool_calls if c.arguments is None}


@given(assistants, filled)
def test_a_message_that_was_changed_says_what_it_says_now(said, text):
    """What travels inside an AIMessage is used only while the outside still says the same."""
    (message,) = to_langchain([said])
    changed = message.model_copy(update={"content": message.text + text, "tool_calls": [], "invalid_tool_calls": []})
    (read,) = from_langchain([changed])
    assert read.content == message.text + text
    assert read.tool_calls == ()


@pytest.mark.parametrize(
    "inside", [1, "text", [], {}, {"role": "user", "content": "x"}, {"role": "assistant", "parts": 1}]
)
def test_a_broken_message_inside_is_left_alone(inside):
    """What is no message of ours in that place does not count, and raises nothing."""
    (read,) = from_langchain([lc.AIMessage(content="Hi", additional_kwargs={CARRIED: inside})])
    assert read.content == "Hi"


def test_langchains_own_messages_are_read():
    """A conversation another LangChain program began: roles, ids, names of tools, error marks."""
    read = from_langchain(
        [
            lc.SystemMessage("Be brief."),
            lc.HumanMessage([{"type": "text", "text": "What is this?"}, _IMAGE, "and that?"]),
            lc.AIMessage(
                content=[
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "text", "text": "Let me see"},
                ],
                tool_calls=[{"name": "look", "args": {"at": 1}, "id": "c1"}],
            ),
            lc.ToolMessage("Error: it is dark", tool_call_id="c1", status="error"),
            lc.ChatMessage(role="developer", content="Go on."),
        ]
    )
    system, user, said, result, developer = read
    assert (system.content, developer.role, developer.content) == ("Be brief.", "system", "Go on.")
    assert user.content == "What is this?\nand that?"
    assert (user.media[0].kind, user.media[0].data, user.media[0].mime_type) == ("image", b"\x00\x01", "image/png")
    assert [type(part) for part in said.parts] == [ReasoningPart, TextPart, ToolCall]
    assert (said.tool_calls[0].id, said.tool_calls[0].arguments) == ("c1", {"at": 1})
    assert (result.tool_call_id, result.name, result.is_error) == ("c1", "look", True)


_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAE="}}


def test_an_image_in_a_tools_message_is_read():
    """As LangChain's tools return it; what else stands there is text."""
    content = ["a dot", _IMAGE, {"type": "image", "base64": "AAE=", "mime_type": "image/png"}, {"x": 1}]
    (result,) = from_langchain([lc.ToolMessage(content, tool_call_id="c1", name="look")])

    assert result.content == 'a dot{"x": 1}'
    assert [(part.mime_type, part.data) for part in result.media] == [("image/png", b"\x00\x01")] * 2


def test_calls_without_ids_get_one():
    """LangChain allows a call without an id; ours have one always (LC-3)."""
    (said,) = from_langchain([lc.AIMessage(content="", tool_calls=[{"name": "f", "args": {}, "id": None}] * 2)])
    assert len({call.id for call in said.tool_calls} - {None, ""}) == 2


def test_a_message_no_model_reads_is_refused_with_a_sentence():
    """RemoveMessage is an order to LangGraph, and nothing anybody says."""
    with pytest.raises(TypeError, match="no model reads a RemoveMessage"):
        from_langchain([lc.RemoveMessage(id="1")])


def test_what_cannot_be_read_of_a_person_is_shown():
    """A block of an unknown kind, or bytes that are no Base64, become text: nothing is dropped silently."""
    strange = [{"type": "hologram", "at": 1}, {"type": "image", "base64": "%%%", "mime_type": "image/png"}]
    (user,) = from_langchain([lc.HumanMessage(strange)])
    assert user.content == '{"type": "hologram", "at": 1}\n{"type": "image", "base64": "%%%", "mime_type": "image/png"}'
    assert user.media == ()


def test_a_message_of_an_unknown_role_is_refused_by_its_number():
    """It was not the user who said it."""
    with pytest.raises(TypeError, match=r"messages\[1\]: no model reads a message with the role 'moderator'"):
        from_langchain([lc.HumanMessage(content="x"), lc.ChatMessage(role="moderator", content="Stop.")])
