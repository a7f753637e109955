"""What a model is known to accept: data from model_traits.toml."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

import attrs

ALL_EFFORTS = ("low", "medium", "high", "xhigh", "max")


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


@attrs.frozen(kw_only=True)
class ModelTraits:
    """What is known of the models whose name fits pattern. The columns are explained in model_traits.toml."""

    pattern: str
    max_tokens: int | None = None
    thinking: Literal["none", "budget", "adaptive", "either"] = "either"
    thinks: bool = False
    off: Literal["disabled", "between_tools", "never"] = "disabled"
    efforts: tuple[str, ...] = attrs.field(default=(), converter=_names)
    sampling: Literal["both", "one", "none"] = "both"
    forced: bool = True
    strict: bool = True
    prefill: bool = True


# Another vendor's model, behind a server that speaks this API.
UNKNOWN = ModelTraits(pattern="", thinks=True, efforts=ALL_EFFORTS)


@functools.lru_cache(maxsize=256)
def traits_of(model: str) -> ModelTraits:
    """Look up a model's traits. Gateways prefix names: "us.anthropic.claude-…"."""
    name = model.lower()
    name = name[max(name.rfind("claude-"), 0) :]
    return next((traits for traits in _table() if fnmatchcase(name, traits.pattern)), UNKNOWN)


@functools.cache
def _table() -> tuple[ModelTraits, ...]:
    import tomllib
    from importlib.resources import files

    rows = tomllib.loads(files(__package__).joinpath("model_traits.toml").read_text("utf-8"))["models"]
    return tuple(ModelTraits(**row) for row in rows)
