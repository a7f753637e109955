"""Who is behind a request: a principal of a tenant, as a token or a proxy names it."""

from __future__ import annotations

import time
from collections.abc import Iterable

import attrs
from flexchat import Principal

MAX_NAME_CHARS = 200
"""Of a tenant, a user or a role that comes with a request."""


@attrs.frozen(kw_only=True)
class Identity:
    """What a token or a proxy grants.

    Attributes:
        tenant: Whose conversations it may see.
        principal: Whose roles count; None if the operator named none.
        expires_at: Seconds since the epoch, after which it is none.
        token_digest: SHA-256 of the server's token that stands for it; empty for those of others.
    """

    tenant: str
    principal: Principal | None = None
    expires_at: float | None = None
    token_digest: str = ""

    @property
    def has_expired(self) -> bool:
        """Whether its time is over, by the system's clock."""
        return self.expires_at is not None and time.time() >= self.expires_at


def identity_of(tenant: object, name: object, roles: Iterable[object]) -> Identity:
    """Check the names that come with a request.

    Raises:
        ValueError: One is no text, empty, too long, or has characters that cannot be printed.
    """
    for kind, text in (("tenant", tenant), ("user", name), *(("role", role) for role in roles)):
        is_name = (
            isinstance(text, str) and 0 < len(text) <= MAX_NAME_CHARS and text.isprintable() and text == text.strip()
        )
        if not is_name:
            raise ValueError(f"its {kind} is no name")
    return Identity(tenant=str(tenant), principal=Principal(str(name), [str(role) for role in roles]))
