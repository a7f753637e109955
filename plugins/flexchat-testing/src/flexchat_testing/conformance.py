"""What the kit tries its own scripted model with.

Used by tests/test_conformance.py and by ``flexchat plugins verify testing``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from flexchat_sdk import ChatOptions, ChatProvider, Message

from . import ProviderConformance, ScriptedProvider
from .scripted import ScriptedCall, ScriptedReply, encode_tools

_ERRORS = {"rate", "quota", "auth", "overloaded", "request", "model_not_found", "context_length", "content_filter"}


class Scripted(ProviderConformance):
    """The scripted model. It uses no network: the kit's answers are its replies, in the form of a config."""

    supports = frozenset({"streaming", "tools", "parallel_tools"})
    tool_formats: ClassVar = {"scripted": encode_tools}

    def make_provider(self, transport: Any) -> ChatProvider:
        """Return a model whose script is the kit's answers."""

        async def reply(messages: Sequence[Message], options: ChatOptions) -> ScriptedReply:
            table = json.loads(transport.next_answer())
            calls = tuple(ScriptedCall(**call) for call in table.pop("tool_calls", ()))
            return ScriptedReply(tool_calls=calls, **table)

        return ScriptedProvider([reply], repeat=True)

    def text_reply(self, text: str, *, finish: str = "stop") -> Any:
        """Return a reply of text."""
        return {"text": text, "finish_reason": finish}

    def tool_reply(
        self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, text: str = "", finish: str = "tool_calls"
    ) -> Any:
        """Return a reply that asks for tools."""
        calls_json = [{"name": name, "arguments": arguments} for name, arguments in calls]
        return {"text": text or None, "tool_calls": calls_json}

    def error_reply(self, kind: str) -> tuple[int, Any] | None:
        """Return a reply that is an error."""
        return (200, {"error": kind}) if kind in _ERRORS else None

    def as_stream(self, reply: Any) -> Iterator[str]:
        """Yield the reply itself; the model splits it at spaces."""
        yield json.dumps(reply)
