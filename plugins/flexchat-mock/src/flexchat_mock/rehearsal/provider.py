"""The provider "rehearsal": works on any message and any tools, without a network, by matching words.

It is for trying one's own tools and config before there is a key. What it says comes from the message, the tools and
their results; it keeps nothing between requests, and the same input gives the same output (but for call ids and what
"tomorrow" means).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Callable, Sequence

from flexchat.plugin import (
    AssistantMessage,
    ChatEvent,
    ChatOptions,
    ChatResult,
    Message,
    ModelInfo,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    events_of,
)

from .choose_tool import read_tools
from .clause import Clause
from .compose_answer import HONESTY, from_plan, from_results
from .config import RehearsalConfig
from .passages import from_passages, read_passages
from .plan import MAX_CHARACTERS, plan


class RehearsalProvider:
    """A stand-in for a model.

    Args:
        today: Returns the day that "tomorrow" counts from.
    """

    follows_instructions = False

    def __init__(self, config: RehearsalConfig | None = None, *, today: Callable[[], dt.date] = dt.date.today) -> None:
        self._today = today

    @property
    def name(self) -> str:
        """Return "rehearsal"."""
        return "rehearsal"

    def tool_format(self, model: str) -> str:
        """Return "rehearsal"."""
        return "rehearsal"

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Call the tools that fit the last user message; once they have answered, say what they said."""
        return answer(messages, model, options, self._today())

    async def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the same answer word by word."""
        for event in events_of(answer(messages, model, options, self._today())):
            yield event

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the one model there is."""
        return (ModelInfo(id="rehearsal", name="Rehearsal (matches words)", capabilities=frozenset({"tools"})),)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to give back."""


def answer(messages: Sequence[Message], model: str, options: ChatOptions, today: dt.date) -> ChatResult:
    """Return what the rehearsal model says to a conversation."""
    spoken = [(i, m.content) for i, m in enumerate(messages) if isinstance(m, UserMessage)]
    place, text = spoken[-1] if spoken else (-1, "")
    earlier = spoken[-2][1] if len(spoken) > 1 else ""
    tools = read_tools(options.tools)
    must_call = options.tool_choice == "required"
    steps = plan(text, tools, today, earlier=earlier, must_call=must_call) if tools or text else ()
    results = [m for m in messages[place + 1 :] if isinstance(m, ToolMessage)]
    if results:
        calls = {c.id: c for m in messages[place + 1 :] if isinstance(m, AssistantMessage) for c in m.tool_calls}
        return _says(from_results([(calls.get(r.tool_call_id), r) for r in results], steps), model)
    may_call = options.tool_choice != "none"
    asked = [ToolCall.from_object(s.tool or "", s.arguments) for s in steps if s.is_call]
    if asked and may_call:
        message = AssistantMessage(parts=tuple(asked))
        return ChatResult(message=message, finish_reason="tool_calls", model=model)
    shown = read_passages("\n\n".join(m.content for m in messages if isinstance(m, SystemMessage)))
    if shown and text:
        return _says(f"{from_passages(text[:MAX_CHARACTERS], shown)}\n{HONESTY}", model)
    clause = Clause(text[:MAX_CHARACTERS], today)
    said = from_plan(steps, tools, may_call=may_call, found=clause.values, words=len(clause.words))
    return _says(said, model)


def _says(text: str, model: str) -> ChatResult:
    return ChatResult(message=AssistantMessage(parts=(TextPart(text=text),)), finish_reason="stop", model=model)
