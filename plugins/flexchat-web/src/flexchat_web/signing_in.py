"""Tokens: the tenant of each, and the cookie in which a browser keeps the id of its session."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

COOKIE = "flexchat_session"


def tenant_of(given: str, tokens: Mapping[str, str]) -> str | None:
    """Return a token's tenant; None if it has none."""
    found = None
    for token, tenant in tokens.items():  # all of them, so that the time reveals nothing
        if hmac.compare_digest(token.encode(), given.encode("utf-8", "replace")):
            found = tenant
    return found


def bearer_of(headers: Mapping[str, str]) -> str:
    """Return the token in the header Authorization; empty if none."""
    kind, _, bearer = headers.get("authorization", "").partition(" ")
    return bearer.strip() if kind.lower() == "bearer" else ""


def session_of(headers: Mapping[str, str]) -> str:
    """Return the id of a session in the header Cookie; empty if none."""
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value[:200]
    return ""


def is_secure(scope: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Return whether a browser uses TLS, to this server or to a proxy, by the Origin header, which has been checked."""
    return scope.get("scheme") == "https" or headers.get("origin", "").startswith("https://")


def cookie(session: str, *, base: str, secure: bool) -> str:
    """Return the header Set-Cookie that keeps a session's id, out of reach of scripts and of other sites' pages.

    Args:
        session: Empty forgets the one that is kept.
        base: Path under which the application is mounted.
        secure: Whether the browser may send it by https only.
    """
    age = "" if session else "; Max-Age=0"
    flags = f"HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
    return f"{COOKIE}={session}; Path={base or '/'}{age}; {flags}"
