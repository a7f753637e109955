"""Conformance subject: the provider over scripted answers of the service.

Used by tests/test_conformance.py and by ``flexchat plugins verify anthropic``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from flexchat_sdk import ChatProvider
from flexchat_testing import ProviderConformance

from .config import AnthropicConfig
from .provider import AnthropicProvider
from .tools import encode_tools

_REFUSALS: Mapping[str, tuple[int, str, str]] = {
    "auth": (401, "authentication_error", "invalid x-api-key"),
    "rate": (429, "rate_limit_error", "This request would exceed your organization's rate limit."),
    "quota": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "request": (400, "invalid_request_error", "messages: at least one message is required"),
    "model_not_found": (404, "not_found_error", "model: kit-model"),
    "context_length": (400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum"),
}
_FINISH = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


class AnthropicConformance(ProviderConformance):
    """The Messages API, with a model that thinks, signs, and takes a temperature."""

    model = "claude-sonnet-4-6"
    supports = frozenset({"http", "sockets", "streaming", "tools", "parallel_tools", "usage", "opaque", "models"})
    tool_formats: ClassVar = {"anthropic": encode_tools}

    def make_provider(self, transport: Any) -> ChatProvider:
        """Return the provider over the kit's transport; its answers are short enough to come unstreamed."""
        config = AnthropicConfig(media_in_results=True, api_key=self.key, api_version="2023-06-01", max_tokens=8192)
        return AnthropicProvider(config, transport=transport)

    def make_provider_at(self, address: str, **times: Any) -> ChatProvider:
        """Return the provider with real connections."""
        return AnthropicProvider(AnthropicConfig(base_url=address, api_key=self.key, max_tokens=8192, **times))

    def text_reply(self, text: str, *, finish: str = "stop") -> Any:
        """Return an answer with text."""
        return self._answer([{"type": "text", "text": text}] if text else [], finish)

    def tool_reply(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, text: str = "", finish: str = "tool_calls"
    ) -> Any:
        """Return an answer with tool calls."""
        blocks: list[Any] = [{"type": "text", "text": text}] if text else []
        for number, (name, arguments) in enumerate(calls):
            blocks.append({"type": "tool_use", "id": f"toolu_kit{number}", "name": name, "input": arguments})
        return self._answer(blocks, finish)

    def opaque_reply(self, token: str) -> Any:
        """Return a call with signed thinking before it."""
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": token}
        call = {"type": "tool_use", "id": "toolu_kit", "name": "kit_first", "input": {"n": 1}}
        return self._answer([thinking, call], "tool_calls")

    def error_reply(self, kind: str) -> tuple[int, Any] | None:
        """Return the service's refusal."""
        if kind not in _REFUSALS:
            return None
        status, type_, message = _REFUSALS[kind]
        return status, {"type": "error", "error": {"type": type_, "message": message}, "request_id": "req_kit"}

    def as_stream(self, reply: Any) -> Iterator[str]:
        """Yield the events of a stream; texts and inputs come in pieces."""
        usage = {**reply["usage"], "output_tokens": 1}
        message = {**reply, "content": [], "stop_reason": None, "usage": usage}
        yield _event({"type": "message_start", "message": message})
        yield _event({"type": "ping"})
        for index, block in enumerate(reply["content"]):
            begun, deltas = _in_pieces(block)
            yield _event({"type": "content_block_start", "index": index, "content_block": begun})
            for delta in deltas:
                yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        yield _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": self.output_tokens}})
        yield _event({"type": "message_stop"})

    def read_tool_calls(self, body: Any) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return the calls in a request."""
        return [(block["id"], block["name"], block["input"]) for block in _blocks(body) if block["type"] == "tool_use"]

    def read_tool_results(self, body: Any) -> list[tuple[str, str]]:
        """Return the results in a request."""
        results = [block for block in _blocks(body) if block["type"] == "tool_result"]
        return [(block["tool_use_id"], _text(block["content"])) for block in results]

    def models_reply(self, ids: Sequence[str]) -> Any:
        """Return a page of models, the last."""
        models = [{"type": "model", "id": id, "display_name": id, "lifecycle": "active"} for id in ids]
        return {"data": models, "has_more": False, "first_id": None, "last_id": None}

    def _answer(self, content: Sequence[Mapping[str, Any]], finish: str) -> Any:
        usage = {"input_tokens": self.input_tokens - 5, "output_tokens": self.output_tokens}
        usage |= {"cache_creation_input_tokens": 2, "cache_read_input_tokens": 3}
        about = {"id": "msg_kit", "type": "message", "role": "assistant", "model": "claude-kit"}
        return {**about, "content": [*content], "stop_reason": _FINISH[finish], "stop_sequence": None, "usage": usage}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _event(event: Mapping[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"


def _in_pieces(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Split a block into its start event's block and its deltas."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _cut(block["text"])]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _cut(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case _:
            text = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
            pieces = ["", *_cut(text)]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _cut(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def _blocks(body: Any) -> list[dict[str, Any]]:
    return [block for message in body["messages"] for block in message["content"]]
