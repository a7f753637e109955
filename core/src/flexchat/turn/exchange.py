"""One question to a model: for the answer, a topic, an intent, a structured answer. All of them ask here."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Mapping
from contextlib import aclosing
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import attrs

from ..domain import (
    AnswerEnd,
    ChatEvent,
    ChatOptions,
    ChatResult,
    Message,
    ModelRequestFinished,
    ModelRequestStarted,
    ReasoningPart,
    Round,
    TextDelta,
)
from ..domain.codec import value_from_dict, value_to_dict
from ..domain.prices import Cost, Price, dollars
from ..errors import (
    ContextLengthError,
    FlexChatError,
    MediaLimitError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
    TurnLimitError,
)
from ..plugin.foreign import ForeignError, contained, error_name
from ..plugin.hooks import ModelRequest, ServiceRequest
from ..schema.answer_format import AnswerFormat
from .active import ActiveTurn, ModelTarget, end_replay, report_wait
from .history import explain_length, fit_history
from .media import shown_messages

if TYPE_CHECKING:
    from ..llms.llm import LLM, Attempts
    from .journal import Journal

log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class ModelQuery:
    """What a model is asked in one exchange.

    Attributes:
        target: Who is asked; afterwards, who answered.
        options: Fields of ChatOptions, without tools, response_format and timeout_s: they depend on who is asked.
        offered: Names of the tools offered to the model.
        is_answer: Whether it answers the user: then it is passed on while it is written, if it has a reader.
        at_most_s: Seconds it may take, if fewer than the turn has left, without the waiting for a reader.
    """

    target: ModelTarget
    messages: tuple[Message, ...]
    options: Mapping[str, Any]
    offered: tuple[str, ...] = ()
    answer_format: AnswerFormat | None = None
    is_answer: bool = False
    at_most_s: float | None = None


async def exchange(turn: ActiveTurn, query: ModelQuery) -> tuple[ChatResult, Round]:
    """Ask a model, and return its answer with the record of it.

    If its service cannot be reached or its answer breaks off, the next one on the fallback list is asked, unless part
    of the answer has been delivered or a tool that must not run twice has run.

    Raises:
        TurnTimeoutError: The turn's time has run out; TimeoutError: at_most_s has passed.
        TurnLimitError: The turn has cost enough.
        UnknownLLMError: There is no such entry in llms.
        MediaLimitError: The message has media that the model cannot be sent.
        RequestRefusedError: A plugin refused the request.
        ProviderError: No service answered; ProviderProtocolError: one broke its contract.
    """
    target, parts = query.target, turn.parts
    if turn.journal is not None:
        # Answers are replayed in order and never asked for again: their calls may have run.
        if query.is_answer and (recorded := turn.journal.answer()) is not None:
            return _replay_answer(turn, turn.journal, query, recorded)
        await end_replay(turn)
    failure: ProviderError | None = None
    is_too_long = False
    while True:
        llm, target.model = parts.llms.resolve(target.llm, target.model)
        if parts.hooks.gates_requests:
            await turn.sink.seam()  # gates never run ahead of the reader
        left_s = turn.clock.remaining_s()
        if query.at_most_s is not None:
            left_s = min(query.at_most_s, left_s)
        if left_s <= 0:
            raise turn.clock.timeout_error()
        if query.is_answer:
            turn.clock.activity = "the model's answer"
        try:
            request, history = await _build_request(turn, query, llm, target.model, left_s, is_too_long=is_too_long)
        except MediaLimitError as error:
            if failure is None:
                raise
            turn.warnings.append(f"{target.llm} was not asked instead: {error}")
            if not target.fallback:
                raise failure from None  # the reason why others were tried at all
            target.llm, target.model = target.fallback.pop(0), None
            continue
        if parts.hooks.gates_requests:
            request, warnings = await parts.hooks.before_model_request(request)
            turn.warnings += [warning for warning in warnings if warning not in turn.warnings]
            target.model = request.model
        if parts.has_ceiling:
            await refuse_beyond_limits(turn, llm, target.model)
        if turn.journal is not None:
            found = {} if turn.found is None else {"found": [*turn.found.after(turn.messages)]}
            sent: dict[str, Any] = {"messages": len(request.all_messages), **found}
            turn.journal.add("request", llm=request.llm, model=request.model, **sent)
            # Survives this process from here on: a call of its answer must not exist without the steps that led to it.
            await turn.journal.flush()
        if turn.sink.has_receiver(ModelRequestStarted):
            await turn.sink.announce(
                ModelRequestStarted(
                    info=turn.info,
                    llm=llm.name,
                    model=request.model,
                    messages=request.all_messages,
                    options=request.options,
                    provider=llm.provider.name,
                    endpoint="" if llm.endpoint is None else llm.endpoint.name,
                    streams=query.is_answer and turn.sink.is_read and llm.streams,
                )
            )
        started, attempts = time.perf_counter(), llm.attempts(left_s, request.model)
        request_answer = _request_answer if llm.slots is None else _request_in_slot
        work = request_answer(turn, query, llm, attempts, request)
        # From here to ``settle`` the pieces can be withdrawn, so that another attempt may follow.
        turn.sink.open_answer()
        try:
            result = await (work if query.at_most_s is None else _within(left_s, work))
        except Exception as error:
            # The request's timeout is the rest of the turn's time: either may end first, and both end the turn.
            is_late = isinstance(error, ProviderTimeoutError) and turn.clock.remaining_s() <= 0
            is_lost = isinstance(error, ProviderError) and not attempts.delivered
            # Once: a service that refuses the smaller request as well would refuse any.
            shrinks = is_lost and isinstance(error, ContextLengthError) and history is not None and not is_too_long
            falls_back = shrinks or (is_lost and not is_late and _fall_back(turn, target, cast("ProviderError", error)))
            if falls_back:
                failure = cast("ProviderError", error)
                turn.pieces.clear()
                is_too_long = shrinks
            elif is_lost:  # no other attempt follows: what there is of this answer is all the reader will get
                for piece in _passed_pieces(turn, query):
                    turn.sink.pass_on(piece)
            turn.sink.settle()
            await _report_finished(turn, request, started, attempts, error=error)
            if is_late:
                raise turn.clock.timeout_error() from None
            if not falls_back:
                if is_too_long and isinstance(error, ContextLengthError):
                    raise explain_length(error, turn, request) from None
                raise
            continue
        finally:
            turn.sink.settle()
        elapsed_ms = await _report_finished(turn, request, started, attempts, result=result)
        # Looked up before the answer is recorded, so that a resumed turn has the price of then.
        found_price = await llm.find_price(target.model, result.model)
        price = None if found_price is None else found_price.of(result.usage)
        if query.is_answer and turn.journal is not None:
            turn.journal.add(
                "answer",
                result=value_to_dict(result, turn.journal.media),
                llm=target.llm,
                model=target.model,
                fallback=target.fallback[:],
                elapsed_ms=elapsed_ms,
                price=None if price is None else price.to_dict(),
                asked_for_form=turn.requested_format,
                warnings=turn.warnings[:],
                **({} if history is None else {"history": history}),
            )
        record = _round(query, result, elapsed_ms, price, history)
        # Counted as it arrives, once: a turn that is interrupted and resumed has its answers in both runs.
        parts.add_cost(turn.info.tenant, record.cost)
        return result, record


def _replay_answer(
    turn: ActiveTurn, journal: Journal, query: ModelQuery, recorded: Mapping[str, Any]
) -> tuple[ChatResult, Round]:
    target, price = query.target, recorded.get("price")  # older versions wrote none
    target.llm, target.model, target.fallback = recorded["llm"], recorded["model"], [*recorded["fallback"]]
    turn.requested_format, turn.warnings = recorded["asked_for_form"], [*recorded["warnings"]]
    result, price = journal.decode(ChatResult, recorded["result"]), price and value_from_dict(Price, price)
    return result, _round(query, result, recorded["elapsed_ms"], price, recorded.get("history"))


def _round(
    query: ModelQuery, result: ChatResult, elapsed_ms: float, price: Price | None, history: Mapping[str, Any] | None
) -> Round:
    thoughts, target = "", query.target
    if query.is_answer:
        for part in result.message.parts:
            if type(part) is ReasoningPart:
                thoughts += part.text
    return Round(
        llm=target.llm,
        model=target.model or "",
        elapsed_ms=elapsed_ms,
        finish_reason=result.finish_reason,
        reasoning=thoughts,
        usage=result.usage,
        price=price,
        history=history,
    )


async def request_to(turn: ActiveTurn, query: ModelQuery) -> ModelRequest:
    """Return the first request ``exchange`` would make; no gate is asked, nothing is sent.

    Raises:
        UnknownLLMError, MediaLimitError: As exchange.
    """
    llm, model = turn.parts.llms.resolve(query.target.llm, query.target.model)
    request, _ = await _build_request(turn, query, llm, model, turn.clock.remaining_s(), may_ask=False)
    return request


async def _within(seconds: float, work: Awaitable[ChatResult]) -> ChatResult:
    async with asyncio.timeout(seconds):
        return await work


async def _build_request(
    turn: ActiveTurn,
    query: ModelQuery,
    llm: LLM,
    model: str,
    left_s: float,
    *,
    is_too_long: bool = False,
    may_ask: bool = True,
) -> tuple[ModelRequest, Mapping[str, Any] | None]:
    """Return a request, and the record of what it leaves out of the history; None if no plugin limits that."""
    fields: dict[str, Any] = {**query.options, "timeout_s": left_s}
    if offered := query.offered:
        registry, tools, tool_format = turn.parts.tools.every_tool, turn.tools, llm.provider.tool_format(model)
        # A tool that its source has lost since it was offered is no longer sent.
        if not registry.still_has(tools):
            pairs = [(name, tools.get(name)) for name in offered]
            offered = tuple([name for name, tool in pairs if tool and (tool.is_callers or registry.now(tool))])
        fields["tools"] = tools.wire_tools(tool_format, offered)
        for name, reason in tools.dropped_by(tool_format, offered).items():
            warning = f"'{llm.name}' was not offered {name}: {reason}"
            if warning not in turn.warnings:
                turn.warnings.append(warning)
    if query.answer_format is not None:
        combines = getattr(llm.provider, "combines_tools_and_format", None)
        turn.requested_format = not query.offered or combines is None or combines(model)
        if turn.requested_format:
            fields["response_format"] = query.answer_format.format
    request = ModelRequest.from_messages(
        query.messages, info=turn.info, llm=llm.name, model=model, options=ChatOptions(**fields)
    )
    history = None
    if turn.parts.hooks.fits_history and query.is_answer:
        ask = _ask_beside if may_ask else None
        request, history = await fit_history(turn, request, llm, ask, is_too_long=is_too_long)
    if turn.has_media:
        request = attrs.evolve(request, messages=await shown_messages(turn, request.messages, llm, model))
    return request, history


async def _ask_beside(
    turn: ActiveTurn, llm: str, model: str | None, messages: tuple[Message, ...], max_tokens: int
) -> ChatResult:
    """Ask a model for something that the turn's own answer needs; its cost is the turn's."""
    target = ModelTarget(llm=llm, model=model)
    # Half of the time: the answer itself is still to come.
    at_most_s = turn.clock.remaining_s() / 2
    query = ModelQuery(target=target, messages=messages, options={"max_tokens": max_tokens}, at_most_s=at_most_s)
    result, round_ = await exchange(turn, query)
    turn.rounds.append(round_)
    turn.beside += 1
    return result


async def _request_in_slot(turn: ActiveTurn, query: ModelQuery, llm: LLM, *rest: Any) -> ChatResult:
    assert llm.slots is not None
    activity, turn.clock.activity = turn.clock.activity, f"waiting until '{llm.name}' has fewer requests (max_parallel)"
    asked_at = time.perf_counter()
    async with llm.slots.here():
        turn.clock.activity = activity
        await report_wait(turn, "slot", asked_at)
        return await _request_answer(turn, query, llm, *rest)


async def _request_answer(
    turn: ActiveTurn, query: ModelQuery, llm: LLM, attempts: Attempts, request: ModelRequest
) -> ChatResult:
    """Ask until there is an answer, or an error that another attempt cannot fix."""
    streams, around = query.is_answer and turn.sink.is_read, turn.parts.hooks.around_request
    while True:
        options = attempts.within(request.options)
        try:
            with attempts.watched(), contained():
                if around:
                    send = functools.partial(_send, turn, query, llm, attempts, request, options)
                    result = await turn.parts.hooks.send_around(_service_request(turn, llm, request), send)
                else:
                    result = await _send(turn, query, llm, attempts, request, options)
            if not isinstance(result, ChatResult):
                raise _protocol_error(llm, request.model, f"its answer is {type(result).__name__}, not ChatResult")
        except ProviderError as error:
            # Taken back before the pause of a retry: a reader that comes meanwhile must not get these pieces.
            attempts.delivered = streams and not turn.sink.take_back(len(_passed_pieces(turn, query)))
            failed_at = time.perf_counter()
            if not await attempts.wait_for_retry(error):
                raise
            await report_wait(turn, "retry", failed_at)
            turn.pieces.clear()
        except FlexChatError:
            raise
        except (ForeignError, _BrokenContractError) as error:
            # Without another attempt: a plugin that breaks its contract once will do so again.
            attempts.delivered = attempts.began
            raise _protocol_error(llm, request.model, str(error)) from error
        except Exception as error:
            if query.is_answer:
                raise  # a bug in the provider: its author wants to see it unchanged
            attempts.delivered = attempts.began
            raise _protocol_error(llm, request.model, error_name(error)) from error
        else:
            if streams and not llm.streams:
                if result.content and query.answer_format is None:
                    turn.sink.pass_on(TextDelta(0, result.content))
                turn.sink.pass_on(AnswerEnd(result))
            return result


async def _send(
    turn: ActiveTurn, query: ModelQuery, llm: LLM, attempts: Attempts, request: ModelRequest, options: ChatOptions
) -> Any:
    if query.is_answer and turn.sink.is_read and llm.streams:
        pieces: Any = llm.provider.stream_chat(  # type: ignore[attr-defined]
            request.all_messages, request.model, options
        )
        return await _stream_answer(turn, query, attempts, pieces)
    return await llm.provider.generate_chat(request.all_messages, request.model, options)


def _service_request(turn: ActiveTurn, llm: LLM, request: ModelRequest) -> ServiceRequest:
    rule = None if turn.rule is None else (turn.rule[0], turn.rule[1].name)
    sent: dict[str, Any] = {"messages": request.all_messages, "options": request.options}
    return ServiceRequest(info=turn.info, root=turn.root, llm=llm, model=request.model, rule=rule, **sent)


async def _stream_answer(turn: ActiveTurn, query: ModelQuery, attempts: Attempts, pieces: Any) -> Any:
    """Pass on the pieces of an answer as they arrive; a text whose form is unchecked must not reach the reader."""
    forward, keep, clock, result = turn.sink.pass_on, turn.pieces.append, turn.clock, None
    is_whole, is_quiet, ended = turn.sink.is_whole, query.answer_format is not None, False
    async with aclosing(pieces):
        async for piece in pieces:
            # Set at the first piece: a service whose stream breaks later counts as alive for its breaker.
            attempts.began = True
            if ended:
                raise _BrokenContractError("its stream continues after AnswerEnd")
            if type(piece) is AnswerEnd:
                result, ended = piece.result, True
                if not isinstance(result, ChatResult):
                    return result
            elif clock.remaining_s() <= 0:
                raise clock.timeout_error()
            keep(piece)
            if not is_whole and not (is_quiet and type(piece) is TextDelta) and forward(piece):
                await turn.sink.room()
    # Only after the stream has ended without an error: what is passed on here is never withdrawn.
    if is_whole:
        for piece in turn.pieces:
            if not (is_quiet and type(piece) is TextDelta):
                forward(piece)
    return result


def _passed_pieces(turn: ActiveTurn, query: ModelQuery) -> list[ChatEvent]:
    """Return the pieces of the answer being written that the reader gets at once."""
    if turn.sink.is_whole:
        return []
    return [piece for piece in turn.pieces if query.answer_format is None or type(piece) is not TextDelta]


async def _report_finished(
    turn: ActiveTurn, request: ModelRequest, started: float, attempts: Attempts, **outcome: Any
) -> float:
    elapsed_ms = (time.perf_counter() - started) * 1000
    if turn.sink.has_receiver(ModelRequestFinished):
        outcome |= {"elapsed_ms": elapsed_ms, "attempts": attempts.count}
        await turn.sink.emit(ModelRequestFinished(info=turn.info, llm=request.llm, model=request.model, **outcome))
    return elapsed_ms


def _fall_back(turn: ActiveTurn, target: ModelTarget, error: ProviderError) -> bool:
    """Switch to the next service on the fallback list; return whether there is one."""
    if not error.retryable or not target.fallback:
        return False
    # Another model would see the results, but could decide to repeat the change. The turn fails instead.
    if turn.has_side_effects:
        log.warning("%s failed after a tool with side effects had run: no other service takes over", target.llm)
        return False
    failed, target.llm, target.model = target.llm, target.fallback.pop(0), None
    log.warning("%s: %s; asking %s instead", failed, error, target.llm)
    turn.warnings.append(f"{failed} did not answer ({error}); {target.llm} was asked instead")
    return True


class _BrokenContractError(Exception):
    """A breach of a provider's contract; its text names the breach."""


def _protocol_error(llm: LLM, model: str, how: str) -> ProviderProtocolError:
    name = llm.provider.name
    return ProviderProtocolError(f"the provider {name} broke its contract: {how}", provider=name, model=model)


async def refuse_beyond_limits(turn: ActiveTurn, llm: LLM, model: str) -> None:
    """Raise a TurnLimitError at a ceiling of the turn; what is unknown counts as reached."""
    limits = turn.parts.limits
    # The phases before the answer count as well: their models are paid for by the same turn.
    rounds = [*turn.rounds, *(each for phase in turn.phases for each in phase.rounds)]
    if limits.turn_tokens is not None:
        used = 0
        for each in rounds:
            if each.usage is None or each.usage.input_tokens is None or each.usage.output_tokens is None:
                where = f"{each.llm}/{each.model}"
                raise TurnLimitError(f"limits.turn_tokens cannot be kept: {where} does not report how many it used")
            used += each.usage.input_tokens + each.usage.output_tokens
        if used >= limits.turn_tokens:
            allowed = f"limits.turn_tokens allows {limits.turn_tokens:,}"
            raise TurnLimitError(f"the turn has used {used:,} tokens, and {allowed}")
    if limits.turn_cost is not None:
        price = await llm.find_price(model, None)
        if price is None or price.price is None:
            raise TurnLimitError(
                f"limits.turn_cost cannot be kept, as no price is known for {llm.name}/{model}: set it in "
                f'[llms.{llm.name}.prices."{model}"]'
            )
        spent, most = Cost.total([each.cost for each in rounds]), Decimal(repr(limits.turn_cost))
        if spent.unpriced:
            raise TurnLimitError(f"limits.turn_cost cannot be kept: {spent.unpriced[0]}")
        if spent.known_amount >= most:
            cost = f"the turn has cost ${dollars(spent.known_amount)}"
            raise TurnLimitError(f"{cost}, and limits.turn_cost allows ${dollars(most)}")
