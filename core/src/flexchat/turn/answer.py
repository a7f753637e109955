"""Phase 6: from the matched rule to the response, or to what exists of it when the turn ends early."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from ..config.model import ResponseRule, RuleTools
from ..domain import (
    AnswerEnd,
    AssistantMessage,
    ChatEvent,
    ChatRequest,
    ChatResponse,
    ChatResult,
    Message,
    ReasoningDelta,
    ReasoningPart,
    RequestedCall,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallRecord,
    ToolMessage,
    UserMessage,
)
from ..domain.history import repair_history
from ..errors import ChatRequestError, ResponseFormatError
from ..plugin.hooks import ModelRequest
from ..schema.answer_format import AnswerFormat, ReadAnswer
from ..tools.deferral import FoundTools
from ..tools.results import whole_text
from .active import ActiveTurn, ModelTarget, end_replay
from .exchange import ModelQuery, exchange, request_to
from .media import has_media
from .rounds import CallLimits, NextStep, can_read_on, messages_of, next_step, no_answer_reason, rounds, run_calls
from .template import substitute_variables

log = logging.getLogger(__name__)

TOO_MANY_CALLS = "I reached the maximum number of tool calls. Please try rephrasing your request."
"""The answer of a turn that reached its limit of tool calls."""
NO_ANSWER = "I encountered an issue processing your request."


async def answer(turn: ActiveTurn) -> ChatResponse:
    """Answer the user by the turn's rule.

    Raises:
        UnknownLLMError: The rule names an LLM the config does not have.
        UnknownNameError: The rule's prompt shows a variable that has no value.
        TurnTimeoutError, ProviderError: The model did not answer (in time). Tool failures never raise.
        ResponseFormatError: The answer does not have the requested form.

    Source: response-generation specification (requirements RG-1 to RG-32, DS-2, DS-4, DS-9).
    """
    if turn.request.call is not None:
        return await _run_requested(turn, turn.request.call)
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
        _defer_tools(turn)
    why = await rounds(turn, _RuleDialogue(turn, rule, options, offered), offered, limit)
    if turn.caller_calls:
        return _response(turn, turn.answer, AssistantMessage())  # the last answer is among the messages already
    turn.is_at_limit = bool(why)
    if not why:
        return await _finish(turn, options)
    log.warning("the tool loop was ended: %s", why)
    turn.warnings.append(f"the tool loop was ended: {why}")
    if turn.journal is not None:
        turn.journal.record_limit(why)
    return await _answer_at_limit(turn, options)


async def _run_requested(turn: ActiveTurn, requested: RequestedCall) -> ChatResponse:
    """Run the call of a turn that asks no model; the text of its result is the answer."""
    turn.clock.activity, turn.target, turn.records = "the tool", ModelTarget(llm=""), []
    turn.messages = (UserMessage(content=turn.request.user_message),)
    call = ToolCall(id=f"call_{turn.info.id}", name=requested.name, arguments=requested.arguments)
    turn.unsent_answer = AssistantMessage(parts=(call,))
    records = await run_calls(turn, (call,), CallLimits(turn.tools, turn.parts.limits), None, 1)
    turn.add_answer(messages_of((call,), records, turn.parts.tools.table.max_result_chars))
    content = whole_text(records[0].result) or "(no text)"
    return turn.to_response(content, (*turn.messages, AssistantMessage(parts=(TextPart(text=content),))), turn.records)


async def first_request(turn: ActiveTurn) -> ModelRequest:
    """Return the first request phase 6 would make for a turn that has its rule. Raises UnknownLLMError."""
    assert turn.rule is not None
    rule = turn.rule[1]
    _assemble_messages(turn, rule)
    offered = turn.parts.offered_to(rule, turn.tools)
    _defer_tools(turn)
    dialogue = _RuleDialogue(turn, rule, _options(rule, turn.request), offered)
    return await request_to(turn, _query(turn, dialogue.first, dialogue.in_request(offered)))


def _defer_tools(turn: ActiveTurn) -> None:
    if turn.tools.deferred:
        turn.found = FoundTools(turn.tools, turn.parts.tools.search.max_found)


class _RuleDialogue:
    """The dialogue of a rule's answer; see rounds.Dialogue."""

    def __init__(
        self, turn: ActiveTurn, rule: ResponseRule, options: Mapping[str, Any], offered: tuple[str, ...]
    ) -> None:
        self._turn = turn
        self._offered = self._first_offered = offered
        self._options = self.first = options
        request, tools = turn.request, rule.tools or _DEFAULT_TOOLS
        parallel = tools.parallel if request.parallel_tool_calls is None else request.parallel_tool_calls
        choice = request.tool_choice or tools.choice
        if not offered:
            if request.tool_choice == "required":
                turn.warnings.append('tool_choice="required" has no effect: the rule that answers offers no tools')
            return
        if parallel is not None:
            self._options = self.first = {**options, "parallel_tool_calls": parallel}
        if choice in [tool.name for tool in request.caller_tools]:
            self._first_offered, choice = (choice,), "required"
        if choice != "auto":
            # Only until the first calls: a choice forced every time would never let the model finish.
            self.first = {**self._options, "tool_choice": choice}

    async def ask(self) -> ChatResult:
        turn = self._turn
        first = self.first, self._first_offered
        options, offered = (self._options, self._offered) if turn.records else first
        result = await _ask(turn, options, self.in_request(offered))
        turn.clock.activity = "the tool loop"
        return result

    def in_request(self, offered: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the tools in the next request, if the model may call those offered."""
        turn = self._turn
        return offered if turn.found is None or offered != self._offered else turn.found.in_request(turn.messages)

    def remember(self, result: ChatResult, calls: Sequence[ToolCall], records: Sequence[ToolCallRecord]) -> None:
        if not calls and not self._turn.caller_calls:
            self._turn.paused_text += result.content or ""
        max_chars = self._turn.parts.tools.table.max_result_chars
        self._turn.add_answer(messages_of(calls, records, max_chars, can_read_on=self._turn.can_read_on))


def _query(turn: ActiveTurn, options: Mapping[str, Any], offered: tuple[str, ...] = ()) -> ModelQuery:
    assert turn.target is not None
    return ModelQuery(
        target=turn.target,
        messages=turn.messages + turn.correction,
        options=options,
        offered=offered,
        answer_format=turn.answer_format,
        is_answer=True,
    )


async def _ask(turn: ActiveTurn, options: Mapping[str, Any], offered: tuple[str, ...] = ()) -> ChatResult:
    result, round_ = await exchange(turn, _query(turn, options, offered))
    turn.add_result(result, round_)
    return result


def _assemble_messages(turn: ActiveTurn, rule: ResponseRule) -> None:
    request = turn.request
    begins_with = _begins_with(request)
    if _continues(request):
        # A result that an earlier, unsuccessful turn has brought already is not added again.
        answered = {each.tool_call_id for each in request.history if isinstance(each, ToolMessage)}
        turn.begins_with = tuple([m for m in begins_with if getattr(m, "tool_call_id", None) not in answered])
        last = next((m for m in reversed(request.history) if isinstance(m, AssistantMessage)), AssistantMessage())
        if not turn.begins_with and any(call.id not in answered for call in last.tool_calls):
            raise ChatRequestError("continuation: its results are of earlier calls than those that wait for theirs")
        messages, repairs = repair_history((*request.history, *turn.begins_with))
        # The request's instructions come after the conversation's messages, and must not stand after the results.
        end = next((i for i in range(len(messages), 0, -1) if not isinstance(messages[i - 1], SystemMessage)), 0)
        messages = (*messages[end:], *messages[:end])
        if not isinstance(messages[-1] if messages else None, ToolMessage):
            raise ChatRequestError("continuation: its results are not of the calls with which the history ends")
    else:
        earlier, repairs = repair_history(request.history) if request.history else ((), ())
        turn.begins_with = begins_with
        if request.continuation:
            turn.begins_with, more_repairs = repair_history(begins_with)
            repairs += more_repairs
        messages = earlier + turn.begins_with
    prompt = substitute_variables(rule.prompt, turn.profile, request.variables)
    turn.messages = (SystemMessage(content=prompt),) + messages if prompt else messages  # noqa: RUF005
    turn.earlier_count = len(turn.messages)
    # Where a plugin chooses what is sent, that alone is looked through.
    turn.has_media = turn.parts.hooks.fits_history or has_media(turn.begins_with)
    if request.history and not turn.has_media:
        turn.has_media = has_media(request.history)
    turn.target = ModelTarget(llm=rule.llm, model=rule.model, fallback=[*rule.fallback])
    turn.answer_format = turn.answer_format or turn.parts.format_of(rule)
    turn.warnings += repairs


def _continues(request: ChatRequest) -> bool:
    """Return whether a request brings results of the calls with which its conversation's last turn ended."""
    kept = request.conversation is not None and request.continuation
    return bool(kept) and isinstance(request.continuation[0], ToolMessage)


def _begins_with(request: ChatRequest) -> tuple[Message, ...]:
    if _continues(request):
        return request.continuation
    message = UserMessage(content=request.user_message, media=request.attachments, pinned=request.pin)
    return (message, *request.continuation)


async def _answer_at_limit(turn: ActiveTurn, options: Mapping[str, Any]) -> ChatResponse:
    """End a loop the model does not end itself: with the specified sentence, or with one answer without tools."""
    has_request = turn.has_last_request or turn.parts.tools.table.at_limit == "answer"
    if has_request or turn.answer_format is not None:
        result = await _ask(turn, options)
        # A model that asks for tools once more, although none are offered, has not answered: the specified sentence is
        # used.
        if turn.answer_format is not None or (result.content and not result.tool_calls):
            return await _finish(turn, options)
    await end_replay(turn)
    turn.sink.pass_on(TextDelta(0, TOO_MANY_CALLS))
    message = AssistantMessage(parts=(TextPart(text=TOO_MANY_CALLS),))
    return _response(turn, TOO_MANY_CALLS, message)


async def _finish(turn: ActiveTurn, options: Mapping[str, Any]) -> ChatResponse:
    """End with the model's text, or with the specified sentence if a text was due and did not come."""
    read = None if turn.answer_format is None else await _read_answer(turn, turn.answer_format, options)
    content = turn.answer if read is None else read.text
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
    response = _response(turn, content, result.message)
    return response if read is None else attrs.evolve(response, parsed=read.parsed, data=read.data)


def _response(turn: ActiveTurn, content: str, message: AssistantMessage) -> ChatResponse:
    message = _without_calls(message)
    own = turn.own_messages
    return turn.to_response(
        content,
        (*own, message) if message.parts else own,
        turn.records,
        max_iterations_reached=turn.is_at_limit,
        finish_reason=turn.result.finish_reason if turn.result else None,
        warnings=tuple(turn.warnings),
    )


_DEFAULT_TOOLS = RuleTools()


def _options(rule: ResponseRule, request: ChatRequest) -> dict[str, Any]:
    """Return the fields of ChatOptions that the rule sets, those of the request in their place where it has some."""
    reasoning = request.reasoning or rule.reasoning
    assert not isinstance(reasoning, str)  # since the request was read
    return {
        "max_tokens": rule.max_tokens if request.max_tokens is None else request.max_tokens,
        "temperature": rule.temperature if request.temperature is None else request.temperature,
        "top_p": rule.top_p if request.top_p is None else request.top_p,
        "stop": rule.stop if request.stop is None else tuple(request.stop),
        "seed": rule.seed if request.seed is None else request.seed,
        "reasoning": reasoning,
        "extra": rule.extra_body if request.extra_body is None else request.extra_body,
    }


COMPLAINT = "That answer does not have the required form: {problem}. Write it again, as one JSON object only{schema}."


async def _read_answer(turn: ActiveTurn, answer_format: AnswerFormat, options: Mapping[str, Any]) -> ReadAnswer:
    """Read the last answer; if it does not have the form, ask again, once, with a request that names the fault.

    Where tools ruled out asking for the form so far, it is asked for first, without them. The answers without the form
    are no part of the turn's messages. Raises ResponseFormatError.
    """
    while True:
        assert turn.result is not None
        is_finished = next_step(turn.result) is NextStep.FINISH
        try:
            return answer_format.find(turn.answer, is_complete=is_finished)
        except ValueError as error:
            problem = str(error)
        if turn.requested_format:
            # Once only: ``correction`` is set by the first complaint. An answer that was cut off would be cut off
            # again.
            if turn.correction or not is_finished:
                why = problem if is_finished else no_answer_reason(turn.result.finish_reason)
                raise ResponseFormatError(why, turn.answer)
            log.info("the answer does not have its form: %s", problem)
            # Not every service passes the schema to its model.
            schema = answer_format.format.schema
            hint = "" if schema is None else f", which fits this JSON Schema: {json.dumps(schema, ensure_ascii=False)}"
            complaint = COMPLAINT.format(problem=problem, schema=hint)
            turn.correction = (turn.result.message, UserMessage(content=complaint))
        # The text before a pause belongs to the answer that is replaced.
        turn.paused_text = ""
        await _ask(turn, options)


def unfinished_response(turn: ActiveTurn) -> ChatResponse:
    """Return the text so far and the calls that ran, with messages a later turn can continue from.

    If an answer's tools were running, each of its calls has a result: its own, or one with the reason for its absence.
    Calls of an answer that was still being written never ran, and are left out.
    """
    if turn.target is None:  # phase 6 has not begun
        messages = _begins_with(turn.request)
        return ChatResponse(content="", llm="", model="", messages=messages, warnings=turn.phase_warnings)
    messages, records = turn.own_messages, turn.records
    # The pieces of an unfinished answer are newer than the last whole one.
    message = _message_so_far(turn.pieces) if turn.pieces else turn.unsent_answer
    if turn.call_round is not None and turn.unsent_answer is not None:
        records_at_end = turn.call_round.records_at_end(turn.tools)
        max_chars = turn.parts.tools.table.max_result_chars
        answers = messages_of(turn.call_round.requested, records_at_end, max_chars, can_read_on=turn.can_read_on)
        # Providers refuse a history in which a call has no result, so each call gets one.
        messages, records = (*messages, turn.unsent_answer, *answers), [*(records or ()), *records_at_end]
    elif message is not None and (message := _without_calls(message)).parts:
        messages = (*messages, message)
    content = turn.paused_text + ((message.content if message is not None else None) or "")
    return turn.to_response(content, messages, records, warnings=(*turn.phase_warnings, *turn.warnings))


def _message_so_far(pieces: Iterable[ChatEvent]) -> AssistantMessage:
    """Return the text and the thoughts of an answer that broke off."""
    texts: dict[tuple[type, int], list[str]] = {}
    for piece in pieces:
        if isinstance(piece, AnswerEnd):
            return piece.result.message
        if isinstance(piece, TextDelta | ReasoningDelta):
            texts.setdefault((type(piece), piece.index), []).append(piece.text)
    parts: list[TextPart | ReasoningPart] = []
    for (kind, _), texts_of_part in texts.items():
        if (text := "".join(texts_of_part)).strip():
            parts.append(TextPart(text=text) if kind is TextDelta else ReasoningPart(text=text))
    return AssistantMessage(parts=tuple(parts))


def _without_calls(message: AssistantMessage) -> AssistantMessage:
    """Return a message without its calls: one that never ran must not stay unanswered in the history."""
    calls = message.tool_calls
    return attrs.evolve(message, parts=tuple(part for part in message.parts if part not in calls)) if calls else message
