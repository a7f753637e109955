"""What a LangChain model reads of a tool's result, and that each call has one."""

import pytest
from flexchat import MediaPart, ToolCall, ToolResult
from flexchat_langchain.results import all_calls, mcp_pair, pair_results, repaired, result_message, with_ids
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk

CALL = ToolCall(name="f", arguments={}, id="c1")
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}


def answer(value, **rest):
    return result_message(CALL, ToolResult(success=True, tool_name="f", result=value), **rest)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ({"a": None, "ü": True}, '{"a": null, "ü": true}'),
        ([1, 2], "[1, 2]"),
        (["Rome", ["Paris"]], '["Rome", ["Paris"]]'),
        (["Rome", "Paris"], '["Rome", "Paris"]'),
        (None, "null"),
        (1.5, "1.5"),
    ],
)
def test_results_are_text(value, text):
    """Text stays, all else is JSON and never Python's repr (LC-7, LC-9); the whole result is the artifact."""
    message = answer(value)
    assert (message.content, message.status, message.tool_call_id, message.name) == (text, "success", "c1", "f")
    assert message.artifact["result"] == value


@pytest.mark.parametrize(
    "artifacts", [None, [], [IMAGE], [IMAGE, {"type": "text", "text": "x"}], {"structured_content": {}}]
)
def test_of_an_mcp_pair_the_model_reads_the_text(artifacts):
    """Text and artifacts, as MCP adapters return them: the message keeps the artifacts (LC-8)."""
    message = answer(("the text", artifacts))
    assert (message.content, message.artifact) == ("the text", artifacts)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)))
def test_a_list_is_no_pair_unless_nothing_is_lost(value):
    """What looks like a pair by chance has nothing in its second place."""
    pair = mcp_pair(value)
    assert pair is None or (pair[0] == value[0] and not value[1])


def test_failures_are_told():
    """The seed's text, and the status for services that can say so (LC-14)."""
    message = result_message(CALL, ToolResult.failed("f", "it rains"))
    assert (message.content, message.status) == ("Error: it rains", "error")


def test_long_results_are_cut():
    """Head and tail around a marker, as in the core; the artifact has all."""
    message = answer("x" * 1000, max_chars=200)
    assert "800 of 1,000 characters left out" in message.content
    assert len(message.artifact["result"]) == 1000


ids = st.sampled_from(["a", "b", "c", "d"])


@given(st.lists(ids, max_size=4), st.lists(ids, max_size=6))
def test_every_call_has_one_result(called, answered):
    """Whatever is missing, doubled or foreign: as many results as calls, in their order, under their ids (LC-16)."""
    calls = [{"name": id.upper(), "args": {}, "id": id} for id in called]
    results = [ToolMessage(f"{id}{n}", tool_call_id=id) for n, id in enumerate(answered)]
    paired = pair_results(calls, results)
    assert [message.tool_call_id for message in paired] == called
    for id in set(called):
        mine = [m for m in paired if m.tool_call_id == id]
        given_ = [m for m in results if m.tool_call_id == id]
        assert mine[: len(given_)] == given_[: len(mine)]
        assert all(m.content.startswith(f'Error: no result for tool "{id.upper()}"') for m in mine[len(given_) :])


messages = st.lists(
    st.builds(lambda t: HumanMessage(t), st.text(max_size=3))
    | st.builds(lambda id: ToolMessage("r", tool_call_id=id), ids)
    | st.builds(
        lambda called: AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": id} for id in called]),
        st.lists(ids | st.none(), max_size=3),
    ),
    max_size=8,
)


@given(messages)
def test_a_repaired_conversation_is_whole(conversation):
    """Behind each AIMessage stand its results and no other; what was whole stays; mended twice is mended once."""
    whole = repaired(conversation)
    waiting = []
    for message in whole:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call["id"] for call in all_calls(message)] if isinstance(message, AIMessage) else []
    assert not waiting
    assert repaired(whole) == whole
    assert [m for m in whole if isinstance(m, HumanMessage)] == [m for m in conversation if isinstance(m, HumanMessage)]


def test_ids_are_made_where_they_are_missing():
    """In whole messages, in invalid calls and in chunks: nothing else of the message changes."""
    bad = {"name": "f", "args": "{", "id": None, "error": "e", "type": "invalid_tool_call"}
    whole = with_ids(
        AIMessage("Hi", tool_calls=[{"name": "f", "args": {"a": 1}, "id": None}], invalid_tool_calls=[bad])
    )
    chunks = [tool_call_chunk(name="f", args='{"a": 1}', id=id, index=n) for n, id in enumerate([None, "b"])]
    chunk = with_ids(AIMessageChunk(content="Hi", tool_call_chunks=chunks, response_metadata={"k": 1}))
    assert all(call["id"] for message in (whole, chunk) for call in all_calls(message))
    assert (whole.content, whole.tool_calls[0]["args"]) == ("Hi", {"a": 1})
    assert (chunk.content, chunk.response_metadata, chunk.tool_calls[1]["id"]) == ("Hi", {"k": 1}, "b")
    assert [c["id"] for c in chunk.tool_call_chunks] == [c["id"] for c in chunk.tool_calls]


def test_media_are_told_of_in_words():
    part = MediaPart(kind="image", mime_type="image/png", data=b"x", name="a.png")
    result = ToolResult(success=True, tool_name="f", result="seen", media=(part,), left_out=("b.svg: left out",))

    message = result_message(ToolCall.from_object("f", {}), result)

    assert message.content == "seen\n[a.png (image/png, 1 byte): not shown, results are text here]\n[b.svg: left out]"
    (described,) = message.artifact["media"]
    assert described.items() >= {"kind": "image", "mime_type": "image/png", "bytes": 1, "name": "a.png"}.items()
