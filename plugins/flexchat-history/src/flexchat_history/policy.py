"""A policy: a function of the user's that returns what to send of the history. Its result is made fit to be sent."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from flexchat import AssistantMessage, Message, RequestRefusedError, SystemMessage, ToolMessage, UserMessage
from flexchat.host import message_from_dict, message_to_dict, repair_slice

from .plan import Limits, pinned_of
from .settings import Policy


async def apply_policy(policy: Policy, name: str, history: Sequence[Message], limits: Limits) -> list[Message]:
    """Let a policy choose from a history; return the messages in pairs, with pinned content.

    Raises:
        RequestRefusedError: It failed, or returned no messages.
    """
    try:
        sent: Any = policy([*history])
        if inspect.isawaitable(sent):
            sent = await sent
    except Exception as error:
        raise RequestRefusedError(
            f"the history policy {name} failed: {type(error).__name__}: {error}; the request was not sent"
        ) from error
    is_list = isinstance(sent, Sequence) and all(isinstance(each, Message) for each in sent)
    if not is_list or (history and not sent):
        kind = "nothing" if not sent else "something other than a list of messages"
        raise RequestRefusedError(f"the history policy {name} returned {kind}; the request was not sent")
    return with_pins(history, sent, limits)


def with_pins(history: Sequence[Message], sent: Sequence[Message], limits: Limits) -> list[Message]:
    """Return the messages in pairs, with the pinned content that they lack in front."""
    units: list[list[Message]] = []
    unit: list[Message] = []
    for message in pinned_of(history, limits, is_short=False):
        if isinstance(message, SystemMessage):
            units.append([message])
        elif isinstance(message, UserMessage) or not unit:
            unit = [message]
            units.append(unit)
        else:  # an answer stays with its question
            unit.append(message)
    present = {key: message for message in sent for key in _keys(message)}
    lacking = [each for unit in units if not all(_has(present, message) for message in unit) for each in unit]
    # A call that is there without its result would get an error in its place: both go in front.
    moved = {key for message in lacking for key in _keys(message)}
    rest = [message for message in sent if moved.isdisjoint(_keys(message))]
    return [*repair_slice((*lacking, *rest), history)[0]]


def _has(present: Mapping[Any, Message], message: Message) -> bool:
    return all(key in present and present[key].content == message.content for key in _keys(message))


def _keys(message: Message) -> list[tuple[Any, ...]]:
    """Return the keys of a message, the same for its copies: its calls, or its text and media."""
    match message:
        case ToolMessage():
            return [("result", message.tool_call_id)]
        case AssistantMessage() if message.tool_calls:
            return [("call", call.id) for call in message.tool_calls]
        case UserMessage():
            return [(message.role, message.content, message.pinned, *map(id, message.media))]
    return [(message.role, message.content)]


def to_record(history: Sequence[Message], sent: Sequence[Message]) -> list[Any]:
    """Return the messages as JSON data: pairs of indices for stretches of the history, whole messages for others."""
    places = {id(message): index for index, message in enumerate(history)}
    record: list[Any] = []
    for message in sent:
        index = places.get(id(message))
        if index is None:
            record.append(message_to_dict(message))
        elif record and isinstance(record[-1], list) and record[-1][1] == index:
            record[-1][1] = index + 1
        else:
            record.append([index, index + 1])
    return record


def from_record(history: Sequence[Message], record: Sequence[Any]) -> list[Message]:
    """Return the messages of a record that ``to_record`` made. Raises ValueError."""
    sent: list[Message] = []
    for each in record:
        if isinstance(each, Mapping):
            sent.append(message_from_dict(each))
        else:
            sent += history[each[0] : each[1]]
    return sent
