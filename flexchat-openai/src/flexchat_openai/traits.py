"""What a model accepts, as far as that is known: data, kept in model_traits.toml."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class ModelTraits:
    """What is known of the models whose name begins with prefix.

    Attributes:
        reasons: Whether they reason unless told otherwise.
        accepts_none: Whether ``reasoning_effort = "none"`` switches that off.
        accepts_stop: Whether they take stop sequences.
    """

    prefix: str
    reasons: bool
    accepts_none: bool
    accepts_stop: bool = True

    def sampling_refused(self, extra: Mapping[str, Any]) -> bool:
        """Say whether temperature and top_p would be refused: they are while the model reasons."""
        effort = extra.get("reasoning_effort")
        if effort is None:
            return self.reasons
        return not (effort == "none" and self.accepts_none)


@functools.lru_cache(maxsize=256)
def traits_of(model: str) -> ModelTraits | None:
    """Return what is known of a model; None for one that is not in the table, which is sent what the user set.

    The first prefix wins that is the whole name or is followed by "-": gpt-5 does not speak for gpt-5.6.
    """
    for traits in _table():
        if model == traits.prefix or model.startswith(traits.prefix + "-"):
            return traits
    return None


@functools.cache
def _table() -> tuple[ModelTraits, ...]:
    import tomllib
    from importlib.resources import files

    rows = tomllib.loads(files(__package__).joinpath("model_traits.toml").read_text("utf-8"))["models"]
    return tuple(ModelTraits(**row) for row in rows)
