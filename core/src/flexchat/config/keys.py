"""How a configuration's classes describe their keys."""

from __future__ import annotations

from typing import Any

import attrs


def key(help: str, *, min: float | None = None, max: float | None = None, **rest: Any) -> Any:
    """Return a field with its description and the least and greatest value it may have."""
    limits = {name: limit for name, limit in (("min", min), ("max", max)) if limit is not None}
    return attrs.field(metadata={"help": help, **limits}, **rest)
