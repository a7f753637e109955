"""The transport of a server over HTTP: the SDK's client, whose requests go through FlexChat's guard of addresses."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import httpx2
from flexchat.host import Mask
from flexchat.plugin import FetchedStream, Fetcher, FetchError, FetchRequest, ToolSourceContext
from flexchat_sdk import clean_text
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from .authority import read_limited
from .errors import Code, ServerUnusableError, SessionGoneError
from .oauth import Person, SignIn
from .settings import McpAuth, McpConfig
from .tokens import TokensError

_NO_TOKEN = 'it needs a token: set auth = { oauth = true } in its table, or auth = { bearer = "${TOKEN}" }'
_WRONG_TOKEN = "it does not take the token in its table, which may be wrong or expired"
_REMEDIES = {
    403: "the token may lack a right for this, or the server does not allow this client",
    404: "check the path of url in its table; many servers are at /mcp",
    405: "check the path of url in its table; many servers are at /mcp",
    406: "it does not speak MCP over HTTP at this address: check url in its table",
    415: "it does not speak MCP over HTTP at this address: check url in its table",
    429: "it takes no more requests at present: try again later",
}
_BROKEN = "the server or a proxy before it is broken or busy: try again later"
MAX_BODY_CHARS = 200  # characters of a refusal's body that are shown
_MAX_WAIT_S = 24 * 3_600.0  # until headers arrive, some servers work: the limits of calls are elsewhere


def http_transport(
    config: McpConfig, context: ToolSourceContext, person: Person | None, tenant: str, ended: Callable[[str], None]
) -> AbstractAsyncContextManager[TransportStreams]:
    """Return the SDK's transport for a URL.

    Args:
        person: Can sign in if the server requires it; None if there is no one to ask.
        tenant: The owner of the tokens.
        ended: Called with the reason as a sentence when the connection has ended without the transport's noticing.

    Raises:
        ServerUnusableError: There is no client for addresses.
    """
    assert config.url is not None
    if context.fetcher is None:
        raise ServerUnusableError("there is no client for addresses")
    auth = config.auth or McpAuth()
    sent = dict(config.headers)
    if auth.bearer:
        sent["Authorization"] = f"Bearer {auth.bearer}"
    sign_in = SignIn(context.name, config.url, auth, person, tenant) if auth.oauth else None
    is_old = config.transport == "sse"
    mask = Mask(config.secrets())
    guarded = GuardedTransport(context.fetcher, sent, config.max_bytes, sign_in, ended if is_old else None, mask)

    # No timeout here: FlexChat's own clocks cancel the request. trust_env=False: a proxy of the environment would
    # bypass the guard.
    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=guarded, timeout=None, trust_env=False)

    if is_old:
        return sse_client(config.url, httpx_client_factory=client)
    return _streamable(config.url, client(), config.max_bytes)


@contextlib.asynccontextmanager
async def _streamable(url: str, client: httpx2.AsyncClient, max_bytes: int) -> AsyncIterator[TransportStreams]:
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=max_bytes) as streams:
        yield streams


def describe_status(error: BaseException) -> str:
    """Return the text of an answer that the SDK takes for the end of a connection; empty for another error."""
    if not isinstance(error, httpx2.HTTPStatusError):
        return ""
    try:
        details = error.response.json()["error"]
        if details["code"] in [*Code]:  # in the server's place, by the transport below
            return str(details["message"])
    except (ValueError, TypeError, KeyError, httpx2.StreamError):
        pass
    return f"it answered {error.response.status_code} {error.response.reason_phrase}".rstrip()


class _AnswerError(Exception):
    """An answer cannot be used: one of the codes of errors.py, and a sentence."""

    def __init__(self, code: int, text: str = "") -> None:
        self.code = code
        super().__init__(text)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """httpx2's transport over a Fetcher. It never raises: in the SDK, that would end every other request as well.

    Args:
        headers: Sent with each request to the server.
        max_bytes: The longest answer that is no stream of events.
        sign_in: Gives requests a token; None if the server needs none, or has one in the headers.
        ended: Called when a request was refused, for a transport whose answers arrive on another stream and then end.
        mask: Hides secrets in what the server answers.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        headers: dict[str, str],
        max_bytes: int,
        sign_in: SignIn | None,
        ended: Callable[[str], None] | None = None,
        mask: Callable[[str], str] = str,
    ) -> None:
        self._fetcher, self._headers, self._max, self._sign_in = fetcher, headers, max_bytes, sign_in
        self._ended, self._mask = ended, mask

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; answer in the server's place with a JSON-RPC error if there is no usable answer."""
        # Over SSE, answers arrive on another stream. A refused POST has none there, so its caller would wait for ever:
        # the whole connection is ended instead.
        response = await self._answer(request)
        if self._ended is not None and request.method == "POST" and response.status_code >= 300:
            why = f"it answered a message with HTTP {response.status_code}"
            self._ended(response.extensions.get("why", why))
        return response

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        message = _request_message(request)
        request.headers.update({**_trace_headers(message), **self._headers})
        try:
            if self._sign_in is not None:
                response = await self._sign_in.send(request, self._send)
            else:
                response = await self._send(request)
                if response.status_code == 401 and "www-authenticate" in response.headers:
                    raise ServerUnusableError(_WRONG_TOKEN if "authorization" in request.headers else _NO_TOKEN)
            if response.status_code == 404 and request.method == "POST" and "mcp-session-id" in request.headers:
                await response.aclose()
                return _error_response(request, Code.NO_SESSION, SessionGoneError("it no longer knows the session"))
            # A broken server may have done what a call asked: see below.
            is_call = message.get("method") == "tools/call"
            is_clear = response.status_code < 500 or not is_call
            if response.status_code >= 400 and request.method == "POST" and is_clear and not _is_error(response):
                return await self._refused(request, response)
            if is_call and self._ended is None and _is_no_answer(response):
                await response.aclose()
                raise _AnswerError(
                    Code.UNCLEAR, f"it answered with HTTP {response.status_code} ({_kind(response) or 'no type'})"
                )
            return response
        except FetchError as error:
            return _error_response(request, Code.LOST if error.may_have_arrived else Code.NOT_SENT, error)
        except (ServerUnusableError, TokensError) as error:
            return _error_response(request, Code.UNUSABLE, error)
        except _AnswerError as error:
            return _error_response(request, error.code, error)

    async def _refused(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Answer with status, address and remedy, of which the SDK keeps none."""
        status = response.status_code
        try:
            text = " ".join((await response.aread()).decode("utf-8", "replace").split())
        except httpx2.StreamError:
            text = ""
        body = "" if "html" in _kind(response) else self._mask(text)[:MAX_BODY_CHARS]
        remedy = _REMEDIES.get(status, _BROKEN if status >= 500 else "")
        if status == 401:
            remedy = _WRONG_TOKEN if "authorization" in request.headers else _NO_TOKEN
        where = str(request.url.copy_with(query=None, fragment=None, username="", password=""))
        parts = [f"{where} answered HTTP {status} {response.reason_phrase}".rstrip(), clean_text(body), remedy]
        error = ServerUnusableError("; ".join(part for part in parts if part))
        return _error_response(request, Code.REFUSED, error, status)

    async def aclose(self) -> None:
        """Wait for a token that is just being renewed."""
        if self._sign_in is not None:
            await self._sign_in.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, to the server or to one where one signs in.

        Raises:
            FetchError: There is no usable answer.
        """
        body = await request.aread()
        is_confidential = request.extensions.get("confidential", False)
        headers = {name: value for name, value in request.headers.items() if name != "user-agent"}
        sent = FetchRequest(method=request.method, url=str(request.url), headers=headers, body=body)
        # The fetcher must not send it again: a call whose answer is lost may have taken effect.
        sent = attrs.evolve(sent, repeatable=False, confidential=is_confidential)
        opening = self._fetcher.stream(sent, timeout_s=_MAX_WAIT_S)
        answer = await opening.__aenter__()
        received = {name: value for name, value in answer.headers.items() if name not in _OF_THE_CONNECTION}
        # A stream of events has no end to wait for; the SDK limits each event of it. The answer of an authorization
        # server is limited by its reader.
        if is_confidential or answer.headers.get("content-type", "").startswith("text/event-stream"):
            return httpx2.Response(answer.status, headers=received, stream=_Pieces(opening, answer), request=request)
        try:
            content = await read_limited(answer.pieces, self._max)
        finally:
            await opening.__aexit__(None, None, None)
        if content is None:
            raise _AnswerError(Code.TOO_LARGE)
        return httpx2.Response(answer.status, headers=received, content=content, request=request)


# The fetcher has decoded the body, so these no longer describe it.
_OF_THE_CONNECTION = {"content-encoding", "content-length", "transfer-encoding", "connection"}


class _Pieces(httpx2.AsyncByteStream):
    """A body as it arrives: a stream of events, or one whose reader has a limit of their own."""

    def __init__(self, opening: AbstractAsyncContextManager[FetchedStream], answer: FetchedStream) -> None:
        self._opening, self._answer = opening, answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.pieces:
                yield piece
        except FetchError as error:
            # As the SDK expects it of a broken body: then it ends this stream alone, not the transport.
            raise httpx2.ReadError(str(error)) from None

    async def aclose(self) -> None:
        await self._opening.__aexit__(None, None, None)


def _is_no_answer(response: httpx2.Response) -> bool:
    """Whether this may come from a gateway that did not wait, or a server that broke after it had acted.

    The SDK reports it as an error of the server; a status of 4xx means that the server refused.
    """
    kind = _kind(response)
    if response.status_code >= 500:
        return kind != "application/json" or not _is_error(response)
    is_read = kind.startswith(("application/json", "text/event-stream"))
    return response.status_code < 300 and (response.status_code == 202 or not is_read)


def _is_error(response: httpx2.Response) -> bool:
    """Whether it is an error of the protocol, in spite of its status."""
    try:
        return isinstance(json.loads(response.content)["error"]["code"], int)
    except (ValueError, TypeError, LookupError, RecursionError, httpx2.StreamError):
        return False


def _kind(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()[:100]


def _trace_headers(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the trace context of a message as headers, which proxies in front of a server read."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    return {name: value for name in ("traceparent", "tracestate") if isinstance(value := meta.get(name), str)}


def _request_message(request: httpx2.Request) -> Mapping[str, Any]:
    """Return the message of a request."""
    try:
        message = json.loads(request.content)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _error_response(request: httpx2.Request, code: int, error: Exception, status: int = 502) -> httpx2.Response:
    """Create the answer that the SDK passes on to the caller."""
    # With the request's id, the SDK routes it to one caller. A raised error would end its task group, and with it the
    # requests of all other callers.
    hint = getattr(error, "hint", None)
    message = f"{error} ({hint})" if hint else str(error)
    details = {"code": code, "message": message, "data": {"status": status}}
    data = {"jsonrpc": "2.0", "id": _request_message(request).get("id"), "error": details}
    return httpx2.Response(status, json=data, request=request, extensions={"why": message})
