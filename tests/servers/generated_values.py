"""Strategies for messages, records of calls and turns, made up of everything that they may hold."""

from flexchat.domain import (
    AssistantMessage,
    Citation,
    ConversationTurn,
    MediaPart,
    OpaquePart,
    ProviderData,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolCallRecord,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=()), max_size=12)  # NUL and lone surrogates too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(texts, values, max_size=2)
maybe = st.none() | texts
provider_data = st.none() | st.builds(ProviderData, scope=texts, origin=texts, data=objects)
media = st.builds(
    MediaPart,
    kind=st.sampled_from(["image", "audio", "video", "document"]),
    mime_type=texts,
    data=st.none() | st.binary(max_size=8),
    url=maybe,
    name=maybe,
    provider_data=provider_data,
)
parts = st.one_of(
    st.builds(TextPart, text=texts, citations=st.lists(objects, max_size=2).map(tuple), provider_data=provider_data),
    st.builds(ReasoningPart, text=texts, redacted=st.booleans(), provider_data=provider_data),
    st.builds(RefusalPart, text=texts, provider_data=provider_data),
    media,
    st.builds(
        ToolCall,
        name=texts,
        arguments=st.none() | objects,
        raw_arguments=maybe,
        error=maybe,
        wire_id=maybe,
        provider_data=provider_data,
        id=texts,
    ),
    st.builds(OpaquePart, kind=texts, provider_data=provider_data.filter(bool)),
)
messages = st.one_of(
    st.builds(SystemMessage, content=texts),
    st.builds(UserMessage, content=texts, media=st.lists(media, max_size=2).map(tuple)),
    st.builds(AssistantMessage, parts=st.lists(parts, max_size=3).map(tuple), provider_data=provider_data),
    st.builds(
        ToolMessage,
        tool_call_id=st.sampled_from(["c1", "c2", ""]),
        name=texts,
        content=texts,
        is_error=st.booleans(),
        media=st.lists(media, max_size=2).map(tuple),
    ),
)
results = st.builds(
    ToolResult,
    success=st.booleans(),
    tool_name=texts,
    result=values,
    media=st.lists(media, max_size=2).map(tuple),
    left_out=st.lists(texts, max_size=2).map(tuple),
)
records = st.builds(
    ToolCallRecord,
    tool=texts,
    params=objects,
    result=results,
    iteration=st.integers(1, 3),
    call_id=st.sampled_from(["c1", "c2", ""]),
)
counts = st.none() | st.integers(0, 2**70)
turns = st.builds(
    ConversationTurn,
    id=texts,
    messages=st.lists(messages, max_size=3).map(tuple),
    topic=texts,
    llm=texts,
    model=texts,
    usage=st.none() | st.builds(Usage, input_tokens=counts, output_tokens=counts, raw=objects),
    citations=st.lists(
        st.builds(
            Citation,
            title=texts,
            source=maybe,
            collection=maybe,
            distance=st.none() | st.floats(0, 2),
            named=st.booleans(),
            via=texts,
        ),
        max_size=2,
    ).map(tuple),
    at=texts,
    tool_calls=st.none() | st.lists(records, max_size=2).map(tuple),
)
