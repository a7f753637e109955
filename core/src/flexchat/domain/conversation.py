"""Stored conversations: turns with complete messages, so that a conversation can continue where it stopped.

The turns' JSON, with nothing lost, is the form in which they are stored and exported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Self

import attrs

from .chat import Round
from .codec import IN_MESSAGE, move_media, restore_media, value_from_dict, value_to_dict
from .journal import JournaledTurn, TurnState
from .messages import AssistantMessage, Message, ToolMessage, UserMessage
from .prices import Cost, Usage
from .retrieval import Citation
from .text import storable
from .tools import ToolCallRecord, ToolResult
from .turn import PhaseRecord, Principal, TurnStatus, cost_of

MAX_TITLE_CHARS = 80

# Markdown marks removed from a title; the text between them stays.
_MARKS = (
    (re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+|```\w*)", re.MULTILINE), ""),
    (re.compile(r"!?\[([^\[\]\n]{1,200})\]\([^()\s]{0,200}\)"), r"\1"),
    (re.compile(r"(\*\*|~~|`+)(?=\S)([^*~`\n]{1,200})(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*\n]{1,200})(?<=\S)\*(?![\w*])"), r"\1"),
)
_JSON_BEGINS = re.compile(r'\s*(?:\[\s*)?\{\s*"[^"\n]*"\s*:')
_JSON_MARKS = ((re.compile(r'"\s*:\s*'), ": "), (re.compile(r',(?=["{\[])'), ", "), (re.compile(r'[{}\[\]"]'), ""))
_LOOKED_AT = 1000  # characters


@attrs.frozen(kw_only=True)
class ConversationTurn:
    """A turn of a conversation.

    Attributes:
        id: Turn.id.
        messages: Complete: the user's message, tool calls, their results, the answer, and data only its provider can
            read. If the turn is not done, those so far; a call without a result is answered by a note about that.
        at: When it ended: ISO 8601, UTC.
        status, error, replay, rule, rule_name, phases, elapsed_ms, traceparent: As in Turn.
        tool_calls, finish_reason, max_iterations_reached, rounds, warnings: As in ChatResponse.
        parsed: ChatResponse.data.
        shown: ChatResponse.content, where it differs from the messages.
        unknown_effects: Keys in the ledger, by call id, of the effects that were unknown when the turn ended.
        principal: As in Turn; None in turns that an older FlexChat kept.
    """

    id: str
    messages: tuple[Message, ...]
    topic: str = ""
    llm: str = ""
    model: str = ""
    usage: Usage | None = None
    citations: tuple[Citation, ...] = ()
    at: str = ""
    status: TurnStatus = "done"
    error: str = ""
    replay: bool = True
    intent: str | None = None
    rule: int | None = None
    rule_name: str | None = None
    phases: tuple[PhaseRecord, ...] = ()
    rounds: tuple[Round, ...] = ()
    tool_calls: tuple[ToolCallRecord, ...] | None = None
    max_iterations_reached: bool = False
    finish_reason: str | None = None
    warnings: tuple[str, ...] = ()
    elapsed_ms: float = 0.0
    parsed: Any = None
    shown: str | None = None
    unknown_effects: Mapping[str, str] = attrs.field(factory=dict)
    traceparent: str = ""
    principal: Principal | None = None

    @property
    def cost(self) -> Cost:
        """The turn's cost, at the prices of then; see Turn.cost. One kept by an older FlexChat is unpriced."""
        answered = self.llm or any(isinstance(message, AssistantMessage) for message in self.messages)
        if self.status == "done" and answered and not self.rounds and not any(phase.rounds for phase in self.phases):
            return Cost(unpriced=("it was kept without prices",))
        return cost_of(self.rounds, self.phases, self.status, 0 if answered else self.rule)

    @property
    def title(self) -> str:
        """The title of a conversation that begins with this turn: the user's first words, at most 80 characters.

        Without the marks of Markdown and JSON: a title is shown as plain text.
        """
        first = next((m.content for m in self.messages if isinstance(m, UserMessage) and m.content.strip()), "")
        text = storable(first)[:_LOOKED_AT]
        for mark, replacement in _MARKS:
            text = mark.sub(replacement, text)
        for mark, replacement in _JSON_MARKS if _JSON_BEGINS.match(text) else ():
            text = mark.sub(replacement, text)
        line = " ".join((text if text.strip() else storable(first)).split())
        return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1].rstrip() + "…"

    @property
    def answer(self) -> str:
        """The text for the user: ChatResponse.content."""
        return self.shown if self.shown is not None else self.last_said

    @property
    def last_said(self) -> str:
        """The model's text after its last call, joined from several messages if it paused."""
        text = ""
        for message in reversed(self.messages):
            if not isinstance(message, AssistantMessage) or message.tool_calls:
                break
            text = (message.content or "") + text
        return text

    @property
    def text(self) -> str:
        """The texts of the user and the model, without tool results: the text that a search covers."""
        texts = [m.content for m in self.messages if isinstance(m, (UserMessage, AssistantMessage)) and m.content]
        return storable("\n".join(texts))


@attrs.frozen(kw_only=True)
class HistoryTurn:
    """The part of a turn that later turns of its conversation read; attributes as in ConversationTurn."""

    id: str
    messages: tuple[Message, ...]
    topic: str = ""
    replay: bool = True
    unknown_effects: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ConversationHistory:
    """Turns of a conversation, as a HistoryStore returns them.

    Attributes:
        turns: Oldest first.
        version: An opaque text that identifies the conversation's state after the last turn.
        is_whole: Whether these are all turns; otherwise those after the version that was passed.
        size: Characters of JSON they were decoded from, for caches.
    """

    turns: tuple[HistoryTurn, ...]
    version: str
    is_whole: bool
    size: int = 0


@attrs.frozen(kw_only=True)
class ConversationInfo:
    """A conversation without its messages.

    Attributes:
        started_at, used_at: ISO 8601, UTC.
        topic, status: Those of its last turn; "running" or "interrupted" only of one that begins with it.
        cost: Of all its turns, at the prices of then; None if the store does not add them up.
    """

    id: str
    title: str
    turns: int
    started_at: str
    used_at: str
    topic: str = ""
    status: TurnStatus | TurnState = "done"
    cost: Cost | None = None

    @classmethod
    def begun_by(cls, turn: JournaledTurn) -> Self:
        """Describe a conversation whose first turn has not ended, which no store has yet."""
        at = turn.began_at
        return cls(id=turn.conversation, title=turn.message, turns=0, started_at=at, used_at=at, status=turn.state)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        data = attrs.asdict(self, recurse=False)
        return {**data, "cost": None if self.cost is None else self.cost.to_dict()}


def turn_to_dict(turn: ConversationTurn, media: MutableMapping[str, bytes] | None = None) -> dict[str, Any]:
    """Return a turn as JSON data. The media of a tool's result are in its message: its record only refers to them.

    Args:
        media: Gets the bytes of its media by their digests, which stand for them; without it, they become Base64.
    """
    data = value_to_dict(turn, media)
    sent = {message.tool_call_id: message.media for message in turn.messages if type(message) is ToolMessage}
    for entry, record in zip(data.get("tool_calls", ()), turn.tool_calls or (), strict=True):
        if record.result.media and sent.get(record.call_id) == record.result.media:
            entry["result"]["media"] = IN_MESSAGE
    return data


def turn_from_dict(data: Mapping[str, Any], media: MutableMapping[str, bytes] | None = None) -> ConversationTurn:
    """Return the turn that turn_to_dict wrote; raise ValueError for anything else, or one of a newer FlexChat."""
    return value_from_dict(ConversationTurn, restore_media(data), media)


def turn_to_json(turn: ConversationTurn) -> str:
    """Return a turn as ASCII-only JSON text, which every database can store as text unchanged.

    NUL and halves of surrogate pairs are escaped; PostgreSQL's JSON column types accept neither. Raises ValueError if
    something in it is not JSON data, or nested too deeply.
    """
    try:
        return json.dumps(turn_to_dict(turn), separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"turn {turn.id} cannot be written as JSON: {error}") from None


def turn_from_json(text: str) -> ConversationTurn:
    """Return the turn that turn_to_json wrote. Raises as turn_from_dict."""
    return turn_from_dict(_object_from_json(text))


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("a turn is nested too deeply to be read") from None


def _object_from_json(text: str) -> dict[str, Any]:
    data = _parse_json(text)
    if not isinstance(data, dict):
        raise ValueError("a turn is a JSON object")
    return data


def turn_to_parts(turn: ConversationTurn, media: MutableMapping[str, bytes] | None = None) -> tuple[str, str]:
    """Return a turn as two JSON texts, its HistoryTurn and the rest; media as turn_to_dict. Raises as turn_to_json."""
    try:
        data = turn_to_dict(turn, media)
        history = {name: data.pop(name) for name in _OF_HISTORY if name in data}
        return json.dumps(history, separators=(",", ":")), json.dumps(data, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"turn {turn.id} cannot be written as JSON: {error}") from None


def turn_from_parts(
    history: str | None, rest: str, media: MutableMapping[str, bytes] | None = None
) -> ConversationTurn:
    """Return the turn of turn_to_parts; without a history, that of turn_to_json. Raises as turn_from_dict."""
    data = _object_from_json(rest)
    return turn_from_dict(data if history is None else {**data, **_object_from_json(history)}, media)


def move_media_in_json(text: str | None, media: MutableMapping[str, bytes]) -> str | None:
    """Return a text of turn_to_parts or turn_to_json with its Base64 moved apart; unchanged if it has none."""
    if not text or '"type":"media"' not in text:
        return text
    data = _object_from_json(text)
    return json.dumps(data, separators=(",", ":")) if move_media(data, media) else text


def history_from_json(texts: Sequence[str], media: MutableMapping[str, bytes] | None = None) -> tuple[HistoryTurn, ...]:
    """Return the HistoryTurns in texts of turn_to_json, or first texts of turn_to_parts. Raises as turn_from_dict."""
    # Read as one array: a call of the JSON reader takes longer than reading a short turn.
    items = _parse_json(f"[{','.join(texts)}]")
    return value_from_dict(tuple[HistoryTurn, ...], items, media)


_OF_HISTORY = tuple(field.name for field in attrs.fields(HistoryTurn))


def result_to_json(result: ToolResult) -> str:
    """Return a tool's result as JSON; raise TypeError if it is not JSON data.

    Infinity and NaN are written as Python writes them: a service's data beside a medium may hold them.
    """
    is_plain = result.success and not (result.hint or result.notes or result.media or result.left_out)
    if is_plain and result.encoded is not None and result.encoded.isascii():
        return f'{{"success": true, "tool_name": {json.dumps(result.tool_name)}, "result": {result.encoded}}}'
    return json.dumps(value_to_dict(result))


def result_from_json(text: str) -> ToolResult:
    """Return the result that result_to_json wrote; raise ValueError for anything else."""
    return value_from_dict(ToolResult, json.loads(text))
