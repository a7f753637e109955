"""One question to a model: for the answer, a topic, an intent, a structured answer. All of them ask here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import attrs

from ..domain import (
    AnswerEnd,
    ChatEvent,
    ChatOptions,
    ChatResult,
    MediaPart,
    Message,
    ModelRequestFinished,
    ModelRequestStarted,
    TextDelta,
    ToolMessage,
)
from ..domain.codec import value_from_dict, value_to_dict
from ..domain.media import with_accepted_media
from ..domain.prices import Price
from ..errors import FlexChatError, ProviderError, ProviderProtocolError, ProviderTimeoutError
from ..plugin.contracts import ChatProvider
from ..plugin.foreign import ForeignError, contained, error_name
from ..plugin.hooks import ModelRequest
from ..schema.answer_format import AnswerFormat
from .active import ActiveTurn, Candidates, go_on
from .budget import refuse_beyond_limits
from .journal import Journal

if TYPE_CHECKING:
    from ..llms.llm import LLM, Attempts

log = logging.getLogger(__name__)


async def exchange(
    turn: ActiveTurn,
    who: Candidates,
    messages: tuple[Message, ...],
    options: ChatOptions,
    *,
    offered: tuple[str, ...] = (),
    form: AnswerFormat | None = None,
    is_answer: bool = False,
    at_most_s: float | None = None,
) -> tuple[ChatResult, float, Price | None]:
    """Ask a model, and return its answer, the milliseconds it took and the price of the model that gave it.

    If its service cannot be reached or its answer breaks off, the next one on the fallback list is asked, unless part
    of the answer has been delivered or a tool that must not run twice has run.

    Args:
        who: Who is asked; afterwards, who answered.
        options: Without tools, response_format and timeout_s: they depend on who is asked.
        offered: Names of the tools offered to the model.
        is_answer: Whether it answers the user: then it is passed on while it is written, if it has a reader.
        at_most_s: Seconds it may take, if fewer than the turn has left. Time spent waiting for a reader does not
            count.

    Raises:
        TurnTimeoutError: The turn's time has run out; TimeoutError: at_most_s has passed.
        TurnLimitError: The turn has cost enough.
        UnknownLLMError: There is no such entry in llms.
        RequestRefusedError: A plugin refused the request.
        ProviderError: No service answered; ProviderProtocolError: one broke its contract.
    """
    if turn.journal is not None:
        # Answers are replayed in order and never asked for again: their calls may have run.
        if is_answer and (recorded := turn.journal.answer()) is not None:
            return _as_recorded(turn, who, recorded)
        await go_on(turn)
    while True:
        llm, who.model = turn.parts.llms.resolve(who.llm, who.model)
        if turn.parts.hooks.gates_requests:
            await turn.sink.seam()  # gates never run ahead of the reader
        left = turn.clock.left() if at_most_s is None else min(at_most_s, turn.clock.left())
        if left <= 0:
            raise turn.clock.too_late()
        if is_answer:
            turn.clock.doing = "the model's answer"
        asked = _asked(turn, llm, who.model, options, offered, form, left)
        said = _shown(messages, llm, who.model) if turn.has_media else messages
        request = ModelRequest(info=turn.info, llm=llm.name, model=who.model, messages=said, options=asked)
        if turn.parts.hooks.gates_requests:
            request = await turn.parts.hooks.before_model_request(request)
            who.model = request.model
        if turn.parts.has_ceiling:
            await refuse_beyond_limits(turn, llm, who.model)
        if turn.journal is not None:
            turn.journal.add("request", llm=request.llm, model=request.model, messages=len(messages))
            # Survives this process from here on: a call of its answer must not exist without the steps that led to it.
            await turn.journal.flush()
        if turn.sink.wants(ModelRequestStarted):
            await turn.sink.begin(_started(request))
        started, attempts = time.perf_counter(), llm.attempts(left, request.model)
        answered = _answered if llm.slots is None else _answered_in_a_slot
        work = answered(turn, llm, attempts, request, is_answer=is_answer, is_quiet=form is not None)
        # From here to ``settle`` the pieces can be withdrawn, so that another attempt may follow.
        turn.sink.open_answer()
        try:
            result = await (work if at_most_s is None else _within(left, work))
        except Exception as error:
            # The request's timeout is the rest of the turn's time: either may end first, and both end the turn.
            is_late = isinstance(error, ProviderTimeoutError) and turn.clock.left() <= 0
            is_lost = isinstance(error, ProviderError) and not attempts.delivered
            falls_back = is_lost and not is_late and _fall_back(turn, who, cast("ProviderError", error))
            if falls_back:
                turn.pieces.clear()
            elif is_lost:  # no other attempt follows: what there is of this answer is all the reader will get
                for piece in _passed_on(turn, form is not None):
                    turn.sink.delta(piece)
            turn.sink.settle()
            await _finished(turn, request, started, error=error)
            if is_late:
                raise turn.clock.too_late() from None
            if not falls_back:
                raise
            continue
        finally:
            turn.sink.settle()
        elapsed_ms = await _finished(turn, request, started, result=result)
        # Looked up before the answer is recorded, so that a resumed turn has the price of then.
        known = await llm.find_price(who.model, result.model)
        price = None if known is None else known.of(result.usage)
        if is_answer and turn.journal is not None:
            _record(turn, turn.journal, who, result, elapsed_ms, price)
        return result, elapsed_ms, price


def _record(
    turn: ActiveTurn, journal: Journal, who: Candidates, result: ChatResult, elapsed_ms: float, price: Price | None
) -> None:
    journal.add(
        "answer",
        result=value_to_dict(result),
        llm=who.llm,
        model=who.model,
        fallback=who.fallback[:],
        elapsed_ms=elapsed_ms,
        price=None if price is None else price.to_dict(),
        asked_for_form=turn.asked_for_form,
        warnings=turn.warnings[:],
    )


def _as_recorded(
    turn: ActiveTurn, who: Candidates, recorded: Mapping[str, Any]
) -> tuple[ChatResult, float, Price | None]:
    who.llm, who.model, who.fallback = recorded["llm"], recorded["model"], [*recorded["fallback"]]
    turn.asked_for_form, turn.warnings = recorded["asked_for_form"], [*recorded["warnings"]]
    result, price = value_from_dict(ChatResult, recorded["result"]), recorded.get("price")  # older versions wrote none
    return result, recorded["elapsed_ms"], None if price is None else value_from_dict(Price, price)


def request_to(
    turn: ActiveTurn,
    who: Candidates,
    messages: tuple[Message, ...],
    options: ChatOptions,
    *,
    offered: tuple[str, ...] = (),
    form: AnswerFormat | None = None,
) -> ModelRequest:
    """Return the first request ``exchange`` would make; no gate is asked, and nothing is sent.

    Raises:
        UnknownLLMError: There is no such entry in llms.
    """
    llm, model = turn.parts.llms.resolve(who.llm, who.model)
    asked = _asked(turn, llm, model, options, offered, form, turn.clock.left())
    said = _shown(messages, llm, model) if turn.has_media else messages
    return ModelRequest(info=turn.info, llm=llm.name, model=model, messages=said, options=asked)


async def _within(seconds: float, work: Awaitable[ChatResult]) -> ChatResult:
    async with asyncio.timeout(seconds):
        return await work


def _started(request: ModelRequest) -> ModelRequestStarted:
    return ModelRequestStarted(
        info=request.info, llm=request.llm, model=request.model, messages=request.messages, options=request.options
    )


def _asked(
    turn: ActiveTurn,
    llm: LLM,
    model: str,
    options: ChatOptions,
    offered: tuple[str, ...],
    form: AnswerFormat | None,
    left: float,
) -> ChatOptions:
    changes: dict[str, Any] = {"timeout_s": left}
    if offered:
        known, tools, tool_format = turn.parts.tools.get_registry(), turn.tools, llm.provider.tool_format(model)
        # A tool that its source has lost since it was offered is no longer sent.
        still_there = offered
        if not known.still_has(tools):
            still_there = tuple(
                [name for name in offered if (tool := tools.get(name)) is not None and known.now(tool) is not None]
            )
        changes["tools"] = tools.wire_tools(tool_format, still_there)
        for name, reason in tools.dropped_by(tool_format, still_there).items():
            warning = f"'{llm.name}' was not offered {name}: {reason}"
            if warning not in turn.warnings:
                turn.warnings.append(warning)
    if form is not None:
        combines = getattr(llm.provider, "combines_tools_and_format", None)
        turn.asked_for_form = not offered or combines is None or combines(model)
        if turn.asked_for_form:
            changes["response_format"] = form.format
    return attrs.evolve(options, **changes)


def _shown(messages: tuple[Message, ...], llm: LLM, model: str) -> tuple[Message, ...]:
    """Return the messages with media in results only where the model can be shown them."""
    takes = getattr(llm.provider, "takes_in_results", None)

    def taken(part: MediaPart) -> bool:
        return takes is not None and part.data is not None and bool(takes(model, part))

    return tuple(
        [with_accepted_media(each, taken) if type(each) is ToolMessage and each.media else each for each in messages]
    )


async def _answered_in_a_slot(turn: ActiveTurn, llm: LLM, *rest: Any, **choices: Any) -> ChatResult:
    assert llm.slots is not None
    doing, turn.clock.doing = turn.clock.doing, f"waiting until '{llm.name}' has fewer requests (max_parallel)"
    async with llm.slots.here():
        turn.clock.doing = doing
        return await _answered(turn, llm, *rest, **choices)


async def _answered(
    turn: ActiveTurn, llm: LLM, attempts: Attempts, request: ModelRequest, *, is_answer: bool, is_quiet: bool
) -> ChatResult:
    """Ask until there is an answer, or an error that another attempt cannot cure."""
    streams = is_answer and turn.sink.is_read
    while True:
        options = attempts.within(request.options)
        try:
            with attempts.watched(), contained():
                if streams and llm.streams:
                    pieces: Any = llm.provider.stream_chat(  # type: ignore[attr-defined]
                        request.messages, request.model, options
                    )
                    result = await _streamed(turn, attempts, pieces, is_quiet)
                else:
                    result = await llm.provider.generate_chat(request.messages, request.model, options)
            if not isinstance(result, ChatResult):
                raise _broken(llm, request.model, f"its answer is {type(result).__name__}, not ChatResult")
        except ProviderError as error:
            # Taken back before the pause of a retry: a reader that comes meanwhile must not get these pieces.
            attempts.delivered = not turn.sink.take_back(len(_passed_on(turn, is_quiet))) if streams else False
            if not await attempts.again(error):
                raise
            turn.pieces.clear()
        except FlexChatError:
            raise
        except (ForeignError, _BrokenContractError) as error:
            # Without another attempt: a plugin that breaks its contract once will do so again.
            attempts.delivered = attempts.began
            raise _broken(llm, request.model, str(error)) from error
        except Exception as error:
            if is_answer:
                raise  # a bug in the provider: its author wants to see it unchanged
            attempts.delivered = attempts.began
            raise _broken(llm, request.model, error_name(error)) from error
        else:
            if streams and not llm.streams:
                if result.content and not is_quiet:
                    turn.sink.delta(TextDelta(0, result.content))
                turn.sink.delta(AnswerEnd(result))
            return result


async def _streamed(turn: ActiveTurn, attempts: Attempts, pieces: Any, is_quiet: bool) -> Any:
    """Pass on the pieces of an answer as they arrive.

    Args:
        is_quiet: Hold texts back: an answer whose form is unchecked must not reach the reader.
    """
    pass_on, kept, clock, result = turn.sink.delta, turn.pieces.append, turn.clock, None
    is_whole, ended = turn.sink.is_whole, False
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
            elif clock.left() <= 0:
                raise clock.too_late()
            kept(piece)
            if not is_whole and not (is_quiet and type(piece) is TextDelta) and pass_on(piece):
                await turn.sink.room()
    # Only after the stream has ended without an error: what is passed on here is never withdrawn.
    if is_whole:
        for piece in turn.pieces:
            if not (is_quiet and type(piece) is TextDelta):
                pass_on(piece)
    return result


def _passed_on(turn: ActiveTurn, is_quiet: bool) -> list[ChatEvent]:
    """Return the pieces of the answer being written that the reader gets at once."""
    if turn.sink.is_whole:
        return []
    return [piece for piece in turn.pieces if not (is_quiet and type(piece) is TextDelta)]


async def _finished(
    turn: ActiveTurn,
    request: ModelRequest,
    started: float,
    *,
    result: ChatResult | None = None,
    error: Exception | None = None,
) -> float:
    elapsed_ms = (time.perf_counter() - started) * 1000
    if turn.sink.wants(ModelRequestFinished):
        await turn.sink.tell(
            ModelRequestFinished(
                info=turn.info,
                llm=request.llm,
                model=request.model,
                elapsed_ms=elapsed_ms,
                result=result,
                error=error,
            )
        )
    return elapsed_ms


def _fall_back(turn: ActiveTurn, who: Candidates, error: ProviderError) -> bool:
    """Switch to the next service on the fallback list; return whether there is one."""
    if not error.retryable or not who.fallback:
        return False
    # Another model would see the results, but could decide to repeat the change. The turn fails instead.
    if turn.wrote:
        log.warning("%s failed after a tool with side effects had run: no other service takes over", who.llm)
        return False
    failed, who.llm, who.model = who.llm, who.fallback.pop(0), None
    log.warning("%s: %s; asking %s instead", failed, error, who.llm)
    turn.warnings.append(f"{failed} did not answer ({error}); {who.llm} was asked instead")
    return True


class _BrokenContractError(Exception):
    """A breach of a provider's contract; its text names the breach."""


def _broken(llm: LLM, model: str, how: str) -> ProviderProtocolError:
    provider: ChatProvider = llm.provider
    text = f"the provider {provider.name} broke its contract: {how}"
    return ProviderProtocolError(text, provider=provider.name, model=model)
