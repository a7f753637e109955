"""What a model is known to accept: data from model_traits.toml."""

from __future__ import annotations

import functools
from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class ModelTraits:
    """What is known about the models whose name starts with prefix.

    Attributes:
        reasons: Whether they reason by default.
        efforts: The reasoning efforts they support; empty if they never reason.
        accepts_stop: Whether they take stop sequences.
        api: Which of OpenAI's two APIs supports everything they can do.
        sees: Whether they read images and PDFs.
    """

    prefix: str
    reasons: bool
    efforts: tuple[str, ...] = attrs.field(converter=tuple)
    accepts_stop: bool = True
    api: Literal["chat", "responses"] = "responses"
    sees: bool = True

    def sampling_refused(self, effort: object) -> bool:
        """Return True if temperature and top_p are rejected, which is the case while the model reasons."""
        if effort is None or not self.efforts:
            return self.reasons
        return not (effort == "none" and "none" in self.efforts)


@functools.lru_cache(maxsize=256)
def traits_of(model: str) -> ModelTraits | None:
    """Look up a model's traits; None if it is not in the table, and options are sent unchanged.

    The first prefix that is the whole name or is followed by "-" wins: gpt-5 does not cover gpt-5.6. A model tuned
    from another ("ft:gpt-4.1-mini:…") counts as that one.
    """
    name = model.removeprefix("ft:").partition(":")[0]
    for traits in _table():
        if name == traits.prefix or name.startswith(traits.prefix + "-"):
            return traits
    return None


@functools.cache
def _table() -> tuple[ModelTraits, ...]:
    import tomllib
    from importlib.resources import files

    rows = tomllib.loads(files(__package__).joinpath("model_traits.toml").read_text("utf-8"))["models"]
    return tuple(ModelTraits(**row) for row in rows)
