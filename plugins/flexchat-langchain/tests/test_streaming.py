"""Chunks of any kind as events: what was passed on is what the whole answer says."""

from flexchat.plugin import ToolCall
from flexchat_langchain.answers import ChunkDraft
from flexchat_sdk import ReasoningDelta, TextDelta, ToolCallEnd, ToolCallStart
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

texts = st.text(max_size=4)
index = st.integers(0, 3)
ids = st.sampled_from(["a", "b"])
blocks = (
    st.builds(lambda t, i: {"type": "text", "text": t, "index": i}, texts, index)
    | st.builds(lambda t: {"type": "text", "text": t}, texts)
    | st.builds(lambda t, i: {"type": "thinking", "thinking": t, "index": i}, texts, index)
    | st.builds(lambda i: {"type": "thinking", "signature": "s", "index": i}, index)
    | st.builds(lambda t, i: {"type": "tool_use", "id": t, "name": "f", "input": {}, "index": i}, ids, index)
    | st.builds(lambda i: {"type": "input_json_delta", "partial_json": "{", "index": i}, index)
    | st.just({"type": "odd"})
)
calls = st.lists(
    st.builds(lambda id, args, n: tool_call_chunk(name="f", args=args, id=id, index=n), ids, texts, index), max_size=2
)
beside = st.sampled_from([{}, {"reasoning_content": "Hm"}])
in_text = st.builds(
    lambda t, c, b: AIMessageChunk(content=t, tool_call_chunks=c, additional_kwargs=dict(b)), texts, calls, beside
)
in_blocks = st.builds(
    lambda bs, c, b: AIMessageChunk(content=[dict(x) for x in bs], tool_call_chunks=c, additional_kwargs=dict(b)),
    st.lists(blocks, max_size=2),
    calls,
    beside,
)


@given(st.lists(in_text, min_size=1, max_size=5) | st.lists(in_blocks, min_size=1, max_size=5))
def test_deltas_are_the_parts(chunks):
    """Texts and thoughts joined are the parts at their indexes; every call starts and ends once, at its index."""
    draft = ChunkDraft("here")
    events = [event for chunk in chunks for event in draft.add(chunk)]
    message = draft.message()
    events += draft.end(message)
    said = {}
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta):
            said[event.index] = said.get(event.index, "") + event.text
    parts = {n: part.text for n, part in enumerate(message.parts) if getattr(part, "text", "")}
    assert said == parts
    calls = {n: part for n, part in enumerate(message.parts) if isinstance(part, ToolCall)}
    assert {event.index: event.call for event in events if isinstance(event, ToolCallEnd)} == calls
    assert [event.index for event in events if isinstance(event, ToolCallStart)] == sorted(calls)
