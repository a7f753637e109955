"""Phase 1: what the message is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import attrs

from ..config.model import ModelChoice
from ..domain import AssistantMessage, ChatRequest, Message, UserMessage
from ..errors import FlexChatError
from .phase_log import PhaseNotes
from .prompting import Prompter, fill_known, json_objects

CONTEXT_MESSAGES = 6
LONG_ANSWER = 400
SHORT_TOPIC = 40
"""Earlier messages shown to the model; the length in characters from which an answer is only mentioned; characters of
the message that stand in for a topic. Source: the original's topic detection."""

MAX_TOPIC_CHARS = 200
"""Most characters of a topic: a model that rambles is cut off."""

PROMPT = """\
You keep track of what a conversation is about.

Topic so far: {{currentTopic}}

The conversation so far:
{{conversationContext}}

The new message:
{{userMessage}}

Decide whether the new message goes on with the topic so far, also with a follow-up question, or begins another one. \
Then name the topic of the new message in a short noun phrase of at most eight words that would be understood without \
the conversation.

Answer with one JSON object and nothing else:
{"topic_status": "continuation" or "new_topic", "topic_summary": "the noun phrase"}
"""
"""Variables: currentTopic ("none" at the start), conversationContext, userMessage; also written current_topic, …"""

VARIABLES = (
    *("currentTopic", "conversationContext", "userMessage"),
    *("current_topic", "conversation_context", "user_message"),
)
"""All that a topic's prompt can show: topic so far, conversation and message, in two spellings."""

_NOTHING = ("none", "general", "conversation")
_SUMMARY = ("topic_summary", "topic", "summary")
_STATUS = ("topic_status", "status")
# What is left of an object that was cut off or written with the wrong quotes.
_LOOSE = r"""["']?\b(?:%s)["']?\s*[:=]\s*["']([^"'\n}]*)"""
_LOOSE_SUMMARY = re.compile(_LOOSE % "topic_summary|topic|summary", re.IGNORECASE)
_LOOSE_STATUS = re.compile(_LOOSE % "topic_status|status", re.IGNORECASE)
_LABEL = re.compile(r"^\s*(?:the\s+)?(?:new\s+)?topic(?:\s+summary|_summary)?(?:\s+is\s*:?|\s*[:=])\s*", re.IGNORECASE)
_AROUND = " \t\r\n\"'`*"


@attrs.frozen
class Topic:
    """What a message is about.

    Attributes:
        status: Whether it continues the conversation's topic.
    """

    text: str
    status: Literal["continuation", "new_topic"]


@attrs.frozen
class TopicDetector:
    """Detects topics.

    Args:
        choice: Who is asked; if None, the message itself is the topic.
        prompt: Template; None for PROMPT.
    """

    _choice: ModelChoice | None
    _prompt: str | None
    _max_tokens: int

    async def detect(self, request: ChatRequest, prompter: Prompter, notes: PhaseNotes) -> Topic:
        """Return the topic. If the model does not answer, it is the message itself, with a warning."""
        message, current = request.user_message, (request.topic or "").strip()[:MAX_TOPIC_CHARS]
        if self._choice is None:
            return Topic(message, "new_topic")
        notes.skipped = prompter.refusal(self._choice)
        if notes.skipped:
            return Topic(message, "new_topic")
        context = "\n".join(_context_lines(request.history, current)) or "(it begins with this message)"
        notes.input = {"topic": current or None, "message": message, "llm": self._choice.llm}
        values = dict(zip(VARIABLES, 2 * (current or "none", context, message), strict=True))
        prompt = fill_known(self._prompt or PROMPT, values)
        try:
            answer = await prompter.ask(self._choice, prompt, max_tokens=self._max_tokens)
        except (FlexChatError, TimeoutError) as error:
            notes.warn(f"topic detection: {reason(error)}; using the message itself as its topic")
            return Topic(message, "new_topic")
        return read_topic(answer, message, current)


def read_topic(answer: str, message: str, current: str) -> Topic:
    """Return the topic a model's answer gives, however loosely it follows the format.

    If there is none, or it is empty, the topic so far continues; at the start of a conversation, the beginning of
    the message is used.
    """
    summary, status = _parse_answer(answer)
    # Without a topic so far there is none to continue, whatever the model answers.
    if not current:
        status = "new_topic"
    if summary.casefold() in ("", *_NOTHING):
        return Topic(current or message[:SHORT_TOPIC].strip(), "continuation" if current else "new_topic")
    return Topic(summary, status)


def _parse_answer(answer: str) -> tuple[str, Literal["continuation", "new_topic"]]:
    objects = json_objects(answer)
    for object_ in objects:
        for table in (object_, *(value for value in object_.values() if isinstance(value, Mapping))):
            summary = next((table[key] for key in _SUMMARY if isinstance(table.get(key), str)), None)
            if summary is not None:
                status = next((table[key] for key in _STATUS if isinstance(table.get(key), str)), "")
                return _tidy(str(summary)), _status(str(status))
    loose = _LOOSE_SUMMARY.search(answer)
    if loose is not None:
        status_found = _LOOSE_STATUS.search(answer)
        return _tidy(loose.group(1)), _status(status_found.group(1) if status_found else "")
    if objects:
        return "", "continuation"
    line = next((line for line in answer.splitlines() if line.strip(_AROUND + "{}[]json")), "")
    return _tidy(_LABEL.sub("", line.lstrip(_AROUND + "#->"))), "continuation"


def _status(word: str) -> Literal["continuation", "new_topic"]:
    return "new_topic" if "new" in word.casefold() else "continuation"


def _tidy(summary: str) -> str:
    return " ".join(summary.split())[:MAX_TOPIC_CHARS].strip(_AROUND + "{}").removesuffix(".").strip(_AROUND)


def _context_lines(history: Sequence[Message], current: str) -> Iterator[str]:
    """Yield the latest messages as lines; a long answer is only mentioned."""
    messages = [m for m in history if isinstance(m, UserMessage) or (isinstance(m, AssistantMessage) and m.content)]
    for message in messages[-CONTEXT_MESSAGES:]:
        if isinstance(message, UserMessage):
            yield f"User: {message.content}"
        elif len(message.content or "") <= LONG_ANSWER:
            yield f"Assistant: {message.content}"
        else:
            yield f"Assistant: [a long answer about {current or 'a previous topic'}]"


def reason(error: Exception) -> str:
    """Describe an error for the notes of a phase."""
    return "the answer took too long" if isinstance(error, TimeoutError) else str(error)
