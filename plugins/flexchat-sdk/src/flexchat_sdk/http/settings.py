"""The config keys of every service reached over HTTP. Light: loads neither httpx nor aiohttp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.domain.keys import key


def _positive(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"{attribute.name} must be more than 0 seconds, got {value:g}")


@attrs.frozen(kw_only=True)
class HttpSettings:
    """The base of a provider's config class. Times are in seconds."""

    timeout_s: float = key("For a whole answer.", default=120.0, validator=_positive)
    connect_timeout_s: float = key("For a connection.", default=5.0, validator=_positive)
    first_byte_timeout_s: float = key(
        "For the first piece of a streamed answer; models that think first may need minutes.",
        default=60.0,
        validator=_positive,
    )
    idle_timeout_s: float = key("Between two pieces of a streamed answer.", default=30.0, validator=_positive)
    extra_body: Mapping[str, Any] = key("Merged into every request, unread.", factory=dict)
    extra_headers: Mapping[str, str] = key("Sent with every request.", factory=dict, repr=False)
