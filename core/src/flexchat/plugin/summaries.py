"""Summaries of what plugins register, from the docstrings that are there anyway."""

from __future__ import annotations

import inspect

import attrs

MAX_SUMMARY_CHARS = 200
"""Of one line in ``flexchat plugins``."""


def summary_from(*names: str) -> str:
    """Return an attrs field for a record's summary: by default the first docstring line of the named fields' values."""
    factory = attrs.Factory(lambda record: _first_line(record, names), takes_self=True)
    field: str = attrs.field(default=factory)
    return field


def _first_line(record: object, names: tuple[str, ...]) -> str:
    for name in names:
        value = getattr(record, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue  # the docstring of a functools.partial is that of its class
        text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        line = " ".join((text or "").strip().partition("\n\n")[0].split()).removesuffix(".")
        if line and not line.startswith(f"{value.__name__}("):  # dataclasses write their signature
            return line if len(line) <= MAX_SUMMARY_CHARS else line[: MAX_SUMMARY_CHARS - 1] + "…"
    return ""
