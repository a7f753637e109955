"""Phase 3: the user's intent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs

from ..config.model import ModelChoice
from ..domain import CollectionHits, RagResults
from ..errors import FlexChatError
from .phase_log import PhaseNotes
from .prompting import Prompter, json_objects
from .topic import Topic, reason

OTHER = "other"
"""The category that always exists."""

_KEYS = ("intent", "category", "name", "answer")
_LABEL = re.compile(r"^\W*(?:the\s+)?(?:intent|category|answer)(?:\s+is\s*:?|\s*[:=])\s*", re.IGNORECASE)
_AROUND = " \t\r\n\"'`*.,;:!()[]{}<>-"


@attrs.frozen
class IntentDetector:
    """Detects intents.

    Args:
        choice: Who is asked; None if no model is.
        categories: Names and descriptions, as configured.
    """

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
        return _nearest(rag.hits) if category == OTHER and rag.hits else category


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
        for key in _KEYS:
            value = table.get(key)
            if isinstance(value, str) and _folded(value) in folded:
                return folded[_folded(value)]
    lines = [line for line in answer.splitlines() if line.strip(_AROUND)]
    for line in lines[:1] + lines[-1:]:
        name = _folded(_LABEL.sub("", line))
        if name in folded:
            return folded[name]
        before = _folded(re.split(r"[:(]|\s[-–—]\s", _LABEL.sub("", line).lstrip(_AROUND), maxsplit=1)[0])
        if before in folded:
            return folded[before]
    mentioned = [name for key, name in folded.items() if _stands_in(key, answer)]
    longest = [
        name for name in mentioned if not any(name != other and _folded(name) in _folded(other) for other in mentioned)
    ]
    return longest[0] if len(longest) == 1 else None


def _stands_in(key: str, answer: str) -> bool:
    return bool(key) and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", _folded(answer)) is not None


def _folded(text: str) -> str:
    """Return a name without what models tend to change: case, quotes, and _ or - for blanks."""
    return re.sub(r"[\s_-]+", " ", text.casefold().strip(_AROUND)).strip()


def _nearest(hits: Sequence[CollectionHits]) -> str:
    return min(hits, key=lambda hit: hit.distance).category


def _short(answer: str) -> str:
    words = " ".join(answer.split())
    return repr(words if len(words) <= 60 else f"{words[:60]}…")
