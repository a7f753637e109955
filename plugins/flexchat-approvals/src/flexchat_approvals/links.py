"""Tokens in links to questions: with one, a person may reply to that question, once, without signing in.

A token holds the question's id, its tenant and the end of its time, signed with a key made from webhook_secret. It is
kept nowhere: the reply closes the question, and with it the link.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from datetime import datetime

from flexchat.store import PendingQuestion

PAGE = "#/approvals/by-token/"
"""Of the page, below the server's address: what follows the # reaches no server, and so no log of one."""

REPLY = "api/approvals/by-token/"
"""Of the operation that takes the reply."""

MAX_TOKEN_CHARS = 2_000
_PURPOSE = b"flexchat: link to a question, version 1"


def webhook_key(secret: str) -> bytes:
    """Return the key in a secret: whsec_ and the Base64 of 24 to 64 bytes.

    Raises:
        ValueError: It is not of this form; the text does not contain it.
    """
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise ValueError("it must be whsec_ and the Base64 of 24 to 64 random bytes")
    return key


def make_token(secret: str, pending: PendingQuestion) -> str:
    """Make the token of an open question, valid until the question expires."""
    expires = datetime.fromisoformat(pending.expires_at).timestamp()
    content = json.dumps([pending.id, pending.tenant, expires], separators=(",", ":")).encode()
    return f"{_encode(content)}.{_encode(_sign(secret, content))}"


def read_token(secret: str, token: str) -> tuple[str, str] | None:
    """Return the id and the tenant of the question a token is for; None if it is forged or its time is over."""
    if len(token) > MAX_TOKEN_CHARS or not token.isascii():
        return None
    encoded, _, signature = token.partition(".")
    try:
        content = _decode(encoded)
        if not hmac.compare_digest(_sign(secret, content), _decode(signature)):
            return None
    except (binascii.Error, ValueError):
        return None
    id, tenant, expires = json.loads(content)  # signed, so of our form
    return (id, tenant) if time.time() < expires else None


def _sign(secret: str, content: bytes) -> bytes:
    # A key of its own: what is signed for one purpose must never be valid for the other.
    key = hmac.digest(webhook_key(secret), _PURPOSE, hashlib.sha256)
    return hmac.digest(key, content, hashlib.sha256)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _encode(data) != text:
        raise ValueError("not the usual form")  # one token, one text
    return data
