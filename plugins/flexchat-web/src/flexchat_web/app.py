"""The ASGI application: finds a request's operation, has the request checked, and sends the answer."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexchat import ConfigError, FlexChatError, Problem
from flexchat.host import MAX_KEY_CHARS, installed_plugins, is_key
from flexchat_cli import find_config
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import compile_path
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from . import plugin_api
from .apart import Apart
from .api.errors import problem_of
from .checking import Route, Unread, arriving, read_body, restored
from .extensions import collect_apps, collect_operations, collect_pages
from .guard import Guard, incident, path_of
from .openapi import openapi_operation
from .operations import Admission, Bytes, Call, Event, MountedApp, Operation, Stream, Upload
from .page_files import STATIC, PageFiles
from .problems import ApiError
from .sending import (
    SlowReaderError,
    Streams,
    ended,
    is_current,
    problem_response,
    response_of,
    send_bytes,
    send_stream,
    stream_head,
)
from .serving import Serving, Settings
from .sessions import is_secure, session_of

if TYPE_CHECKING:
    from flexchat.host import PluginHost, ReadConfig

_NO_CACHE = {"cache-control": "no-cache"}
_IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}


def create_app(
    source: Path | str | ReadConfig | Mapping[str, Any] | None = None,
    *,
    plugins: PluginHost | None = None,
    settings: Settings | None = None,
    watch: bool = False,
) -> WebApp:
    """Return FlexChat as an ASGI application; it can be mounted in another.

    Args:
        source: The configuration's file, the result of reading it, or tables; default: FLEXCHAT_CONFIG, else
        flexchat.toml, .yaml or .json here. plugins: The plugins to use; default: all that are installed. watch:
        Whether to reread the file when it changes.

    Raises:
        ConfigError: Everything that is wrong with the configuration.
    """
    if source is None:
        source = find_config()
        if source is None:
            raise ConfigError([Problem(path="", text="there is no flexchat.toml here; name a configuration file")])
    if isinstance(source, str):
        source = Path(source)
    return WebApp(Serving(source, plugins or installed_plugins(), settings or Settings()), watch=watch)


class WebApp:
    """FlexChat as an ASGI application.

    It closes what it holds when the server shuts down; mounted in an app that does not pass that on, call ``aclose``.

    Attributes:
        serving: The current chat, and what the operator allows.
        streams: The server-sent event streams in progress.
        operations: What it can do, in the order of the documents; plugins that a changed configuration blocks take
        theirs along.
    """

    def __init__(self, serving: Serving, *, watch: bool = False) -> None:
        self.serving = serving
        self.streams = Streams()
        self._static = StaticFiles(directory=STATIC)
        self._watch = watch
        self._works: list[asyncio.Task[None]] = []
        self._guard = Guard(
            self._answer, serving, self._is_open, self._admit, lambda path: self._routes.without_token(path)
        )
        self._offer()

    def _offer(self) -> None:
        """Offer what the current plugins add to ours."""
        serving = self.serving
        self._plugins = serving.plugins
        self.operations: tuple[Operation, ...] = (
            *collect_operations(serving),
            openapi_operation(lambda: self.operations),
        )
        self._routes = Routes(self.operations)
        self._apps = [*collect_apps(serving, self.operations)]
        pages = list(collect_pages(serving))
        self._files = PageFiles(pages)
        self._page_files = {page.name: StaticFiles(directory=page.folder, check_dir=False) for page in pages}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        self._begin()
        if self._plugins is not self.serving.plugins:
            self._offer()
        await self._guard(scope, receive, send)

    async def aclose(self) -> None:
        """Close what is open: streams, stores, connections, the watch over the file."""
        self.streams.stop()
        while self._works:
            await ended(self._works.pop())
        await self.serving.aclose()

    def _begin(self) -> None:
        """Start the background work with the first request: a mounted app gets no lifespan event."""
        if self._works:
            return
        if self.serving.settings.resume:
            from .api.turns import resume_forever

            self._works.append(asyncio.create_task(resume_forever(self.serving)))
        if self.serving.authentication.files:
            self._works.append(asyncio.create_task(self.serving.authentication.watch()))
        if self._watch:
            self._works.append(asyncio.create_task(self.serving.watch()))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._begin()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _is_open(self, method: str, path: str) -> bool:
        if path == "/" or path.startswith("/static/"):
            return True
        if (app := self._app_at(path)) is not None:
            return path in app.open_paths
        with contextlib.suppress(ApiError):
            return self._routes.find(method, path)[0].operation.open
        return False

    def _app_at(self, path: str) -> MountedApp | None:
        return next((app for app in self._apps if app.answers(path)), None)

    async def _admit(self, path: str, bearer: str) -> Admission:
        app = self._app_at(path)
        return Admission() if app is None or app.admit is None else await app.admit(self.serving, bearer)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], path_of(scope)
        if path == "/" or path.startswith("/static/"):
            await (await self._page(path, scope))(scope, receive, send)
            return
        if (app := self._app_at(path)) is not None:
            await app.handle(self.serving, scope, receive, send)
            return
        if method == "OPTIONS":
            await Response(None, 204, {"allow": self._routes.methods(path)})(scope, receive, send)
            return
        route, parameters = self._routes.find(method, path)
        try:
            try:
                call = await self._checked(route, parameters, Request(scope, receive))
            except FlexChatError as error:  # a file could not be stored
                raise problem_of(error, self.serving.mask, openai=route.operation.openai_errors) from error
            disconnect = asyncio.create_task(_wait_for_disconnect(receive))
            work = asyncio.create_task(self._run(route.operation, call, scope, receive, send))
            try:
                await asyncio.wait({disconnect, work}, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
            finally:
                await ended(disconnect)
                await ended(work)
        except (ClientDisconnect, SlowReaderError):
            pass  # the client has gone
        except ApiError as problem:
            await problem_response(problem, openai=route.operation.openai_errors)(scope, receive, send)

    async def _run(self, operation: Operation, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        reply = await operation.handle(call)
        if isinstance(reply, Bytes):
            await send_bytes(reply, scope, send)
            return
        if not isinstance(reply, Stream):
            await response_of(reply)(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            await reply.events.aclose()
            await send({"type": "http.response.start", "status": 200, "headers": stream_head(reply).raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return

        def failed(error: Exception) -> Event:
            problem = error if isinstance(error, ApiError) else incident(error, self.serving.mask)
            if operation.openai_errors:
                return Event(None, problem.to_openai())
            return Event("error", problem.to_dict())

        await send_stream(reply, send, failed=failed, streams=self.streams)

    async def _checked(self, route: Route, parameters: dict[str, str], request: Request) -> Call:
        operation, settings, scope, headers = route.operation, self.serving.settings, request.scope, request.headers
        if operation.edits and not settings.edit:
            raise ApiError(
                403,
                "the configuration cannot be changed through this server; flexchat serve --edit allows it",
                kind="edit",
            )
        may_edit = settings.edit
        if operation.edits or operation.permission or may_edit:
            async with self.serving.chat() as chat:
                for permission in (operation.permission, "edit" if operation.edits else ""):
                    if permission:
                        chat.require(permission, tenant=scope["flexchat.tenant"])
                may_edit = may_edit and chat.permits("edit")
        query = route.query(scope.get("query_string", b""))
        length = headers.get("content-length", "")
        upload = Upload(
            serving=self.serving,
            tenant=scope["flexchat.tenant"],
            content_type=headers.get("content-type", ""),
            pieces=arriving(request, seconds=settings.body_seconds),
            length=int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None,
        )
        body: Any
        if (read := route.upload(upload.content_type)) is not None:
            async with contextlib.aclosing(upload.pieces):
                body = await read(upload)
            if operation.body is not None:
                route.body(b"", "").check(body)
        else:
            max_bytes = min(operation.max_body_bytes, settings.max_body_bytes)
            unread = route.body(
                await read_body(request, max_bytes=max_bytes, seconds=settings.body_seconds), upload.content_type
            )
            if operation.unread:
                body = unread
            elif unread.is_quick:
                body = unread.read()
            else:
                marked = await Apart.of(self.serving).run(Unread.read_marked, unread.shortened())
                body = restored(marked, unread.texts, unread.base64_at)
        return Call(
            serving=self.serving,
            web=plugin_api,
            body=body,
            query=query,
            path=parameters,
            tenant=scope["flexchat.tenant"],
            may_edit=may_edit,
            wants_stream="text/event-stream" in headers.get("accept", ""),
            last_event_id=_last_event_id(headers) if operation.resumes else 0,
            key=_key(headers) if operation.takes_key else None,
            retries=_retries(headers) if operation.takes_key else 0,
            base=scope.get("root_path", "") or "",
            secure=is_secure(scope, headers),
            session=session_of(headers),
            is_stranger=scope["flexchat.stranger"],
            files=upload.files,
        )

    async def _page(self, path: str, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            raise ApiError(405, "this path is read-only", headers={"allow": "GET, HEAD"})
        if path == "/":
            return await self._index(scope)
        name, is_newest = self._files.current(path.removeprefix("/static/"))
        cached = _IMMUTABLE if is_newest else _NO_CACHE
        if name == "plugins.js":
            return Response(self._files.plugins, headers=cached, media_type="text/javascript")
        if name == "css/all.css":
            return Response(self._files.styles, headers=cached, media_type="text/css")
        files = self._static
        if name.startswith("plugins/"):
            owner, _, name = name.removeprefix("plugins/").partition("/")
            files = self._page_files.get(owner, files)
        try:
            response = await files.get_response(name, {**scope, "root_path": "", "path": f"/{name}"})
        except (HTTPException, ValueError, OSError):
            raise ApiError(404, "there is no such file") from None
        response.headers.update(cached)
        return response

    async def _index(self, scope: Scope) -> Response:
        with contextlib.suppress(OSError):  # a file that is being replaced
            await asyncio.to_thread(self._files.refresh)
        if "flexchat.refused" in scope:  # the page is shown, not found to be unchanged
            return HTMLResponse(self._files.index, 401, _NO_CACHE)
        headers = {**_NO_CACHE, "etag": f'"{self._files.version}"'}
        if is_current(scope, headers["etag"]):
            return Response(None, 304, headers)
        return HTMLResponse(self._files.index, 200, headers)


class Routes:
    """Finds the operation of a request."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._paths: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        for operation in operations:
            pattern = compile_path(operation.path)[0]
            methods = self._paths.setdefault(operation.path, (pattern, {}))[1]
            if operation.method in methods:
                raise ValueError(f"two operations for {operation.method} {operation.path}")
            methods[operation.method] = Route(operation)
        self._with_token = [pattern for pattern, _ in self._paths.values() if "token" in pattern.groupindex]

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Find the route of a request, and the parameters of its path.

        Raises:
            ApiError: 404: no operation has this path; 405: none with this path has this method.
        """
        methods, parameters = self._of(path)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allow = self.methods(path)
            raise ApiError(405, f"{method[:20]} is not allowed here, only {allow}", headers={"allow": allow})
        return route, parameters

    def methods(self, path: str) -> str:
        """Return the methods of a path as the header Allow lists them.

        Raises:
            ApiError: 404.
        """
        methods = self._of(path)[0]
        return ", ".join([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])

    def without_token(self, path: str) -> str:
        """Return a path for the log: ``{token}`` replaces a token, with which anyone who reads it could reply."""
        for pattern in self._with_token:
            if match := pattern.fullmatch(path):
                return path.replace(match["token"], "{token}")
        return path

    def _of(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        # A path without parameters is found at once, and before a pattern that would fit it as well.
        for pattern, methods in [self._paths[path]] if path in self._paths else self._paths.values():
            if match := pattern.fullmatch(path):
                return methods, match.groupdict()
        raise ApiError(404, "there is nothing at this path; /openapi.json lists what there is")


def _last_event_id(headers: Mapping[str, str]) -> int:
    header = headers.get("last-event-id", "").strip() or "0"
    if not (header.isascii() and header.isdigit() and len(header) < 16):
        raise ApiError(400, "the Last-Event-ID header must be the id of an event of this turn: a number")
    return int(header)


def _key(headers: Mapping[str, str]) -> str | None:
    header = headers.get("idempotency-key")
    if header is None:
        return None
    key = header.strip()
    if len(key) > 1 and key[0] == key[-1] == '"':  # a string, as the IETF's draft has it
        key = key[1:-1]
    if not is_key(key):
        text = f"the Idempotency-Key header must have 1 to {MAX_KEY_CHARS} printable characters"
        raise ApiError(400, text, kind="idempotency-key")
    return key


def _retries(headers: Mapping[str, str]) -> int:
    header = headers.get("x-stainless-retry-count", "").strip()
    return int(header) if header.isascii() and header.isdigit() and len(header) < 4 else 0


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
