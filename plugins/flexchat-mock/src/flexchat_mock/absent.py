"""The difference between a setting that is null and one that is not there."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Absent(Enum):
    """The type of ABSENT."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""Stands where a config says nothing; null is a response like any other."""
