"""Sends a request with its service's key and the call's; the same for HTTP tools and OpenAPI operations.

Access tokens are got and renewed here (OAuth 2.0 client credentials, RFC 6749 4.4).
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping
from urllib.parse import quote, urlencode

import attrs
from flexchat.host import Mask
from flexchat.plugin import Fetched, Fetcher, FetchError, FetchRequest, ToolContext, ToolError
from flexchat_sdk import TimeLeft

from .answer import check_status
from .request import merge_headers, name_problem, with_query
from .settings import TIMEOUT_MS, Auth

DEFAULT_LIFE_S = 300.0  # lifetime of a token if the service does not state one, in seconds
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
    if missing := [name for name in _NEEDED[auth.type] if not (getattr(auth, name) or "").strip()]:
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
    return [*filter(None, (auth.token, auth.api_key, auth.password, auth.client_secret, auth.issued.value))]


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


_MARGIN = 0.95  # of the tool's time: what its service did is known better here than to the alarm that ends the tool


@attrs.frozen(kw_only=True)
class Sending:
    """Transport settings for the requests of one tool.

    Attributes:
        key_header: Header for the call's idempotency key; None if the service has none.
        secrets: Texts to mask in errors and results, in addition to those of auth.
    """

    auth: Auth | None = None
    key_header: str | None = None
    traceparent: bool = False
    max_bytes: int = 4 * 2**20
    secrets: tuple[str, ...] = ()

    async def send(self, request: FetchRequest, context: ToolContext) -> Fetched:
        """Send a request and return its answer, a success.

        Raises:
            FetchError: There was no answer, or the service refused or failed.
        """
        time_left = TimeLeft((context.tool.timeout_ms or TIMEOUT_MS) / 1000 * _MARGIN)
        request, key_sent = self._add_headers(request, context)
        for is_last in (False, True):
            with context.preparing():
                ready = await authorize(request, self.auth, context.fetcher, time_left() or 0.0)
            secrets = (*self.secrets, *secrets_of(self.auth))
            ready = attrs.evolve(ready, secrets=secrets)
            answer = await context.fetcher.fetch(
                ready, timeout_s=time_left() or 0.0, max_bytes=self.max_bytes, is_repeat=context.attempt > 1
            )
            if is_last or answer.status != 401 or self.auth is None or self.auth.type != "oauth2":
                break
            self.auth.issued.value = ""  # withdrawn before its time; a request refused for its key has done nothing
        check_status(answer, Mask(secrets), key_sent=key_sent)
        return answer

    def _add_headers(self, request: FetchRequest, context: ToolContext) -> tuple[FetchRequest, bool]:
        added: dict[str, str] = {}
        key = context.key if self.key_header is not None else None
        if self.key_header is not None and key is not None:
            added[self.key_header] = key
        if self.traceparent:
            added |= context.trace_context
        repeatable = request.is_safe or context.tool.effect != "write" or key is not None
        headers: Mapping[str, str] = merge_headers(request.headers, added) if added else request.headers
        return attrs.evolve(request, headers=headers, repeatable=repeatable), key is not None
