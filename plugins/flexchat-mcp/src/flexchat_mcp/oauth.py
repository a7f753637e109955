"""Signing in at a server over HTTP: OAuth 2.1 with PKCE, as the MCP SDK speaks it, with tokens that are kept.

Sources: MCP 2025-11-25 and 2026-07-28, "Authorization"; RFC 6749, 7591, 7636, 8414, 8707, 9207, 9728.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import httpx2
from flexchat.host import DEFAULT_TENANT
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth

from .authority import Send
from .errors import ServerUnusableError
from .grant import Grant, Person
from .settings import McpAuth
from .tenants import option
from .tokens import TokenFile


class SignIn:
    """Signs the requests of one tenant to one server.

    Args:
        name: What the config calls the server.
        person: Signs in if necessary; None without a person: a server that requires a sign-in is then an error.
        tenant: The owner of the tokens.
    """

    def __init__(self, name: str, url: str, auth: McpAuth, person: Person | None, tenant: str = DEFAULT_TENANT) -> None:
        self._has_person = person is not None
        self._command = f"flexchat mcp login {name}{option(tenant)}"
        self._grant = Grant(url, auth, TokenFile(url, tenant), person)
        self._signing_in = asyncio.Lock()
        self._failed = ""

    async def send(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Send a request with a token; sign in first if the server asks for it and there is a person.

        Args:
            send: Sends one request and returns its response.

        Raises:
            ServerUnusableError: Nobody can sign in here, or that failed; nothing was asked of the server.
            FetchError: There is no usable answer of the server.
        """
        grant = self._grant
        with self._renewing():
            used = await grant.token(send)
        response = await _send_signed(request, used, send)
        # A 401 for a token means that it was revoked or has expired early. The person is asked only when a renewed one
        # is refused as well.
        for _ in range(_RENEWALS):
            if response.status_code != 401 or used is None:
                break
            with self._renewing():
                if not await grant.renew(used, send):
                    break
            await response.aclose()
            used = grant.access_token
            response = await _send_signed(request, used, send)
        granted: list[str] = []
        while wish := _wish(response):
            await response.aclose()
            if not self._has_person:
                raise ServerUnusableError(f"{wish}: {self._command}")
            # The same demand twice means that signing in does not help: without this, a server could ask for ever.
            if wish in granted:
                self._failed = f"after signing in, still {wish}"
                raise ServerUnusableError(self._failed)
            granted.append(wish)
            # One browser window at a time; requests that waited use the token of the first sign-in.
            async with self._signing_in:
                if grant.access_token == used:  # otherwise another request has just signed in
                    await self._sign_in(request, response, send)
            used = grant.access_token
            response = await _send_signed(request, used, send)
        return response

    async def aclose(self) -> None:
        """Wait for what must not be cut off."""
        await self._grant.aclose()

    @contextlib.contextmanager
    def _renewing(self) -> Iterator[None]:
        try:
            yield
        except _TROUBLE as error:
            text = f"its token cannot be renewed: {_reason(error)}; if that goes on: {self._command}"
            raise ServerUnusableError(text) from None

    async def _sign_in(self, request: httpx2.Request, refused: httpx2.Response, send: Send) -> None:
        if self._failed:  # the SDK continues with an older protocol: do not ask the person twice
            raise ServerUnusableError(self._failed)
        try:
            await self._grant.sign_in(request, refused, send)
        except _TROUBLE as error:
            self._failed = f"signing in failed: {_reason(error)}"
            raise ServerUnusableError(self._failed) from None


_TROUBLE = (OAuthFlowError, ValueError, httpx2.HTTPError, httpx2.InvalidURL)
"""What the SDK raises for what an authorization server says."""
_MAX_REASON_CHARS = 500
_RENEWALS = 2
"""How often a request is sent again with another token: the first may be one that another program got a while ago."""


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0][:_MAX_REASON_CHARS] or type(error).__name__


async def _send_signed(request: httpx2.Request, token: str | None, send: Send) -> httpx2.Response:
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"
    return await send(request)


def _wish(response: httpx2.Response) -> str:
    if response.status_code == 401:
        return "it asks you to sign in"
    if response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope":
        return "it asks you to sign in with more rights"
    return ""
