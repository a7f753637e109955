"""What the tests of a model prove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .attempt_json import json_data
from .statistics import Status


@attrs.frozen(kw_only=True)
class ValidationRecord:
    """The validation record of a model. The first seven fields are the specification's; the others are statistics.

    Attributes:
        validated: The tests prove that 80 % succeed, and are still valid; always recomputed (C4).
        last_tested: ISO 8601, UTC; None if it was never tested.
        test_history: The last 50: timestamp, success, and details or error.
        errors: Tests that ended in an error of the service; they do not count.
        rate, low, high: The fraction that succeeded, and its 95 % interval.
        more: Further tests that would decide it, if the rate stays the same.
        stale: The model, its plugin or the tools are no longer those that were tested.

    Source: seed specification, "Model Validation Schema" (requirements TC-94 to TC-98).
    """

    model_id: str
    tested: bool = False
    validated: bool = False
    test_count: int = 0
    success_count: int = 0
    errors: int = 0
    last_tested: str | None = None
    test_history: tuple[Mapping[str, Any], ...] = ()
    rate: float | None = None
    low: float = 0.0
    high: float = 1.0
    verdict: Status = "undecided"
    more: int | None = None
    reason: str = ""
    stale: bool = False
    stale_reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        data: dict[str, Any] = json_data(attrs.asdict(self, recurse=False))
        return data
