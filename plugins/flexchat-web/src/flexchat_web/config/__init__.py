"""The configuration's file: shown without secrets, changed at one place, put in force as a whole or not at all."""

from __future__ import annotations

from ..operations import Operation

OPERATIONS: tuple[Operation, ...] = ()
