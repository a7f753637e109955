"""One question to a model, for the phases that decide where a message goes."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping

import attrs

from ..config.model import ModelChoice
from ..domain import ChatOptions, Message, Usage, UserMessage
from ..errors import UnknownServiceError
from ..plugin.contracts import ChatProvider
from ..plugin.events import EventHooks

TEMPERATURE = 0.1
"""Source: the original's topic and intent detection."""

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@attrs.define
class PhaseNotes:
    """What a phase has to tell beside its outcome; see PhaseRecord."""

    input: object = None
    skipped: str = ""
    warnings: list[str] = attrs.field(factory=list)
    usage: Usage | None = None


class Asker:
    """Asks the services of the config short questions.

    Args:
        providers: The services, by their name in llms.
        default_models: Of the services that have one.
        timeout_s: Seconds one answer may take.
    """

    def __init__(
        self,
        providers: Mapping[str, ChatProvider],
        default_models: Mapping[str, str],
        events: EventHooks,
        *,
        timeout_s: float,
    ) -> None:
        self._providers = providers
        self._default_models = default_models
        self._events = events
        self._timeout_s = timeout_s

    async def ask(self, choice: ModelChoice, prompt: str, *, max_tokens: int, notes: PhaseNotes) -> str:
        """Return a model's answer to one prompt, without what it thought before it.

        Raises:
            UnknownServiceError: The config has no such service.
            ProviderError: It did not answer.
            TimeoutError: It took longer than it may.
        """
        provider = self._providers.get(choice.llm)
        if provider is None:
            raise UnknownServiceError(choice.llm, known=tuple(self._providers))
        model = choice.model or self._default_models.get(choice.llm, "")
        messages: tuple[Message, ...] = (UserMessage(content=prompt),)
        options = ChatOptions(max_tokens=max_tokens, temperature=TEMPERATURE, timeout_s=self._timeout_s)
        await self._events.before_chat(choice.llm, model, messages, options)
        started = time.perf_counter()
        async with asyncio.timeout(self._timeout_s):
            result = await provider.generate_chat(messages, model, options)
        await self._events.after_chat(choice.llm, model, result, (time.perf_counter() - started) * 1000)
        notes.usage = result.usage if notes.usage is None or result.usage is None else notes.usage + result.usage
        return _THOUGHTS.sub("", result.content or "").strip()


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a prompt with its {{variables}}; unknown ones stay. What is filled in is not searched again."""
    return _VARIABLE.sub(lambda match: values.get(match.group(1), match.group(0)), template)


def json_objects(text: str) -> list[Mapping[str, object]]:
    """Return the JSON objects in a text, however it goes on about them: in a fence, behind a sentence, nested."""
    decoder, found, at = json.JSONDecoder(), [], text.find("{")
    tried = 0
    while at >= 0 and tried < 50:
        tried += 1
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append(value)
        at = text.find("{", end)
    return found
