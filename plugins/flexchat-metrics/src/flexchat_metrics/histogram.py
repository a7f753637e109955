"""Counts of durations in buckets whose bounds are fixed, so that those of any hours and processes add up.

A percentile of the buckets differs from that of the durations by at most RELATIVE_ERROR; what takes up to a millisecond
counts as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

GROWTH = 1.04
"""Each bucket ends at 1.04 times the end of the one before it; the first one at a millisecond."""

RELATIVE_ERROR = (GROWTH - 1) / (GROWTH + 1)

_MAX_BUCKET = 700  # ends after 26 years


def bucket_of(ms: float) -> int:
    """Return the bucket of a duration."""
    return min(max(math.ceil(math.log(ms) / math.log(GROWTH)), 0), _MAX_BUCKET) if ms > 1 else 0


def end_of(bucket: int) -> float:
    """Return the longest duration of a bucket, in milliseconds."""
    return math.pow(GROWTH, bucket)


def percentile(buckets: Mapping[int, int], share: float) -> float | None:
    """Return the duration that this share of all does not exceed, in milliseconds; None without any.

    Args:
        buckets: Counts by bucket.
    """
    rank = math.ceil(share * sum(buckets.values()))
    for bucket in sorted(buckets):
        rank -= buckets[bucket]
        if rank <= 0:
            # What is relatively as far from the one end of the bucket as from the other.
            return end_of(bucket) * 2 / (GROWTH + 1) if bucket else 1.0
    return None
