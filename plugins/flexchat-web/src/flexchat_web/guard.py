"""Who may talk to the server at all: Host, Origin, token. The outermost layer, before any work is done.

A page on another site can make a browser send requests to a server on this machine: by its address (Origin and
Sec-Fetch-Site reveal that), or by its own name pointed here (Host reveals that: DNS rebinding).
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import random
import re
import secrets
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from flexchat import StorageError
from flexchat.host import DEFAULT_TENANT, contained, current_principal, current_traceparent, current_tracestate
from flexchat.store import PathError
from flexchat_cli import current_request
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .identity import Identity
from .operations import Admission
from .problems import ApiError
from .sending import problem_response
from .serving import Serving
from .sessions import Sessions, bearer_of, cookie, is_secure, session_of

log, access = logging.getLogger(__name__), logging.getLogger("flexchat_web.access")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
MAX_PATH_CHARS = 1_000
"""Of a path in the log."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_FOREIGN = ("cross-site", "same-site")
PROBES = ("/health", "/ready")
"""Answered under any host name."""

MAX_DISCARD_S = 30.0
MAX_SILENCE_S = 1.0
"""How long the rest of a refused request is read in all, and how long for its next piece."""

MAX_DISCARD_PAUSE_S = 0.02
"""How long the reader of a refused request's rest pauses after a piece, at most."""

MIN_PACKED = 1_000
"""Bytes from which an answer is packed; a shorter one fits into one packet."""

MAX_PACKED = 4 * 1024 * 1024
"""Bytes up to which an answer is packed; a longer one would take a processor from all others for too long."""

QUICK_BYTES = 16 * 1024
"""Up to which an answer is packed in the event loop, in well under a millisecond."""

CORS_HEADERS = {
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers": (
        "authorization, content-type, idempotency-key, last-event-id, traceparent, tracestate, x-request-id"
    ),
    "access-control-max-age": "600",
}

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::([0-9]{1,5}))?")
_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_EVERYWHERE = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", _PAGE_POLICY.encode()),
)


class Guard:
    """An ASGI app around another: refuses callers that are not allowed, and lets no exception out.

    Args:
        is_open: Whether a path needs no token.
        admit: Judges a token that is not the server's, for a path.
        without_token: Returns a path as the log may have it.
    """

    def __init__(
        self,
        app: ASGIApp,
        serving: Serving,
        is_open: Callable[[str, str], bool],
        admit: Callable[[str, str], Awaitable[Admission]],
        without_token: Callable[[str], str],
    ) -> None:
        self._app, self._serving, self._settings, self._is_open = app, serving, serving.settings, is_open
        self._admit, self._without_token = admit, without_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = headers_of(scope)
        path = path_of(scope)
        current_principal.set(None)  # not that of the process, which its operator runs
        # Several traceparents are none, several tracestates are one: W3C Trace Context, 3.2 and 3.3.
        for name, variable in ((b"traceparent", current_traceparent), (b"tracestate", current_tracestate)):
            variable.set(",".join(v.decode("latin-1") for n, v in scope["headers"] if n == name))
        body = _Body(receive, headers)
        is_head, is_packed = scope["method"] == "HEAD", accepts_gzip(headers)
        # Given or new, it is on every record of the log, and goes back to the client.
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        current_request.set(request_id)
        added = [*self._response_headers(headers, path), (b"x-request-id", request_id.encode())]

        def is_admitted() -> bool:
            return self._serving.authentication.still_counts(scope.get("flexchat.identity"))

        answer = _Answer(send, added, body, is_admitted, is_packed=is_packed, is_head=is_head)
        began = time.perf_counter()
        try:
            with contained():  # a KeyboardInterrupt or SystemExit that reaches the event loop would stop the server
                response = await self._admitted(scope, headers, path) or self._app
                await response(scope, body.receive, answer)
        except Exception as error:  # noqa: BLE001  the last line of defence
            if answer.is_cut_off:
                return
            problem = error if isinstance(error, ApiError) else incident(error, self._serving.mask)
            if not answer.begun:
                await problem_response(problem, openai=path.startswith("/v1/"))(scope, receive, answer)
        finally:
            if access.isEnabledFor(logging.INFO):
                elapsed_ms = (time.perf_counter() - began) * 1000
                _log_request(scope, self._without_token(path), answer.status, elapsed_ms)

    async def _admitted(self, scope: Scope, headers: Mapping[str, str], path: str) -> Response | None:
        """Return the answer to a preflight or to a link with a token; None for a request that continues.

        Raises:
            ApiError: It is refused.
        """
        scope["flexchat.stranger"] = False
        try:
            self._check_host(headers)
        except ApiError:
            # Load balancers ask by address. A request by another name learns no more than that the server runs.
            if path not in PROBES or scope["method"] not in ("GET", "HEAD"):
                raise
            scope["flexchat.stranger"] = True
        allowed = self._check_origin(headers, path, scope["method"])
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers and allowed:
            return Response(None, 204, CORS_HEADERS)
        bearer, is_open = bearer_of(headers), self._is_open(scope["method"], path)
        authentication = self._serving.authentication
        identity: Identity | None = None
        with contextlib.suppress(ApiError) if is_open else contextlib.nullcontext():
            identity = await authentication.of_request(scope, bearer)
        # An app that judges tokens admits no client without one, even where the server requires none.
        admission = Admission() if identity is not None or is_open else await self._admit(path, bearer)
        if admission.tenant is not None:
            identity = Identity(tenant=admission.tenant, principal=admission.principal)
        elif identity is None and not (authentication.is_required or admission.challenge):
            identity = Identity(tenant=DEFAULT_TENANT)
        if identity is None and path == "/" and (response := await self._signed_in(scope, headers)):
            return response
        session = session_of(headers)
        if identity is None and not bearer and session and not is_open:
            with self._storing():
                identity = await self._serving.shared(Sessions).identity_of(session)
        if identity is None and not is_open:
            raise _refused(bearer, session, admission.challenge)
        scope["flexchat.stranger"] = scope["flexchat.stranger"] or identity is None
        identity = identity or Identity(tenant=DEFAULT_TENANT)
        scope["flexchat.tenant"] = identity.tenant
        scope["flexchat.identity"] = identity
        current_principal.set(identity.principal)
        return None

    @contextlib.contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except (StorageError, PathError) as error:
            log.error("%s", self._serving.mask(str(error)))
            raise ApiError(
                503, "the sessions of browsers cannot be read or stored; the server's log says why", kind="storage"
            ) from error

    def _check_host(self, headers: Mapping[str, str]) -> None:
        hosts = self._settings.hosts
        if hosts is not None and "*" in hosts:
            return
        match = _HOST.fullmatch(headers.get("host", ""))
        name = match[1].strip("[]").rstrip(".").lower() if match else ""
        allowed = LOOPBACK if hosts is None else tuple(host.strip("[]").lower() for host in hosts)
        if name not in allowed:
            raise ApiError(
                421,
                f"this server does not answer to the name {name!r} in the Host header, only to {', '.join(allowed)}; "
                "flexchat serve --allow-host NAME allows another"
                if name
                else "the Host header is missing or is not a name",
                kind="host",
            )

    def _check_origin(self, headers: Mapping[str, str], path: str, method: str) -> bool:
        """Return whether the request comes from another origin, one that may call."""
        origin = headers.get("origin")
        if origin is not None:
            if origin in self._settings.origins:
                return True
            if not _same_origin(origin, headers.get("host", "")):
                raise ApiError(
                    403,
                    f"pages of other sites may not call this server: the Origin header is {origin[:200]!r}, the Host "
                    f"header {headers.get('host', '')[:200]!r}. If both are this server, let the proxy pass on the "
                    "Host header; flexchat serve --allow-origin URL allows another site",
                    kind="origin",
                )
            return False
        # A link to the page itself may be anywhere.
        to_the_page = method in ("GET", "HEAD") and (path == "/" or path.startswith("/static/"))
        site = headers.get("sec-fetch-site")
        if site in _FOREIGN and not to_the_page:
            raise ApiError(
                403,
                f"pages of other sites may not call this server: the Sec-Fetch-Site header is {site!r}",
                kind="origin",
            )
        return False

    async def _signed_in(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        """Turn a link's token, /?token=…, into a cookie, and remove it from the address.

        A link on another site's page is not accepted: it could sign the user in to the account of an attacker, who
        then reads along. The page asks for the token in that case.
        """
        query = scope.get("query_string", b"").decode("latin-1")
        token = next((value for name, value in parse_qsl(query) if name == "token"), None)
        if token is None:
            return None
        base = scope.get("root_path", "") or ""
        if self._serving.authentication.of_token(token) is None:
            scope["flexchat.refused"] = True  # the page reports it, and asks for another
            return None
        response = Response(None, 303, {"location": f"{base}/"})
        if headers.get("sec-fetch-site") not in _FOREIGN:
            with self._storing():
                session = await self._serving.shared(Sessions).begin(token)
            response.headers["set-cookie"] = cookie(session, base=base, secure=is_secure(scope, headers))
        return response

    def _response_headers(self, headers: Mapping[str, str], path: str) -> list[tuple[bytes, bytes]]:
        added = [*_EVERYWHERE]
        if path != "/" and not path.startswith("/static/"):
            added.append((b"cache-control", b"no-store"))
        origin = headers.get("origin")
        if self._settings.origins:
            added.append((b"vary", b"Origin"))
        if origin is not None and origin in self._settings.origins:
            added += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", b"Location, Retry-After, X-Request-ID"),
            ]
        return added


def _log_request(scope: Scope, path: str, status: int, elapsed_ms: float) -> None:
    """Write the line of a request, once it is answered; without its query, in which there may be a token."""
    client = (scope.get("client") or ("",))[0]
    path = quote(path, safe="/:@-._~!$&'()*+,;={}")[:MAX_PATH_CHARS]
    fields = {"method": scope["method"], "path": path, "status": status, "elapsed_ms": round(elapsed_ms, 1)}
    fields["client"] = client
    ids = {"tenant": scope.get("flexchat.tenant", "")}
    line = "%s %s %d, %.0f ms, from %s"
    access.info(line, scope["method"], path, status, elapsed_ms, client, extra={"fields": fields, "ids": ids})


def incident(error: Exception, mask: Callable[[str], str]) -> ApiError:
    """Log an unexpected error under a number, and return the problem that names the number."""
    number = secrets.token_hex(4)
    log.error("incident %s: %s", number, mask("".join(traceback.format_exception(error)).rstrip()))
    return ApiError(
        500, f"something went wrong in the server; its log has the details under incident {number}", kind="incident"
    )


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return a request's headers by lower-case name; the last one if repeated."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path below the app's mount point."""
    path: str = scope["path"]
    base: str = scope.get("root_path", "") or ""
    return path.removeprefix(base) or "/" if base and (path == base or path.startswith(base + "/")) else path


def _same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or parts.hostname is None or parts.path or parts.query:
        return False
    usual = {"http": 80, "https": 443}[parts.scheme]
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    return (parts.hostname, port or usual) == (match[1].strip("[]").lower(), int(match[2] or usual))


def _refused(bearer: str, session: str, own_challenge: str) -> ApiError:
    challenge = 'Bearer error="invalid_token"'
    if bearer:
        text = "the server does not accept this token: ask whoever runs the server"
    elif session:
        text = "this session has ended: sign in again"
    else:
        text, challenge = "this server requires a token: send the header Authorization: Bearer TOKEN", "Bearer"
    return ApiError(401, text, kind="token", headers={"www-authenticate": own_challenge or challenge})


class _Body:
    """A request's body, and whether all of it has been read."""

    def __init__(self, receive: Receive, headers: Mapping[str, str]) -> None:
        self._receive = receive
        # A client that expects 100 sends nothing once it has another answer.
        self.is_read = "expect" in headers or not (
            "transfer-encoding" in headers or headers.get("content-length", "0").strip("0")
        )

    async def receive(self) -> Message:
        """Receive the next message."""
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.is_read = True
        return message

    async def discard(self) -> None:
        """Read the rest of the body, for a limited time.

        Closing a connection with unread data resets it, and the client loses the answer that explains the refusal.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MAX_DISCARD_S):
                while not self.is_read:
                    async with asyncio.timeout(MAX_SILENCE_S):
                        await self.receive()
                    # Pauses of different lengths: the bodies of many refused requests would otherwise be read in the
                    # same turns of the event loop, and every other request would wait for all of them.
                    await asyncio.sleep(random.uniform(0, MAX_DISCARD_PAUSE_S))


class _Answer:
    """Passes an answer on with the headers every answer has, packed if the client accepts that.

    A stream is cut off before its next piece once its client is no longer admitted.

    State: whether it has begun, and whether it is cut off.
    """

    def __init__(
        self,
        send: Send,
        headers: list[tuple[bytes, bytes]],
        body: _Body,
        is_admitted: Callable[[], bool],
        *,
        is_packed: bool,
        is_head: bool,
    ) -> None:
        self.begun, self.is_cut_off, self.status = False, False, 0
        self._send, self._headers, self._body, self._is_admitted = send, headers, body, is_admitted
        self._is_packed, self._is_head = is_packed and not is_head, is_head
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [*message.get("headers", ())]
            names = {name.lower() for name, _ in own}
            added = [(name, value) for name, value in self._headers if name not in names]
            self._start = {**message, "headers": [*own, *added]}  # its headers depend on the body
            self.status = message["status"]
            return
        is_last = not message.get("more_body", False)
        if self.begun and not is_last and not self._is_admitted():
            if not self.is_cut_off:
                self.is_cut_off = True
                await self._send({"type": "http.response.body", "body": b""})
            raise ClientDisconnect
        if self._is_head:
            message = {**message, "body": b""}
        if self._start is not None:
            start, self._start, self.begun = self._start, None, True
            if is_last and MIN_PACKED <= len(message.get("body", b"")) <= MAX_PACKED and is_compressible(start):
                start["headers"].append((b"vary", b"Accept-Encoding"))
                if self._is_packed:
                    message = {**message, "body": await _packed(message["body"])}
                    start["headers"] = [pair for pair in start["headers"] if pair[0] != b"content-length"]
                    start["headers"].append((b"content-length", str(len(message["body"])).encode()))
                    start["headers"].append((b"content-encoding", b"gzip"))
            await self._send(start)
        if is_last and not self._body.is_read:
            await self._send({**message, "more_body": True})
            await self._body.discard()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)


def accepts_gzip(headers: Mapping[str, str]) -> bool:
    """Return whether a client accepts gzip. Source: RFC 9110, 12.5.3."""
    weights = dict[str, str]()
    for each in headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = each.partition(";")
        weights[coding.strip()] = weight.replace(" ", "").removeprefix("q=") or "1"
    weight = weights.get("gzip", weights.get("*", "0"))
    return weight.strip("0.") != ""


def is_compressible(start: Mapping[str, Any]) -> bool:
    """Return whether an answer is a text that is not encoded yet."""
    headers = dict(start["headers"])
    kind = headers.get(b"content-type", b"").partition(b";")[0]
    is_text = kind.startswith(b"text/") or kind.endswith((b"json", b"javascript", b"xml"))
    return is_text and kind != b"text/event-stream" and b"content-encoding" not in headers


async def _packed(body: bytes) -> bytes:
    if len(body) <= QUICK_BYTES:
        return gzip.compress(body, 6, mtime=0)
    return await asyncio.to_thread(gzip.compress, body, 1, mtime=0)
