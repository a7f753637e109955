"""Descriptions of a settings class's keys, for core's tables and for plugins'."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import attrs


def key(help: str, *, min: float | None = None, max: float | None = None, secret: bool = False, **rest: Any) -> Any:
    """Return an attrs field for a key of the config.

    Args:
        help: What the key means, in one sentence; shown in the config's JSON Schema.
        min, max: The smallest and largest value allowed.
        secret: Whether its value is masked in every text.
        rest: As for attrs.field: default, factory, converter, validator.
    """
    limits = {name: limit for name, limit in (("min", min), ("max", max)) if limit is not None}
    return attrs.field(metadata={"help": help, "secret": secret, **limits}, **rest)


def web_address(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    """Validate, for attrs, that the value is the http or https address of a server."""
    if not value.startswith(("http://", "https://")):
        raise ValueError(f"{attribute.name} must start with http:// or https://")
    try:
        parts = urllib.parse.urlsplit(value)
        usable = bool(parts.hostname) and parts.port != 0 and not any(c.isspace() for c in value)
    except ValueError:  # brackets that do not match, a port beyond 65535
        usable = False
    if not usable:
        raise ValueError(f"{attribute.name} is not the address of a server")


def secret_key(help: str, *, variables: Mapping[str, Sequence[str]] | None = None) -> Any:
    """Return the field for a service's key. Keys from files and environments often end with a line break.

    Args:
        variables: For each host, or "*.example.com" for all ending so, the environment variables that usually hold
            its key. If the settings hold no secret, the first one set is used, and goes to no other host.
    """
    field = key(help, default=None, converter=_stripped, validator=_sendable, repr=False, secret=True)
    field.metadata["variables"] = variables or {}
    return field


def _stripped(value: str | None) -> str | None:
    return value.strip() or None if isinstance(value, str) else value


def _sendable(instance: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value and not (value.isascii() and value.isprintable()):
        raise ValueError(f"{attribute.name} contains a line break or a character no key has: copy it again")
