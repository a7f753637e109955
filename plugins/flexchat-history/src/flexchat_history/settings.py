"""The table [history], and how a rule overrides it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import attrs
from flexchat import Message
from flexchat.host import structure
from flexchat.plugin import key

Policy = Callable[[Sequence[Message]], Sequence[Message] | Awaitable[Sequence[Message]]]
"""A function that receives the history, without system prompt and current message, and returns what to send of it."""

DEFAULT_KEEP_TURNS = 4


def _above_zero(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, int) and value < 1:
        raise ValueError(f"{attribute.name} must be at least 1, got {value}")


@attrs.frozen(kw_only=True)
class History:
    """[history]: what of a conversation is sent."""

    max_tokens: int | Literal["auto"] = key(
        'Tokens a request may have: a number, or "auto" for the model\'s window less its answer.',
        default="auto",
        validator=_above_zero,
    )
    keep_last: int | None = key("Earlier turns that are sent at most. Default: no limit.", min=0, default=None)
    keep_turns: int | None = key(
        "Last turns that are never compacted. Default: 4, or keep_last if that is less.", min=0, default=None
    )
    compact: Literal["drop", "stub", "summarise"] = key(
        'What happens to what does not fit: "drop" leaves out old turns; "stub" first replaces old results and media; '
        '"summarise" has a model summarise the turns that are then left out.',
        default="stub",
    )
    policy: str | None = key(
        'A function that returns what to send, "module:function", in place of keep_last and compact.', default=None
    )
    pin: tuple[str, ...] = key("Names of tools, with * for any characters, whose results are always sent.", default=())

    summary_llm: str | None = key("Name of an entry in llms that writes summaries. Default: the rule's.", default=None)
    summary_model: str | None = key("Its model. Default: the entry's default_model, or the rule's.", default=None)

    def __attrs_post_init__(self) -> None:
        if self.keep_last is not None and (self.keep_turns or 0) > self.keep_last:
            raise ValueError(
                f"keep_turns must be at most keep_last, since only those are sent; got {self.keep_turns} and "
                f"{self.keep_last}"
            )

    @property
    def whole_turns(self) -> int:
        """How many of the last turns are never compacted."""
        if self.keep_turns is not None:
            return self.keep_turns
        return DEFAULT_KEEP_TURNS if self.keep_last is None else min(DEFAULT_KEEP_TURNS, self.keep_last)


def override(table: History, rule: Mapping[str, Any] | None) -> tuple[History | None, list[Any]]:
    """Return the limits of a rule, given its ``history``, or None and the issues of that."""
    if not rule:
        return table, []
    return structure({**attrs.asdict(table), **rule}, History)


@functools.cache
def load_policy(name: str) -> Policy:
    """Import the function of a policy, "module:function".

    Raises:
        ValueError: It cannot be imported, or is no function.
    """
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise ValueError(f"a policy is 'module:function', got {name!r:.80}")
    try:
        function: Any = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except Exception as error:  # a module of the user's may raise anything
        raise ValueError(f"the policy '{name:.80}' cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise ValueError(f"the policy '{name:.80}' is {type(function).__name__}, not a function")
    policy: Policy = function
    return policy
