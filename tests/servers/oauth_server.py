"""An authorization server and an MCP server that it guards, as one ASGI app; strict about what it is sent."""

import asyncio
import base64
import hashlib
import secrets
from urllib.parse import parse_qs, urlencode

import attrs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, StreamingResponse
from starlette.routing import Route


@attrs.define
class Authority:
    """What the server knows; tests change it.

    Attributes:
        seconds: How long a token lives.
        scope: What a request needs.
        refuses: Whether the person refuses.
        person: Who sits at the browser.
        where: Where the server says that its metadata is; empty: where it is.
        says: What answers say besides or instead: those of "resource", "metadata" and "token".
        asked: The paths that were asked for, in order.
        grants: The kinds of grants at the token endpoint, in order.
        owners: Who signed in for a token that was ever given out: to get in, or to renew it.
    """

    base: str = ""
    seconds: int = 3_600
    scope: str = ""
    refuses: bool = False
    person: str = "somebody"
    where: str = ""
    says: dict[str, dict] = attrs.field(factory=lambda: {"resource": {}, "metadata": {}, "token": {}})
    asked: list[str] = attrs.field(factory=list)
    grants: list[str] = attrs.field(factory=list)
    clients: dict[str, dict] = attrs.field(factory=dict)
    codes: dict[str, dict] = attrs.field(factory=dict)
    tokens: dict[str, str] = attrs.field(factory=dict)
    refreshes: dict[str, str] = attrs.field(factory=dict)
    owners: dict[str, str] = attrs.field(factory=dict)

    def revoke(self):
        """Let no token in any more, nor renew one."""
        self.tokens.clear()
        self.refreshes.clear()

    def guarded(self, mcp):
        """Return an app: the MCP app behind tokens of this authority."""
        routes = [
            Route("/.well-known/oauth-protected-resource/mcp", self._resource),
            Route("/.well-known/oauth-authorization-server", self._metadata),
            Route("/register", self._register, methods=["POST"]),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
            Route("/flood", self._flood),
        ]
        pages = Starlette(routes=routes)

        async def app(scope, receive, send):
            if scope["type"] == "http":
                self.asked.append(scope["path"])
                if scope["path"] == "/mcp":
                    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                    refusal = self._refusal(headers.get("authorization", ""))
                    if refusal is not None:
                        return await refusal(scope, receive, send)
                elif any(route.path == scope["path"] for route in routes):
                    return await pages(scope, receive, send)
            return await mcp(scope, receive, send)

        return app

    def _refusal(self, authorization):
        scope = self.tokens.get(authorization.removeprefix("Bearer "))
        metadata = f'resource_metadata="{self.where or f"{self.base}/.well-known/oauth-protected-resource/mcp"}"'
        if scope is None:
            return JSONResponse({}, 401, {"www-authenticate": f"Bearer {metadata}"})
        if self.scope and self.scope not in scope.split():
            wants = f'Bearer error="insufficient_scope", scope="{self.scope}", {metadata}'
            return JSONResponse({}, 403, {"www-authenticate": wants})
        return None

    async def _resource(self, request: Request):
        return JSONResponse(
            {"resource": f"{self.base}/mcp", "authorization_servers": [self.base], **self.says["resource"]}
        )

    async def _flood(self, request: Request):
        async def forever():
            while True:
                yield b"data: more and more\n" * 1_000
                await asyncio.sleep(0)

        return StreamingResponse(forever(), media_type="text/event-stream")

    async def _metadata(self, request: Request):
        ends = {
            f"{name}_endpoint": f"{self.base}/{path}"
            for name, path in (("authorization", "authorize"), ("token", "token"), ("registration", "register"))
        }
        more = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
        more["authorization_response_iss_parameter_supported"] = True
        return JSONResponse({"issuer": self.base, **ends, **more, **self.says["metadata"]})

    async def _register(self, request: Request):
        client = {**await request.json(), "client_id": secrets.token_hex(4), "token_endpoint_auth_method": "none"}
        self.clients[client["client_id"]] = client
        return JSONResponse(client, 201)

    async def _authorize(self, request: Request):
        asked = dict(request.query_params)
        client = self.clients[asked["client_id"]]
        assert asked["redirect_uri"] in client["redirect_uris"], "it comes back somewhere else"
        assert asked["code_challenge_method"] == "S256"
        assert asked["resource"] == f"{self.base}/mcp"
        back = {"state": asked["state"], "iss": self.base}
        if self.refuses:
            back |= {"error": "access_denied", "error_description": "not today"}
        else:
            back["code"] = secrets.token_hex(8)
            self.codes[back["code"]] = {**asked, "person": self.person}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}")

    async def _token(self, request: Request):
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.grants.append(form["grant_type"])
        assert form["resource"] == f"{self.base}/mcp"
        if form["grant_type"] == "authorization_code":
            asked = self.codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if asked is None or base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
                return JSONResponse({"error": "invalid_grant"}, 400)
            scope, owner = asked.get("scope", ""), asked["person"]
        else:
            found = self.refreshes.pop(form["refresh_token"], None)  # each can be used once
            if found is None:
                return JSONResponse({"error": "invalid_grant"}, 400)
            scope, owner = found, self.owners[form["refresh_token"]]
        access, refresh = secrets.token_hex(16), secrets.token_hex(16)
        self.tokens[access], self.refreshes[refresh] = scope, scope
        self.owners[access] = self.owners[refresh] = owner
        made = {"access_token": access, "token_type": "bearer", "expires_in": self.seconds, "refresh_token": refresh}
        return JSONResponse(made | ({"scope": scope} if scope else {}) | self.says["token"])
