"""One exchange of phase 6: ask the rule's service, or one that stands in for it, within the turn's time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

import attrs

from ..config.model import ResponseRule
from ..domain import (
    AssistantMessage,
    ChatEvent,
    ChatOptions,
    ChatResult,
    Message,
    ReasoningPart,
    Round,
    StreamEnd,
    TextDelta,
    ToolCallRecord,
    Usage,
)
from ..errors import (
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
    TurnTimeoutError,
)
from ..http.deadline import Deadline
from ..llms.llm import Llms
from ..plugin.contracts import ChatProvider
from ..plugin.events import EventHooks
from ..plugin.foreign import is_meant, told
from ..schema.answer_form import AnswerForm
from ..tools.registry import ToolRegistry
from .tool_loop import ToolLoop

log = logging.getLogger(__name__)


@attrs.define(kw_only=True)
class Generation:
    """One response while it is being made.

    Attributes:
        service, model: Who is asked; before the first exchange as the rule says it.
        fallback: Services that may still stand in.
        kept: How many of the messages were there before this turn.
        aside: Said to the model behind the messages, and no part of the turn.
        streamed: Ask for answers piece by piece, where the provider can do that.
        form: What the answer must be; None for any text.
        paused: What the model said before it paused and went on: the beginning of its answer.
        in_form: Whether the last exchange asked for that form.
        wrote: Whether a tool has run that must not run twice.
        result: Of the last exchange.
        said: The message of that result, as long as it is not among the messages.
        pieces: Of an answer that is being written.
        loop: What runs the calls of ``said``; None while none run.
    """

    rule: ResponseRule
    service: str
    model: str
    fallback: list[str]
    messages: tuple[Message, ...]
    kept: int
    aside: tuple[Message, ...] = ()
    timeout_ms: int
    deadline: float
    streamed: bool
    form: AnswerForm | None = None
    paused: str = ""
    in_form: bool = False
    wrote: bool = False
    result: ChatResult | None = None
    said: AssistantMessage | None = None
    pieces: list[ChatEvent] = attrs.field(factory=list)
    loop: ToolLoop | None = None
    rounds: list[Round] = attrs.field(factory=list)
    usage: Usage | None = None
    warnings: list[str] = attrs.field(factory=list)
    records: list[ToolCallRecord] | None = None

    def add_answer(self, *answers: Message) -> None:
        """Put the last answer among the messages, and behind it those to its calls."""
        assert self.said is not None
        self.messages, self.said = (*self.messages, self.said, *answers), None

    @property
    def answer(self) -> str:
        """The text of the last answer, with that before its pauses."""
        assert self.result is not None
        return self.paused + (self.result.content or self.result.message.refusal or "")

    def go_on(self) -> None:
        """Put an answer that paused among the messages: the next one goes on from it."""
        assert self.result is not None
        self.paused += self.result.content or ""
        self.add_answer()

    def take(self, result: ChatResult, elapsed_ms: float) -> None:
        """Take what an exchange came to."""
        self.result, self.said = result, result.message
        self.pieces.clear()
        self.warnings.extend(w for w in result.warnings if w not in self.warnings)
        if result.usage is not None:
            self.usage = result.usage if self.usage is None else self.usage + result.usage
        thought = [part.text for part in result.message.parts if type(part) is ReasoningPart]
        self.rounds.append(
            Round(
                service=self.service,
                model=self.model,
                elapsed_ms=elapsed_ms,
                finish_reason=result.finish_reason,
                reasoning="".join(thought),
                usage=result.usage,
            )
        )

    def time_left(self) -> float:
        """Return the seconds the turn may still take."""
        return self.deadline - time.monotonic()

    def too_late(self, during: str) -> TurnTimeoutError:
        """Return the error for a turn that takes too long."""
        return TurnTimeoutError(self.timeout_ms, during)


class Exchanges:
    """Holds the exchanges of turns.

    Args:
        llms: The services, by their name in llms.
    """

    def __init__(
        self,
        llms: Llms,
        registry: ToolRegistry,
        events: EventHooks,
    ) -> None:
        self._llms = llms
        self._registry = registry
        self._events = events

    async def hold(
        self, turn: Generation, options: ChatOptions, offered: tuple[str, ...] = ()
    ) -> AsyncGenerator[ChatEvent, None]:
        """Hold one exchange; its outcome is in turn.result.

        While the service cannot be reached, the next of the turn's fallback services is asked instead: as long as
        nothing of an answer has been passed on, and no tool has run that must not run twice.

        Args:
            options: Without tools and response_format: what is told of them depends on who is asked.
            offered: Names of the tools the model is offered.

        Raises:
            ProviderProtocolError: The provider does not keep its contract.
        """
        quiet = turn.form is not None  # what is not in form yet must not reach the reader
        while True:
            llm, turn.model = self._llms.resolve(turn.service, turn.model)
            left = turn.time_left()
            if left <= 0:
                raise turn.too_late("the tool loop")
            asked, messages = self._asked(turn, llm.provider, options, offered, left), turn.messages + turn.aside
            await self._events.before_chat(turn.service, turn.model, messages, asked)
            started = time.perf_counter()
            result: Any = None
            passing_on = False
            streams = turn.streamed and llm.streams
            provider: Any = llm.provider
            attempts = llm.attempts(left, turn.model)
            deadline = Deadline(left)  # whatever the provider makes of options.timeout_s
            try:
                while True:
                    try:
                        with attempts.watched():
                            if streams:
                                stream = provider.stream_chat(messages, turn.model, attempts.within(asked))
                                async with contextlib.aclosing(stream):
                                    deadline.wait(left)
                                    async for event in stream:
                                        deadline.rest()
                                        attempts.began = True
                                        turn.pieces.append(event)
                                        if result is not None:
                                            raise _broken(provider, turn, "its stream goes on after StreamEnd")
                                        if type(event) is StreamEnd:
                                            result = event.result
                                        elif turn.time_left() <= 0:
                                            raise turn.too_late(_ANSWER)
                                        if not quiet or type(event) is not TextDelta:
                                            passing_on = True
                                            yield event
                                            passing_on = False
                                        deadline.wait(left)
                            else:
                                deadline.wait(left)
                                result = await provider.generate_chat(messages, turn.model, attempts.within(asked))
                        break
                    except ProviderError as error:
                        if not await attempts.again(error):
                            raise
            except ProviderError as error:
                if turn.time_left() <= 0 and isinstance(error, ProviderTimeoutError):
                    raise turn.too_late(_ANSWER) from None
                if attempts.began or not self._fall_back(turn, error):
                    raise
                continue
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and deadline.passed():
                    raise turn.too_late(_ANSWER) from None
                if isinstance(error, Exception) or is_meant(error) or (passing_on and isinstance(error, GeneratorExit)):
                    raise
                raise _broken(provider, turn, told(error)) from error
            finally:
                deadline.close()
            break
        if not isinstance(result, ChatResult):
            raise _broken(llm.provider, turn, f"its answer is {type(result).__name__}, not ChatResult")
        elapsed_ms = (time.perf_counter() - started) * 1000
        turn.take(result, elapsed_ms)
        if turn.streamed and not streams:
            if result.content and not quiet:
                yield TextDelta(0, result.content)
            yield StreamEnd(result)
        await self._events.after_chat(turn.service, turn.model, result, elapsed_ms)

    def _asked(
        self, turn: Generation, provider: ChatProvider, options: ChatOptions, offered: tuple[str, ...], left: float
    ) -> ChatOptions:
        changes: dict[str, Any] = {"timeout_s": left}
        if offered:
            changes["tools"] = self._registry.wire_tools(provider.tool_format(turn.model), offered)
        if turn.form is not None:
            combines = getattr(provider, "combines_tools_and_format", None)
            turn.in_form = not offered or combines is None or combines(turn.model)
            if turn.in_form:
                changes["response_format"] = turn.form.format
        return attrs.evolve(options, **changes)

    def _fall_back(self, turn: Generation, error: ProviderError) -> bool:
        """Make the next service of the fallback list the one that is asked; return whether there is one."""
        if not error.retryable or not turn.fallback:
            return False
        if turn.wrote:
            log.warning("%s fails after a tool with side effects has run: no other service takes over", turn.service)
            return False
        failed, turn.service = turn.service, turn.fallback.pop(0)
        turn.model = ""
        log.warning("%s: %s; asking %s instead", failed, error, turn.service)
        turn.warnings.append(f"{failed} did not answer ({error}); {turn.service} was asked instead")
        return True


def _broken(provider: ChatProvider, turn: Generation, how: str) -> ProviderProtocolError:
    return ProviderProtocolError(
        f"the provider {provider.name} does not keep its contract: {how}", provider=provider.name, model=turn.model
    )


_ANSWER = "the model's answer"
