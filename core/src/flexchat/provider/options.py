"""What a turn asks of a model, in a service's words; and a warning for what it has no words for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..domain.chat import ChatOptions
from ..domain.messages import Message, UserMessage

_ABSENT: tuple[Any, ...] = (None, ())


def said(options: ChatOptions, *same: str, **theirs: str) -> dict[str, Any]:
    """Return the options that are set, as fields: None means "the service's default", 0 is a value.

    Args:
        same: Options the service calls as we do.
        theirs: Its names for others: ``max_tokens="max_output_tokens"``.
    """
    names = {**{name: name for name in same}, **theirs}
    return {field: value for name, field in names.items() if (value := getattr(options, name)) not in _ABSENT}


def unsaid(options: ChatOptions, *names: str) -> tuple[str, ...]:
    """Return a warning for each of these options that is set: the service has no words for it.

    ``parallel_tool_calls`` says nothing where no tools are offered.
    """
    found = [name for name in names if getattr(options, name) not in _ABSENT]
    if not options.tools:
        found = [name for name in found if name != "parallel_tool_calls"]
    return tuple(f"the service knows no {name}: left out" for name in found)


def unsaid_media(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return a warning if a user's message holds media: the service takes none."""
    if any(message.media for message in messages if type(message) is UserMessage):
        return ("the service takes no pictures or files: left out",)
    return ()
