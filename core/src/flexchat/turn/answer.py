"""Phase 6: from the matched rule to the response. 6b, the tool loop: as long as the model asks for tools, run them."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import attrs

from ..calls.manager import ToolManager
from ..config.model import LimitsTable, ResponseFormatTable, ResponseRule
from ..domain import (
    AssistantMessage,
    ChatOptions,
    ChatResponse,
    Message,
    Profile,
    StreamEvent,
    SystemMessage,
    TextDelta,
    TextPart,
    UserMessage,
)
from ..domain.history import repair_history
from ..domain.text import counted
from ..llms.llm import Llms
from ..plugin.events import EventHooks
from ..schema.answer_form import AnswerForm, answer_form
from .exchange import Exchanges, Generation
from .next_step import NextStep, calls_to_run, next_step, why_no_answer
from .response_format import bring_into_form, read_answer
from .template import substitute_variables
from .tool_loop import ToolLoop, ToolRound
from .unfinished import unfinished_response, without_calls

log = logging.getLogger(__name__)

TOO_MANY_CALLS = "I reached the maximum number of tool calls. Please try rephrasing your request."
NO_ANSWER = "I encountered an issue processing your request."


class ResponseGenerator:
    """Turns a profile and a rule into a response.

    Source: response-generation specification (requirements RG-1 to RG-32, DS-2, DS-4, DS-9).
    """

    def __init__(
        self,
        llms: Llms,
        tools: ToolManager,
        events: EventHooks | None = None,
        *,
        limits: LimitsTable | None = None,
    ) -> None:
        self._exchanges = Exchanges(llms, tools.get_registry(), events or EventHooks())
        self._tools = tools
        self._limits = limits or LimitsTable()
        self._forms: dict[int, tuple[ResponseFormatTable, AnswerForm]] = {}

    async def generate_response(
        self, profile: Profile, rule: ResponseRule, user_message: str, history: Sequence[Message] = ()
    ) -> ChatResponse:
        """Answer one user message.

        Raises:
            UnknownServiceError: The rule names an LLM the config does not have.
            TurnTimeoutError: limits.turn_timeout_ms is over.
            ProviderError: The provider did not answer. Tool trouble never raises.
            ResponseFormatError: The answer has not the form that was asked for.
        """
        async for event in self.answer(self.begin(profile, rule, user_message, history, streamed=False)):
            if isinstance(event, ChatResponse):
                return event
        raise AssertionError("a generation ends with its response")

    def begin(
        self,
        profile: Profile,
        rule: ResponseRule,
        user_message: str,
        history: Sequence[Message] = (),
        *,
        streamed: bool,
        so_far: Sequence[Message] = (),
        form: AnswerForm | None = None,
        spent_s: float = 0.0,
        variables: Mapping[str, Any] | None = None,
    ) -> Generation:
        """Return the response to one user message before anything is asked; ``answer`` makes it.

        Args:
            so_far: What followed the message already; see ChatRequest.
            streamed: Ask the provider for its answer piece by piece, where it can do that.
            form: What the answer must be; None for what the rule says.
            spent_s: Seconds of the turn that the earlier phases took.
            variables: What the prompt may show beside the profile's fields.
        """
        earlier, repairs = repair_history(tuple(history))
        asked, more_repairs = repair_history((UserMessage(content=user_message), *so_far))
        prompt = substitute_variables(rule.prompt, profile, variables)
        start: tuple[Message, ...] = (SystemMessage(content=prompt), *earlier) if prompt else earlier
        return Generation(
            rule=rule,
            service=rule.llm,
            model=rule.model or "",
            fallback=[*rule.fallback],
            messages=(*start, *asked),
            kept=len(start),
            timeout_ms=self._limits.turn_timeout_ms,
            deadline=time.monotonic() + self._limits.turn_timeout_ms / 1000 - spent_s,
            streamed=streamed,
            form=form or self._form(rule),
            warnings=[*repairs, *more_repairs],
        )

    def answer(self, turn: Generation) -> AsyncGenerator[StreamEvent | ChatResponse, None]:
        """Return a generator of what happens while a response is made; its last item is the ChatResponse.

        Raises:
            The same as generate_response.
        """
        options = _options(turn.rule)
        offered = self.offered_to(turn.rule)
        return self._generate_with_tools(turn, options, offered) if offered else self._generate_plain(turn, options)

    def broken_off(self, turn: Generation) -> ChatResponse:
        """Return what there is of a response whose making ended early."""
        return unfinished_response(turn, self._tools.table.max_result_chars)

    def _form(self, rule: ResponseRule) -> AnswerForm | None:
        table = rule.response_format
        if table is None:
            return None
        found = self._forms.get(id(table))
        if found is None:
            found = self._forms[id(table)] = (table, answer_form(table.wanted()))
        return found[1]

    def offered_to(self, rule: ResponseRule) -> tuple[str, ...]:
        """Return the names of the tools this rule's model is offered; none means the standard flow (RG-8, RG-12)."""
        names = self._tools.offered_to(rule)
        if not names and rule.tools is not None and rule.tools.enabled and self._tools.is_enabled():
            log.warning("no tool is available to this rule; answering without tools")
        return names

    async def _generate_plain(
        self, turn: Generation, options: ChatOptions
    ) -> AsyncGenerator[StreamEvent | ChatResponse, None]:
        for left in reversed(range(self._tools.get_max_iterations())):
            async with contextlib.aclosing(self._exchanges.hold(turn, options)) as events:
                async for event in events:
                    yield event
            assert turn.result is not None
            if not left or next_step(turn.result) is not NextStep.CONTINUE:
                break
            turn.go_on()
        async with contextlib.aclosing(self._finish(turn, options)) as ending:
            async for last in ending:
                yield last

    async def _generate_with_tools(
        self, turn: Generation, options: ChatOptions, offered: tuple[str, ...]
    ) -> AsyncGenerator[StreamEvent | ChatResponse, None]:
        registry, table, rule = self._tools.get_registry(), self._tools.table, turn.rule.tools
        later = with_tools = options
        if rule and rule.parallel is not None:
            later = with_tools = attrs.evolve(options, parallel_tool_calls=rule.parallel)
        if rule and rule.choice != "auto":
            # For the first answer only: kept up, a forced choice would never let the model come to an end.
            with_tools = attrs.evolve(later, tool_choice=rule.choice)
        limit = (rule and rule.max_iterations) or self._tools.get_max_iterations()
        loop = ToolLoop(
            registry,
            self._tools.calls,
            offered,
            time_left=turn.time_left,
            per_answer=self._limits.tool_calls_per_answer,
            per_turn=self._limits.tool_calls_per_turn,
        )
        turn.records = []
        asked_again = False
        for iteration in range(1, limit + 1):
            async with contextlib.aclosing(self._exchanges.hold(turn, with_tools, offered)) as exchange:
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
            if step is NextStep.CONTINUE and iteration < limit:
                turn.go_on()
                continue
            if step is not NextStep.RUN_TOOLS:
                async with contextlib.aclosing(self._finish(turn, options)) as ending:
                    async for last in ending:
                        yield last
                return
            with_tools = later
            calls, turn.loop, turn.paused = calls_to_run(turn.result), loop, ""
            async with contextlib.aclosing(loop.run(calls, iteration)) as round_:
                async for happened in round_:
                    if isinstance(happened, ToolRound):
                        turn.add_answer(*happened.messages(calls, table.max_result_chars))
                        turn.records.extend(happened.records)
                    else:
                        yield happened
            turn.wrote, turn.loop = loop.wrote, None
            if loop.exhausted:
                break
        at_limit = self._at_limit(turn, options, loop.exhausted or f"{counted(limit, 'answer')} asked for tools")
        async with contextlib.aclosing(at_limit):
            async for last in at_limit:
                yield last

    async def _at_limit(
        self, turn: Generation, options: ChatOptions, why: str
    ) -> AsyncGenerator[StreamEvent | ChatResponse, None]:
        """End a loop that its model would not end: with the specified sentence, or with one answer without tools."""
        log.warning("the tool loop was ended: %s", why)
        turn.warnings.append(f"the tool loop was ended: {why}")
        if self._tools.table.at_limit == "answer" or turn.form is not None:
            async with contextlib.aclosing(self._exchanges.hold(turn, options)) as exchange:
                async for event in exchange:
                    yield event
            assert turn.result is not None
            if turn.form is not None or (turn.result.content and not turn.result.tool_calls):
                async with contextlib.aclosing(self._finish(turn, options, max_iterations_reached=True)) as ending:
                    async for last in ending:
                        yield last
                return
        if turn.streamed:
            yield TextDelta(0, TOO_MANY_CALLS)
        said = AssistantMessage(parts=(TextPart(text=TOO_MANY_CALLS),))
        yield self._response(turn, TOO_MANY_CALLS, said, max_iterations_reached=True)

    async def _finish(
        self, turn: Generation, options: ChatOptions, *, max_iterations_reached: bool = False
    ) -> AsyncGenerator[StreamEvent | ChatResponse, None]:
        """End with what the model said, or with the specified sentence if it said nothing although it should have."""
        parsed = data = None
        if turn.form is not None:
            async with contextlib.aclosing(bring_into_form(turn, turn.form, self._exchanges, options)) as asking:
                async for event in asking:
                    yield event
            content, data, parsed = read_answer(turn, turn.form)
        else:
            content = turn.answer
        result = turn.result
        assert result is not None
        if next_step(result) is not NextStep.FINISH:
            log.warning("unexpected finish_reason %r", result.finish_reason)
            turn.warnings.append(why_no_answer(result.finish_reason))
            content = content or NO_ANSWER
        elif not content:
            turn.warnings.append("the model gave an empty answer")
        if turn.streamed and content and (turn.form is not None or not (result.content or turn.paused)):
            yield TextDelta(0, content)
        response = self._response(turn, content, result.message, max_iterations_reached=max_iterations_reached)
        yield response if turn.form is None else attrs.evolve(response, parsed=parsed, data=data)

    def _response(
        self,
        turn: Generation,
        content: str,
        said: AssistantMessage,
        *,
        max_iterations_reached: bool = False,
    ) -> ChatResponse:
        said = without_calls(said)
        return ChatResponse(
            content=content,
            service=turn.service,
            model=turn.model,
            tool_calls=None if turn.records is None else tuple(turn.records),
            max_iterations_reached=max_iterations_reached,
            finish_reason=turn.result.finish_reason if turn.result else None,
            messages=(*turn.messages[turn.kept :], said) if said.parts else turn.messages[turn.kept :],
            usage=turn.usage,
            rounds=tuple(turn.rounds),
            warnings=tuple(turn.warnings),
        )


def _options(rule: ResponseRule) -> ChatOptions:
    return ChatOptions(
        max_tokens=rule.max_tokens,
        temperature=rule.temperature,
        top_p=rule.top_p,
        stop=rule.stop,
        seed=rule.seed,
        reasoning=None if rule.reasoning is None else rule.reasoning.wanted(),
        extra=rule.extra_body,
    )
