"""Who is behind a request: the principals of tokens."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol

import attrs
from flexchat import Principal

_KEYS = ("user", "expires")


@attrs.frozen(kw_only=True)
class Identity:
    """What a line of a token file grants.

    Attributes:
        expires_at: Seconds since the epoch, after which the token is none.
    """

    principal: Principal
    expires_at: float | None = None

    @property
    def has_expired(self) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and time.time() >= self.expires_at


def read_identity(token: str, words: list[str]) -> Identity:
    """Read what follows a token in its line: names of roles, user=NAME, expires=DATE.

    Raises:
        ValueError: A word cannot be read; the text names it.
    """
    values: dict[str, str] = {}
    for word in words:
        name, has_value, value = word.partition("=")
        if has_value and (name not in _KEYS or not value or name in values):
            raise ValueError(f"'{word[:60]}' cannot be read: write names of roles, user=NAME, expires=DATE")
        if has_value:
            values[name] = value
    roles = [word for word in words if "=" not in word]
    expires_at = _time(values["expires"]) if "expires" in values else None
    name = values.get("user") or f"token-{hashlib.sha256(token.encode()).hexdigest()[:8]}"
    return Identity(principal=Principal(name, roles), expires_at=expires_at)


def _time(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expires={text[:40]} is no date: write 2027-01-31 or 2027-01-31T18:00:00+00:00") from None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


class WithTokens(Protocol):
    """The part of the server's settings with its tokens; see ``serving.Settings``."""

    @property
    def tokens(self) -> Mapping[str, str]:
        """The tenants of the tokens."""

    @property
    def identities(self) -> Mapping[str, Identity]:
        """Who presents a token."""


def valid_tokens(settings: WithTokens) -> Mapping[str, str]:
    """Return the tenants of the tokens that have not expired."""
    expired = {token for token, identity in settings.identities.items() if identity.has_expired}
    if not expired:
        return settings.tokens
    return {token: tenant for token, tenant in settings.tokens.items() if token not in expired}


def principal_of(token: str, settings: WithTokens) -> Principal | None:
    """Return the principal that a valid token stands for; None if there is none."""
    identity = settings.identities.get(token)
    return None if identity is None or identity.has_expired else identity.principal
