"""Running one turn of a configured FlexChat for LangChain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import attrs
from flexchat import (
    AnswerEnd,
    AssistantMessage,
    ChatRequest,
    FlexChat,
    Message,
    NoMatchingRuleError,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallRecord,
    ToolDefinition,
    ToolFinished,
    ToolMessage,
    Turn,
    TurnFinished,
    Usage,
)
from flexchat.host import ResponseRule, RuleTools, for_the_model, message_to_dict, substitute_variables
from flexchat_sdk import TextPart

from .messages import CARRIED
from .questions import INSIDE, METADATA, TurnInput


@attrs.frozen(kw_only=True)
class Answer:
    """The result of one turn.

    Attributes:
        message: The model's last message; its calls are for the caller to run.
        inside: Earlier messages of the turn.
        text: The text for the user: that of *message*, or its replacement.
        metadata: Topic, intent, rule, service and other details of the turn.
    """

    message: AssistantMessage
    inside: tuple[Message, ...]
    text: str
    finish_reason: str | None
    model: str
    usage: Usage | None
    metadata: Mapping[str, Any]

    def fields(self) -> dict[str, Any]:
        """Return the AIMessage fields other than content and calls."""
        extra: dict[str, Any] = {}
        is_text = all(isinstance(part, TextPart) and part.provider_data is None for part in self.message.parts)
        if self.inside or not is_text or self.message.provider_data is not None:
            extra[CARRIED] = message_to_dict(self.message)
        if self.inside:
            extra[INSIDE] = [message_to_dict(message) for message in self.inside]
        return {
            "additional_kwargs": extra,
            "usage_metadata": _usage(self.usage),
            "response_metadata": {
                "finish_reason": self.finish_reason,
                "model_name": self.model,
                METADATA: dict(self.metadata),
            },
        }


async def answer(chat: FlexChat, question: TurnInput) -> Answer:
    """Run a turn and return its answer. Raises the errors of FlexChat.respond."""
    if _is_plain(question):
        turn = await chat.respond(_request(question), response_format=question.response_format)
        return _ended(turn, question)
    async with aclosing(pieces(chat, question)) as parts:
        async for piece in parts:
            if isinstance(piece, Answer):
                return piece
    raise AssertionError("a turn ends with an answer")


async def pieces(chat: FlexChat, question: TurnInput) -> AsyncGenerator[str | Answer, None]:
    """Run a turn; yield the text as it arrives and, last, the Answer. Raises the errors of FlexChat.stream.

    An empty line separates the texts of several answers of one turn. With a response format the text is yielded at the
    end, because an invalid answer is replaced by a second one.
    """
    if _is_plain(question):
        async with aclosing(_run_turn(chat, question)) as plain:
            async for piece in plain:
                yield piece
        return
    # The phases select the rule; the turn uses only this rule, with the caller's tools added.
    explanation = await chat.explain(_request(question))
    profile = explanation.profile
    if explanation.rule is None:
        raise NoMatchingRuleError(profile.topic)
    rule = chat.config.responses[explanation.rule]
    await chat.tools.ready_for(rule)  # else tools of sources that were never opened would be missing
    prompt = substitute_variables(rule.prompt, profile, chat.config.variables)
    tried = chat.with_rule(_rule(rule, question), tools=[*_own(chat, rule, question), *question.bound])
    start = (SystemMessage(content=prompt),) if prompt else ()
    details = {"topic": profile.topic, "intent": profile.intent, "rule": explanation.rule}
    continued = attrs.evolve(question, history=(*start, *question.history))
    async with aclosing(_run_turn(tried, continued, details)) as events:
        async for piece in events:
            yield piece


async def _run_turn(
    chat: FlexChat, question: TurnInput, details: Mapping[str, Any] | None = None
) -> AsyncGenerator[str | Answer, None]:
    has_text = between = False
    progress = _Progress(chat, question, details or {})
    events = chat.stream(_request(question), response_format=question.response_format)
    async with aclosing(events):
        async for event in events:
            match event:
                case TextDelta(text=text) if text and question.response_format is None:
                    yield f"\n\n{text}" if between else text
                    has_text, between = True, False
                case AnswerEnd():
                    between = has_text and not event.result.is_paused
                    result = progress.add(event)
                    if result is not None:
                        yield result
                        return  # Nothing has run yet: the tools of an answer run after its AnswerEnd.
                case ToolFinished(record=record):
                    progress.records.append(record)
                case TurnFinished(turn=turn):
                    yield _ended(turn, question, details)


class _Progress:
    """The state of an unfinished turn."""

    def __init__(self, chat: FlexChat, question: TurnInput, details: Mapping[str, Any]) -> None:
        self._chat, self._question, self._known = chat, question, details
        self._rule = chat.config.responses[0]
        self._offer = chat.tools.offer_to(self._rule) if question.bound else None
        self._bound = {(tool.source, tool.name) for tool in question.bound}
        self._last: AssistantMessage | None = None
        self._usage: Usage | None = None
        self._inside: list[Message] = []
        self._before: list[ToolCallRecord] = []
        self.records: list[ToolCallRecord] = []

    def add(self, end: AnswerEnd) -> Answer | None:
        """Add an answer of the model; return the turn's Answer if it contains calls for the caller."""
        result = end.result
        self._inside += self._round()
        # An answer without calls that does not pause is followed by another request, which repeats it.
        is_kept = bool(result.tool_calls) or result.finish_reason == "pause"
        self._last = result.message if is_kept else None
        if result.usage is not None:
            self._usage = result.usage if self._usage is None else self._usage + result.usage
        callers = [call for call in result.tool_calls if self._is_callers(call)]
        if not callers or result.finish_reason in ("content_filter", "refusal"):
            return None
        others = [call for call in result.tool_calls if call not in callers]
        # Calls of one answer run either in the caller or here; the model repeats the dropped ones.
        parts = tuple(part for part in result.message.parts if part not in others)
        left_out = [f"a call of {call.name} beside the caller's tools was left out" for call in others]
        model = result.model or self._chat.llms.resolve(self._rule.llm, self._rule.model)[1]
        return Answer(
            message=attrs.evolve(result.message, parts=parts),
            inside=tuple(self._inside),
            text=result.content or "",
            finish_reason=result.finish_reason,
            model=model,
            usage=self._usage,
            metadata={
                **self._known,
                "service": self._rule.llm,
                "tool_calls": [record.to_dict() for record in self._before],
                "warnings": [*result.warnings, *left_out, *self._question.warnings],
            },
        )

    def _is_callers(self, call: ToolCall) -> bool:
        # An unreadable call stays in the turn, which returns an error so that the model corrects it.
        if call.error is not None or self._offer is None:
            return False
        # By source and name: a source may have a tool of the same name.
        tool = self._offer.get(self._offer.name_of(call.name))
        return tool is not None and (tool.source, tool.name) in self._bound

    def _round(self) -> list[Message]:
        if self._last is None:
            return []
        cap = self._chat.tools.table.max_result_chars
        by_id = {record.call_id: record.result for record in self.records}
        self._before += self.records
        self.records = []
        answers = [
            ToolMessage(
                tool_call_id=call.id,
                name=call.name,
                content=for_the_model(by_id[call.id], cap, call.name),
                is_error=not by_id[call.id].success,
                media=by_id[call.id].media,
            )
            for call in self._last.tool_calls
            if call.id in by_id
        ]
        return [self._last, *answers]


def _is_plain(question: TurnInput) -> bool:
    return not (question.options or question.bound or question.parallel is not None)


def _request(question: TurnInput) -> ChatRequest:
    return ChatRequest(
        user_message=question.message,
        history=question.history,
        topic=question.topic,
        continuation=question.continuation,
    )


def _rule(rule: ResponseRule, question: TurnInput) -> ResponseRule:
    own = rule.tools or RuleTools()
    tools = attrs.evolve(
        own,
        enabled=True,
        allowed_tools=None,
        choice="required" if question.choice == "required" else own.choice,
        parallel=own.parallel if question.parallel is None else question.parallel,
    )
    options = dict(question.options)
    stop = options.pop("stop", rule.stop)
    options["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return attrs.evolve(rule, match={}, prompt="", tools=tools, **options)


def _own(chat: FlexChat, rule: ResponseRule, question: TurnInput) -> list[ToolDefinition]:
    """Return the configured tools that this rule offers, except those the caller's tools override by name."""
    if question.choice == "required":
        return []
    offer = chat.tools.offer_to(rule)
    bound = {tool.name for tool in question.bound}
    return [tool for tool in offer.list() if offer.wire_name(tool.name) not in bound]


def _ended(turn: Turn, question: TurnInput, details: Mapping[str, Any] | None = None) -> Answer:
    response = turn.response
    inside = list(response.messages[1 + len(question.continuation) :])
    last = inside.pop() if inside and isinstance(inside[-1], AssistantMessage) else None
    message = last if isinstance(last, AssistantMessage) and (last.content or "") == turn.content else None
    return Answer(
        message=message or AssistantMessage(parts=(TextPart(text=turn.content),)),
        inside=tuple(inside),
        text=turn.content,
        finish_reason=response.finish_reason,
        model=response.model,
        usage=response.usage,
        metadata={
            "id": turn.id,
            "topic": turn.profile.topic,
            "intent": turn.profile.intent,
            "rule": turn.rule,
            "service": response.llm,
            "tool_calls": [record.to_dict() for record in response.tool_calls or ()],
            "citations": [citation.to_dict() for citation in turn.citations],
            "warnings": [*response.warnings, *question.warnings],
            **({"max_iterations_reached": True} if response.max_iterations_reached else {}),
            **(details or {}),
        },
    )


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    read = {"cache_read": usage.cache_read_tokens, "cache_creation": usage.cache_write_tokens}
    output = {"reasoning": usage.reasoning_tokens}
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_token_details": {key: count for key, count in read.items() if count is not None},
        "output_token_details": {key: count for key, count in output.items() if count is not None},
    }
