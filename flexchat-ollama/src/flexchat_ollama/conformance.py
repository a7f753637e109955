"""Conformance subject: the provider over scripted answers of a server.

Used by tests/test_conformance.py and by ``flexchat plugins verify ollama``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from flexchat_sdk import ChatProvider
from flexchat_testing import ProviderConformance

from .config import OllamaConfig
from .provider import OllamaProvider
from .tools import encode_tools


class OllamaConformance(ProviderConformance):
    """Ollama's provider, with answers in the words of /api/chat."""

    supports = frozenset(
        {"http", "sockets", "streaming", "tools", "parallel_tools", "usage", "opaque", "models", "embeddings"}
    )
    tool_formats: ClassVar = {"ollama": encode_tools}
    stream_type = "application/x-ndjson"

    def make_provider(self, transport: Any) -> ChatProvider:
        """Return the provider over the kit's transport."""
        config = OllamaConfig(base_url="http://h.example", api_key=self.key, media_in_results=True)
        return OllamaProvider(config, transport=transport)

    def make_provider_at(self, address: str, **times: Any) -> ChatProvider:
        """Return the provider with real connections."""
        return OllamaProvider(OllamaConfig(base_url=address, api_key=self.key, **times))

    def text_reply(self, text: str, *, finish: str = "stop") -> Any:
        """Return an answer with text."""
        return self._reply({"role": "assistant", "content": text}, finish)

    def tool_reply(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, text: str = "", finish: str = "tool_calls"
    ) -> Any:
        """Return an answer with tool calls; the server's finish reason for it is "stop"."""
        items = [
            {"id": f"call_{n}", "function": {"index": n, "name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(calls)
        ]
        return self._reply({"role": "assistant", "content": text, "tool_calls": items}, "stop")

    def _reply(self, message: Any, finish: str) -> Any:
        counts = {"prompt_eval_count": self.input_tokens, "eval_count": self.output_tokens}
        return {"model": self.model, "message": message, "done": True, "done_reason": finish, **counts}

    def error_reply(self, kind: str) -> tuple[int, Any] | None:
        """Return the server's refusal."""
        return {
            "auth": (401, {"error": "unauthorized"}),
            "rate": (429, {"error": "too many requests"}),
            "overloaded": (503, {"error": "server busy, please try again.  maximum pending requests exceeded"}),
            "request": (400, {"error": "json: cannot unmarshal string into Go struct field"}),
            "model_not_found": (404, {"error": f"model '{self.model}' not found"}),
            "context_length": (400, {"error": "the input length exceeds the context length"}),
        }.get(kind)

    def as_stream(self, reply: Any) -> Iterable[str]:
        """Yield lines of JSON; calls come whole."""
        message = reply["message"]
        text = message["content"]
        if "thinking" in message:
            yield self._line({"message": {**message, "content": ""}, "done": False})
        third = len(text) // 3 + 1
        for piece in (text[:third], text[third : 2 * third], text[2 * third :]):
            if piece:
                yield self._line(
                    {"model": self.model, "message": {"role": "assistant", "content": piece}, "done": False}
                )
        for call in message.get("tool_calls", ()):
            yield self._line({"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False})
        yield self._line({**reply, "message": {"role": "assistant", "content": ""}})

    def _line(self, chunk: Any) -> str:
        return json.dumps(chunk, ensure_ascii=False) + "\n"

    def read_tool_calls(self, body: Any) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return the calls in a request."""
        return [
            (call["id"], call["function"]["name"], call["function"]["arguments"])
            for message in body["messages"]
            for call in message.get("tool_calls", ())
        ]

    def read_tool_results(self, body: Any) -> list[tuple[str, str]]:
        """Return the results in a request."""
        return [(m["tool_call_id"], m["content"]) for m in body["messages"] if m["role"] == "tool"]

    def opaque_reply(self, token: str) -> Any:
        """Return an answer with thoughts, which go back to the server that had them."""
        return self._reply({"role": "assistant", "content": "Hi", "thinking": token}, "stop")

    def models_reply(self, ids: Sequence[str]) -> Any:
        """Return a list of models."""
        return {"models": [{"name": name, "model": name} for name in ids]}

    def read_embed_texts(self, body: Any) -> list[str]:
        """Return the texts of a request for vectors."""
        return list(body["input"])

    def embed_reply(self, vectors: Sequence[Sequence[float]]) -> Any:
        """Return vectors."""
        return {"model": self.model, "embeddings": vectors}

    def other_reply(self, request: Any) -> Any:
        """Every model that is asked for can do everything."""
        if not request.url.endswith("/api/show"):
            return None
        return {"capabilities": ["completion", "tools", "thinking", "vision"], "details": {"context_length": 8192}}
