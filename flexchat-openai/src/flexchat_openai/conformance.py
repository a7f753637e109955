"""Simulated answers in both APIs, so that FlexChat's kit can test the provider without a server.

Used by tests/test_conformance.py and by ``flexchat plugins verify openai``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from flexchat_sdk import ChatProvider
from flexchat_testing import ProviderConformance

from .config import OpenAIConfig
from .provider import OpenAIProvider
from .tools import encode_responses_tools, encode_tools

_SUPPORTS = frozenset(
    {"http", "sockets", "streaming", "tools", "parallel_tools", "usage", "opaque", "models", "embeddings"}
)
_REFUSALS: Mapping[str, tuple[int, str | None, str, str]] = {
    "auth": (401, "invalid_api_key", "invalid_request_error", "Incorrect API key provided: sk-ab***yz"),
    "rate": (429, "rate_limit_exceeded", "requests", "Rate limit reached for requests"),
    "quota": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota"),
    "overloaded": (503, "server_is_overloaded", "server_error", "The server is overloaded"),
    "request": (400, "unknown_parameter", "invalid_request_error", "Unknown parameter: 'colour'"),
    "model_not_found": (404, "model_not_found", "invalid_request_error", "The model does not exist"),
    "context_length": (400, "context_length_exceeded", "invalid_request_error", "Too many tokens"),
    "content_filter": (400, "content_policy_violation", "invalid_request_error", "Your request was rejected"),
}


class _OpenAI(ProviderConformance):
    """What the two APIs have in common."""

    api: ClassVar[Any] = "chat"

    def make_provider(self, transport: Any) -> ChatProvider:
        """Return the provider on the kit's transport."""
        config = OpenAIConfig(media_in_results=True, api_key=self.key, base_url="https://kit.example/v1", api=self.api)
        return OpenAIProvider(config, transport=transport)

    def make_provider_at(self, address: str, **times: Any) -> ChatProvider:
        """Return the provider with real connections."""
        return OpenAIProvider(OpenAIConfig(base_url=address, api_key=self.key, api=self.api, **times))

    def error_reply(self, kind: str) -> tuple[int, Any] | None:
        """Return OpenAI's refusal."""
        status, code, type_, message = _REFUSALS[kind]
        return status, {"error": {"message": message, "type": type_, "param": None, "code": code}}

    def models_reply(self, ids: Sequence[str]) -> Any:
        """Return a list of models."""
        return {"object": "list", "data": [{"id": id, "object": "model"} for id in ids]}

    def read_embed_texts(self, body: Any) -> list[str]:
        """Return the texts of a request for vectors."""
        return list(body["input"])

    def embed_reply(self, vectors: Sequence[Sequence[float]]) -> Any:
        """Return vectors in reverse order: their index gives their place."""
        data = [{"object": "embedding", "index": i, "embedding": list(vector)} for i, vector in enumerate(vectors)]
        return {"object": "list", "model": "kit-model", "data": data[::-1], "usage": {"prompt_tokens": 1}}


class ChatCompletionsConformance(_OpenAI):
    """The Chat Completions API."""

    supports = _SUPPORTS
    tool_formats: ClassVar = {"openai": encode_tools}

    def text_reply(self, text: str, *, finish: str = "stop") -> Any:
        """Return an answer with text."""
        return self._answer({"content": text}, finish)

    def tool_reply(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, text: str = "", finish: str = "tool_calls"
    ) -> Any:
        """Return an answer with tool calls."""
        items = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for n, (name, arguments) in enumerate(calls)
        ]
        return self._answer({"content": text or None, "tool_calls": items}, finish)

    def opaque_reply(self, token: str) -> Any:
        """Return an answer with reasoning, which goes back to the same server."""
        return self._answer({"content": "Hi", "reasoning_content": token}, "stop")

    def as_stream(self, reply: Any) -> Iterator[str]:
        """Yield chunks, a separate one for the token counts, and the end."""
        message = reply["choices"][0]["message"]
        text = message.get("content") or ""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if "reasoning_content" in message:
            deltas.append({"reasoning_content": message["reasoning_content"]})
        deltas += [{"content": text[at : at + 4]} for at in range(0, len(text), 4)]
        for index, call in enumerate(message.get("tool_calls", ())):
            function = call["function"]
            deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
            for at in range(0, len(function["arguments"]), 5):
                piece = {"index": index, "function": {"arguments": function["arguments"][at : at + 5]}}
                deltas.append({"tool_calls": [piece]})
        choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
        choices.append([{"index": 0, "delta": {}, "finish_reason": reply["choices"][0]["finish_reason"]}])
        frame = {"id": reply["id"], "object": "chat.completion.chunk", "model": reply["model"]}
        chunks = [*({**frame, "choices": choice} for choice in choices)]
        chunks.append({**frame, "choices": [], "usage": reply["usage"]})
        yield from (f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks)
        yield "data: [DONE]\n\n"

    def read_tool_calls(self, body: Any) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return the calls in a request."""
        calls = [call for message in body["messages"] for call in message.get("tool_calls", ())]
        return [(c["id"], c["function"]["name"], _arguments(c["function"]["arguments"])) for c in calls]

    def read_tool_results(self, body: Any) -> list[tuple[str, str]]:
        """Return the results in a request."""
        return [(m["tool_call_id"], m["content"]) for m in body["messages"] if m["role"] == "tool"]

    def _answer(self, message: Mapping[str, Any], finish: str) -> Any:
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        usage = {"prompt_tokens": self.input_tokens, "completion_tokens": self.output_tokens}
        return {"id": "c-1", "object": "chat.completion", "model": "kit-model-1", "choices": [choice], "usage": usage}


class ResponsesConformance(_OpenAI):
    """The Responses API."""

    supports = _SUPPORTS
    api = "responses"
    tool_formats: ClassVar = {"openai.responses": encode_responses_tools}

    def text_reply(self, text: str, *, finish: str = "stop") -> Any:
        """Return an answer with text."""
        return self._answer([_message(text)], finish)

    def tool_reply(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, text: str = "", finish: str = "tool_calls"
    ) -> Any:
        """Return an answer with tool calls."""
        items = [_message(text)] if text else []
        for n, (name, arguments) in enumerate(calls):
            call = {"call_id": f"call_{n}", "name": name, "arguments": json.dumps(arguments)}
            items.append({"id": f"fc_{n}", "type": "function_call", "status": "completed", **call})
        return self._answer(items, finish)

    def opaque_reply(self, token: str) -> Any:
        """Return an answer with encrypted reasoning."""
        return self._answer(
            [{"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": token}, _message("Hi")], "stop"
        )

    def as_stream(self, reply: Any) -> Iterator[str]:
        """Yield the events of a response."""
        started = {**reply, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": started}]
        for index, item in enumerate(reply["output"]):
            events += ({**event, "output_index": index, "item_id": item["id"]} for event in _item_events(item))
        events.append({"type": f"response.{reply['status']}", "response": reply})
        for number, event in enumerate(events):
            data = json.dumps({**event, "sequence_number": number}, ensure_ascii=False)
            yield f"event: {event['type']}\ndata: {data}\n\n"

    def read_tool_calls(self, body: Any) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return the calls in a request."""
        calls = [item for item in body["input"] if item.get("type") == "function_call"]
        return [(c["call_id"], c["name"], _arguments(c["arguments"])) for c in calls]

    def read_tool_results(self, body: Any) -> list[tuple[str, str]]:
        """Return the results in a request."""
        return [(i["call_id"], _text(i["output"])) for i in body["input"] if i.get("type") == "function_call_output"]

    def _answer(self, output: Sequence[Mapping[str, Any]], finish: str) -> Any:
        cut = finish == "length"
        return {
            "id": "resp_1",
            "object": "response",
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "error": None,
            "model": "kit-model-1",
            "output": list(output),
            "usage": {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens},
        }


def _text(output: Any) -> str:
    return output if isinstance(output, str) else "".join(part.get("text", "") for part in output)


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}


def _item_events(item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {key: value for key, value in item.items() if key != "encrypted_content"}
    if item["type"] == "message":
        begun["content"] = []
    if item["type"] == "function_call":
        begun["arguments"] = ""
    yield {"type": "response.output_item.added", "item": begun}
    if item["type"] == "message":
        text = item["content"][0]["text"]
        part = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", "content_index": 0, "part": part}
        for at in range(0, len(text), 4):
            yield {"type": "response.output_text.delta", "content_index": 0, "delta": text[at : at + 4]}
        yield {"type": "response.output_text.done", "content_index": 0, "text": text}
        yield {"type": "response.content_part.done", "content_index": 0, "part": item["content"][0]}
    if item["type"] == "function_call":
        for at in range(0, len(item["arguments"]), 5):
            yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"][at : at + 5]}
        yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
    yield {"type": "response.output_item.done", "item": item}


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}
