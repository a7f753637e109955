"""Signing in at a server over HTTP: OAuth 2.1 with PKCE, as the MCP SDK speaks it; programs share the tokens in a file.

Sources: MCP 2025-11-25 and 2026-07-28, "Authorization"; RFC 6749, 7591, 7636, 8414, 8707, 9207, 9728.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, Protocol

import httpx2
import mcp_types as types
from flexchat import __version__
from flexchat.host import DEFAULT_TENANT
from flexchat.plugin import run_in_thread
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth, union_scopes
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, PrivateAttr, ValidationError

from .authority import Authority, AuthorityError, Refusal, Send, token_in
from .errors import ServerUnusableError
from .settings import McpAuth, option
from .tokens import TokenFile

_CLOSING_S = 5.0


class Person(Protocol):
    """Somebody who can be sent to a page to sign in, and answer the questions of a server."""

    @property
    def redirect_uri(self) -> str:
        """Where the authorization server sends the person back to."""

    @property
    def problem(self) -> str:
        """Why a reply of the person did not match the request; empty if all did."""

    async def sign_in(self, url: str) -> AuthorizationCodeResult:
        """Send the person to a page, and return what the redirect brings back.

        Raises:
            OAuthFlowError: They refused, or did not come back.
        """

    async def answer(self, question: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer a question of the server in the middle of a call, or decline it."""


class Grant(OAuthClientProvider):
    """The SDK's provider, which signs in; what is granted is kept, and renewed by one program at a time.

    Args:
        url: The server's.
        file: Where it is kept.
        person: Who signs in; None: nobody can.
    """

    def __init__(self, url: str, auth: McpAuth, file: TokenFile, person: Person | None) -> None:
        self._auth, self._file, self._person = auth, file, person
        self._authority = Authority(url)
        self._seen: tuple[int, ...] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._redirect: AuthorizationCodeResult | None = None
        metadata = _ClientMetadata(
            client_name="FlexChat",
            software_id="flexchat",
            software_version=__version__,
            redirect_uris=[AnyUrl(person.redirect_uri if person is not None else "http://127.0.0.1/callback")],
        )
        metadata.always(auth.scope)
        super().__init__(url, metadata, self, client_metadata_url=auth.client_metadata_url)
        self.context.redirect_handler = self._open_page
        self.context.callback_handler = self._take_redirect

    @property
    def access_token(self) -> str | None:
        """What requests are sent with; None if there is none, or if it has run out."""
        tokens = self.context.current_tokens
        return tokens.access_token if tokens is not None and self.context.is_token_valid() else None

    async def token(self, send: Send) -> str | None:
        """Return the access token for a request, renewed if it has expired.

        Raises:
            AuthorityError: As renew.
        """
        await self._reload()
        tokens = self.context.current_tokens
        if tokens is not None and self.access_token is None:
            await self.renew(tokens.access_token, send)
        return self.access_token

    async def renew(self, stale: str, send: Send) -> bool:
        """Replace a token that is no longer good, by a new one or by one that another program got.

        Once sent, it continues even if the caller is cancelled: the server may have revoked the old token already.

        Returns:
            Whether there is another one; if not, a person has to sign in.

        Raises:
            AuthorityError: None can be had now; later, perhaps.
        """
        # One renewal for all requests: a server may revoke the refresh token at its first use, so that a second renewal
        # would sign the user out. A task of its own, because a caller may be cancelled after the request was sent.
        if self._renewing is None or self._renewing.done():
            task = asyncio.get_running_loop().create_task(self._renew(stale, send), context=contextvars.Context())
            task.add_done_callback(lambda task: task.cancelled() or task.exception())  # all callers may have left
            self._renewing = task
        renewing = self._renewing
        await asyncio.wait({renewing})
        renewing.result()
        return self.access_token not in (None, stale)

    async def sign_in(self, request: httpx2.Request, refused: httpx2.Response, send: Send) -> None:
        """Let the person sign in.

        Args:
            request: What the server refused, and how.

        Raises:
            OAuthFlowError: It has failed.
            ValueError: The server's metadata cannot be read.
        """
        context = self.context
        if refused.status_code == 401:
            context.clear_tokens()
        context.token_expiry_time = None  # else the SDK renews it, alone or not
        scopes, client = set((extract_scope_from_www_auth(refused) or "").split()), context.client_info
        if client is not None and client.scope is not None and not scopes <= set(client.scope.split()):
            context.client_info = self._configured_client()  # it may only ask for what it was registered with
        # The SDK's flow is driven by hand: its requests to the authorization server go through the guard, and the
        # refused request is not sent by it.
        async with contextlib.aclosing(self.async_auth_flow(request)) as flow:
            await anext(flow)
            step = await flow.asend(refused)
            while step is not request:
                step = await flow.asend(await self._authority.ask(step, send))

    async def aclose(self) -> None:
        """Wait for a token that is being renewed: it would be lost."""
        if self._renewing is not None:
            await asyncio.wait({self._renewing}, timeout=_CLOSING_S)

    async def _renew(self, stale: str, send: Send) -> None:
        # The lock excludes other programs; the file is read again inside it, since another may have renewed the token.
        async with self._file.locked():
            await self._reload()
            context = self.context
            if self.access_token not in (None, stale) or not context.can_refresh_token():
                return
            response = await self._authority.ask(await self._refresh_token(), send)
            refusal = Refusal.of(response)
            if response.status_code == 200 and not refusal.code:
                await self._store(token_in(response))
                return
            is_unknown_client = refusal.code == "invalid_client"
            # Tokens are discarded only after a final refusal: an outage must not sign the user out.
            if not refusal.is_final or (is_unknown_client and self._auth.client_id is not None):
                raise AuthorityError(refusal.text)
            context.clear_tokens()
            if is_unknown_client:
                context.client_info = None  # it registers again
            await self._store(None)

    async def _reload(self) -> None:
        """Take over what another program has written meanwhile."""
        state = self._file.state
        if state == self._seen:
            return
        data = await run_in_thread(self._file.read)
        self._seen = state
        context = self.context
        context.current_tokens = _read(OAuthToken, data.get("tokens"))
        context.client_info = _read(OAuthClientInformationFull, data.get("client"))
        context.oauth_metadata = _read(OAuthMetadata, data.get("server"))
        context.protected_resource_metadata = _read(ProtectedResourceMetadata, data.get("resource"))
        expires_at, issuer = data.get("expires_at"), data.get("issuer")
        context.token_expiry_time = expires_at if isinstance(expires_at, (int, float)) else None
        context.auth_server_url = issuer if isinstance(issuer, str) else None
        if (registered := self._configured_client()) is not None:
            if context.client_info is not None and context.client_info.client_id != registered.client_id:
                context.clear_tokens()  # they were given to another client
            context.client_info = registered

    async def _store(self, token: OAuthToken | None) -> None:
        """Write down what is known, with a token that has just come."""
        context, before = self.context, self.context.current_tokens
        if token is not None:
            # Fields that are left out are unchanged (RFC 6749, section 6).
            token.scope = token.scope or (before.scope if before else None)
            token.refresh_token = token.refresh_token or (before.refresh_token if before else None)
            context.current_tokens = token
            context.update_token_expiry(token)
        data: dict[str, Any] = {"expires_at": context.token_expiry_time, "issuer": context.auth_server_url}
        for name, value in (
            ("tokens", context.current_tokens),
            ("client", context.client_info),
            ("server", context.oauth_metadata),
            ("resource", context.protected_resource_metadata),
        ):
            if value is not None:
                data[name] = value.model_dump(mode="json", exclude_none=True)
        # In a thread: fsync may take long, and the event loop serves other turns.
        await run_in_thread(self._file.write, data)
        self._seen = self._file.state

    # What the SDK asks of its storage: everything is in one file, which _reload and _store read and write.

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        return self.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Leave them to _store."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client."""
        return self.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Leave it to _store."""

    async def _initialize(self) -> None:
        self._initialized = True  # _reload has done it

    async def _perform_authorization(self) -> httpx2.Request:
        server = self.context.oauth_metadata
        if server is not None and "S256" not in (server.code_challenge_methods_supported or ()):
            raise AuthorityError(f"{server.issuer} does not say that it checks who comes for a token (PKCE, S256)")
        return await super()._perform_authorization()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        refusal = Refusal.of(response)
        if response.status_code not in (200, 201) or refusal.code:
            raise AuthorityError(refusal.text)
        token = token_in(response)
        token.scope = token.scope or self.context.client_metadata.scope
        self.context.clear_tokens()
        async with self._file.locked():
            await self._store(token)

    async def _open_page(self, url: str) -> None:
        if self._person is None:
            raise OAuthFlowError("nobody can sign in here")
        server = self.context.oauth_metadata
        page = str(server.authorization_endpoint) if server is not None else ""
        if "?" in page:  # RFC 6749, section 3.1: what is there stays there
            url = f"{page}&{url.removeprefix(f'{page}?')}"
        self._authority.check_address(url)
        self._redirect = await self._person.sign_in(url)

    async def _take_redirect(self) -> AuthorizationCodeResult:
        assert self._redirect is not None, "_open_page comes first"
        return self._redirect

    def _configured_client(self) -> OAuthClientInformationFull | None:
        """Return the client that the config names, which was registered by hand."""
        auth = self._auth
        if auth.client_id is None:
            return None
        return OAuthClientInformationFull(
            client_id=auth.client_id,
            client_secret=auth.client_secret,
            redirect_uris=self.context.client_metadata.redirect_uris,
            token_endpoint_auth_method="client_secret_basic" if auth.client_secret else "none",
        )


class _ClientMetadata(OAuthClientMetadata):
    """The metadata with which a client registers; the SDK sets the scopes that the server requires."""

    _always: str | None = PrivateAttr(None)

    def always(self, scope: str | None) -> None:
        """Request these scopes, whatever the server requires."""
        self._always = self.scope = scope

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, union_scopes(value, self._always) if name == "scope" else value)


def _read(kind: Any, value: Any) -> Any:
    """Parse stored data as a record of the SDK; None if it is unreadable, which requires a new sign-in."""
    if value is None:
        return None
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None


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
