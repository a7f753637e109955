"""Costs, as budgets have counted them: exact sums by tool, rule, principal, tenant or model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Literal, get_args

import attrs
from flexchat import FlexChatError
from flexchat.store import HourlySum

By = Literal["tool", "rule", "principal", "tenant", "model"]

KEYS: tuple[str, ...] = get_args(By)
MAX_ROWS = 1_000
"""Names in one answer; all others are one row together, so that the rows still add up to the total."""


@attrs.define
class Sum:
    """What was spent under one name.

    Attributes:
        name: Empty for what no name of this kind was involved in.
        trillionths: Of a US dollar.
        requests, calls: To models, and of tools.
        unpriced: Requests whose model had no known price: their cost is missing from the amount.
    """

    name: str
    trillionths: int = 0
    tokens: int = 0
    requests: int = 0
    calls: int = 0
    unpriced: int = 0

    def add(self, values: Any) -> None:
        """Add values of an hourly sum, by name."""
        self.trillionths += values.get("usd", 0)
        self.tokens += values.get("tokens", 0)
        self.requests += values.get("requests", 0)
        self.calls += values.get("calls", 0)
        self.unpriced += values.get("unpriced", 0)

    @property
    def usd(self) -> str | None:
        """The exact amount as a decimal number; None if nothing of it is priced."""
        if self.unpriced and self.unpriced == self.requests and not self.trillionths:
            return None
        text = f"{Decimal(self.trillionths).scaleb(-12):f}"
        return text.rstrip("0").rstrip(".") if "." in text else text

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data; the amount is a decimal number as text, or null."""
        counts = {name: getattr(self, name) for name in ("requests", "calls", "tokens", "unpriced")}
        return {"name": self.name, "usd": self.usd, **counts}


@attrs.frozen(kw_only=True)
class Costs:
    """Sums by one kind of name, and their total.

    Attributes:
        rows: The dearest first, at most MAX_ROWS.
        others: Of all further names together; None if there are none. other_names: How many those are.
        unpriced_models: Names of the models whose cost is missing, as LLM/MODEL.
    """

    by: By
    total: Sum
    rows: Sequence[Sum]
    others: Sum | None
    other_names: int
    unpriced_models: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "by": self.by,
            "currency": "USD",
            "costs": [each.to_dict() for each in self.rows],
            "others": None if self.others is None else {**self.others.to_dict(), "names": self.other_names},
            "total": self.total.to_dict(),
            "unpriced_models": [*self.unpriced_models],
        }


def add_up(sums: Iterable[HourlySum], by: By, *, tenant: str | None = None) -> Costs:
    """Add up hourly sums by one of their labels.

    Args:
        tenant: Only of this one; None for all. A principal of a tenant is TENANT/NAME.
    """
    total, by_name, unpriced_models = Sum("total"), dict[str, Sum](), set[str]()
    for each in sums:
        labels, values = each.labels, each.values
        if "tenant" not in labels or tenant not in (None, labels["tenant"]):
            continue
        name = labels.get(by, "")
        if by == "principal" and name:
            name = f"{labels['tenant']}/{name}"
        if name not in by_name:
            by_name[name] = Sum(name)
        by_name[name].add(values)
        total.add(values)
        if values.get("unpriced"):
            unpriced_models.add(labels.get("model", ""))
    rows = sorted(by_name.values(), key=lambda row: (-row.trillionths, -row.requests, -row.calls, row.name))
    others, rest = None, rows[MAX_ROWS:]
    if rest:
        others = Sum("others")
        for row in rest:
            others.add({**attrs.asdict(row), "usd": row.trillionths})
    return Costs(
        by=by,
        total=total,
        rows=rows[:MAX_ROWS],
        others=others,
        other_names=len(rest),
        unpriced_models=sorted(unpriced_models),
    )


async def read_costs(store: Any, by: By, since_s: float, *, tenant: str | None = None) -> Costs:
    """Return the costs that a conversation store has counted. Raises UncountedError, StorageError."""
    counters = getattr(store, "counters", None)
    if counters is None:
        raise UncountedError
    return add_up(await counters.sums(since_s=since_s), by, tenant=tenant)


class UncountedError(FlexChatError):
    """There is no store that counts."""

    def __init__(self) -> None:
        super().__init__("costs are counted in the store of the conversations: add [conversations] and [[budgets]]")
