"""Signing in at a server over HTTP: OAuth 2.1 with PKCE, as the MCP SDK speaks it, with tokens that are kept.

Sources: MCP 2025-11-25 and 2026-07-28, "Authorization"; RFC 6749, 7591, 7636, 8414, 8707, 9207, 9728.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import httpx2
import mcp_types as types
from flexchat import __version__
from flexchat.host import DEFAULT_TENANT
from flexchat.plugin import FetchError, run_in_thread
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, union_scopes
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from .errors import ServerUnusableError
from .settings import McpAuth
from .tenants import option
from .tokens import TokenFile

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class Person(Protocol):
    """Somebody who can be sent to a page to sign in, and answer the questions of a server."""

    @property
    def redirect_uri(self) -> str:
        """Where the authorization server sends them back to."""

    @property
    def problem(self) -> str:
        """Why an answer of theirs could not be given; empty if all could."""

    async def sign_in(self, url: str) -> AuthorizationCodeResult:
        """Send them to a page, and return what they come back with.

        Raises:
            OAuthFlowError: They refused, or did not come back.
        """

    async def answer(self, asked: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer a question of the server in the middle of a call, or decline it."""


class SignIn:
    """Signs the requests of one tenant to one server.

    Args:
        name: What the config calls the server.
        person: Who signs in if need be; None: nobody can, and a server that asks for it is an error.
        tenant: Whose tokens are sent.
    """

    def __init__(self, name: str, url: str, auth: McpAuth, person: Person | None, tenant: str = DEFAULT_TENANT) -> None:
        self._login, self._person = f"flexchat mcp login {name}{option(tenant)}", person
        self._provider = _Provider(url, auth, TokenFile(url, tenant), person)

    async def send(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Send a request with a token; sign in first if the server asks for it and there is a person.

        Args:
            send: Sends one request and returns its response.

        Raises:
            ServerUnusableError: Nobody can sign in here, or that failed.
        """
        flow = None
        try:
            await self._provider.look_at_file()
            flow = self._provider.async_auth_flow(request)
            asked = await anext(flow)
            while True:
                try:
                    response = await send(asked)
                except FetchError as error:
                    if asked is request:
                        raise
                    raise ServerUnusableError(f"signing in failed: {error}") from None
                if asked is request and self._person is None and (wish := _wish(response)):
                    await response.aclose()
                    raise ServerUnusableError(f"{wish}: {self._login}")
                if asked is not request:
                    await response.aread()
                try:
                    asked = await flow.asend(response)
                except StopAsyncIteration:
                    return response
        except (OAuthFlowError, ValidationError, httpx2.HTTPError) as error:
            text = str(error).partition("\n")[0]
            raise ServerUnusableError(f"signing in failed: {text or type(error).__name__}") from None
        finally:
            if flow is not None:
                await flow.aclose()


def _wish(response: httpx2.Response) -> str:
    if response.status_code == 401:
        return "it asks you to sign in"
    if response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope":
        return "it asks you to sign in with more rights"
    return ""


class _Provider(OAuthClientProvider):
    """The SDK's provider; what it learns is kept, so that another program can go on with it."""

    def __init__(self, url: str, auth: McpAuth, file: TokenFile, person: Person | None) -> None:
        self._auth, self._file, self._seen = auth, file, -1
        metadata = OAuthClientMetadata(
            client_name="FlexChat",
            software_id="flexchat",
            software_version=__version__,
            redirect_uris=[AnyUrl(person.redirect_uri if person is not None else "http://127.0.0.1/callback")],
            scope=auth.scope,
        )
        super().__init__(url, metadata, _Storage(self), client_metadata_url=auth.client_metadata_url)
        self._person = person
        self.context.redirect_handler = self._go
        self.context.callback_handler = self._return
        self._came_back: AuthorizationCodeResult | None = None

    async def look_at_file(self) -> None:
        """Take over what another program has written meanwhile."""
        changed_at = self._file.changed_at
        if changed_at == self._seen:
            return
        kept = await run_in_thread(self._file.read)
        self._seen = changed_at
        context = self.context
        context.current_tokens = _read(OAuthToken, kept.get("tokens"))
        context.client_info = _read(OAuthClientInformationFull, kept.get("client")) or self._registered()
        context.oauth_metadata = _read(OAuthMetadata, kept.get("server"))
        context.protected_resource_metadata = _read(ProtectedResourceMetadata, kept.get("resource"))
        expires_at, issuer = kept.get("expires_at"), kept.get("issuer")
        context.token_expiry_time = expires_at if isinstance(expires_at, (int, float)) else None
        context.auth_server_url = issuer if isinstance(issuer, str) else None

    async def keep(self) -> None:
        """Write down what is known."""
        context = self.context
        kept: dict[str, Any] = {"expires_at": context.token_expiry_time, "issuer": context.auth_server_url}
        for name, value in (
            ("tokens", context.current_tokens),
            ("client", context.client_info),
            ("server", context.oauth_metadata),
            ("resource", context.protected_resource_metadata),
        ):
            if value is not None:
                kept[name] = value.model_dump(mode="json", exclude_none=True)
        await run_in_thread(self._file.write, kept)
        self._seen = self._file.changed_at

    async def _initialize(self) -> None:
        self._initialized = True  # look_at_file has done it

    async def _perform_authorization(self) -> httpx2.Request:
        metadata = self.context.client_metadata
        metadata.scope = union_scopes(metadata.scope, self._auth.scope)
        return await super()._perform_authorization()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        await self.keep()

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        went_well = await super()._handle_refresh_response(response)
        await self.keep()
        return went_well

    async def _go(self, url: str) -> None:
        if self._person is None:
            raise OAuthFlowError("nobody can sign in here")
        self._came_back = await self._person.sign_in(url)

    async def _return(self) -> AuthorizationCodeResult:
        assert self._came_back is not None, "_go comes first"
        return self._came_back

    def _registered(self) -> OAuthClientInformationFull | None:
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


class _Storage:
    """What the SDK asks for; the provider itself keeps everything in one file."""

    def __init__(self, provider: _Provider) -> None:
        self._provider = provider

    async def get_tokens(self) -> OAuthToken | None:
        return self._provider.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        pass

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._provider.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        pass


def _read(kind: Any, value: Any) -> Any:
    """Return what was kept as the SDK's record; None if it cannot be read: then one signs in again."""
    if value is None:
        return None
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None
