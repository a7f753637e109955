"""One question to a model, for the phases that decide where a message goes."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import attrs

from ..config.model import ModelChoice
from ..domain import ChatOptions, ChatResult, Message, Usage, UserMessage
from ..errors import FlexChatError, ProviderProtocolError
from ..llms.llm import Llms
from ..plugin.contracts import ChatProvider
from ..plugin.events import EventHooks
from ..plugin.foreign import contained, named

T = TypeVar("T")

TEMPERATURE = 0.1
"""Source: the original's topic and intent detection."""

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
# Some models' templates put the opening mark into the prompt: then the answer has only the closing one.
_THOUGHTS_BEFORE = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@attrs.define
class PhaseNotes:
    """What a phase has to tell beside its outcome; see PhaseRecord.

    Attributes:
        until: When the turn's time is over, by time.perf_counter().
        mask: Takes secrets out of warnings.
    """

    input: object = None
    skipped: str = ""
    warnings: list[str] = attrs.field(factory=list)
    usage: Usage | None = None
    until: float = math.inf
    mask: Callable[[str], str] = str

    def warn(self, text: str) -> None:
        """Add a warning."""
        self.warnings.append(self.mask(text))

    def seconds(self, most: float) -> float:
        """Return how long something may take that may take so long if the turn has the time."""
        return min(most, self.until - time.perf_counter())


class Asker:
    """Asks the services of the config short questions.

    Args:
        llms: The services, by their name in llms.
        timeout_s: Seconds one answer may take.
    """

    def __init__(
        self,
        llms: Llms,
        events: EventHooks,
        *,
        timeout_s: float,
    ) -> None:
        self._llms = llms
        self._events = events
        self._timeout_s = timeout_s

    def why_not(self, choice: ModelChoice) -> str:
        """Return why a service is not to be asked, for people; empty if it is."""
        llm = self._llms.get(choice.llm)
        if llm is None or getattr(llm.provider, "follows_instructions", True):
            return ""
        return f"'{choice.llm}' only stands in for a model and cannot say"

    async def ask(self, choice: ModelChoice, prompt: str, *, max_tokens: int, notes: PhaseNotes) -> str:
        """Return a model's answer to one prompt, without what it thought before it.

        Raises:
            UnknownServiceError: The config has no such service.
            ProviderError: It did not answer, or does not keep its contract.
            TimeoutError: It took longer than it may.
        """
        llm, model = self._llms.resolve(choice.llm, choice.model)
        messages: tuple[Message, ...] = (UserMessage(content=prompt),)
        seconds = notes.seconds(self._timeout_s)
        options = ChatOptions(max_tokens=max_tokens, temperature=TEMPERATURE, timeout_s=max(seconds, 0))
        await self._events.before_chat(choice.llm, model, messages, options)
        started = time.perf_counter()
        try:
            result: Any = await in_time(seconds, llm.ask(messages, model, options))
        except (FlexChatError, TimeoutError):
            raise
        except Exception as error:
            raise _broken(llm.provider, model, named(error)) from error
        if not isinstance(result, ChatResult):
            raise _broken(llm.provider, model, f"its answer is {type(result).__name__}, not ChatResult")
        await self._events.after_chat(choice.llm, model, result, (time.perf_counter() - started) * 1000)
        notes.usage = result.usage if notes.usage is None or result.usage is None else notes.usage + result.usage
        return _THOUGHTS_BEFORE.sub("", _THOUGHTS.sub("", result.content or "")).strip()


def _broken(provider: ChatProvider, model: str, how: str) -> ProviderProtocolError:
    text = f"the provider {provider.name} does not keep its contract: {how}"
    return ProviderProtocolError(text, provider=provider.name, model=model)


async def in_time(seconds: float, work: Awaitable[T]) -> T:
    """Return what a plugin's work returns.

    Raises:
        TimeoutError: It took longer.
        ForeignError: It raised what is no Exception; a cancellation of the turn is passed on.
    """
    async with asyncio.timeout(seconds):
        with contained():
            return await work


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
