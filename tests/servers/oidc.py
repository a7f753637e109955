"""oidc-provider, an authorization server that others wrote; an MCP server that asks for its tokens; a browser."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
from installed import Installed
from starlette.responses import JSONResponse

PACKAGE = "oidc-provider@9.13.3"
SCRIPT = Path(__file__).with_name("oidc_server.mjs")


@attrs.frozen
class Oidc:
    """The running authorization server; see oidc_server.mjs.

    Attributes:
        issuer: Its address, and how it calls itself.
    """

    issuer: str

    @classmethod
    @contextlib.contextmanager
    def running(cls, installed: Installed, **options: Any) -> Iterator[Oidc]:
        """Start it for a while, which is installed now if it was not."""
        folder = installed.npm(PACKAGE).parent.parent
        command = [str(installed.node() / "node"), str(SCRIPT), str(folder), json.dumps(options)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, text=True, **pipes) as process:
            try:
                yield cls(process.stdout.readline().strip())
            finally:
                process.kill()

    def test(self, name: str, **told: Any) -> dict:
        """Tell it something, and return what it has seen."""
        parts = urllib.parse.urlsplit(self.issuer)
        return _sent(f"{parts.scheme}://{parts.netloc}/test/{name}", json.dumps(told).encode())

    @property
    def seen(self) -> dict:
        """What was asked for at the token endpoint: grants, errors, and how many requests were held."""
        return self.test("seen")

    def counts(self, grant: str = "refresh_token") -> int:
        """Return how often tokens were given for a kind of grant."""
        return sum(each["grant"] == grant for each in self.seen["grants"])

    def introspect(self, token: str) -> dict:
        """Ask what is known of a token (RFC 7662)."""
        form = {"token": token, "client_id": "resource", "client_secret": "resource-secret"}
        return _sent(f"{self.issuer}/token/introspection", urllib.parse.urlencode(form).encode())

    def revoke(self, token: str, client_id: str, client_secret: str | None) -> None:
        """Take a token back (RFC 7009)."""
        form = {"token": token, "client_id": client_id} | ({"client_secret": client_secret} if client_secret else {})
        _sent(f"{self.issuer}/token/revocation", urllib.parse.urlencode(form).encode())


def _sent(url: str, body: bytes) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
        return json.loads(answer.read() or b"null")


@attrs.define
class Resource:
    """Lets requests to an MCP app in by what the authorization server says of their tokens.

    Attributes:
        base: Where it is served.
        metadata: What it says of itself (RFC 9728), beyond what it has to.
        rights: What a tool needs beyond tools:read.
        asked: The status of each answer to a request for MCP.
        tokens: All tokens it was sent.
    """

    oidc: Oidc
    base: str = ""
    metadata: dict = attrs.field(factory=dict)
    rights: dict[str, str] = attrs.field(factory=dict)
    asked: list[int] = attrs.field(factory=list)
    tokens: set[str] = attrs.field(factory=set)

    @property
    def url(self) -> str:
        """Where MCP is spoken, and what tokens are for."""
        return f"{self.base}/mcp"

    def guarded(self, mcp: Any) -> Any:
        """Return an app: the MCP app behind tokens."""

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return await mcp(scope, receive, send)
            if scope["path"] == "/.well-known/oauth-protected-resource/mcp":
                told = {"resource": self.url, "authorization_servers": [self.oidc.issuer], **self.metadata}
                return await JSONResponse(told)(scope, receive, send)
            if scope["path"] != "/mcp":
                return await JSONResponse({}, 404)(scope, receive, send)
            pieces = [await receive()]
            while pieces[-1].get("more_body"):
                pieces.append(await receive())
            refusal = await self._refusal(dict(scope["headers"]), b"".join(each.get("body", b"") for each in pieces))
            self.asked.append(refusal.status_code if refusal else 200)
            if refusal is not None:
                return await refusal(scope, receive, send)

            async def again() -> Any:
                return pieces.pop(0) if pieces else await receive()

            return await mcp(scope, again, send)

        return app

    async def _refusal(self, headers: dict, body: bytes) -> JSONResponse | None:
        token = headers.get(b"authorization", b"").decode().removeprefix("Bearer ")
        where = f'resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
        if token:
            self.tokens.add(token)
        form = {"token": token, "client_id": "resource", "client_secret": "resource-secret"}
        async with httpx.AsyncClient() as client:
            found = (await client.post(f"{self.oidc.issuer}/token/introspection", data=form)).json() if token else {}
        if not found.get("active") or found.get("aud") != self.url:
            return JSONResponse({}, 401, {"www-authenticate": f'Bearer scope="tools:read", {where}'})
        asked = json.loads(body) if body else {}
        tool = asked.get("params", {}).get("name") if asked.get("method") == "tools/call" else None
        wanted = self.rights.get(tool, "tools:read")
        if wanted not in found.get("scope", "").split():
            how = f'Bearer error="insufficient_scope", scope="{wanted}", {where}'
            return JSONResponse({}, 403, {"www-authenticate": how})
        return None


class Visitor:
    """A browser with cookies, and a person who signs in and agrees.

    Attributes:
        agrees: What they answer when asked.
        pages: The addresses they came by.
        changes: What becomes of an address before it is visited: for those who meddle.
    """

    def __init__(self) -> None:
        self.agrees, self.pages = True, []
        self.changes = lambda url: url
        self._cookies = http.cookiejar.CookieJar()

    def go(self, url: str) -> str:
        """Visit a page, follow it, answer its forms; return the last page."""
        return self._page(urllib.request.Request(self.changes(url)))

    def _page(self, request: urllib.request.Request) -> str:
        visitor = self

        class Following(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
                newurl = visitor.changes(newurl)
                visitor.pages.append(newurl)
                return super().redirect_request(req, fp, code, msg, headers, newurl)

        opener = urllib.request.build_opener(Following, urllib.request.HTTPCookieProcessor(self._cookies))
        try:
            with opener.open(request) as answer:
                url, page = answer.url, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()
        form = re.search('<form method="post" action="([^"]*)"', page)
        if form is None:
            return page
        given = {"who": "ada", "answer": "yes" if self.agrees else "no"}
        target = urllib.parse.urljoin(url, form[1])
        return self._page(urllib.request.Request(target, urllib.parse.urlencode(given).encode()))
