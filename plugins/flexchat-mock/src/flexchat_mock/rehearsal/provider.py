"""The provider "rehearsal", for trying tools and a config without an API key."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from flexchat.plugin import ChatResult, ToolCall
from flexchat_sdk import (
    AssistantMessage,
    ChatEvent,
    ChatOptions,
    Message,
    ModelInfo,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    events_of,
)

from . import RehearsalConfig
from .compose_answer import from_plan, from_results
from .passages import from_passages, read_passages
from .plan import MAX_CHARACTERS, plan, read_tools

HONESTY = "(rehearsal model: it matches words and understands nothing)"  # ends every answer


class RehearsalProvider:
    """A provider that selects tools and composes answers by word matching."""

    name = "rehearsal"
    follows_instructions = False

    def __init__(self, config: RehearsalConfig | None = None) -> None:
        """Ignore the config, which has no settings."""

    def tool_format(self, model: str) -> str:
        """Return "rehearsal"."""
        return "rehearsal"

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Call the tools that match the last user message; once there are results, summarize them."""
        return answer(messages, model, options)

    async def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Stream the answer of generate_chat word by word."""
        for event in events_of(answer(messages, model, options)):
            yield event

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the only model."""
        return (ModelInfo(id="rehearsal", name="Rehearsal (matches words)", capabilities=frozenset({"tools"})),)

    async def aclose(self) -> None:
        """Do nothing: the provider holds no resources."""


def answer(messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
    """Compute the rehearsal model's reply to a conversation."""
    last = max((i for i, m in enumerate(messages) if isinstance(m, UserMessage)), default=-1)
    text = messages[last].content if last >= 0 else ""
    tools = read_tools(options.tools)
    steps = plan(str(text), tools)
    results = [m for m in messages[last + 1 :] if isinstance(m, ToolMessage)]
    if results:
        calls = {c.id: c for m in messages[last + 1 :] if isinstance(m, AssistantMessage) for c in m.tool_calls}
        return _text_result(from_results([(calls.get(r.tool_call_id), r) for r in results], steps), model)
    may_call = options.tool_choice != "none"
    new_calls = [ToolCall.from_object(step.tool, step.arguments) for step in steps if step.tool and not step.missing]
    if new_calls and may_call:
        return ChatResult(message=AssistantMessage(parts=tuple(new_calls)), finish_reason="tool_calls", model=model)
    passages = read_passages("\n\n".join(m.content for m in messages if isinstance(m, SystemMessage)))
    if passages and text:
        return _text_result([from_passages(text[:MAX_CHARACTERS], passages)], model)
    return _text_result(from_plan(steps, tools, may_call=may_call), model)


def _text_result(lines: Sequence[str], model: str) -> ChatResult:
    message = AssistantMessage(parts=(TextPart(text="\n".join([*lines, HONESTY])),))
    return ChatResult(message=message, finish_reason="stop", model=model)
