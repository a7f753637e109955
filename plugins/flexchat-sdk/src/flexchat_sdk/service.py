"""One entry in ``llms``: the connection to its service, and the one way to send it a request."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from flexchat.domain.chat import ChatResult
from flexchat.domain.events import AnswerEnd, ChatEvent, result_of
from flexchat.errors import ProviderAuthError, ProviderError

from .body import Body
from .http.answer_shape import WrongShape
from .http.client import HttpAnswer, HttpClient, HttpStream, Timeouts
from .http.deadline import TimeLeft
from .http.secrets import refusal_data
from .http.settings import HttpSettings
from .http.wire_json import from_bytes
from .reading import SSE, Answer, AnswerReader, Framing, Reported
from .refusals import Refusals

if TYPE_CHECKING:
    import httpx


@attrs.frozen
class Key:
    """A header with a key of the service.

    Attributes:
        form: The header's value, with {} for the key.
    """

    header: str
    value: str | None
    form: str = "{}"


@attrs.frozen
class Refusal:
    """A service's error response. *body* is JSON data, or text."""

    status: int
    body: object


T = TypeVar("T")
Write = Callable[[Refusal | None], Body | Awaitable[Body | None] | None]
"""Writes a request. Called with None first, then with the service's refusal: a new body is sent instead, None gives
up."""


class Service:
    """The connection to one service. Opens with the first request; must be closed.

    Args:
        provider: The provider type's name, for errors.
        config: Address, timeouts and headers; ``base_url`` is its own field.
        refusals: What its refusals mean.
        keys: Each in its header; None for one that is not set.
        key_needed_at: Hosts that accept no request without a key, and the variable that usually holds it.
        framing: How it splits a stream.
        headers: Sent with every request; the config's extra_headers win.
        explain: Adds help to an error from an endpoint, in place: how to start a server that is down. It may see an
            error twice.
        base_url: Where all paths start; default: the config's.
        transport: None for real connections; httpx.MockTransport or similar in tests.

    Attributes:
        host: host[:port] of the service, for texts.
        endpoint: scheme://host[:port]; data it once sent goes back only to it: see ProviderData.
        mask: Removes keys from a text.
        unreadable: Makes the error for an answer that makes no sense, from a text that starts with a verb.
        http: The client, for anything no method here does.
    """

    def __init__(
        self,
        provider: str,
        config: HttpSettings,
        *,
        refusals: Refusals,
        keys: Sequence[Key] = (),
        key_needed_at: Mapping[str, str] | None = None,
        framing: Framing = SSE,
        headers: Mapping[str, str] | None = None,
        explain: Callable[[ProviderError, str], None] | None = None,
        base_url: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        sent = {"accept": "application/json, text/event-stream", **(headers or {})}
        sent |= {key.header: key.form.format(key.value) for key in keys if key.value}
        sent |= {name.lower(): value for name, value in config.extra_headers.items()}
        self.provider = provider
        self.http = HttpClient(
            provider,
            config.base_url if base_url is None else base_url,  # type: ignore[attr-defined]  # each provider's own field
            sent,
            timeouts=Timeouts.of(config),
            secrets=[secret for secret in (*(key.value for key in keys), *config.extra_headers.values()) if secret],
            transport=transport,
        )
        self.host, self.endpoint, self.mask = self.http.host, self.http.origin, self.http.mask
        self.unreadable, self.aclose = self.http.unreadable, self.http.aclose
        self._refusals, self._framing, self._explain = refusals, framing, explain
        self._variable: str | None = None
        if not any(key.header in sent for key in keys):
            self._variable = (key_needed_at or {}).get(self.host)

    async def answer(
        self, path: str, body: Body | Write, answer: Answer, *, model: str, timeout_s: float | None = None
    ) -> ChatResult:
        """Send a request and return the complete answer, which is read into ``answer``.

        Raises:
            ProviderError: There is none.
        """
        events = self._exchange(path, body, answer, model, timeout_s, whole=True)
        return result_of([event async for event in events])

    def pieces(
        self, path: str, body: Body | Write, answer: Answer, *, model: str, timeout_s: float | None = None
    ) -> AsyncGenerator[ChatEvent, None]:
        """Send a request and yield the answer as it arrives. Otherwise the same as answer."""
        return self._exchange(path, body, answer, model, timeout_s, whole=False)

    async def _exchange(
        self, path: str, body: Body | Write, answer: Answer, model: str, timeout_s: float | None, *, whole: bool
    ) -> AsyncGenerator[ChatEvent, None]:
        time_left = TimeLeft(timeout_s)
        try:
            self.check_key()
            sent = await _next_body(body, None)
            while sent is not None:
                async with self.http.stream(path, sent.content, timeout_s=time_left(), whole=whole) as came:
                    reader = self._reader(answer, came, path, model)
                    if came.status >= 400:
                        refusal = Refusal(came.status, refusal_data(await came.read()))
                        if (again := await _next_body(body, refusal)) is not None:
                            sent = again
                            continue
                        error = self._failed(refusal.body, refusal.status, came.headers, path, model)
                        last = reader.refused(refusal.body, error)
                    elif whole and not came.headers.get("content-type", "").startswith("text/event-stream"):
                        last = reader.whole(await came.read())
                    else:
                        async for piece in came:
                            for event in reader.feed(piece):
                                yield event if type(event) is not AnswerEnd else _warned(event, sent)
                            if reader.is_done and not whole:
                                await came.finish()
                                break
                        last = reader.end()
                for event in last:
                    yield event if type(event) is not AnswerEnd else _warned(event, sent)
                return
        except ProviderError as error:
            self._annotate(error, model)
            raise

    async def get(
        self,
        path: str,
        read: Callable[[Any], T],
        *,
        what: str,
        model: str | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """Request a path and return what ``read`` makes of the JSON.

        Args:
            read: Reads it; raises WrongShape, or another ValueError, if it cannot, and Reported for an error
                reported with status 200.
            what: What is requested, for the error: "a list of models".

        Raises:
            ProviderError: No JSON arrives, or it cannot be read.
        """
        return await self._request_json("GET", path, None, read, what, model, timeout_s)

    async def post(
        self,
        path: str,
        fields: Mapping[str, Any],
        read: Callable[[Any], T],
        *,
        what: str,
        model: str | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """Send fields to a path and return what ``read`` makes of the JSON. Otherwise the same as get."""
        return await self._request_json("POST", path, fields, read, what, model, timeout_s)

    def check_key(self) -> None:
        """Check that there is a key if one is needed.

        Raises:
            ProviderAuthError: There is none.
        """
        if self._variable is not None:
            raise ProviderAuthError(
                f"there is no key for {self.host}: set the environment variable {self._variable}, or "
                f"{self._refusals.key.partition(',')[0]}, or store it: flexchat keys set {self._variable}",
                provider=self.provider,
            )

    async def _request_json(
        self,
        method: str,
        path: str,
        fields: Mapping[str, Any] | None,
        read: Callable[[Any], T],
        what: str,
        model: str | None,
        timeout_s: float | None,
    ) -> T:
        try:
            self.check_key()
            content = b"" if fields is None else Body.of(fields).content
            came = await self.http.send(method, path, content, timeout_s=timeout_s)
            if came.status >= 400:
                raise self._failed(refusal_data(came.body), came.status, came.headers, path, model)
            try:
                value = from_bytes(came.body)
            except ValueError as error:
                text = f"sent {what} that cannot be read: it is not JSON, or was cut off: {error}; is base_url right?"
                raise self.unreadable(text) from error
            try:
                return read(value)
            except Reported as report:
                raise self._failed(report.body, None, came.headers, path, model) from None
            except ValueError as error:
                problem = self.unreadable(f"sent {what} that cannot be read: {error}; is base_url right?")
                problem.retryable = isinstance(error, WrongShape)
                raise problem from error
        except ProviderError as error:
            self._annotate(error, model)
            raise

    def _annotate(self, error: ProviderError, model: str | None) -> None:
        """Add the model and the provider to an error, and the provider's own explanation."""
        error.model = model
        error.provider = error.provider or self.provider
        if self._explain is not None:
            self._explain(error, self.endpoint)

    def _reader(self, answer: Answer, came: HttpAnswer | HttpStream, path: str, model: str) -> AnswerReader:
        def failed(body: object) -> ProviderError:
            return self._failed(body, None, came.headers, path, model)

        return AnswerReader(answer, failed, self.unreadable, self._framing)

    def _failed(
        self, body: object, status: int | None, headers: Mapping[str, str], path: str, model: str | None
    ) -> ProviderError:
        return self._refusals.error(
            body, status=status, headers=headers, host=self.host, path=path, model=model, mask=self.mask
        )


def _warned(end: AnswerEnd, sent: Body) -> AnswerEnd:
    return AnswerEnd(end.result.warned(sent.warnings))


async def _next_body(body: Body | Write, refusal: Refusal | None) -> Body | None:
    """Return the body of the first attempt, or of the next one after a refusal; None to give up."""
    if isinstance(body, Body):
        return body if refusal is None else None
    replacement = body(refusal)
    return await replacement if inspect.isawaitable(replacement) else replacement
