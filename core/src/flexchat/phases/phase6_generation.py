"""Phase 6: from the matched rule to the response. 6b, the tool loop: as long as the model asks for tools, run them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

import attrs

from ..config.model import LimitsTable, ResponseRule
from ..domain import (
    AssistantMessage,
    ChatEvent,
    ChatOptions,
    ChatResponse,
    ChatResult,
    Message,
    Profile,
    StreamEnd,
    StreamEvent,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCallRecord,
    Usage,
    UserMessage,
)
from ..domain.history import repair_history
from ..errors import ProviderProtocolError, ProviderTimeoutError, TurnTimeoutError, UnknownServiceError
from ..http.deadline import Deadline
from ..plugin.contracts import ChatProvider
from ..plugin.events import EventHooks
from ..tools.manager import ToolManager
from .next_step import NextStep, next_step
from .template import substitute_variables
from .tool_loop import ToolLoop, ToolRound

log = logging.getLogger(__name__)

TOO_MANY_CALLS = "I reached the maximum number of tool calls. Please try rephrasing your request."
NO_ANSWER = "I encountered an issue processing your request."


@attrs.define(kw_only=True)
class _Generation:
    """One response while it is being made."""

    rule: ResponseRule
    model: str
    messages: tuple[Message, ...]
    kept: int  # how many of the messages were there before this turn
    timeout_ms: int
    deadline: float
    streamed: bool
    result: ChatResult | None = None
    usage: Usage | None = None
    warnings: list[str] = attrs.field(factory=list)
    records: list[ToolCallRecord] | None = None

    def time_left(self) -> float:
        return self.deadline - time.monotonic()

    def too_late(self, during: str) -> TurnTimeoutError:
        return TurnTimeoutError(self.timeout_ms, during)


class ResponseGenerator:
    """Turns a profile and a rule into a response.

    Source: response-generation specification (requirements RG-1 to RG-32, DS-2, DS-4, DS-9).
    """

    def __init__(
        self,
        providers: Mapping[str, ChatProvider],
        tools: ToolManager,
        events: EventHooks | None = None,
        *,
        limits: LimitsTable | None = None,
        default_models: Mapping[str, str] | None = None,
    ) -> None:
        self._providers = providers
        self._tools = tools
        self._events = events or EventHooks()
        self._limits = limits or LimitsTable()
        self._default_models = default_models or {}

    async def generate_response(
        self, profile: Profile, rule: ResponseRule, user_message: str, history: Sequence[Message] = ()
    ) -> ChatResponse:
        """Answer one user message.

        Raises:
            UnknownServiceError: The rule names an LLM the config does not have.
            TurnTimeoutError: limits.turn_timeout_ms is over.
            ProviderError: The provider did not answer. Tool trouble never raises.
        """
        async for event in self.events(profile, rule, user_message, history, streamed=False):
            if isinstance(event, ChatResponse):
                return event
        raise AssertionError("a generation ends with its response")

    def events(
        self,
        profile: Profile,
        rule: ResponseRule,
        user_message: str,
        history: Sequence[Message] = (),
        *,
        streamed: bool,
    ) -> AsyncGenerator[StreamEvent | ChatResponse, None]:
        """Answer one user message, and return a generator of what happens; its last item is the ChatResponse.

        Args:
            streamed: Ask the provider for its answer piece by piece, where it can do that.

        Raises:
            The same as generate_response.
        """
        earlier, repairs = repair_history(tuple(history))
        prompt = substitute_variables(rule.prompt, profile)
        start: tuple[Message, ...] = (SystemMessage(content=prompt), *earlier) if prompt else earlier
        turn = _Generation(
            rule=rule,
            model=rule.model or self._default_models.get(rule.llm, ""),
            messages=(*start, UserMessage(content=user_message)),
            kept=len(start),
            timeout_ms=self._limits.turn_timeout_ms,
            deadline=time.monotonic() + self._limits.turn_timeout_ms / 1000,
            streamed=streamed,
            warnings=list(repairs),
        )
        options = ChatOptions(max_tokens=rule.max_tokens, temperature=rule.temperature)
        offered = self._offered(rule)
        return self._generate_with_tools(turn, options, offered) if offered else self._generate_plain(turn, options)

    def _offered(self, rule: ResponseRule) -> tuple[str, ...]:
        """Return the names of the tools this rule's model is offered; none means the standard flow (RG-8, RG-12)."""
        table = self._tools.table
        wanted = rule.tools.enabled if rule.tools is not None else table.apply_globally
        if not wanted or not self._tools.is_enabled():
            return ()
        names = self._tools.get_registry().names(rule.tools.allowed_tools if rule.tools is not None else None)
        if not names:
            log.warning("no tool is available to this rule; answering without tools")
        return names

    async def _generate_plain(
        self, turn: _Generation, options: ChatOptions
    ) -> AsyncGenerator[StreamEvent | ChatResponse, None]:
        async with contextlib.aclosing(self._chat(turn, options)) as events:
            async for event in events:
                yield event
        for last in self._finish(turn):
            yield last

    async def _generate_with_tools(
        self, turn: _Generation, options: ChatOptions, offered: tuple[str, ...]
    ) -> AsyncGenerator[StreamEvent | ChatResponse, None]:
        registry, table = self._tools.get_registry(), self._tools.table
        tool_format = self._provider(turn.rule).tool_format(turn.model)
        with_tools = attrs.evolve(options, tools=registry.wire_tools(tool_format, offered))
        limit = (turn.rule.tools and turn.rule.tools.max_iterations) or self._tools.get_max_iterations()
        loop = ToolLoop(
            registry,
            self._tools.get_executor(),
            offered,
            time_left=turn.time_left,
            per_answer=self._limits.tool_calls_per_answer,
            per_turn=self._limits.tool_calls_per_turn,
        )
        turn.records = []
        asked_again = False
        for iteration in range(1, limit + 1):
            async with contextlib.aclosing(self._chat(turn, with_tools)) as exchange:
                async for event in exchange:
                    yield event
            assert turn.result is not None
            step = next_step(turn.result)
            log.debug(
                "iteration %d: %s, %d tool calls", iteration, turn.result.finish_reason, len(turn.result.tool_calls)
            )
            if step is NextStep.ASK_AGAIN and not asked_again:
                asked_again = True
                turn.warnings.append("the model wrote a tool call that could not be read; it was asked once more")
                continue
            if step is NextStep.CONTINUE:
                turn.messages = (*turn.messages, turn.result.message)
                continue
            if step is not NextStep.RUN_TOOLS:
                for last in self._finish(turn):
                    yield last
                return
            calls = turn.result.tool_calls
            async with contextlib.aclosing(loop.run(calls, iteration)) as round_:
                async for happened in round_:
                    if isinstance(happened, ToolRound):
                        answers = happened.messages(calls, table.max_result_chars)
                        turn.messages = (*turn.messages, turn.result.message, *answers)
                        turn.records.extend(happened.records)
                    else:
                        yield happened
            if loop.exhausted:
                break
        at_limit = self._at_limit(turn, options, loop.exhausted or f"{limit} answers asked for tools")
        async with contextlib.aclosing(at_limit):
            async for last in at_limit:
                yield last

    async def _at_limit(
        self, turn: _Generation, options: ChatOptions, why: str
    ) -> AsyncGenerator[StreamEvent | ChatResponse, None]:
        """End a loop that its model would not end: with the specified sentence, or with one answer without tools."""
        log.warning("the tool loop was ended: %s", why)
        turn.warnings.append(f"the tool loop was ended: {why}")
        if self._tools.table.at_limit == "answer":
            async with contextlib.aclosing(self._chat(turn, options)) as exchange:
                async for event in exchange:
                    yield event
            assert turn.result is not None
            if turn.result.content and not turn.result.tool_calls:
                for last in self._finish(turn, max_iterations_reached=True):
                    yield last
                return
        if turn.streamed:
            yield TextDelta(0, TOO_MANY_CALLS)
        said = AssistantMessage(parts=(TextPart(text=TOO_MANY_CALLS),))
        yield self._response(turn, TOO_MANY_CALLS, said, max_iterations_reached=True)

    def _finish(
        self, turn: _Generation, *, max_iterations_reached: bool = False
    ) -> Iterator[StreamEvent | ChatResponse]:
        """End with what the model said, or with the specified sentence if it said nothing although it should have."""
        result = turn.result
        assert result is not None
        content = result.content or result.message.refusal or ""
        if next_step(result) is not NextStep.FINISH:
            log.warning("unexpected finish_reason %r", result.finish_reason)
            reason = _REASONS.get(
                result.finish_reason or "", f"the model ended with finish reason {result.finish_reason!r}"
            )
            turn.warnings.append(reason)
            content = content or NO_ANSWER
        elif not content:
            turn.warnings.append("the model gave an empty answer")
        if turn.streamed and content and not result.content:
            yield TextDelta(0, content)
        yield self._response(turn, content, result.message, max_iterations_reached=max_iterations_reached)

    async def _chat(self, turn: _Generation, options: ChatOptions) -> AsyncGenerator[ChatEvent, None]:
        """Hold one exchange; its outcome is in turn.result.

        Raises:
            ProviderProtocolError: The provider does not keep its contract.
        """
        provider, service = self._provider(turn.rule), turn.rule.llm
        left = turn.time_left()
        if left <= 0:
            raise turn.too_late("the tool loop")
        options = attrs.evolve(options, timeout_s=left)
        await self._events.before_chat(service, turn.model, turn.messages, options)
        started = time.perf_counter()
        result: Any = None
        streams = turn.streamed and hasattr(provider, "stream_chat")
        deadline = Deadline(left)  # whatever the provider makes of options.timeout_s
        try:
            if streams:
                stream: Any = provider.stream_chat(turn.messages, turn.model, options)  # type: ignore[attr-defined]
                async with contextlib.aclosing(stream):
                    deadline.wait(left)
                    async for event in stream:
                        deadline.rest()
                        if result is not None:
                            raise _broken(provider, turn, "its stream goes on after StreamEnd")
                        if type(event) is StreamEnd:
                            result = event.result
                        elif turn.time_left() <= 0:
                            raise turn.too_late(_ANSWER)
                        yield event
                        deadline.wait(left)
            else:
                deadline.wait(left)
                result = await provider.generate_chat(turn.messages, turn.model, options)
        except asyncio.CancelledError:
            if deadline.passed():
                raise turn.too_late(_ANSWER) from None
            raise
        except ProviderTimeoutError:
            if turn.time_left() <= 0:
                raise turn.too_late(_ANSWER) from None
            raise
        finally:
            deadline.close()
        if not isinstance(result, ChatResult):
            raise _broken(provider, turn, f"its answer is {type(result).__name__}, not ChatResult")
        if turn.streamed and not streams:
            if result.content:
                yield TextDelta(0, result.content)
            yield StreamEnd(result)
        await self._events.after_chat(service, turn.model, result, (time.perf_counter() - started) * 1000)
        turn.result = result
        turn.warnings.extend(w for w in result.warnings if w not in turn.warnings)
        if result.usage is not None:
            turn.usage = result.usage if turn.usage is None else turn.usage + result.usage

    def _response(
        self, turn: _Generation, content: str, said: AssistantMessage, *, max_iterations_reached: bool = False
    ) -> ChatResponse:
        calls = said.tool_calls
        if calls:  # a call that was not run must not stand unanswered in the history
            said = attrs.evolve(said, parts=tuple(part for part in said.parts if part not in calls))
        return ChatResponse(
            content=content,
            service=turn.rule.llm,
            model=turn.model,
            tool_calls=None if turn.records is None else tuple(turn.records),
            max_iterations_reached=max_iterations_reached,
            finish_reason=turn.result.finish_reason if turn.result else None,
            messages=(*turn.messages[turn.kept :], said) if said.parts else turn.messages[turn.kept :],
            usage=turn.usage,
            warnings=tuple(turn.warnings),
        )

    def _provider(self, rule: ResponseRule) -> ChatProvider:
        provider = self._providers.get(rule.llm)
        if provider is None:
            raise UnknownServiceError(rule.llm, known=tuple(self._providers))
        return provider


def _broken(provider: ChatProvider, turn: _Generation, how: str) -> ProviderProtocolError:
    return ProviderProtocolError(
        f"the provider {provider.name} does not keep its contract: {how}", provider=provider.name, model=turn.model
    )


_ANSWER = "the model's answer"
_REASONS = {
    "length": "the answer was cut off at the token limit (max_tokens of the rule, or the model's own)",
    "content_filter": "the provider's content filter stopped the answer",
    "refusal": "the model refused to answer",
    "malformed_tool_call": "the model ended with a tool call that could not be read",
}
