"""Inputs for the laws: messages, tools, and strategies for texts and JSON data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flexchat.plugin import Implementation, ToolCall, ToolDefinition
from flexchat.store import Document
from flexchat_sdk import (
    AssistantMessage,
    MediaPart,
    Message,
    OpaquePart,
    ProviderData,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

HELLO: tuple[Message, ...] = (UserMessage(content="Hello"),)

FOREIGN_TOKEN = "token-of-a-provider-elsewhere"
FOREIGN_THOUGHT = "a thought for the one who thought it"


def texts() -> Mapping[str, Any]:
    """Return a strategy for texts that a model may write: all of Unicode except halves of surrogate pairs."""
    from hypothesis import strategies as st

    # Readers that check a piece for words lose pieces that are only white space.
    blank = st.sampled_from((" ", "\n", "a" + " " * 12 + "b"))
    return {"text": blank | _text(min_size=1)}


def user_texts() -> Mapping[str, Any]:
    """Create a strategy for texts that a person may send: all of Unicode, including unpaired surrogates."""
    from hypothesis import strategies as st

    strange = st.sampled_from(("cut \ud83d", "\udc00", "a\x00b", "\ufeffmark", "a\u2028b", "\U0001f600"))
    return {"text": strange | _text(min_size=1)}


def objects() -> Mapping[str, Any]:
    """Return a strategy for JSON objects."""
    return {"value": _object()}


def changes() -> Mapping[str, Any]:
    """Return strategies for a change of JSON data or of bytes: where, from 0 to 1, and what to put there."""
    from hypothesis import strategies as st

    return {"place": st.floats(0, 1, exclude_max=True), "value": _json() | _object()}


def replaced(data: Any, place: float, value: Any) -> Any:
    """Return JSON data with one of its values, chosen by place, replaced."""
    paths = [*_paths(data)]
    path = paths[int(place * len(paths))]
    return _with(data, path, value)


def wrong_types(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield JSON data with true and a number in place of one value after the other, each with its place."""
    for path in _paths(data):
        value = data
        for step in path:
            value = value[step]
        for wrong in (True, 7):
            if type(value) is not type(wrong):
                yield "".join(f"[{step!r}]" for step in path), _with(data, path, wrong)


def with_more(data: Any, added: Any, untouched: Any) -> Any:
    """Return JSON data with one more key in every object except those that equal ``untouched``."""
    if isinstance(data, list):
        return [with_more(item, added, untouched) for item in data]
    if not isinstance(data, dict) or data == untouched:
        return data
    return {**{key: with_more(item, added, untouched) for key, item in data.items()}, "kit_added": added}


_DATA = json.loads(Path(__file__).with_name("samples.json").read_text("utf-8"))

FIRST, SECOND, *_OTHERS = (
    ToolDefinition(**row, implementation=Implementation(type="builtin", settings={"handler": row["name"]}))
    for row in _DATA["tools"]
)
TOOLS: tuple[ToolDefinition, ...] = (FIRST, *_OTHERS)

DOCUMENTS = tuple(Document(**row) for row in _DATA["documents"])
"""The documents a store has before a law asks it; the third has no id of its own."""

MEDIA = (
    MediaPart(kind="image", mime_type="image/png", data=b"\x89PNG\r\n\x1a\nkit", name="kit.png"),
    MediaPart(kind="image", mime_type="image/jpeg", data=b"\xff\xd8\xffkit"),
    MediaPart(kind="image", mime_type="image/svg+xml", data=b"<svg/>"),
    MediaPart(kind="document", mime_type="application/pdf", data=b"%PDF-kit"),
    MediaPart(kind="document", mime_type="application/x-kit", data=b"kit"),
    MediaPart(kind="audio", mime_type="audio/wav", data=b"RIFFkit-WAVE"),
)
"""What a tool may return beside its result."""


def result_text(number: int) -> str:
    """Return the tool result in the form sent to the model, marked with RESULT-number."""
    return f'{{"success": true, "result": "RESULT-{number}", "tool_name": "kit", "execution_time_ms": 1}}'


def foreign_conversation() -> tuple[Message, ...]:
    """Return a conversation with another provider's data and ids in it."""
    theirs = ProviderData(scope="elsewhere", origin="https://elsewhere.example", data={"token": FOREIGN_TOKEN})
    call = ToolCall(
        name="kit_first", arguments={"n": 1}, raw_arguments='{"n": 1}', wire_id="elsewhere/id:1", provider_data=theirs
    )
    return (
        SystemMessage(content="MARK-system"),
        UserMessage(content="MARK-question"),
        AssistantMessage(
            parts=(
                ReasoningPart(text=FOREIGN_THOUGHT, provider_data=theirs),
                TextPart(text="MARK-text", provider_data=theirs),
                OpaquePart(kind="block", provider_data=theirs),
                call,
            ),
            provider_data=theirs,
        ),
        ToolMessage(tool_call_id=call.id, name="kit_first", content=result_text(1)),
        AssistantMessage(parts=(TextPart(text="MARK-answer"),)),
        UserMessage(content="MARK-more"),
    )


def texts_in(data: Any) -> list[str]:
    """Return all texts in JSON data; keys are none."""
    if isinstance(data, str):
        return [data]
    items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return [text for item in items for text in texts_in(item)]


def _text(min_size: int = 0) -> Any:
    from hypothesis import strategies as st

    # Not st.characters: hypothesis then sorts all of Unicode first, which takes a second wherever it has no cache.
    any_of_all = (st.integers(0, 0xD7FF) | st.integers(0xE000, 0x10FFFF)).map(chr)
    return st.text(st.sampled_from('a0 \n\t"\\é漢\U0001f600') | any_of_all, min_size=min_size, max_size=40)


def _json() -> Any:
    from hypothesis import strategies as st

    numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    scalars = st.none() | st.booleans() | numbers | _text()
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text(), inner, max_size=3), max_leaves=6
    )


def _object() -> Any:
    from hypothesis import strategies as st

    return st.dictionaries(_text(), _json(), max_size=4)


def _paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(inner for key, item in items for inner in _paths(item, (*path, key)))]


def _with(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = _with(copy[path[0]], path[1:], value)
    return copy
