"""Tokens of an exchange with a model, and the service's charge."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar

import attrs

Number = TypeVar("Number", int, Decimal)


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens of one exchange, or of several added up; None where the provider reports no count.

    Attributes:
        input_tokens: Tokens the model read, cached or not.
        output_tokens: Tokens it wrote, reasoning included.
        reasoning_tokens: Part of output_tokens.
        cache_read_tokens, cache_write_tokens: Part of input_tokens.
        cost: The service's own charge in US dollars; None if it reports none.
        raw: The provider's own table; empty in a sum.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost: Decimal | None = None
    raw: Mapping[str, Any] = attrs.field(factory=dict)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
            cache_read_tokens=_sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens=_sum(self.cache_write_tokens, other.cache_write_tokens),
            cost=_sum(self.cost, other.cost),
        )

    def to_dict(self) -> dict[str, int]:
        """Return the known counts."""
        counts = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
        }
        return {name: count for name, count in counts.items() if count is not None}


def _sum(a: Number | None, b: Number | None) -> Number | None:
    return b if a is None else a if b is None else a + b
