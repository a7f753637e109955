"""Conformance subject: the provider over a scripted LangChain model.

Used by tests/test_conformance.py and by ``flexchat plugins verify langchain``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from flexchat_sdk import ChatProvider
from flexchat_testing import ProviderConformance
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from .config import LangChainConfig
from .implementation import encode_tools
from .provider import LangChainProvider


class RefusedError(Exception):
    """An exception like those of SDKs: a text, and the status in an attribute."""

    def __init__(self, status_code: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status_code


class KitModel(BaseChatModel):
    """A chat model with scripted answers, streamed in chunks of a few characters."""

    transport: Any

    @property
    def _llm_type(self) -> str:
        return "kit"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Accept any tools."""
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        raise NotImplementedError("the kit asks on the event loop")

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**self._reply()))])

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _chunks(self._reply()):
            yield ChatGenerationChunk(message=chunk)

    def _reply(self) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(self.transport.next_answer())
        if "status" in reply:
            raise RefusedError(reply["status"], reply["text"])
        return reply


def _chunks(reply: Mapping[str, Any]) -> Iterator[AIMessageChunk]:
    text = reply["content"]
    for at in range(0, len(text), 3):
        yield AIMessageChunk(content=text[at : at + 3])
    for index, call in enumerate(reply.get("tool_calls", ())):
        text_of_call = json.dumps(call["args"])
        yield _piece(index, call["id"], call["name"], text_of_call[:5])
        yield _piece(index, None, None, text_of_call[5:])
    yield AIMessageChunk(
        content="", usage_metadata=reply["usage_metadata"], response_metadata=reply["response_metadata"]
    )


def _piece(index: int, id: str | None, name: str | None, args: str) -> AIMessageChunk:
    return AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name=name, args=args, id=id, index=index)])


class LangChainConformance(ProviderConformance):
    """The provider, over a chat model with the kit's answers."""

    supports = frozenset({"streaming", "tools", "parallel_tools", "usage"})
    tool_formats: ClassVar = {"langchain": encode_tools}

    def make_provider(self, transport: Any) -> ChatProvider:
        """Return a provider for the scripted model."""
        config = LangChainConfig(class_path=f"{KitModel.__module__}:{KitModel.__name__}")
        return LangChainProvider(config, make=lambda model: KitModel(transport=transport))

    def text_reply(self, text: str, *, finish: str = "stop") -> Any:
        """Return a message of text."""
        return self._reply(text, finish)

    def tool_reply(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, text: str = "", finish: str = "tool_calls"
    ) -> Any:
        """Return a message with tool calls."""
        items = [{"id": f"id-{n}", "name": name, "args": arguments} for n, (name, arguments) in enumerate(calls)]
        return {**self._reply(text, finish), "tool_calls": items}

    def _reply(self, text: str, finish: str) -> dict[str, Any]:
        counts = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        usage = {**counts, "total_tokens": self.input_tokens + self.output_tokens}
        metadata = {"finish_reason": finish, "model_name": self.model}
        return {"content": text, "usage_metadata": usage, "response_metadata": metadata}

    def error_reply(self, kind: str) -> tuple[int, Any] | None:
        """Return the exception the model raises."""
        status, text = {
            "auth": (401, "invalid x-api-key"),
            "rate": (429, "slow down"),
            "quota": (400, "Your credit balance is too low"),
            "overloaded": (529, "Overloaded"),
            "request": (400, "temperature: range is 0 to 1"),
            "model_not_found": (404, f"model: {self.model} not found"),
            "context_length": (400, "prompt is too long: 9 tokens > 8 maximum"),
            "content_filter": (400, "The response was filtered: content management policy"),
        }[kind]
        return 200, {"status": status, "text": text}

    def as_stream(self, reply: Any) -> Iterator[str]:
        """Yield the whole reply: the model splits it into chunks."""
        yield json.dumps(reply)
