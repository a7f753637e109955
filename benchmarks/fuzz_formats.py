"""The wire formats for fuzz_types.py: how an answer is read without a socket, and where its text and calls stand.

A format is data: ``carriers`` are the paths of what carries text or calls, or says where they belong (lists as ``[]``);
what stands on the way to one carries it too. ``free`` is what a model may fill as it likes: the arguments of a call.
``ends`` are the paths of what says why the answer ends: where that cannot be read, the last call may have been cut off,
and one without arguments is kept and not run. ``allowed`` are other types that are right in a place: null where
services write it for "nothing", a list of parts for a text. Everything else may hold anything, and must not cost the
answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from flexchat_anthropic.answer import MessagesAnswer
from flexchat_anthropic.conformance import AnthropicConformance
from flexchat_gemini.answer import FRAMING, GeminiAnswer
from flexchat_gemini.conformance import GeminiConformance
from flexchat_ollama.chat_answer import ChatAnswer
from flexchat_ollama.conformance import OllamaConformance
from flexchat_ollama.provider import LINES
from flexchat_openai.chat_answer import ChatStream
from flexchat_openai.conformance import ChatCompletionsConformance, ResponsesConformance
from flexchat_openai.responses_answer import ResponsesStream
from flexchat_sdk import ChatEvent, ProviderOverloadedError, ProviderProtocolError
from flexchat_sdk.reading import SSE_DONE, AnswerReader

HERE = "https://here.example"


@attrs.frozen
class Answer:
    """A whole answer (values has one item) or a stream (its events, with what frames each)."""

    name: str
    values: list[Any]
    frames: list[tuple[bytes, bytes]] | None = None
    rest: bytes = b""

    def body(self, event: int | None, value: Any) -> bytes:
        """Return its bytes, with another value for one of its events."""
        sent = self.encoded if event is None else [*self.encoded[:event], _json(value), *self.encoded[event + 1 :]]
        if self.frames is None:
            return sent[0]
        pieces = [before + data + after for (before, after), data in zip(self.frames, sent, strict=True)]
        return b"".join(pieces) + self.rest

    encoded: list[bytes] = attrs.field(init=False, eq=False, repr=False)

    @encoded.default
    def _encode(self) -> list[bytes]:
        return [_json(value) for value in self.values]


@attrs.frozen(kw_only=True)
class WireFormat:
    """A wire format of one adapter.

    Attributes:
        recordings: Glob below the folder of recordings; empty for none.
        reading: Reads the bytes of an answer, whole or streamed, into events.
        kits: Conformance kits, whose replies are answers of our own writing; samples: more of these.
        carriers, free, ends, allowed: See the module. allowed: path to the types, "null" for none.
        is_sse: Whether its streams are server-sent events; else lines of JSON.
    """

    name: str
    recordings: str = ""
    reading: Callable[[bytes, bool], Sequence[ChatEvent]]
    kits: Sequence[Any] = ()
    samples: Sequence[Answer] = ()
    carriers: Sequence[str] = ()
    free: Sequence[str] = ()
    ends: Sequence[str] = ()
    allowed: Mapping[str, tuple[type | None, ...]] = attrs.field(factory=dict)
    is_sse: bool = True

    def read(self, answer: Answer, event: int | None, value: Any) -> list[ChatEvent]:
        """Return the events of an answer, with another value for one of its events."""
        return list(self.reading(answer.body(event, value), answer.frames is not None))

    def carries(self, path: str) -> bool:
        """Say whether text or calls may stand at a path, or on the way from there."""
        return not path or any(one == path or one.startswith((path + ".", path + "[")) for one in self.carriers)

    def is_free(self, path: str) -> bool:
        """Say whether a path is inside of what a model may fill as it likes."""
        return any(path.startswith((one + ".", one + "[")) for one in self.free)

    def allows(self, path: str, value: Any) -> bool:
        """Say whether a value has another type that is right at a path."""
        return (None if value is None else type(value)) in self.allowed.get(path, ())

    def answers(self, name: str, body: Any) -> list[Answer]:
        """Return a recorded body as an answer; a text is a stream."""
        if not isinstance(body, str):
            return [Answer(name, [body])]
        stream = sse_answer(name, body.encode()) if self.is_sse else ndjson_answer(name, body.encode())
        return [stream] if stream.values else []

    def own(self) -> list[Answer]:
        """Return answers of our own writing, whole and streamed: text, calls, what goes back as it came."""
        found = [*self.samples]
        for number, kit in enumerate(self.kits):
            calls = [("kit_first", {"n": 1, "text": "é"}), ("kit_second", {})]
            replies = [kit.text_reply("Grüße, world"), kit.tool_reply(calls, text="Let me see")]
            if "opaque" in kit.supports:
                replies.append(kit.opaque_reply("opaque"))
            for at, reply in enumerate(replies):
                stream = "".join(p if isinstance(p, str) else p.decode() for p in kit.as_stream(reply))
                found += [Answer(f"own {number}.{at} whole", [reply])]
                found += self.answers(f"own {number}.{at} streamed", stream)
        return found


def sse_answer(name: str, body: bytes) -> Answer:
    """Return a stream of server-sent events; what is not JSON stays with the event behind it."""
    values, frames, before = [], [], b""
    for block in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        head, mark, data = block.rpartition(b"data:")
        try:
            values.append(json.loads(data) if mark else None)
        except ValueError:
            mark = b""
        else:
            if mark:
                frames.append((before + head + mark + b" ", b"\n\n"))
                before = b""
        if not mark:
            before += block + b"\n\n"
            values = values[: len(frames)]
    return Answer(name, values, frames, before)


def ndjson_answer(name: str, body: bytes) -> Answer:
    """Return a stream of lines of JSON."""
    values = [json.loads(line) for line in body.splitlines() if line.strip()]
    return Answer(name, values, [(b"", b"\n")] * len(values))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _failed(report: object) -> ProviderOverloadedError:
    return ProviderOverloadedError(str(report)[:300])


def _through(stream: Callable[[], Any]) -> Callable[[bytes, bool], list[ChatEvent]]:
    """Return how a reader of bytes reads an answer."""

    def reading(body: bytes, streamed: bool) -> list[ChatEvent]:
        reader = stream()
        return [*reader.feed(body), *reader.end()] if streamed else list(reader.whole(body))

    return reading


def _each(places: Sequence[str], ends: Sequence[str]) -> tuple[str, ...]:
    return tuple(place + end for place in places for end in ends)


_CHAT_SAYS = (
    "content", "content[].type", "content[].text", "content[].refusal", "refusal", "tool_calls[].index",
    "tool_calls[].function.name", "tool_calls[].function.arguments", "tool_calls[].custom.name",
    "tool_calls[].custom.input", "function_call.name", "function_call.arguments",
)  # fmt: skip
_CHAT_PLACES = ("choices[].message.", "choices[].delta.")
_CHAT_ARGUMENTS = ("tool_calls[].function.arguments", "function_call.arguments")

CHAT = WireFormat(
    name="openai",
    recordings="openai/openai-chat.*.json",
    reading=_through(lambda: AnswerReader(ChatStream(HERE), _failed, ProviderProtocolError, SSE_DONE)),
    kits=[ChatCompletionsConformance()],
    carriers=("choices[].index", *_each(_CHAT_PLACES, _CHAT_SAYS)),
    free=_each(_CHAT_PLACES, _CHAT_ARGUMENTS),
    allowed={
        **dict.fromkeys(_each(_CHAT_PLACES, ("content",)), (None, list)),
        **dict.fromkeys(_each(_CHAT_PLACES, ("refusal", "tool_calls", "function_call")), (None,)),
        **dict.fromkeys(_each(_CHAT_PLACES, _CHAT_ARGUMENTS), (None, dict)),
        "choices": (None,),  # malformed pieces that servers send between good ones
        "choices[].delta": (None,),
        "choices[].finish_reason": (None,),  # says nothing: the end has not come
    },
    ends=("choices[].finish_reason",),
)

_ITEM_SAYS = (
    "type", "content", "content[].type", "content[].text", "content[].refusal", "name", "arguments",
)  # fmt: skip
_ITEM_PLACES = ("output[].", "response.output[].", "item.")

RESPONSES = WireFormat(
    name="openai.responses",
    recordings="openai/openai-responses.*.json",
    reading=_through(lambda: AnswerReader(ResponsesStream(HERE), _failed, ProviderProtocolError, SSE_DONE)),
    kits=[ResponsesConformance()],
    carriers=("type", "output_index", "delta", "text", "refusal", "arguments", *_each(_ITEM_PLACES, _ITEM_SAYS)),
    free=_each(_ITEM_PLACES, ("arguments",)),
    allowed={
        **dict.fromkeys(_each(_ITEM_PLACES, ("arguments",)), (None, dict)),
        **dict.fromkeys(_each(_ITEM_PLACES, ("content",)), (str,)),
    },
    ends=("status", "response.status", "incomplete_details", "response.incomplete_details"),
)


OLLAMA = WireFormat(
    name="ollama",
    recordings="ollama/ollama-*.json",
    reading=_through(lambda: AnswerReader(ChatAnswer(HERE), _failed, ProviderProtocolError, LINES)),
    kits=[OllamaConformance()],
    carriers=("message.content", "message.tool_calls[].function.name", "message.tool_calls[].function.arguments"),
    free=("message.tool_calls[].function.arguments",),
    allowed={"message.tool_calls[].function.arguments": (None, str)},
    is_sse=False,
)

# A server that does not know alt=sse sends its chunks as one list.
_PARTS = ("candidates[].content.parts[].", "[].candidates[].content.parts[].")

GEMINI = WireFormat(
    name="gemini",
    recordings="gemini/*.json",
    reading=_through(lambda: AnswerReader(GeminiAnswer(HERE), _failed, ProviderProtocolError, FRAMING)),
    kits=[GeminiConformance()],
    carriers=(
        *("candidates[].index", "[].candidates[].index"),
        *_each(_PARTS, ("text", "thought", "functionCall.name", "functionCall.args")),
    ),
    free=_each(_PARTS, ("functionCall.args",)),
    allowed={
        "candidates[].finishReason": (None,),  # says nothing: the end has not come
        "[].candidates[].finishReason": (None,),
    },
    ends=("candidates[].finishReason", "[].candidates[].finishReason"),
)

_BLOCKS = ("content[].", "content_block.")

ANTHROPIC = WireFormat(
    name="anthropic",
    recordings="anthropic/*.json",
    reading=_through(lambda: AnswerReader(MessagesAnswer(HERE), _failed, ProviderProtocolError)),
    kits=[AnthropicConformance()],
    carriers=(
        *_each(_BLOCKS, ("type", "text", "name", "input")),
        *("type", "index", "delta.type", "delta.text", "delta.partial_json"),
    ),
    free=_each(_BLOCKS, ("input",)),
    allowed={
        "delta.stop_reason": (None,),  # says nothing: the end has not come
    },
    ends=("delta.stop_reason", "stop_reason", "delta"),
)

FORMATS: tuple[WireFormat, ...] = (CHAT, RESPONSES, OLLAMA, GEMINI, ANTHROPIC)
