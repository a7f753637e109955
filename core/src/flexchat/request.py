"""Builds a ChatRequest from what a caller passes in."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict, get_args

import attrs

from .attachments import Attachment, listed
from .config.model import ResponseRule, RuleTools
from .config.own_variables import variable_problem
from .domain import (
    AssistantMessage,
    ChatRequest,
    CollectionChoice,
    Effort,
    Message,
    Principal,
    Reasoning,
    ToolChoice,
    ToolMessage,
)
from .domain.copies import copied, with_own_tables
from .domain.history import entries_of, read_history
from .domain.questions import OnQuestion
from .domain.text import scrub
from .domain.tools import CALLER, Implementation, ToolDefinition
from .errors import ChatRequestError, ToolDefinitionError, UnknownNameError, did_you_mean
from .schema.limits import schema_problems

MAX_KEY_CHARS = 255  # of a caller's key


class CommonRequestOptions(TypedDict, total=False):
    """The keywords of respond, stream and explain that describe a message: the fields of a ChatRequest.

    attachments: Images, sounds, videos, PDFs and texts of the message, which may then be empty: paths, http(s)
        addresses, bytes, open files, MediaParts, StoredMedia. Their type is detected from their bytes.
    history: Earlier messages: ``turn.response.messages`` of earlier turns, chained, or {role, content}. Follows
        the history of a ChatRequest.
    topic: What the conversation was about so far: ``turn.profile.topic`` of the last turn.
    collections: Where to search for documents, as "STORE/COLLECTION" or "STORE"; default: everywhere.
    continuation: What already followed the message: calls whose tools the caller has run, and their results. In a kept
        conversation, the results alone: of the calls with which its last turn ended. The message is that turn's.
    caller_tools: Tools that you run, as ToolDefinitions or in OpenAI's form: the model is offered them beside the
        rule's. If it calls one, the turn ends with ``response.calls``; their results are the next turn's continuation.
    variables: What prompts show as {{name}}, in addition to the profile's fields; overrides the config's ``variables``.
    conversation: Id of a kept conversation (the config's ``conversations``), which this turn continues and is added
        to, however it ends; a new id starts a conversation. See ``new_conversation_id``.
    tenant: Whose conversation it is.
    principal: On whose behalf the turn runs, as your program has established it: Principal("ann", ["support"]). Needed
        if the config has ``roles``.
    context: Whatever tools and policies should get, of any type; never shown to a model, never kept.
    on_question: A function, async or not, that asks the person behind the turn what a tool wants to know: it gets a
        Question, and returns a Reply, or None if no one can be asked. Without it, questions are declined.
    idempotency_key: Makes the same request the same turn, for 24 hours: a repetition gets the answer of the first, and
        nothing runs twice. Your own, for each request another: 1 to 255 printable characters; tenants have their own.
    traceparent: The W3C trace context that the turn belongs to; default: that of the code around it, or a new trace.
        One that cannot be used begins a new trace, and a warning of the response notes it.
    tracestate: What tracing systems add to that traceparent. It is passed on with it, or dropped if it is malformed.

    The others are options of the rule that answers, for this message only, checked as in a config:

    max_tokens, temperature, top_p, stop, seed, extra_body: As in a rule. stop: one text or several.
    reasoning: How much the model thinks first: "none", "low", "high", …, or a Reasoning.
    tool_choice: "required": the model must call a tool before it may answer. "none": it must not call any. The name of
        one of caller_tools: it must call that one.
    parallel_tool_calls: Whether one answer may contain several calls.
    max_iterations: Answers of the model that may ask for tools; 1 to 50.
    approve: Whether on_question must approve each call of a tool before it runs. Tools and rules that require this
        keep requiring it.
    pin: Whether the message stays in every later request of its conversation, however much of the history is left out.
    """

    attachments: Attachment | Iterable[Attachment]
    history: Iterable[Message | Mapping[str, Any]]
    topic: str | None
    collections: Iterable[str | CollectionChoice] | None
    continuation: Iterable[Message | Mapping[str, Any]]
    caller_tools: Iterable[ToolDefinition | Mapping[str, Any]]
    variables: Mapping[str, Any] | None
    conversation: str | None
    tenant: str
    principal: Principal | None
    context: Any
    on_question: OnQuestion | None
    idempotency_key: str | None
    traceparent: str | None
    tracestate: str | None
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: str | Sequence[str] | None
    seed: int | None
    reasoning: Effort | Reasoning | None
    extra_body: Mapping[str, Any] | None
    tool_choice: ToolChoice | str | None
    parallel_tool_calls: bool | None
    max_iterations: int | None
    approve: bool | None
    pin: bool | None


class RequestOptions(CommonRequestOptions, total=False):
    """All of them.

    response_format: The form the answer must have: a class (attrs, dataclass, TypedDict, pydantic), of which
        ``turn.response.parsed`` will be an instance, or a JSON Schema. Overrides the rule's own.
    """

    response_format: Any


def read_request(
    message: str | ChatRequest,
    options: RequestOptions,
    *,
    message_chars: int,
    stores: Collection[str],
    variables: Mapping[str, Any],
) -> ChatRequest:
    """Return the request; see FlexChat.respond.

    Args:
        message_chars: Maximum characters of a message.
        stores: Names of the existing document stores.
        variables: The config's own.

    Raises:
        ChatRequestError: It cannot be used; the text gives the reason.
        TypeError: There is no such keyword.
    """
    unknown = options.keys() - RequestOptions.__annotations__.keys()
    if unknown:
        name = min(unknown)
        raise TypeError(f"there is no keyword '{name}'{did_you_mean(name, RequestOptions.__annotations__)}")
    if not options and type(message) is str:  # the usual case: just a text
        return ChatRequest(user_message=_message(message, message_chars), variables=dict(variables))
    request = message if isinstance(message, ChatRequest) else ChatRequest(user_message=message)
    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    history, continuation = values.get("history", ()), values.get("continuation", request.continuation)
    followed = read_history(continuation, "continuation")
    attachments = listed(values.get("attachments", request.attachments))
    caller_tools = _caller_tools(values.get("caller_tools", request.caller_tools))
    names, choice = {tool.name for tool in caller_tools}, values.get("tool_choice", request.tool_choice)
    if not all(isinstance(one, AssistantMessage | ToolMessage) for one in followed):
        raise ChatRequestError(
            "continuation holds what followed the message: answers of the model and results of tools"
        )
    return ChatRequest(
        user_message=_message(request.user_message, message_chars, is_alone=not attachments),
        attachments=attachments,
        history=read_history((*entries_of(request.history), *entries_of(history))),
        topic=None if (topic := _name("topic", values.get("topic", request.topic))) is None else scrub(topic),
        collections=_collections(values.get("collections", request.collections), stores),
        continuation=followed,
        caller_tools=caller_tools,
        tool_choice=choice if choice is None or choice in names else _word("tool_choice", choice),
        variables={**variables, **_variables(request.variables), **_variables(values.get("variables"))},
        conversation=_name("conversation", values.get("conversation", request.conversation)),
        tenant=_name("tenant", values.get("tenant", request.tenant)) or request.tenant,
        principal=_principal(values.get("principal", request.principal)),
        context=values.get("context", request.context),
        on_question=_function("on_question", values.get("on_question", request.on_question)),
        idempotency_key=_idempotency_key(values.get("idempotency_key", request.idempotency_key)),
        response_format=values.get("response_format", request.response_format),
        call=request.call,
        traceparent=_name("traceparent", values.get("traceparent", request.traceparent)) or "",
        tracestate=_name("tracestate", values.get("tracestate", request.tracestate)) or "",
        **{
            name: _OPTIONS[name](name, value)
            for name in _OPTIONS
            if (value := values.get(name, getattr(request, name))) is not None
        },
    )


def _caller_tools(tools: Any) -> tuple[ToolDefinition, ...]:
    read: dict[str, ToolDefinition] = {}
    implementation = Implementation(type=CALLER)
    for at, item in enumerate(entries_of(tools, "caller_tools")):
        try:
            if isinstance(item, ToolDefinition):
                tool = attrs.evolve(item, implementation=implementation)
            else:
                tool = ToolDefinition.from_dict(item, implementation)
        except ToolDefinitionError as error:
            raise ChatRequestError(f"caller_tools[{at}]: {error}") from None
        problems = schema_problems(tool.parameters)
        if tool.name in read:
            problems = [f"another tool before it is called '{tool.name}'"]
        if problems:
            raise ChatRequestError(f"caller_tools[{at}]: {'; '.join(problems)}")
        read[tool.name] = with_own_tables(tool)
    return tuple(read.values())


def _message(message: Any, most: int, *, is_alone: bool = True) -> str:
    if not isinstance(message, str):
        raise ChatRequestError(f"a message is a text or a ChatRequest, not {type(message).__name__}")
    if is_alone and not message.strip():
        raise ChatRequestError("the message is empty")
    if len(message) > most:
        raise ChatRequestError(
            f"the message has {len(message):,} characters, at most {most:,} are allowed (limits.message_chars): "
            "shorten it, raise the limit, or search it as documents (stores)"
        )
    return scrub(message)


def _name(what: str, name: Any) -> str | None:
    if name is not None and not isinstance(name, str):
        raise ChatRequestError(f"a {what} is a text, not {type(name).__name__}")
    return name


def _principal(principal: Any) -> Principal | None:
    if principal is not None and not isinstance(principal, Principal):
        raise ChatRequestError(f"principal is a flexchat.Principal, not {type(principal).__name__}")
    return principal


def _function(what: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise ChatRequestError(f"{what} is a function, not {type(value).__name__}")
    return value


def _idempotency_key(key: Any) -> str | None:
    if key is not None and not (isinstance(key, str) and is_key(key)):
        what = f"has {len(key):,} characters" if len(str(key)) > MAX_KEY_CHARS else f"is {key!r:.80}"
        raise ChatRequestError(
            f"a key has 1 to {MAX_KEY_CHARS} printable characters, not all of them spaces; this {what}"
        )
    return key


def is_key(key: str) -> bool:
    """Return whether a text can be a caller's key."""
    return len(key) <= MAX_KEY_CHARS and key.isprintable() and not key.isspace() and key != ""


def _variables(variables: Any) -> dict[str, Any]:
    if variables is None:
        return {}
    if not isinstance(variables, Mapping):
        raise ChatRequestError(f"variables are names and values, not {type(variables).__name__}")
    for name, value in variables.items():
        problem = variable_problem(name, value) if isinstance(name, str) else f"a name is a text, not {name!r}"
        if problem:
            raise ChatRequestError(f"variables: {problem}")
    own: dict[str, Any] = copied(variables)
    return own


def _number(name: str, value: Any) -> Any:
    rule = attrs.fields_dict(RuleTools if name == "max_iterations" else ResponseRule)[name]
    whole = name not in ("temperature", "top_p")
    is_number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and not math.isfinite(value)):
        raise ChatRequestError(f"{name} must be {'an integer' if whole else 'a number'}, got {value!r:.40}")
    least, most = rule.metadata.get("min"), rule.metadata.get("max")
    if least is not None and value < least:
        raise ChatRequestError(f"{name} must be at least {least}, got {value!r:.40}")
    if most is not None and value > most:
        raise ChatRequestError(f"{name} must be at most {most}, got {value!r:.40}")
    return value


def _stop(name: str, value: Any) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise ChatRequestError(f"{name} is a text or several, got {value!r:.40}")
    return tuple(map(scrub, texts))


def _reasoning(name: str, value: Any) -> Reasoning:
    return value if isinstance(value, Reasoning) else Reasoning(effort=_word(name, value))


def _word(name: str, value: Any) -> Any:
    words = get_args(Effort if name == "reasoning" else ToolChoice)
    if value not in words:
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        raise ChatRequestError(f"{name} is one of {', '.join(words)}; got {value!r:.40}{hint}")
    return value


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ChatRequestError(f"{name} must be True or False, got {value!r:.40}")
    return value


def _body(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ChatRequestError(f"{name} must be an object with names, got {type(value).__name__}")
    own: dict[str, Any] = copied(value)
    return own


_OPTIONS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("max_tokens", "temperature", "top_p", "seed", "max_iterations"), _number),
    **dict.fromkeys(("parallel_tool_calls", "approve", "pin"), _switch),
    "stop": _stop,
    "reasoning": _reasoning,
    "extra_body": _body,
}
"""How each option of a rule is checked."""


def _collections(collections: Any, stores: Collection[str]) -> tuple[CollectionChoice, ...] | None:
    if collections is None:
        return None
    if isinstance(collections, str):
        collections = (collections,)
    return tuple(_collection(named, stores) for named in collections)


def _collection(choice: str | CollectionChoice, stores: Collection[str]) -> CollectionChoice:
    if isinstance(choice, str):
        store, _, collection = choice.partition("/")
        choice = CollectionChoice(store=store, collection=collection or None)
    if not isinstance(choice, CollectionChoice):
        raise ChatRequestError(f'a collection is "STORE/COLLECTION" or "STORE", not {type(choice).__name__}')
    if choice.store not in stores:
        hint, configured = did_you_mean(choice.store, stores), ", ".join(stores) or "none"
        raise UnknownNameError(f"no document store is called '{choice.store}'{hint} (configured: {configured})")
    return choice
