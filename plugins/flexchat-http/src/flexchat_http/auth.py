"""Puts a service's key on a request; gets and renews access tokens (OAuth 2.0 client credentials, RFC 6749 4.4)."""

from __future__ import annotations

import base64
import json
import re
import time
from urllib.parse import quote, urlencode

import attrs
from flexchat.plugin import Fetcher, FetchError, FetchRequest, ToolError

from .headers import name_problem
from .request import merge_headers, with_query
from .settings import Auth

DEFAULT_LIFE_S = 300.0
"""Lifetime of a token if the service does not state one, in seconds."""
_CHECK_AUTH = "the operator of this tool has to check auth"
MAX_TOKEN_BYTES = 64 * 2**10
_BEARER = re.compile(r"(?i)\s*bearer\b")
_NEEDED = {
    "bearer": ("token",),
    "api_key": ("name", "api_key"),
    "basic": ("username", "password"),
    "oauth2": ("token_url", "client_id", "client_secret"),
}


async def authorize(request: FetchRequest, auth: Auth | None, fetcher: Fetcher, timeout_s: float) -> FetchRequest:
    """Return a request with the service's key.

    Raises:
        FetchError: No access token was to be had. Nothing was sent to the service itself.
    """
    if auth is None:
        return request
    if auth.type == "oauth2":
        return _with(request, "Authorization", f"Bearer {await _token(auth, fetcher, timeout_s)}")
    if auth.type == "bearer":
        return _with(request, "Authorization", f"Bearer {auth.token}")
    if auth.type == "basic":
        credentials = base64.b64encode(f"{auth.username}:{auth.password}".encode()).decode()
        return _with(request, "Authorization", f"Basic {credentials}")
    name, value = auth.name or "", auth.api_key or ""
    if auth.place == "header":
        return _with(request, name, value)
    if auth.place == "query":
        return with_query(request, name, value)
    others = next((text for header, text in request.headers.items() if header.lower() == "cookie"), "")
    return _with(request, "Cookie", f"{others}; {name}={value}" if others else f"{name}={value}")


def auth_problem(auth: Auth) -> str | None:
    """Validate an auth table; return the first missing key as an error, or None."""
    missing = [name for name in _NEEDED[auth.type] if not (getattr(auth, name) or "").strip()]
    if missing:
        return f"auth of type {auth.type} needs {' and '.join(missing)}"
    if auth.type == "bearer" and _BEARER.match(auth.token or ""):
        return "auth.token must not begin with 'Bearer': that is added"
    if auth.type == "api_key" and auth.place == "header" and (problem := name_problem(auth.name or "")):
        return f"auth.name: {problem}"
    return None


def secrets_of(auth: Auth | None) -> list[str]:
    """Return the texts that no error may contain."""
    if auth is None:
        return []
    secrets = (auth.token, auth.api_key, auth.password, auth.client_secret, auth.issued.value)
    return [text for text in secrets if text]


async def _token(auth: Auth, fetcher: Fetcher, timeout_s: float) -> str:
    token = auth.issued
    if token.is_good():
        return token.value
    async with token.lock:
        if not token.is_good():
            value, life_s = await _new_token(auth, fetcher, timeout_s)
            token.value, token.renew_at = value, time.monotonic() + 0.9 * life_s
    return token.value


async def _new_token(auth: Auth, fetcher: Fetcher, timeout_s: float) -> tuple[str, float]:
    form = {"grant_type": "client_credentials"}
    if auth.scopes:
        form["scope"] = " ".join(auth.scopes)
    if auth.audience:
        form["audience"] = auth.audience
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if auth.client_auth == "body":
        form |= {"client_id": auth.client_id or "", "client_secret": auth.client_secret or ""}
    else:
        pair = f"{quote(auth.client_id or '', safe='')}:{quote(auth.client_secret or '', safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    # Asking twice for a token changes nothing that matters.
    request = FetchRequest(method="POST", url=auth.token_url or "", headers=headers, body=urlencode(form).encode())
    request = attrs.evolve(request, repeatable=True, confidential=True)
    try:
        answer = await fetcher.fetch(request, timeout_s=timeout_s, max_bytes=MAX_TOKEN_BYTES)
    except FetchError as error:
        error.may_have_arrived = False  # the service of the tool itself was not asked
        raise
    try:
        data = json.loads(answer.body)
        value, life = data["access_token"], data.get("expires_in", DEFAULT_LIFE_S)
        if answer.status == 200 and (kind := data.get("token_type")) is not None and str(kind).lower() != "bearer":
            raise FetchError(
                f"no access token: the service issues tokens of type {kind!s:.40}, and only Bearer is sent",
                hint=_CHECK_AUTH,
            )
        is_token = isinstance(value, str) and value.strip() and value.isprintable() and value.isascii()
        if answer.status != 200 or not is_token:
            raise ValueError
        return value, min(max(float(life), 1.0), 86_400.0)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        retryable = answer.status >= 500 or answer.status == 429
        raise FetchError(
            f"no access token: the service at token_url answered {answer.status}", hint=_CHECK_AUTH, retryable=retryable
        ) from None


def _with(request: FetchRequest, name: str, value: str) -> FetchRequest:
    if not (value.isascii() and value.isprintable()):
        raise ToolError(f"the value for header {name} cannot be sent", hint=_CHECK_AUTH)
    return attrs.evolve(request, headers=merge_headers(request.headers, {name: value}))
