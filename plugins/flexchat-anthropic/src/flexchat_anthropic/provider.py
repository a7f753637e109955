"""Talks to the server: the only module of this package that does."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from urllib.parse import quote

import httpx
from flexchat.plugin import ChatResult
from flexchat.provider import (
    AnswerEnd,
    ChatEvent,
    ChatOptions,
    HttpClient,
    Message,
    ModelInfo,
    ProviderAuthError,
    ProviderError,
    TimeLeft,
    Timeouts,
    from_bytes,
    refusal_data,
    result_of,
)

from .config import AnthropicConfig
from .errors import is_about_thinking, service_error
from .models import longest_answer, read_models
from .request import FALLBACK_MAX_TOKENS, RequestBody, RequestWriter
from .stream import AnthropicStream

ANTHROPIC_HOST = "api.anthropic.com"
LONGEST_UNSTREAMED = 16_384
"""Tokens of an answer above which it is asked for as a stream also where nobody listens: connections on which nothing
comes for minutes break."""

_VERSION_AT_END = re.compile(r"/v1/?(?:\?|$)")
_MOST_PAGES = 100
_LOOK_UP_S = 10.0
_WITHOUT_THINKING = "the service refused earlier thinking, as the conversation has changed since: it was left out"


class AnthropicProvider:
    """One llms entry. Holds connections, which open with the first request.

    Args:
        transport: None for real connections; httpx.MockTransport and its like in tests.

    Attributes:
        endpoint: scheme://host[:port] of the service.
    """

    name = "anthropic"

    def __init__(self, config: AnthropicConfig, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        headers = {"accept": "application/json, text/event-stream", "anthropic-version": config.api_version}
        if config.betas:
            headers["anthropic-beta"] = ",".join(config.betas)
        if config.api_key:
            headers["x-api-key"] = config.api_key
        if config.auth_token:
            headers["authorization"] = f"Bearer {config.auth_token}"
        headers |= {name.lower(): value for name, value in config.extra_headers.items()}
        self._http = HttpClient(
            self.name,
            config.base_url,
            headers,
            timeouts=Timeouts.of(config),
            secrets=[s for s in (config.api_key, config.auth_token, *config.extra_headers.values()) if s],
            transport=transport,
        )
        self.endpoint = self._http.origin
        self._lacks_key = self._http.host == ANTHROPIC_HOST and not headers.keys() & {"x-api-key", "authorization"}
        self._base = "" if _VERSION_AT_END.search(config.base_url) else "/v1"
        self._writer = RequestWriter(
            self._http.origin,
            api_version=headers["anthropic-version"],
            max_tokens=config.max_tokens,
            cache={"type": "ephemeral", "ttl": config.cache_ttl} if config.cache else None,
            extra=config.extra_body,
        )
        self._limits: dict[str, int] = {}

    def tool_format(self, model: str) -> str:
        """Return the one tool format there is."""
        return "anthropic"

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Hold one exchange; see ChatProvider."""
        self._check_key()
        left = TimeLeft(options.timeout_s)
        try:
            limit = await self._max_tokens(model, options, left)
            if limit > LONGEST_UNSTREAMED:
                return result_of([event async for event in self._streamed(messages, model, options, limit, left)])
            sent = self._writer.body(messages, model, options, max_tokens=limit)
            answer = await self._http.post(self._path("messages"), sent.content, timeout_s=left())
            if answer.status == 400 and is_about_thinking(refusal_data(answer.body)):
                sent = self._without_thinking(messages, model, options, limit)
                answer = await self._http.post(self._path("messages"), sent.content, timeout_s=left())
            if answer.status >= 400:
                raise self._failed(answer.status, answer.headers, model, refusal_data(answer.body))
            stream = self._reader(answer.headers, model)
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                return result_of([*stream.feed(answer.body), *stream.end()]).warned(sent.warnings)
            return result_of(stream.whole(answer.body)).warned(sent.warnings)
        except ProviderError as error:
            error.model = model
            raise

    async def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it comes; see StreamingProvider."""
        self._check_key()
        left = TimeLeft(options.timeout_s)
        try:
            limit = await self._max_tokens(model, options, left)
            async with contextlib.aclosing(self._streamed(messages, model, options, limit, left)) as events:
                async for event in events:
                    yield event
        except ProviderError as error:
            error.model = model
            raise

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return what the service offers; see ChatProvider."""
        self._check_key()
        models: list[ModelInfo] = []
        after: str | None = ""
        for _ in range(_MOST_PAGES):
            page = f"&after_id={quote(after, safe='')}" if after else ""
            answer = await self._http.get(self._path(f"models?limit=1000{page}"))
            if answer.status >= 400:
                raise self._failed(answer.status, answer.headers, None, refusal_data(answer.body))
            try:
                found = read_models(from_bytes(answer.body))
            except ValueError as error:
                raise self._http.unreadable("sent a list of models that cannot be read: is base_url right?") from error
            models += found.models
            self._limits.update(found.limits)
            after = found.after
            if after is None:
                break
        return models

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _streamed(
        self, messages: Sequence[Message], model: str, options: ChatOptions, limit: int, left: TimeLeft
    ) -> AsyncGenerator[ChatEvent, None]:
        sent = self._writer.body(messages, model, options, max_tokens=limit, stream=True)
        is_first = True
        while True:
            async with self._http.stream(self._path("messages"), sent.content, timeout_s=left()) as answer:
                if answer.status >= 400:
                    report = refusal_data(await answer.read())
                    if is_first and answer.status == 400 and is_about_thinking(report):
                        is_first, sent = False, self._without_thinking(messages, model, options, limit, stream=True)
                        continue
                    raise self._failed(answer.status, answer.headers, model, report)
                stream = self._reader(answer.headers, model)
                async for piece in answer:
                    for event in stream.feed(piece):
                        yield event
                    if stream.is_done:
                        await answer.finish()
                        break
            for event in stream.end():
                yield AnswerEnd(event.result.warned(sent.warnings)) if type(event) is AnswerEnd else event
            return

    async def _max_tokens(self, model: str, options: ChatOptions, left: TimeLeft) -> int:
        """Return the longest answer to ask for."""
        known = self._writer.known_max_tokens(model, options)
        limit = await self._told_limit(model, left) if known is None else known
        return self._writer.with_room(limit, model, options)

    async def _told_limit(self, model: str, left: TimeLeft) -> int:
        """Return how long the answers of a model are that the table does not know: the service is asked, once."""
        if model not in self._limits:
            try:
                answer = await self._http.get(self._path(f"models/{quote(model, safe='')}"), timeout_s=left(_LOOK_UP_S))
            except ProviderError:
                return FALLBACK_MAX_TOKENS  # the request itself will say what is wrong
            if answer.status == 429 or answer.status >= 500:
                return FALLBACK_MAX_TOKENS
            found = longest_answer(refusal_data(answer.body)) if answer.status < 400 else None
            self._limits[model] = found or FALLBACK_MAX_TOKENS
        return self._limits[model]

    def _without_thinking(
        self, messages: Sequence[Message], model: str, options: ChatOptions, limit: int, *, stream: bool = False
    ) -> RequestBody:
        """Write a request again without what its model thought before: newer models bind that to all that went before.

        Source: the service's refusal, "The block is bound to a different conversation".
        """
        body = self._writer.body(messages, model, options, max_tokens=limit, stream=stream, thinking=False)
        return RequestBody(content=body.content, warnings=(*body.warnings, _WITHOUT_THINKING))

    def _reader(self, headers: Mapping[str, str], model: str) -> AnthropicStream:
        failed = functools.partial(self._failed, None, headers, model)
        return AnthropicStream(self._http.origin, failed, self._http.unreadable)

    def _path(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _check_key(self) -> None:
        if self._lacks_key:
            raise ProviderAuthError(
                f'there is no key for {ANTHROPIC_HOST}: set api_key, in a config to "${{ANTHROPIC_API_KEY}}"',
                provider=self.name,
            )

    def _failed(
        self, status: int | None, headers: Mapping[str, str], model: str | None, report: object
    ) -> ProviderError:
        return service_error(
            report, status=status, headers=headers, host=self._http.host, model=model, mask=self._http.mask
        )
