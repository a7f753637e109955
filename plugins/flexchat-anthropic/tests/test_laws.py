"""What holds for every answer and every conversation."""

import json
import re
from typing import Any

from flexchat.host import message_from_dict, message_to_dict
from flexchat.plugin import ChatResult, ToolCall
from flexchat_anthropic.answer import MessagesAnswer
from flexchat_anthropic.conformance import AnthropicConformance
from flexchat_anthropic.request import RequestWriter
from flexchat_sdk import (
    AnswerReader,
    ChatEvent,
    ChatOptions,
    Message,
    ProviderError,
    ProviderProtocolError,
    ReasoningDelta,
    ReasoningPart,
    SystemMessage,
    TextDelta,
    ToolCallEnd,
    ToolMessage,
    UserMessage,
    result_of,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples

HERE = "https://here.example"
HI = UserMessage(content="hi")
few = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])

NUMBERS = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
IDS = st.sampled_from(["toolu_1", "toolu_2", "functions.f:0"])
BLOCK = (
    st.fixed_dictionaries(
        {"type": st.just("text"), "text": TEXTS},
        optional={"citations": st.lists(st.fixed_dictionaries({"url": TEXTS}), min_size=1, max_size=2)},
    )
    | st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS, "signature": st.just("opaque-s")})
    | st.just({"type": "redacted_thinking", "data": "opaque-d"})
    | st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": IDS, "name": st.sampled_from("fg"), "input": OBJECTS},
        optional={"caller": st.just({"type": "direct", "x": "opaque-c"})},
    )
    | st.fixed_dictionaries({"type": st.just("server_tool_use"), "id": st.just("opaque-i"), "input": OBJECTS})
    | st.fixed_dictionaries({"type": st.just("brand_new"), "opaque-x": JSON})
)
BLOCKS = st.lists(BLOCK, max_size=6)


def reader() -> AnswerReader:
    return AnswerReader(MessagesAnswer(HERE), lambda body: ProviderError(str(body)), ProviderProtocolError)


def answer(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {**AnthropicConformance().text_reply(""), "content": blocks}


def read(blocks: list[dict[str, Any]]) -> ChatResult:
    return result_of(reader().whole(json.dumps(answer(blocks)).encode()))


def sent(*messages: Message, origin: str = HERE) -> list[dict[str, Any]]:
    body = RequestWriter(origin).body(messages, "claude-sonnet-4-5", ChatOptions(), max_tokens=1).content
    found: list[dict[str, Any]] = json.loads(body)["messages"]
    return found


def kept(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Blocks as they go back: no blank texts, no hidden thinking without a word, no thinking at the end."""
    made = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    while made and made[-1]["type"] in ("thinking", "redacted_thinking"):
        made.pop()
    return made


@few
@given(BLOCKS)
def test_an_answer_goes_back_as_it_came(blocks: list[dict[str, Any]]) -> None:
    """Wire to neutral to wire: the same blocks in the same order; only ids that are used twice, or illegal, differ."""
    message = read(blocks).message
    again = [content["content"] for content in sent(HI, message, HI) if content["role"] == "assistant"]

    found = again[0] if again else []
    assert [{**block, "id": ""} for block in found] == [{**block, "id": ""} for block in kept(blocks)]
    uses = [block["id"] for block in found if block["type"] == "tool_use"]
    assert len(set(uses)) == len(uses)


@few
@given(BLOCKS)
def test_a_stored_answer_goes_back_the_same(blocks: list[dict[str, Any]]) -> None:
    """Through JSON, as conversations are kept."""
    message = read(blocks).message
    stored = message_from_dict(json.loads(json.dumps(message_to_dict(message))))

    assert sent(HI, stored, HI) == sent(HI, message, HI)


@few
@given(BLOCKS)
def test_nothing_opaque_reaches_another_host(blocks: list[dict[str, Any]]) -> None:
    """No signature, thought or block: texts and calls only."""
    message = read(blocks).message
    found = sent(HI, message, origin="https://there.example")

    assert "opaque" not in json.dumps(found)
    types = {block["type"] for content in found if content["role"] == "assistant" for block in content["content"]}
    assert types <= {"text", "tool_use"}


@few
@given(BLOCKS)
def test_a_streamed_answer_is_the_whole_one(blocks: list[dict[str, Any]]) -> None:
    """The same parts, and events that add up to them."""
    stream, events = reader(), list[ChatEvent]()
    for piece in AnthropicConformance().as_stream(answer([_streamable(block) for block in blocks])):
        events += stream.feed(piece.encode())
    events += stream.end()
    result, whole = result_of(events), read(blocks)

    assert result.content == whole.content
    assert [(c.name, c.arguments) for c in result.tool_calls] == [(c.name, c.arguments) for c in whole.tool_calls]
    assert [type(part) for part in result.message.parts] == [type(part) for part in whole.message.parts]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (result.content or "")
    thoughts = "".join(p.text for p in result.message.parts if isinstance(p, ReasoningPart))
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == thoughts
    assert tuple(e.call for e in events if isinstance(e, ToolCallEnd)) == result.tool_calls


def _streamable(block: dict[str, Any]) -> dict[str, Any]:
    """The kit streams an input as fragments; the other blocks come whole in their first event."""
    return block if block["type"] in ("text", "thinking") else {"input": {}, **block}


TURNS = st.lists(st.tuples(st.text(max_size=5), BLOCKS, st.booleans(), st.booleans()), max_size=4)


@few
@given(TURNS)
def test_every_conversation_keeps_the_services_rules(turns: list[tuple[str, list[dict[str, Any]], bool, bool]]) -> None:
    """Roles alternate; every call has its result in the next message, first; ids are legal and used once."""
    messages: list[Message] = [SystemMessage(content="s"), HI]
    for said, blocks, is_foreign, speaks in turns:
        message = read(blocks).message
        if is_foreign:  # of another program, which counts from 0 in every answer
            parts = [
                ToolCall.from_object(part.name, part.arguments, id=f"call:{number}")
                if isinstance(part, ToolCall)
                else part
                for number, part in enumerate(message.parts)
            ]
            message = type(message)(parts=tuple(parts))
        messages.append(message)
        messages += [ToolMessage(tool_call_id=c.id, name=c.name, content=said) for c in message.tool_calls]
        messages += [UserMessage(content=said)] if speaks else []
    found = sent(*messages, HI)

    seen: set[str] = set()
    waiting: list[str] = []
    for number, content in enumerate(found):
        blocks = content["content"]
        assert content["role"] == ("assistant" if number % 2 else "user")
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        if content["role"] == "assistant":
            assert "thinking" not in blocks[-1]["type"]
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", id) for id in waiting)
            assert seen.isdisjoint(waiting)
            assert len(set(waiting)) == len(waiting)
            seen.update(waiting)
        else:
            assert [block["tool_use_id"] for block in blocks[: len(waiting)]] == waiting
            assert all(block["type"] == "text" for block in blocks[len(waiting) :])
            waiting = []
    assert not waiting
