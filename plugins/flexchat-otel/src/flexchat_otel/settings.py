"""The config table ``[telemetry]``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import attrs
from flexchat.host import did_you_mean
from flexchat.plugin import key

SEMCONV = Path(__file__).parent / "semconv"
VERSIONS = tuple(sorted(file.stem for file in SEMCONV.glob("*.toml")))

Kind = Literal["invoke_agent", "chat", "execute_tool", "retrieval"]


def _is_version(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if value not in VERSIONS:
        versions = ", ".join(VERSIONS)
        raise ValueError(f"there are no conventions '{value}'{did_you_mean(value, VERSIONS) or f' ({versions})'}")


@attrs.frozen(kw_only=True)
class Telemetry:
    """What spans and metrics hold, and how they are named."""

    semconv: str = key(
        f"Version of the conventions that names follow: {', '.join(VERSIONS)}.",
        default="2026-10",
        validator=_is_version,
    )
    content: tuple[Kind, ...] = key(
        "Kinds of span that carry messages, arguments, results or documents, without secrets. Default: none.",
        default=(),
    )
    max_content_chars: int = key("The longest text in them; the rest is left out.", default=4_096, min=1)
    max_values: int = key(
        "Different values of each label of a metric, such as names of tools; all others count as _OTHER.",
        default=200,
        min=1,
    )
