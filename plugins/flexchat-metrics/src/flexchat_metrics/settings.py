"""The config tables ``[stats]`` and ``[slo]``."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import attrs
from flexchat.host import duration_s
from flexchat.plugin import key


@attrs.frozen(kw_only=True)
class Stats:
    """What is counted. With this table, sums are kept up to date while FlexChat runs."""

    argument_values: tuple[str, ...] = key(
        'Patterns of tools ("get_*") whose common arguments are counted with their values, without secrets. Default: '
        "none, only the names of the arguments.",
        default=(),
    )


def _is_rate(instance: object, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and math.isfinite(value) and not 0 < value < 1:
        raise ValueError(f"{attribute.name} is a share above 0 and below 1, such as 0.99, not {value}")


def _is_duration(instance: object, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and value <= 0:
        raise ValueError(f"{attribute.name} is a number of milliseconds above 0, not {value}")


def _is_window(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    with contextlib.suppress(ValueError):
        if duration_s(value) and duration_s(value) % 3_600 == 0:
            return
    raise ValueError(f'window is a number of whole hours, such as "24h" or "28d", not {value!r:.80}')


@attrs.frozen(kw_only=True)
class Objective:
    """What a tool or a rule must achieve in a window."""

    success: float | None = key("The share of a tool's calls that succeed: 0.99.", default=None, validator=_is_rate)
    done: float | None = key("The share of a rule's turns that are done: 0.995.", default=None, validator=_is_rate)
    p95_ms: float | None = key(
        "Milliseconds that 95 % of the calls or turns take at most.", default=None, validator=_is_duration
    )
    window: str = key(
        'Its length: "28d", "24h". One follows the other, from the beginning of 1970 on.',
        default="28d",
        validator=_is_window,
    )
