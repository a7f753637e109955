"""LangChain's messages for fuzz_types.py: what our provider gets of an integration, in whatever shape.

An answer is the fields of an AIMessage, or a line for each AIMessageChunk. Nothing of LangChain's is between these and
the provider but the addition of chunks. LangChain checks its classes' fields when it makes them, and not what is
assigned later, so every wrong type can come.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from flexchat import AnswerEnd, ChatOptions, UserMessage
from flexchat_langchain.config import LangChainConfig
from flexchat_langchain.provider import LangChainProvider
from flexchat_sdk import ChatEvent
from fuzz_formats import Answer, WireFormat
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk

_HI = (UserMessage(content="Hi"),)


class _Said(FakeListChatModel):
    responses: list[str] = [""]  # noqa: RUF012  pydantic copies it
    said: Any = None

    async def ainvoke(self, *_: Any, **__: Any) -> Any:
        return _made(AIMessage, self.said)

    async def astream(self, *_: Any, **__: Any) -> Any:
        for fields in self.said:
            yield _made(AIMessageChunk, fields)


def _made(kind: type[AIMessage], fields: Any) -> Any:
    return kind(content="").model_copy(update=fields) if isinstance(fields, dict) else fields


_LOOP = asyncio.new_event_loop()
_CONFIG = LangChainConfig(class_path="langchain_core.language_models:FakeListChatModel")


def _reading(body: bytes, streamed: bool) -> list[ChatEvent]:
    return _LOOP.run_until_complete(_read(body, streamed))


async def _read(body: bytes, streamed: bool) -> list[ChatEvent]:
    said = [json.loads(line) for line in body.splitlines()] if streamed else json.loads(body)
    provider = LangChainProvider(_CONFIG, make=lambda model: _Said(said=said))
    if streamed:
        return [event async for event in provider.stream_chat(_HI, "m", ChatOptions())]
    return [AnswerEnd(await provider.generate_chat(_HI, "m", ChatOptions()))]


_USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, "input_token_details": {"cache_read": 1}}
_CALL = {"name": "find", "args": {"where": "Rome", "n": 2}, "id": "call_1", "type": "tool_call"}
_BROKEN = {"name": "show", "args": '{"a": ', "id": "call_2", "error": "no JSON", "type": "invalid_tool_call"}
_END = {"finish_reason": "stop", "model_name": "m-1", "logprobs": None, "token_usage": {"total_tokens": 5}}


def _streamed(name: str, *chunks: dict[str, Any]) -> Answer:
    end = {"content": chunks[-1]["content"][:0], "response_metadata": _END, "usage_metadata": _USAGE}
    values = [*({"id": "run-1", **chunk} for chunk in chunks), end]
    return Answer(name, values, [(b"", b"\n")] * len(values))


def _piece(index: int, name: str | None, args: str, id: str | None) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}


_SAMPLES = (
    Answer(
        "text and calls",
        [
            {
                "content": "Let me see",
                "tool_calls": [_CALL, {**_CALL, "id": "call_3", "args": {}}],
                "invalid_tool_calls": [_BROKEN],
                "additional_kwargs": {"reasoning_content": "Hm.", "refusal": None},
                "response_metadata": _END,
                "usage_metadata": _USAGE,
                "id": "resp_1",
            }
        ],
    ),
    Answer(
        "blocks",
        [
            {
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "abc"},
                    {"type": "text", "text": "Grüße", "citations": [{"cited_text": "x", "start": 1}], "index": 0},
                    ", world",
                    {"type": "tool_use", "id": "call_1", "name": "find", "input": {"where": "Rome", "n": 2}},
                    {"type": "server_tool_use", "id": "srv_1", "name": "search", "input": {"q": 1}},
                ],
                "tool_calls": [_CALL],
                "response_metadata": {"stop_reason": "tool_use", "model": "m-1", "usage": {"input_tokens": 3}},
                "usage_metadata": _USAGE,
            }
        ],
    ),
    Answer("refusal", [{"content": "", "additional_kwargs": {"refusal": "No."}, "response_metadata": _END}]),
    _streamed(
        "text and calls streamed",
        {"content": "", "additional_kwargs": {"reasoning_content": "Hm"}},
        {"content": "", "additional_kwargs": {"reasoning_content": "."}},
        {"content": "Let me "},
        {"content": "see"},
        {"content": "", "tool_call_chunks": [_piece(0, "find", "", "call_1")]},
        {"content": "", "tool_call_chunks": [_piece(0, None, '{"n": ', None)]},
        {"content": "", "tool_call_chunks": [_piece(0, None, "2}", None), _piece(1, "show", "{}", "call_2")]},
    ),
    _streamed(
        "blocks streamed",
        {"content": [{"type": "thinking", "thinking": "Hm.", "index": 0}]},
        {"content": [{"type": "thinking", "signature": "abc", "index": 0}]},
        {"content": [{"type": "text", "text": "Grüße", "index": 1}]},
        {"content": [{"type": "text", "text": ", world", "index": 1}]},
        {
            "content": [{"type": "tool_use", "id": "call_1", "name": "find", "input": {}, "index": 2}],
            "tool_call_chunks": [_piece(2, "find", "", "call_1")],
        },
        {
            "content": [{"type": "input_json_delta", "partial_json": '{"n": 2}', "index": 2}],
            "tool_call_chunks": [_piece(2, None, '{"n": 2}', None)],
        },
    ),
)

LANGCHAIN = WireFormat(
    name="langchain",
    reading=_reading,
    samples=_SAMPLES,
    carriers=(
        *("content", "content[].type", "content[].text", "content[].index", "additional_kwargs.refusal"),
        *("tool_calls[].name", "tool_calls[].args", "invalid_tool_calls[].name", "invalid_tool_calls[].args"),
        *("tool_call_chunks[].name", "tool_call_chunks[].args", "tool_call_chunks[].index"),
    ),
    free=("tool_calls[].args",),
    ends=("response_metadata.finish_reason", "response_metadata.stop_reason", "response_metadata"),
    allowed={
        "content": (list, str),
        "content[]": (str,),
        "tool_call_chunks[].name": (None, str),
        "tool_call_chunks[].args": (None,),
        "additional_kwargs.refusal": (None,),
        "additional_kwargs": (None,),
    },
    is_sse=False,
)
