"""One question to a model, for the phases that decide where a message goes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Mapping
from typing import TypeVar

import attrs

from ..config.model import ModelChoice
from ..domain import ChatOptions, UserMessage
from ..plugin.foreign import contained
from .active import ActiveTurn, ModelTarget
from .exchange import exchange
from .phase_log import PhaseNotes

T = TypeVar("T")

TEMPERATURE = 0.1
"""Source: the original's topic and intent detection."""

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
# Some models' templates put the opening mark into the prompt; then the answer has only the closing one.
_THOUGHTS_BEFORE = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@attrs.frozen
class Prompter:
    """Asks models short questions in one phase of a turn.

    Args:
        notes: Where the tokens used are recorded.
    """

    _turn: ActiveTurn
    _notes: PhaseNotes

    def refusal(self, choice: ModelChoice) -> str:
        """Return the reason why a service must not be asked; empty if it may."""
        llm = self._turn.parts.llms.get(choice.llm)
        if llm is None or getattr(llm.provider, "follows_instructions", True):
            return ""
        return f"'{choice.llm}' only stands in for a model and cannot say"

    async def ask(self, choice: ModelChoice, prompt: str, *, max_tokens: int) -> str:
        """Return a model's answer to one prompt, without its thinking.

        Raises:
            FlexChatError: As for exchange.
            TimeoutError: It took longer than limits.phase_timeout_ms.
        """
        seconds = max(self._notes.seconds(self._turn.parts.limits.phase_timeout_ms / 1000), 0)
        options = ChatOptions(max_tokens=max_tokens, temperature=TEMPERATURE)
        target = ModelTarget(llm=choice.llm, model=choice.model)
        messages = (UserMessage(content=prompt),)
        result, elapsed_ms, price = await exchange(self._turn, target, messages, options, at_most_s=seconds)
        notes, usage = self._notes, result.usage
        notes.rounds.append(target.round(result, elapsed_ms, price))
        notes.usage = usage if notes.usage is None or usage is None else notes.usage + usage
        return _THOUGHTS_BEFORE.sub("", _THOUGHTS.sub("", result.content or "")).strip()


async def wait_in_time(seconds: float, work: Awaitable[T]) -> T:
    """Await a plugin's work, and return its result if it finishes in time.

    Raises:
        TimeoutError: It took longer.
        ForeignError: It raised something that is not an Exception; a cancellation of the turn is passed on.
    """
    async with asyncio.timeout(seconds):
        with contained():
            return await work


def fill_known(template: str, values: Mapping[str, str]) -> str:
    """Return a prompt with its {{variables}} filled in; unknown ones stay. Filled-in text is not searched again."""
    return _VARIABLE.sub(lambda match: values.get(match.group(1), match.group(0)), template)


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
