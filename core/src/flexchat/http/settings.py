"""What every service that is reached by HTTP may be told in a config. Light: loads neither httpx nor aiohttp."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

import attrs


def key(help: str, *, secret: bool = False, **rest: Any) -> Any:
    """Return an attrs field with its description, for the config's schema; a secret is masked in every text."""
    return attrs.field(metadata={"help": help, "secret": secret}, **rest)


def web_address(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    """Refuse, as an attrs validator, what is no http or https address of a server."""
    if not value.startswith(("http://", "https://")):
        raise ValueError(f"{attribute.name} must start with http:// or https://")
    try:
        parts = urllib.parse.urlsplit(value)
        usable = bool(parts.hostname) and parts.port != 0 and not any(c.isspace() for c in value)
    except ValueError:  # brackets that do not match, a port beyond 65535
        usable = False
    if not usable:
        raise ValueError(f"{attribute.name} is no address of a server")


def secret_key(help: str) -> Any:
    """Return the field of a service's key. Keys come out of files and environments with a line break behind them."""
    return key(help, default=None, converter=_stripped, validator=_sendable, repr=False, secret=True)


def _stripped(value: str | None) -> str | None:
    return value.strip() or None if isinstance(value, str) else value


def _sendable(instance: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value and not (value.isascii() and value.isprintable()):
        raise ValueError(f"{attribute.name} contains a line break or a character no key has: copy it again")


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
