"""From what a caller hands over to a ChatRequest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .config.own_variables import variable_problem
from .domain import AssistantMessage, ChatRequest, CollectionChoice, Message, ToolMessage
from .domain.copies import copied
from .domain.history import entries_of, read_history
from .domain.text import scrub
from .errors import ChatRequestError, UnknownNameError, did_you_mean


def read_request(
    message: str | ChatRequest,
    history: Iterable[Message | Mapping[str, Any]],
    topic: str | None,
    collections: Iterable[str | CollectionChoice] | None,
    *,
    message_chars: int,
    stores: Collection[str],
    variables: Mapping[str, Any] | None = None,
) -> ChatRequest:
    """Return the request; see FlexChat.respond.

    Args:
        message_chars: Characters a message may have.
        stores: Names of the document stores there are.

    Raises:
        ChatRequestError: It cannot be used; the text says why.
    """
    so_far: Sequence[Message] = ()
    if isinstance(message, ChatRequest):
        so_far = message.so_far
        history = (*entries_of(message.history), *entries_of(history))
        topic = topic if topic is not None else message.topic
        collections = message.collections if collections is None else collections
        variables = {**message.variables, **_variables(variables)}
        message = message.user_message
    if not isinstance(message, str):
        raise ChatRequestError(f"a message is a text or a ChatRequest, not {type(message).__name__}")
    if not message.strip():
        raise ChatRequestError("the message is empty")
    if len(message) > message_chars:
        raise ChatRequestError(
            f"the message has {len(message):,} characters, at most {message_chars:,} are taken (limits.message_chars)"
        )
    earlier = read_history(history)
    followed = read_history(so_far, "so_far")
    if not all(isinstance(one, AssistantMessage | ToolMessage) for one in followed):
        raise ChatRequestError("so_far holds what followed the message: answers of the model and results of tools")
    if topic is not None and not isinstance(topic, str):
        raise ChatRequestError(f"a topic is a text, not {type(topic).__name__}")
    if isinstance(collections, str):
        collections = (collections,)
    chosen = None if collections is None else tuple(_collection(named, stores) for named in collections)
    about = None if topic is None else scrub(topic)
    return ChatRequest(
        user_message=scrub(message),
        history=earlier,
        topic=about,
        collections=chosen,
        so_far=followed,
        variables=_variables(variables),
    )


def _variables(given: Mapping[str, Any] | None) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ChatRequestError(f"variables are names and values, not {type(given).__name__}")
    for name, value in given.items():
        problem = variable_problem(name, value) if isinstance(name, str) else f"a name is a text, not {name!r}"
        if problem:
            raise ChatRequestError(f"variables: {problem}")
    own: dict[str, Any] = copied(given)
    return own


def _collection(named: str | CollectionChoice, stores: Collection[str]) -> CollectionChoice:
    if isinstance(named, str):
        service, _, collection = named.partition("/")
        named = CollectionChoice(service=service, collection=collection or None)
    if not isinstance(named, CollectionChoice):
        raise ChatRequestError(f'a collection is "SERVICE/COLLECTION" or "SERVICE", not {type(named).__name__}')
    if named.service not in stores:
        hint, known = did_you_mean(named.service, stores), ", ".join(stores) or "none"
        raise UnknownNameError(f"no document store is called '{named.service}'{hint} (configured: {known})")
    return named
