"""One try: puts a case to a model as a user would, and judges the result."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import attrs
from flexchat import ChatResponse, FlexChat, FlexChatError, Message, ToolDefinition, Usage
from flexchat.host import Mask, ResponseRule, RuleTools, error_name
from flexchat.provider import ContentFilterError, ContextLengthError, ModelNotFoundError, ProviderRequestError

from .attempts import Attempt, CallMade, Judgement, ModelKey
from .cases import Case, Price, ValidationTable
from .fingerprint import case_hash
from .judging import judge
from .model_ids import split_model_id
from .reading import aspects_of
from .stand_ins import offered_tools

_NOT_THE_MODELS = frozenset({"not_found", "conflict", "needs_responses_api"})
"""Kinds of refused requests that say something about the configuration, not the model."""


@attrs.frozen(kw_only=True)
class AttemptOutcome:
    """An attempt, and the error that made it inconclusive, if there was one."""

    attempt: Attempt
    error: Exception | None = None


def split_model(chat: FlexChat, model_id: str) -> tuple[str, str]:
    """Return LLM and model of "LLM/MODEL"; the model may contain slashes. "LLM" alone means its default_model.

    Raises:
        UnknownNameError: No such LLM is configured.
        ChatRequestError: No model is named.
    """
    llm, model = chat.llms.resolve(*split_model_id(chat.config.llms, model_id))
    return llm.name, model


async def attempt_case(
    chat: FlexChat,
    model_id: str,
    case: Case,
    table: ValidationTable,
    *,
    key: ModelKey,
    run: str | None = None,
    repetition: int = 0,
) -> AttemptOutcome:
    """Put a case to a model and judge what it does. Whatever goes wrong is in the outcome: nothing is raised.

    An "error" says nothing about the model: its service was unavailable, refused the key, or took too long. A model
    that refuses tools, or whose window is too small, has "failed".

    Args:
        model_id: "LLM/MODEL".
        key: What the attempt is valid for.
    """
    started = time.perf_counter()
    responses: list[ChatResponse] = []
    error: Exception | None = None
    hash_: str | None = None
    try:
        hash_ = case_hash(case, chat.tools.get_registry().list(), table)
        tools = offered_tools(chat, case, run_tools=table.run_tools)
        await _converse(chat, model_id, case, table, tools, responses)
        judged = judge(case, responses)
    except Exception as trouble:  # noqa: BLE001  a plugin may raise anything, and a run goes on
        error = trouble
        judged = Judgement(
            passed=False,
            aspects=dict.fromkeys(aspects_of(case), False) if is_the_models(trouble) else {},
            problems=(_sentence(trouble),),
        )
    usage = _sum(response.usage for response in responses)
    passed, failed = judged.passed, error is None or is_the_models(error)
    return AttemptOutcome(
        attempt=Attempt(
            id=uuid.uuid4().hex,
            key=key,
            outcome="passed" if passed else "failed" if failed else "error",
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            run=run,
            case=case.name,
            case_hash=hash_,
            repetition=repetition,
            aspects=judged.aspects,
            problems=tuple(map(chat.mask, judged.problems)),
            calls=tuple(_calls(responses, chat.mask)),
            content=chat.mask(responses[-1].content) if responses else "",
            usage=usage,
            cost=_cost(usage, table.prices.get(model_id)),
            elapsed_ms=(time.perf_counter() - started) * 1000,
            successes=int(passed),
        ),
        error=error,
    )


async def _converse(
    chat: FlexChat,
    model_id: str,
    case: Case,
    table: ValidationTable,
    tools: Iterable[ToolDefinition],
    responses: list[ChatResponse],
) -> None:
    service, model = split_model(chat, model_id)
    rule = ResponseRule(
        llm=service,
        model=model,
        prompt=table.prompt if case.prompt is None else case.prompt,
        max_tokens=table.max_tokens,
        temperature=table.temperature,
        tools=RuleTools(max_iterations=case.max_iterations),
    )
    asked = chat.with_rule(rule, tools=tools)
    history: tuple[Message, ...] = ()
    for message in [turn.message for turn in case.turns] or [case.message or ""]:
        response = (await asked.respond(message, history=history)).response
        responses.append(response)
        history += response.messages


def is_the_models(error: Exception) -> bool:
    """Return whether an error says something about the model: it does not accept what a case must send."""
    if isinstance(error, (ContextLengthError, ContentFilterError)):
        return True
    if not isinstance(error, ProviderRequestError) or isinstance(error, ModelNotFoundError):
        return False
    return error.kind not in _NOT_THE_MODELS and error.status not in (404, 409)


def _sentence(error: Exception) -> str:
    if isinstance(error, FlexChatError):
        return str(error) or type(error).__name__
    return f"internal error: {error_name(error)}"


def _sum(usages: Iterable[Usage | None]) -> Usage | None:
    known = [usage for usage in usages if usage is not None]
    return sum(known[1:], start=known[0]) if known else None


def _cost(usage: Usage | None, price: Price | None) -> float | None:
    if price is None or usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1_000_000


def _calls(responses: Iterable[ChatResponse], mask: Mask) -> Iterable[CallMade]:
    for turn, response in enumerate(responses):
        for record in response.tool_calls or ():
            yield CallMade(
                tool=record.tool,
                params=_masked(record.params, mask),
                result=_masked(record.result.to_dict(), mask),
                turn=turn,
                iteration=record.iteration,
                raw_arguments=None if record.raw_arguments is None else mask(record.raw_arguments),
            )


def _masked(value: Any, mask: Mask) -> Any:
    """Return JSON data with every text in it masked."""
    match value:
        case str():
            return mask(value)
        case Mapping():
            return {name: _masked(inner, mask) for name, inner in value.items()}
        case list() | tuple():
            return [_masked(inner, mask) for inner in value]
    return value
