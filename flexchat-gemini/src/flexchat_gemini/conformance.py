"""Conformance subject: the provider over scripted answers of the service.

Used by tests/test_conformance.py and by ``flexchat plugins verify gemini``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from flexchat_sdk import ChatProvider
from flexchat_testing import ProviderConformance

from .config import GeminiConfig
from .provider import GeminiProvider
from .tools import encode_tools, encode_tools_as_parameters

_REFUSALS: Mapping[str, tuple[int, str, str]] = {
    "auth": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    "rate": (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    "quota": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "request": (400, "INVALID_ARGUMENT", "Invalid value at 'generation_config.temperature'"),
    "model_not_found": (404, "NOT_FOUND", "models/kit-model is not found for API version v1beta"),
    "context_length": (400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed"),
}
_DAY = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
}
_FINISH = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"}


class GeminiConformance(ProviderConformance):
    """The native API, with a model that thinks and signs."""

    model = "gemini-2.5-flash"
    supports = frozenset(
        {"http", "sockets", "streaming", "tools", "parallel_tools", "usage", "opaque", "models", "embeddings"}
    )
    tool_formats: ClassVar = {"gemini": encode_tools, "gemini.parameters": encode_tools_as_parameters}

    def make_provider(self, transport: Any) -> ChatProvider:
        """Return the provider over the kit's transport."""
        return GeminiProvider(GeminiConfig(media_in_results=True, api_key=self.key), transport=transport)

    def make_provider_at(self, address: str, **times: Any) -> ChatProvider:
        """Return the provider with real connections."""
        return GeminiProvider(GeminiConfig(base_url=address, api_key=self.key, **times))

    def text_reply(self, text: str, *, finish: str = "stop") -> Any:
        """Return an answer with text."""
        return self._answer([{"text": text}], finish)

    def tool_reply(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, text: str = "", finish: str = "tool_calls"
    ) -> Any:
        """Return an answer that asks for tools; the service has no word for that end, and mostly no ids."""
        parts: list[Any] = [{"text": text}] if text else []
        parts += [{"functionCall": {"name": name, "args": arguments}} for name, arguments in calls]
        return self._answer(parts, finish)

    def opaque_reply(self, token: str) -> Any:
        """Return a signed call."""
        return self._answer(
            [{"functionCall": {"name": "kit_first", "args": {"n": 1}}, "thoughtSignature": token}], "stop"
        )

    def error_reply(self, kind: str) -> tuple[int, Any] | None:
        """Return Google's refusal."""
        if kind not in _REFUSALS:
            return None
        code, status, message = _REFUSALS[kind]
        error: dict[str, Any] = {"code": code, "message": message, "status": status}
        return code, {"error": {**error, "details": [_DAY]} if kind == "quota" else error}

    def as_stream(self, reply: Any) -> Iterator[str]:
        """Yield chunks in the form of whole answers; the last one holds the finish reason."""
        candidate = reply["candidates"][0]
        pieces: list[Any] = []
        for part in candidate["content"]["parts"]:
            text = part.get("text")
            pieces += [part] if text is None else [{**part, "text": text[at : at + 4]} for at in range(0, len(text), 4)]
        about = {key: value for key, value in reply.items() if key not in ("candidates", "usageMetadata")}
        for piece in pieces:
            chunk = {**about, "candidates": [{"index": 0, "content": {"role": "model", "parts": [piece]}}]}
            yield f"data: {json.dumps(chunk, ensure_ascii=False)}\r\n\r\n"
        last = {
            "index": 0,
            "finishReason": candidate["finishReason"],
            "content": {"role": "model", "parts": [{"text": ""}]},
        }
        yield f"data: {json.dumps({**reply, 'candidates': [last]})}\r\n\r\n"

    def read_tool_calls(self, body: Any) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Return the calls in a request."""
        calls = [part["functionCall"] for part in _parts(body) if "functionCall" in part]
        return [(call.get("id", call["name"]), call["name"], call["args"]) for call in calls]

    def read_tool_results(self, body: Any) -> list[tuple[str, str]]:
        """Return the results in a request."""
        results = [part["functionResponse"] for part in _parts(body) if "functionResponse" in part]
        return [(item.get("id", item["name"]), json.dumps(item["response"], ensure_ascii=False)) for item in results]

    def models_reply(self, ids: Sequence[str]) -> Any:
        """Return a list of models; ids with a slash are resources of another kind."""
        methods = ["generateContent", "countTokens"]
        names = [id if "/" in id else f"models/{id}" for id in ids]
        return {"models": [{"name": name, "supportedGenerationMethods": methods} for name in names]}

    def read_embed_texts(self, body: Any) -> list[str]:
        """Return the texts of a request for vectors."""
        return [request["content"]["parts"][0]["text"] for request in body.get("requests", [body])]

    def embed_reply(self, vectors: Sequence[Sequence[float]]) -> Any:
        """Return vectors."""
        return {"embeddings": [{"values": list(vector)} for vector in vectors]}

    def _answer(self, parts: Sequence[Mapping[str, Any]], finish: str) -> Any:
        candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}, "finishReason": _FINISH[finish]}
        usage = {"promptTokenCount": self.input_tokens, "candidatesTokenCount": self.output_tokens}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-kit", "responseId": "r-1"}


def _parts(body: Any) -> list[dict[str, Any]]:
    return [part for content in body["contents"] for part in content["parts"]]
