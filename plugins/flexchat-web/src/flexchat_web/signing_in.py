"""Tokens: the tenant of each, and the cookie in which a browser keeps one."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import quote, unquote

COOKIE = "flexchat_token"


def tenant_of(given: str, tokens: Mapping[str, str]) -> str | None:
    """Return a token's tenant; None if it has none."""
    found = None
    for token, tenant in tokens.items():  # all of them, so that the time reveals nothing
        if hmac.compare_digest(token.encode(), given.encode("utf-8", "replace")):
            found = tenant
    return found


def given_token(headers: Mapping[str, str]) -> str:
    """Return a request's token: from its header Authorization, else its cookie; empty if none."""
    kind, _, bearer = headers.get("authorization", "").partition(" ")
    return bearer.strip() if kind.lower() == "bearer" else _in_cookie(headers.get("cookie", ""))


def cookie(token: str, *, base: str, secure: bool) -> str:
    """Return the header Set-Cookie that keeps a token, out of reach of scripts and of other sites' pages.

    Args:
        token: Empty forgets the one that is kept.
        base: Path under which the application is mounted.
        secure: Whether the request came by https.
    """
    age = "" if token else "; Max-Age=0"
    flags = f"HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
    return f"{COOKIE}={quote(token, safe='')}; Path={base or '/'}{age}; {flags}"


def _in_cookie(header: str) -> str:
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return unquote(value)
    return ""
