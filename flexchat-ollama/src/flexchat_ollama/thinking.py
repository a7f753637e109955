"""Mapping of reasoning options to the value of ``think``."""

from __future__ import annotations

import attrs
from flexchat_sdk import Reasoning

Think = bool | str


@attrs.frozen(kw_only=True)
class _Levels:
    """Models that support levels of thinking.

    Attributes:
        prefix: Prefix of the model's name, without namespace.
        words: The supported levels, lowest first.
        can_stop: Thinking can be disabled.
    """

    prefix: str
    words: tuple[str, ...]
    can_stop: bool = True


# Source: the server's GPT-OSS documentation and shouldUseHarmony in server/routes.go; model/renderers/qwen35.go and
# glimmer.go. Of other thinking models it is not known; one that has no levels is switched on by any.
_KNOWN = (
    _Levels(prefix="gpt-oss", words=("low", "medium", "high"), can_stop=False),
    _Levels(prefix="qwen3.8", words=("low", "medium", "high")),
    _Levels(prefix="glimmer", words=("low", "medium", "high", "max")),
)
# What the server takes for any model that thinks.
_WORDS = {"minimal": "low", "low": "low", "high": "high", "xhigh": "high", "max": "max"}
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def think_value(reasoning: Reasoning | None, model: str, default: Think | None) -> tuple[Think | None, list[str]]:
    """Choose the value of ``think``, None to omit it. Returns it with one warning per unsupported option.

    Args:
        default: The configured value, for requests that set none.
    """
    if reasoning is None:
        return default, []
    warnings = []
    if reasoning.budget_tokens is not None:
        warnings.append("Ollama counts no tokens of thought: reasoning.budget_tokens is left out")
    if reasoning.summary is False:
        warnings.append("Ollama sends the thoughts with the answer: reasoning.summary is left out")
    if reasoning.effort is None:
        return default, warnings
    value, warning = _of_effort(reasoning.effort, model)
    return value, [*warnings, warning] if warning else warnings


def _of_effort(effort: str, model: str) -> tuple[Think, str]:
    name = model.rpartition("/")[2]
    levels = next((candidate for candidate in _KNOWN if name.startswith(candidate.prefix)), None)
    if effort == "none":
        if levels is None or levels.can_stop:
            return False, ""
        return levels.words[0], f"{model} cannot answer without thinking: it is asked to think {levels.words[0]}"
    if levels is None and effort == "medium":
        return True, ""
    if levels is None:
        warning = f"{model} is not known to have levels of thinking: '{_WORDS[effort]}' may only switch it on"
        return _WORDS[effort], warning
    # The highest of its levels that is not above what was asked for.
    fitting = [word for word in levels.words if _EFFORTS.index(word) <= _EFFORTS.index(effort)]
    word = fitting[-1] if fitting else levels.words[0]
    return word, "" if word == effort else f"{model} knows no effort {effort}: {word} is sent"
