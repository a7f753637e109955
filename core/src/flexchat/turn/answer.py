"""Phase 6: from the matched rule to the response."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import attrs

from ..config.model import ResponseRule, RuleTools
from ..domain import (
    AssistantMessage,
    ChatOptions,
    ChatRequest,
    ChatResponse,
    ChatResult,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallRecord,
    ToolMessage,
    UserMessage,
)
from ..domain.history import repair_history
from ..errors import ResponseFormatError
from ..plugin.hooks import ModelRequest
from ..schema.answer_format import AnswerFormat
from .active import ActiveTurn, ModelTarget, end_replay
from .exchange import exchange, request_to
from .next_step import NextStep, next_step, no_answer_reason
from .rounds import can_read_on, messages_of, rounds
from .template import substitute_variables
from .unfinished import without_calls

log = logging.getLogger(__name__)

TOO_MANY_CALLS = "I reached the maximum number of tool calls. Please try rephrasing your request."
"""The answer of a turn that reached its limit of tool calls."""
NO_ANSWER = "I encountered an issue processing your request."


async def answer(turn: ActiveTurn) -> ChatResponse:
    """Answer the user by the turn's rule.

    Raises:
        UnknownLLMError: The rule names an LLM the config does not have.
        UnknownNameError: The rule's prompt shows a variable that has no value.
        TurnTimeoutError: limits.turn_timeout_ms has expired.
        ProviderError: The provider did not answer. Tool failures never raise.
        ResponseFormatError: The answer does not have the requested form.

    Source: response-generation specification (requirements RG-1 to RG-32, DS-2, DS-4, DS-9).
    """
    assert turn.rule is not None
    rule, turn.clock.activity = turn.rule[1], "the tool loop"
    _assemble_messages(turn, rule)
    options, offered = _options(rule, turn.request), turn.parts.offered_to(rule, turn.tools)
    if turn.journal is not None and turn.journal.is_closed:
        # A closed turn runs nothing: its recorded calls are matched with the tools of then, not with those of now.
        offered = turn.journal.offered
    limit = turn.parts.tools.get_max_iterations()
    if offered:
        turn.records, turn.can_read_on = [], can_read_on(turn.tools, offered)
        limit = turn.request.max_iterations or (rule.tools and rule.tools.max_iterations) or limit
    why = await rounds(turn, _RuleDialogue(turn, rule, options, offered), offered, limit)
    if not why:
        return await _finish(turn, options)
    log.warning("the tool loop was ended: %s", why)
    turn.warnings.append(f"the tool loop was ended: {why}")
    return await _answer_at_limit(turn, options)


def first_request(turn: ActiveTurn) -> ModelRequest:
    """Return the first request phase 6 would make for a turn that has its rule; nothing is sent.

    Raises:
        UnknownLLMError: The rule names an LLM the config does not have.
    """
    assert turn.rule is not None
    rule = turn.rule[1]
    _assemble_messages(turn, rule)
    offered = turn.parts.offered_to(rule, turn.tools)
    dialogue = _RuleDialogue(turn, rule, _options(rule, turn.request), offered)
    assert turn.target is not None
    return request_to(
        turn, turn.target, turn.messages, dialogue.first, offered=offered, answer_format=turn.answer_format
    )


class _RuleDialogue:
    """The dialogue of a rule's answer; see rounds.Dialogue."""

    def __init__(self, turn: ActiveTurn, rule: ResponseRule, options: ChatOptions, offered: tuple[str, ...]) -> None:
        self._turn = turn
        self._offered = offered
        self._options = self.first = options
        request, tools = turn.request, rule.tools or _DEFAULT_TOOLS
        parallel = tools.parallel if request.parallel_tool_calls is None else request.parallel_tool_calls
        choice = request.tool_choice or tools.choice
        if not offered:
            if request.tool_choice == "required":
                turn.warnings.append('tool_choice="required" has no effect: the rule that answers offers no tools')
            return
        if parallel is not None:
            self._options = self.first = attrs.evolve(options, parallel_tool_calls=parallel)
        if choice != "auto":
            # Only until the first calls: a choice forced every time would never let the model finish.
            self.first = attrs.evolve(self._options, tool_choice=choice)

    async def ask(self) -> ChatResult:
        turn = self._turn
        assert turn.target is not None
        options = self._options if turn.records else self.first
        result, elapsed_ms, price = await exchange(
            turn,
            turn.target,
            turn.messages + turn.correction,
            options,
            offered=self._offered,
            answer_format=turn.answer_format,
            is_answer=True,
        )
        turn.add_result(result, elapsed_ms, price)
        turn.clock.activity = "the tool loop"
        return result

    def remember(self, result: ChatResult, calls: Sequence[ToolCall], records: Sequence[ToolCallRecord]) -> None:
        if not calls:
            self._turn.paused_text += result.content or ""
        max_chars = self._turn.parts.tools.table.max_result_chars
        self._turn.add_answer(messages_of(calls, records, max_chars, can_read_on=self._turn.can_read_on))


def _assemble_messages(turn: ActiveTurn, rule: ResponseRule) -> None:
    """Assemble what is sent to the model."""
    request = turn.request
    earlier, repairs = repair_history(request.history)
    messages, more_repairs = repair_history((UserMessage(content=request.user_message), *request.continuation))
    prompt = substitute_variables(rule.prompt, turn.profile, request.variables)
    start = (SystemMessage(content=prompt), *earlier) if prompt else tuple(earlier)
    turn.messages, turn.earlier_count = (*start, *messages), len(start)
    for message in turn.messages:
        turn.has_media = turn.has_media or (type(message) is ToolMessage and bool(message.media))
    turn.target = ModelTarget(llm=rule.llm, model=rule.model, fallback=[*rule.fallback])
    turn.answer_format = turn.answer_format or turn.parts.format_of(rule)
    turn.warnings += [*repairs, *more_repairs]


async def _answer_at_limit(turn: ActiveTurn, options: ChatOptions) -> ChatResponse:
    """End a loop the model does not end itself: with the specified sentence, or with one answer without tools."""
    if turn.parts.tools.table.at_limit == "answer" or turn.answer_format is not None:
        assert turn.target is not None
        messages = turn.messages + turn.correction
        turn.add_result(
            *await exchange(turn, turn.target, messages, options, answer_format=turn.answer_format, is_answer=True)
        )
        assert turn.result is not None
        # A model that asks for tools once more, although none are offered, has not answered: the specified sentence is
        # used.
        if turn.answer_format is not None or (turn.result.content and not turn.result.tool_calls):
            return await _finish(turn, options, max_iterations_reached=True)
    await end_replay(turn)
    turn.sink.pass_on(TextDelta(0, TOO_MANY_CALLS))
    message = AssistantMessage(parts=(TextPart(text=TOO_MANY_CALLS),))
    return _response(turn, TOO_MANY_CALLS, message, max_iterations_reached=True)


async def _finish(turn: ActiveTurn, options: ChatOptions, *, max_iterations_reached: bool = False) -> ChatResponse:
    """End with the model's text, or with the specified sentence if a text was due and did not come."""
    parsed = data = None
    if turn.answer_format is not None:
        await ensure_format(turn, turn.answer_format, options)
        content, data, parsed = read_answer(turn, turn.answer_format)
    else:
        content = turn.answer
    result = turn.result
    assert result is not None
    if next_step(result) is not NextStep.FINISH:
        log.warning("unexpected finish_reason %r", result.finish_reason)
        turn.warnings.append(no_answer_reason(result.finish_reason))
        content = content or NO_ANSWER
    elif not content:
        turn.warnings.append("the model gave an empty answer")
    # Not streamed before: a form is held back until it is checked, and the specified sentence is not the model's.
    if content and (turn.answer_format is not None or not (result.content or turn.paused_text)):
        await end_replay(turn)
        turn.sink.pass_on(TextDelta(0, content))
    response = _response(turn, content, result.message, max_iterations_reached=max_iterations_reached)
    return response if turn.answer_format is None else attrs.evolve(response, parsed=parsed, data=data)


def _response(
    turn: ActiveTurn, content: str, message: AssistantMessage, *, max_iterations_reached: bool = False
) -> ChatResponse:
    message = without_calls(message)
    own = turn.messages[turn.earlier_count :]
    return turn.to_response(
        content,
        (*own, message) if message.parts else own,
        turn.records,
        max_iterations_reached=max_iterations_reached,
        finish_reason=turn.result.finish_reason if turn.result else None,
        warnings=tuple(turn.warnings),
    )


_DEFAULT_TOOLS = RuleTools()


def _options(rule: ResponseRule, request: ChatRequest) -> ChatOptions:
    """Return the rule's options, those of the request in their place where it has some."""
    reasoning = request.reasoning or rule.reasoning
    assert not isinstance(reasoning, str)  # since the request was read
    return ChatOptions(
        max_tokens=rule.max_tokens if request.max_tokens is None else request.max_tokens,
        temperature=rule.temperature if request.temperature is None else request.temperature,
        top_p=rule.top_p if request.top_p is None else request.top_p,
        stop=rule.stop if request.stop is None else tuple(request.stop),
        seed=rule.seed if request.seed is None else request.seed,
        reasoning=reasoning,
        extra=rule.extra_body if request.extra_body is None else request.extra_body,
    )


COMPLAINT = "That answer does not have the required form: {problem}. Write it again, as one JSON object only{schema}."


async def ensure_format(turn: ActiveTurn, answer_format: AnswerFormat, options: ChatOptions) -> None:
    """Ask again, once, if the last answer does not have the form; the request names the fault.

    Where tools ruled out asking for the form so far, it is asked for first, without them. The answers without the form
    are no part of the turn's messages.
    """
    assert turn.target is not None
    while problem := _problem(turn, answer_format):
        assert turn.result is not None
        if turn.requested_format:
            # Once only: ``correction`` is set by the first complaint. An answer that was cut off would be cut off
            # again.
            if turn.correction or next_step(turn.result) is not NextStep.FINISH:
                return
            log.info("the answer does not have its form: %s", problem)
            complaint = COMPLAINT.format(problem=problem, schema=_schema_text(answer_format))
            turn.correction = (turn.result.message, UserMessage(content=complaint))
        # The text before a pause belongs to the answer that is replaced.
        turn.paused_text = ""
        messages = turn.messages + turn.correction
        turn.add_result(
            *await exchange(turn, turn.target, messages, options, answer_format=answer_format, is_answer=True)
        )


def read_answer(turn: ActiveTurn, answer_format: AnswerFormat) -> tuple[str, Any, Any]:
    """Return the last answer: its JSON text, its JSON data, and that data as an instance of its class.

    Raises:
        ResponseFormatError: It does not have the form.
    """
    assert turn.result is not None
    content, finished = turn.answer, next_step(turn.result) is NextStep.FINISH
    try:
        match = answer_format.find(content, is_complete=finished)
        return match.text, match.data, match.parsed
    except ValueError as error:
        why = str(error) if finished else no_answer_reason(turn.result.finish_reason)
        raise ResponseFormatError(why, content) from None


def _schema_text(answer_format: AnswerFormat) -> str:
    """Return the schema for the complaint: not every service passes it to its model."""
    if answer_format.format.schema is None:
        return ""
    return f", which fits this JSON Schema: {json.dumps(answer_format.format.schema, ensure_ascii=False)}"


def _problem(turn: ActiveTurn, answer_format: AnswerFormat) -> str | None:
    assert turn.result is not None
    try:
        answer_format.find(turn.answer, is_complete=next_step(turn.result) is NextStep.FINISH)
    except ValueError as error:
        return str(error)
    return None
