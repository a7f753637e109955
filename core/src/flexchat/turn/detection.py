"""What a message is about, and what its user intends: phases 1 and 3, and the question to a model that both ask."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import attrs

from ..config.model import ModelChoice
from ..domain import (
    AssistantMessage,
    ChatRequest,
    Message,
    RagResults,
    Round,
    Usage,
    UserMessage,
)
from ..errors import FlexChatError
from .active import ActiveTurn, ModelTarget
from .exchange import ModelQuery, exchange
from .template import VARIABLE

TEMPERATURE = 0.1
"""Source: the original's topic and intent detection."""

OTHER = "other"
"""The category that always exists."""

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
_IS = r"(?:\s+is\s*:?|\s*[:=])\s*"
_TOPIC_LABEL = re.compile(r"^\s*(?:the\s+)?(?:new\s+)?topic(?:\s+summary|_summary)?" + _IS, re.IGNORECASE)
_AROUND_TOPIC = " \t\r\n\"'`*"
_INTENT_KEYS = ("intent", "category", "name", "answer")
_INTENT_LABEL = re.compile(r"^\W*(?:the\s+)?(?:intent|category|answer)" + _IS, re.IGNORECASE)
_AROUND_INTENT = " \t\r\n\"'`*.,;:!()[]{}<>-"
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
# Some models' templates put the opening mark into the prompt; then the answer has only the closing one.
_THOUGHTS_BEFORE = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


@attrs.define
class PhaseNotes:
    """What a phase reports in addition to its outcome; see PhaseRecord. ``mask`` removes secrets from warnings."""

    input: object = None
    skipped: str = ""
    warnings: list[str] = attrs.field(factory=list)
    usage: Usage | None = None
    rounds: list[Round] = attrs.field(factory=list)
    mask: Callable[[str], str] = str
    remaining_s: Callable[[], float] = lambda: math.inf

    def seconds(self, most: float) -> float:
        """Return the seconds that a request may take: ``most``, or the rest of the turn's time if that is less."""
        return min(most, self.remaining_s())

    def warn(self, text: str) -> None:
        """Add a warning."""
        self.warnings.append(self.mask(text))


@attrs.frozen
class Prompter:
    """Asks models short questions in one phase of a turn, whose notes record the tokens used."""

    _turn: ActiveTurn
    _notes: PhaseNotes

    def refusal(self, choice: ModelChoice) -> str:
        """Return the reason why a service must not be asked; empty if it may."""
        llm = self._turn.parts.llms.get(choice.llm)
        if llm is None or getattr(llm.provider, "follows_instructions", True):
            return ""
        return f"'{choice.llm}' only stands in for a model and cannot say"

    async def ask(self, choice: ModelChoice, prompt: str, *, max_tokens: int) -> str:
        """Return a model's answer to one prompt, without its thinking. Raises as exchange, and TimeoutError."""
        notes = self._notes
        query = ModelQuery(
            target=ModelTarget(llm=choice.llm, model=choice.model),
            messages=(UserMessage(content=prompt),),
            options={"max_tokens": max_tokens, "temperature": TEMPERATURE},
            at_most_s=max(notes.seconds(self._turn.parts.limits.phase_timeout_ms / 1000), 0),
        )
        result, round_ = await exchange(self._turn, query)
        notes.rounds.append(round_)
        notes.usage = result.usage if notes.usage is None or result.usage is None else notes.usage + result.usage
        return _THOUGHTS_BEFORE.sub("", _THOUGHTS.sub("", result.content or "")).strip()


@attrs.frozen
class Topic:
    """What a message is about, and whether it continues the conversation's topic."""

    text: str
    status: Literal["continuation", "new_topic"]


@attrs.frozen
class TopicDetector:
    """Detects topics, with PROMPT or another prompt. Without a model, the message itself is the topic."""

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
        prompt = _fill_template(self._prompt or PROMPT, values)
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
    line = next((line for line in answer.splitlines() if line.strip(_AROUND_TOPIC + "{}[]json")), "")
    return _tidy(_TOPIC_LABEL.sub("", line.lstrip(_AROUND_TOPIC + "#->"))), "continuation"


def _status(word: str) -> Literal["continuation", "new_topic"]:
    return "new_topic" if "new" in word.casefold() else "continuation"


def _tidy(summary: str) -> str:
    short = " ".join(summary.split())[:MAX_TOPIC_CHARS]
    return short.strip(_AROUND_TOPIC + "{}").removesuffix(".").strip(_AROUND_TOPIC)


def _context_lines(history: Sequence[Message], current: str) -> Iterator[str]:
    messages = [m for m in history if isinstance(m, UserMessage) or (isinstance(m, AssistantMessage) and m.content)]
    for message in messages[-CONTEXT_MESSAGES:]:
        if isinstance(message, UserMessage):
            yield f"User: {message.content}"
        elif len(message.content or "") <= LONG_ANSWER:
            yield f"Assistant: {message.content}"
        else:
            yield f"Assistant: [a long answer about {current or 'a previous topic'}]"


@attrs.frozen
class IntentDetector:
    """Chooses between the configured categories (descriptions by name), with a model if it is configured."""

    _choice: ModelChoice | None
    _categories: Mapping[str, str]
    _max_tokens: int

    async def detect(
        self, message: str, topic: Topic, rag: RagResults, prompter: Prompter, notes: PhaseNotes
    ) -> str | None:
        """Return one of the categories, or None.

        A match needs no model: its collection is the intent. Otherwise the model chooses between the configured
        categories, one for each partial result, and "other"; if only one answer is possible, it is not asked. If there
        are partial results, "other" means the nearest of them; an invented name means "other". If the model does not
        answer, there is no intent, with a warning.
        """
        if rag.result == "match":
            notes.skipped = "a document matches"
            return rag.hits[0].category
        if not self._categories and len(rag.hits) == 1:
            notes.skipped = "there is only one possible answer"
            return rag.hits[0].category
        categories = {**self._categories, **{hit.category: hit.description for hit in rag.hits}}
        if not categories or self._choice is None:
            notes.skipped = "no categories" if not categories else "no model is configured for it"
            return None
        notes.skipped = prompter.refusal(self._choice)
        if notes.skipped:
            notes.warn(f"intent detection: {notes.skipped}; the message has no intent")
            return None
        categories.setdefault(OTHER, "none of these")
        notes.input = {"message": message, "topic": topic.text, "categories": list(categories), "llm": self._choice.llm}
        prompt = intent_prompt(message, topic.text if topic.status == "continuation" else "", categories)
        try:
            answer = await prompter.ask(self._choice, prompt, max_tokens=self._max_tokens)
        except (FlexChatError, TimeoutError) as error:
            notes.warn(f"intent detection: {reason(error)}; the message has no intent")
            return None
        category = read_category(answer, tuple(categories))
        if category is None:
            notes.warn(f"intent detection: no category is called {_short(answer)}; using {OTHER!r}")
            category = OTHER
        nearest = min(rag.hits, key=lambda hit: hit.distance, default=None)
        return nearest.category if category == OTHER and nearest is not None else category


def intent_prompt(message: str, topic: str, categories: Mapping[str, str]) -> str:
    """Return the question for the model."""
    listed = "\n".join(
        f"- {name}: {' '.join(text.split())}" if text else f"- {name}" for name, text in categories.items()
    )
    about = f"\n\nThe conversation is about: {topic}" if topic.strip() not in ("", message.strip()) else ""
    return (
        f"Which of the categories fits the message best?\n\nThe message:\n{message}{about}\n\n"
        f"The categories:\n{listed}\n\n"
        "Answer with the name of one category, exactly as it is written here, and nothing else."
    )


def read_category(answer: str, categories: Sequence[str]) -> str | None:
    """Return the category an answer names, in any case or wrapping (quotes, a sentence, JSON); None if none.

    An answer that names several counts only if one of them stands alone on the first line.
    """
    folded = {_folded(name): name for name in categories}
    for table in json_objects(answer):
        for key in _INTENT_KEYS:
            value = table.get(key)
            if isinstance(value, str) and _folded(value) in folded:
                return folded[_folded(value)]
    lines = [line for line in answer.splitlines() if line.strip(_AROUND_INTENT)]
    for line in lines[:1] + lines[-1:]:
        name = _folded(_INTENT_LABEL.sub("", line))
        if name in folded:
            return folded[name]
        before = _folded(re.split(r"[:(]|\s[-–—]\s", _INTENT_LABEL.sub("", line).lstrip(_AROUND_INTENT), maxsplit=1)[0])
        if before in folded:
            return folded[before]
    text = _folded(answer)
    mentioned = [name for key, name in folded.items() if key and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", text)]
    longest = [
        name for name in mentioned if not any(name != other and _folded(name) in _folded(other) for other in mentioned)
    ]
    return longest[0] if len(longest) == 1 else None


def _folded(text: str) -> str:
    """Return a name without what models tend to change: case, quotes, and _ or - for blanks."""
    return re.sub(r"[\s_-]+", " ", text.casefold().strip(_AROUND_INTENT)).strip()


def _short(answer: str) -> str:
    words = " ".join(answer.split())
    return repr(words if len(words) <= 60 else f"{words[:60]}…")


def reason(error: Exception) -> str:
    """Describe an error for the notes of a phase."""
    return "the answer took too long" if isinstance(error, TimeoutError) else str(error)


def _fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return a prompt with its {{variables}} filled in; unknown ones stay. Filled-in text is not searched again."""
    return VARIABLE.sub(lambda match: values.get(match.group(1), match.group(0)), template)


def json_objects(text: str) -> list[Mapping[str, object]]:
    """Return the JSON objects in a text, also from inside a fence, after a sentence, or nested."""
    decoder, objects, at = json.JSONDecoder(), [], text.find("{")
    tried = 0
    while at >= 0 and tried < 50:
        tried += 1
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            objects.append(value)
        at = text.find("{", end)
    return objects
