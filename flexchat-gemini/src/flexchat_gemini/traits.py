"""What a model is known to accept: data from model_traits.toml."""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from typing import Literal

import attrs

ALL_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")


@attrs.frozen(kw_only=True)
class ModelTraits:
    """What is known of the models whose name fits pattern. The columns are explained in model_traits.toml."""

    pattern: str
    thinking: Literal["none", "budget", "level"] | None = None
    levels: tuple[str, ...] = attrs.field(default=ALL_LEVELS, converter=tuple)
    min_budget: int = 0
    max_budget: int = 0
    can_stop_thinking: bool = False
    signatures: bool = False
    combines: bool = False
    validates: bool = True
    tools: bool = True
    media: bool = True
    media_in_responses: bool = False


# A name that is not Gemini's is a tuned model, an endpoint of a project, or another vendor's: none is known to ask for
# signatures, and asking for format and tools one after the other works with every model.
UNKNOWN = ModelTraits(pattern="", tools=False, media=False)


@functools.lru_cache(maxsize=256)
def traits_of(model: str) -> ModelTraits:
    """Look up a model's traits, by its name with or without the prefix "models/"."""
    name = model.rsplit("/", 1)[-1].lower()
    return next((traits for traits in _table() if fnmatchcase(name, traits.pattern)), UNKNOWN)


@functools.cache
def _table() -> tuple[ModelTraits, ...]:
    import tomllib
    from importlib.resources import files

    rows = tomllib.loads(files(__package__).joinpath("model_traits.toml").read_text("utf-8"))["models"]
    return tuple(ModelTraits(**row) for row in rows)
