"""A turn's options in a service's format, and a warning for each option it does not support."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flexchat.domain.chat import ChatOptions
from flexchat.domain.messages import Message, UserMessage
from flexchat.errors import ProviderRequestError

_ABSENT: tuple[Any, ...] = (None, ())


def option_fields(options: ChatOptions, *same: str, **theirs: str) -> dict[str, Any]:
    """Convert the options that are set into fields of a request; None is unset, 0 is a value.

    Args:
        same: Options whose name the service shares.
        theirs: The service's names for others: ``max_tokens="max_output_tokens"``.
    """
    names = {**{name: name for name in same}, **theirs}
    return {field: value for name, field in names.items() if (value := getattr(options, name)) not in _ABSENT}


def unsupported_options(options: ChatOptions, *names: str) -> tuple[str, ...]:
    """Return a warning for each of these options that is set, because the service does not support it.

    ``parallel_tool_calls`` is ignored if no tools are offered.
    """
    unsupported = [name for name in names if getattr(options, name) not in _ABSENT]
    if not options.tools:
        unsupported = [name for name in unsupported if name != "parallel_tool_calls"]
    return tuple(f"the service does not support {name}: left out" for name in unsupported)


def check_allowed_tools(options: ChatOptions, offered: Iterable[object]) -> None:
    """Check that the model may call a tool, if the options limit which.

    Args:
        offered: The names of the tools in the request.

    Raises:
        ProviderRequestError: None of the allowed tools is offered.
    """
    is_limited = options.tools and options.allowed_tools and options.tool_choice != "none"
    if is_limited and set(offered).isdisjoint(options.allowed_tools):
        raise ProviderRequestError(f"none of the allowed tools is offered: {', '.join(options.allowed_tools)}")


def nearest_effort(effort: str, supported: Iterable[str], efforts: Sequence[str]) -> str:
    """Return the supported reasoning effort that is nearest to one, the higher of two that are equally far.

    Args:
        efforts: All of them, from the least to the most.
    """
    place = efforts.index(effort)
    return min(supported, key=lambda word: (abs(efforts.index(word) - place), -efforts.index(word)))


def unsupported_media(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return a warning if a user's message contains media: the service accepts none."""
    if any(message.media for message in messages if type(message) is UserMessage):
        return ("the service does not accept pictures or files: left out",)
    return ()
