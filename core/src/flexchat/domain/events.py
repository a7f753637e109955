"""Pieces of an answer, and the events of a turn.

A provider yields TextDelta … ToolCallEnd and, last, one AnswerEnd. A turn passes them on between its events:
TurnStarted, then phases, requests to models and tools as they begin and end (each answer's parts are counted from 0
again), and one TurnFinished. Errors are raised, never yielded.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal

import attrs

from .chat import ChatOptions, ChatResult
from .messages import Message, ReasoningPart, TextPart, ToolCall
from .questions import Question, Reply
from .tools import ToolCallRecord
from .turn import PhaseRecord, Turn, TurnInfo


@attrs.frozen
class TextDelta:
    """More text for the part at ``index`` of the message being written."""

    index: int
    text: str


@attrs.frozen
class ReasoningDelta:
    """More reasoning for the part at ``index``."""

    index: int
    text: str


@attrs.frozen
class ToolCallStart:
    """The model has named a tool; its arguments are still being written."""

    index: int
    name: str


@attrs.frozen
class ToolCallDelta:
    """More of the arguments: a fragment of JSON text."""

    index: int
    arguments: str


@attrs.frozen
class ToolCallEnd:
    """A call is complete. It does not run before AnswerEnd."""

    index: int
    call: ToolCall


@attrs.frozen
class AnswerEnd:
    """The model's answer is complete: exactly what an unstreamed exchange returns."""

    result: ChatResult


ChatEvent = TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta | ToolCallEnd | AnswerEnd
"""A piece of an answer, as a provider yields it."""


@attrs.frozen(kw_only=True)
class TurnEvent:
    """An event of a turn, the same for the reader of a stream, for plugins and for records.

    For each class there is a hook, ``flexchat_`` and its name in snake case, whose arguments are its fields.

    Attributes:
        info: The turn it happens in.
    """

    info: TurnInfo


@attrs.frozen(kw_only=True)
class TurnStarted(TurnEvent):
    """A message has arrived; no phase has run yet."""

    user_message: str


@attrs.frozen(kw_only=True)
class TurnResumed(TurnEvent):
    """A turn whose process died, or was stopped, goes on; what happened before is not reported to plugins again.

    For listeners of ``FlexChat.start_resumed``, every earlier event of the turn is void: what stands of it
    follows this event, the whole answers and the tools that have their results. An answer that was not complete is
    asked for again.
    """

    user_message: str


@attrs.frozen(kw_only=True)
class PhaseStarted(TurnEvent):
    """A phase that has something to wait for begins: 1 to 3 if they are needed, and 6.

    PhaseRecord lists the phases' names.
    """

    phase: str


@attrs.frozen(kw_only=True)
class PhaseFinished(TurnEvent):
    """One of the six phases is done.

    Attributes:
        record: How it went, as JSON data.
        outcome: Its result: the topic (str), RagResults, the intent (str or None), Profile, the rule as
            (index, ResponseRule), ChatResponse. A phase that did not run returns what it would have without a model
            or a store.
    """

    record: PhaseRecord
    outcome: object


@attrs.frozen(kw_only=True)
class ModelRequestStarted(TurnEvent):
    """A request goes to a model: for the answer, or for phase 1 or 3.

    Attributes:
        llm: Name of the model's entry in llms.
        provider: Kind of service, as in the config: "openai".
        endpoint: Address of its server: "https://api.openai.com"; empty if unknown.
        streams: Whether the answer comes piece by piece.
    """

    llm: str
    model: str
    messages: tuple[Message, ...]
    options: ChatOptions
    provider: str = ""
    endpoint: str = ""
    streams: bool = False


@attrs.frozen(kw_only=True)
class ModelRequestFinished(TurnEvent):
    """A model has answered, or failed to; not sent if the turn is cancelled meanwhile.

    Attributes:
        result: None if it failed.
        error: Why it failed; another model may be asked instead.
        attempts: How often it was sent.
    """

    llm: str
    model: str
    elapsed_ms: float
    result: ChatResult | None = None
    error: Exception | None = None
    attempts: int = 1


@attrs.frozen(kw_only=True)
class ToolStarted(TurnEvent):
    """A tool is called; calls of one answer may run side by side.

    Attributes:
        call: The call, under its tool's own name.
    """

    call: ToolCall


@attrs.frozen(kw_only=True)
class ToolProgress(TurnEvent):
    """The progress of a running tool; see ToolContext.report_progress.

    Attributes:
        call_id: The call's id.
        tool: The tool's own name.
        progress: How much is done; it grows.
        total: How much there is to do; None if unknown.
        message: The current step, for people; empty if there is none.
    """

    call_id: str
    tool: str
    progress: float
    total: float | None = None
    message: str = ""


@attrs.frozen(kw_only=True)
class QuestionAsked(TurnEvent):
    """A running tool's question to the person behind the turn; the turn waits for the reply."""

    question: Question


@attrs.frozen(kw_only=True)
class QuestionAnswered(TurnEvent):
    """A question has its reply, or will have none."""

    question: Question
    reply: Reply


@attrs.frozen(kw_only=True)
class ToolFinished(TurnEvent):
    """A call has its result: from the tool, from a plugin in its place, or from FlexChat, which refused it.

    Arrives in the order the calls finish.
    """

    record: ToolCallRecord


@attrs.frozen(kw_only=True)
class TurnFinished(TurnEvent):
    """The last event: exactly what an unstreamed turn returns."""

    turn: Turn


@attrs.frozen(kw_only=True)
class TurnFailed(TurnEvent):
    """The turn ended in an error, which the caller gets and a stream raises.

    Attributes:
        turn: The part of it that exists by then.
    """

    error: Exception
    turn: Turn


@attrs.frozen(kw_only=True)
class TurnCancelled(TurnEvent):
    """The turn was stopped: its caller left, closed the stream, or was cancelled.

    Attributes:
        turn: The part of it that exists by then.
    """

    turn: Turn


@attrs.frozen(kw_only=True)
class TurnAccepted(TurnEvent):
    """A turn is kept, to begin later, in any process; for plugins only.

    Attributes:
        due_at: When it may begin: ISO 8601, UTC; empty for at once.
        priority: Those with a higher one begin first.
    """

    due_at: str
    priority: int


@attrs.frozen(kw_only=True)
class TurnSuspended(TurnEvent):
    """The turn waits for replies to its questions, and holds nothing meanwhile; a reply resumes it, in any process.

    Attributes:
        turn: The part of it that exists by then; its ``pending`` are the questions. Its status is "accepted" if it has
            not begun, because another turn of its conversation waits (questions.new_message = "queue").
    """

    turn: Turn


WaitReason = Literal["turn", "slot", "retry", "person", "queue", "lease"]
"""What a turn waits for: an earlier turn of its conversation, max_parallel of its service, the pause before another
attempt, a person's reply, its beginning after it was accepted, another process after its own has stopped or died."""


@attrs.frozen(kw_only=True)
class WaitEnded(TurnEvent):
    """The turn has waited, for a millisecond or longer; for plugins only."""

    reason: WaitReason
    elapsed_ms: float


TURN_EVENTS: tuple[type[TurnEvent], ...] = (
    TurnStarted,
    TurnResumed,
    PhaseStarted,
    PhaseFinished,
    ModelRequestStarted,
    ModelRequestFinished,
    ToolStarted,
    ToolProgress,
    QuestionAsked,
    QuestionAnswered,
    ToolFinished,
    TurnFinished,
    TurnFailed,
    TurnCancelled,
    TurnSuspended,
    TurnAccepted,
    WaitEnded,
)

StreamEvent = ChatEvent | TurnEvent
"""What the reader of a turn's stream gets."""


def result_of(events: Iterable[ChatEvent]) -> ChatResult:
    """Return the result of an answer's events: the one in the last event."""
    last = next(iter(deque(events, maxlen=1)), None)
    assert type(last) is AnswerEnd, "an answer's last event is AnswerEnd"
    return last.result


_WORD = re.compile(r"\s*\S+\s*|\s+")


def events_of(result: ChatResult) -> Iterator[ChatEvent]:
    """Yield a finished answer word by word, for a provider that has it all at once.

    Joined, the pieces are the answer's parts; the last event is the result itself.
    """
    for index, part in enumerate(result.message.parts):
        match part:
            case TextPart(text=text):
                yield from (TextDelta(index, word) for word in _WORD.findall(text))
            case ReasoningPart(text=text):
                yield from (ReasoningDelta(index, word) for word in _WORD.findall(text))
            case ToolCall():
                yield ToolCallStart(index, part.name)
                yield from (ToolCallDelta(index, word) for word in _WORD.findall(part.arguments_text))
                yield ToolCallEnd(index, part)
            case _:
                pass  # the other kinds have no event; they arrive with the result
    yield AnswerEnd(result)
