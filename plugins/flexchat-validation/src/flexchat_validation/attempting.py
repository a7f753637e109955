"""One attempt: sends a case to a model as a user would, and judges the result."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import flexchat
import flexchat_sdk as sdk
from flexchat import FlexChat, FlexChatError, ToolDefinition, Turn
from flexchat.host import Mask, ResponseRule, RuleTools, did_you_mean, error_name, with_stand_in
from flexchat.plugin import Implementation

from .attempts import Attempt, CallMade, Judgement, ModelKey, now
from .cases import Case, ToolMock, ValidationTable
from .fingerprint import case_hash, open_tools
from .judging import judge
from .pricing import cost_of, cost_of_turns
from .reading import aspects_of, split_model_id
from .summary import total_usage

_NOT_THE_MODELS = frozenset({"not_found", "conflict", "needs_responses_api"})
"""Kinds of refused requests that are faults of the configuration, not of the model."""


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
    """Run a case with a model and judge the result. Every error is part of the outcome: nothing is raised.

    An "error" is no evidence about the model: its service was unavailable or refused the key. A model that refuses
    tools, whose window is too small, or that does not answer in time, has "failed".

    Args:
        model_id: "LLM/MODEL".
        key: The model, plugin and tools for which the attempt is valid.
    """
    started = time.perf_counter()
    turns: list[Turn] = []
    error: Exception | None = None
    hash_: str | None = None
    try:
        await open_tools(chat)
        hash_ = case_hash(case, chat.tools.get_registry().list(), table)
        tools = offered_tools(chat, case, run_tools=table.run_tools)
        await _converse(chat, model_id, case, table, tools, turns)
        judged = judge(case, [turn.response for turn in turns])
    except Exception as trouble:  # noqa: BLE001  a plugin may raise anything, and a run goes on
        error = trouble
        judged = Judgement(
            passed=False,
            aspects=dict.fromkeys(aspects_of(case), False) if is_the_models(trouble) else {},
            problems=(_sentence(trouble),),
        )
    responses = [turn.response for turn in turns]
    usage, price = total_usage(response.usage for response in responses), table.prices.get(model_id)
    passed, failed = judged.passed, error is None or is_the_models(error)
    return AttemptOutcome(
        attempt=Attempt(
            id=uuid.uuid4().hex,
            key=key,
            outcome="passed" if passed else "failed" if failed else "error",
            at=now(),
            run=run,
            case=case.name,
            case_hash=hash_,
            repetition=repetition,
            aspects=judged.aspects,
            problems=tuple(map(chat.mask, judged.problems)),
            calls=tuple(_calls(responses, chat.mask)),
            content=chat.mask(responses[-1].content) if responses else "",
            usage=usage,
            cost=cost_of_turns([turn.cost for turn in turns]) if price is None else cost_of(usage, price),
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
    turns: list[Turn],
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
    trial = chat.with_rule(rule, tools=tools)
    history: tuple[flexchat.Message, ...] = ()
    for message in [turn.message for turn in case.turns] or [case.message or ""]:
        turn = await trial.respond(message, history=history)
        turns.append(turn)
        history += turn.response.messages


def is_the_models(error: Exception) -> bool:
    """Return whether an error counts against the model: it refuses what a case must send, or takes too long."""
    if isinstance(error, (sdk.ContextLengthError, sdk.ContentFilterError)) or is_late(error):
        return True
    if not isinstance(error, sdk.ProviderRequestError) or isinstance(error, sdk.ModelNotFoundError):
        return False
    return error.kind not in _NOT_THE_MODELS and error.status not in (404, 409)


def is_late(error: Exception | None) -> bool:
    """Return whether a model was asked and did not answer in time."""
    if isinstance(error, sdk.ProviderTimeoutError):
        return error.code != sdk.NO_CONNECTION
    return isinstance(error, flexchat.TurnTimeoutError)


def _sentence(error: Exception) -> str:
    if isinstance(error, FlexChatError):
        return str(error) or type(error).__name__
    return f"internal error: {error_name(error)}"


def _calls(responses: Iterable[flexchat.ChatResponse], mask: Mask) -> Iterable[CallMade]:
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


ACCEPTED = {"success": True}
"""The answer of a tool that is not run: success, and nothing else."""


def offered_tools(chat: FlexChat, case: Case, *, run_tools: bool = False) -> list[ToolDefinition]:
    """Return the tools a case offers, with replacements for those that must not run.

    A case's mocks answer for their tools. Its own tools, and those of the config whose effect is not "read", answer
    {"success": true}; run_tools lets those of the config run.

    Raises:
        ChatRequestError: The case names a tool that does not exist.
        ToolClashError: Two of the config's have one name.
        ToolDefinitionError: One of its own is invalid.
    """
    registry = chat.tools.get_registry()
    config_tools = [] if case.tools == () else registry.offer(case.tools).list()
    available = {tool.name for tool in config_tools} | {f"{tool.source}/*" for tool in config_tools}
    for name in case.tools or ():
        if name not in available:
            hint = did_you_mean(name, registry.names())
            raise flexchat.ChatRequestError(f"case '{case.name}': no tool is called '{name}'{hint}")
    tools = {tool.name: tool if run_tools else without_effect(tool) for tool in config_tools}
    for own in case.own_tools:
        definition = ToolDefinition(
            name=own.name,
            description=own.description,
            parameters=own.parameters,
            implementation=Implementation(type="python"),
        )
        tools[own.name] = with_stand_in(_accept, definition)
    mocked = {name: with_stand_in(_Mocked(mock), tools[name]) for name, mock in case.mocks.items() if name in tools}
    return [*(tools | mocked).values()]


def may_run(tool: ToolDefinition) -> bool:
    """Return whether a tool runs without a person: it changes nothing and needs no approval."""
    return tool.effect == "read" and not tool.approve


def without_effect(tool: ToolDefinition) -> ToolDefinition:
    """Return a tool that changes nothing: one that only reads runs, another answers with ACCEPTED."""
    return tool if may_run(tool) else with_stand_in(_accept, tool)


def _accept(params: Mapping[str, Any]) -> Any:
    return ACCEPTED


class _Mocked:
    """A mock's answers, call after call: its error as often as configured, then its result."""

    def __init__(self, mock: ToolMock) -> None:
        self._mock = mock
        self._failed = 0

    def __call__(self, params: Mapping[str, Any]) -> Any:
        if self._mock.error is not None and (self._mock.times is None or self._failed < self._mock.times):
            self._failed += 1
            raise RuntimeError(self._mock.error)
        return self._mock.result
