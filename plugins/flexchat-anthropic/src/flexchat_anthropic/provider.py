"""The provider of one ``llms`` entry: its requests and the maximum output of its models."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from flexchat.plugin import ChatResult
from flexchat_sdk import (
    Body,
    ChatEvent,
    ChatOptions,
    Key,
    MediaLimits,
    MediaPart,
    Message,
    ModelInfo,
    ModelPrice,
    ProviderError,
    Refusal,
    Service,
    TimeLeft,
    Write,
    refusal_data,
    result_of,
)

from .answer import MessagesAnswer
from .config import AnthropicConfig
from .errors import REFUSALS, is_about_thinking
from .messages import fits_in_result, media_limits_of
from .models import longest_answer, price_of, read_models
from .request import FALLBACK_MAX_TOKENS, RequestWriter

if TYPE_CHECKING:
    import httpx

ANTHROPIC_HOST = "api.anthropic.com"
MAX_UNSTREAMED_TOKENS = 16_384
"""Tokens of an answer above which it is asked for as a stream also where nobody listens: connections on which nothing
comes for minutes break."""

_VERSION_AT_END = re.compile(r"/v1/?(?:\?|$)")
_MAX_PAGES = 100
_LOOK_UP_S = 10.0
_WITHOUT_THINKING = "the service refused earlier thinking, as the conversation has changed since: it was left out"


class AnthropicProvider:
    """Provider for one llms entry. Its connections open with the first request.

    Args:
        transport: None for real connections; in tests, for example httpx.MockTransport.

    Attributes:
        endpoint: scheme://host[:port] of the service.
    """

    name = "anthropic"

    def __init__(self, config: AnthropicConfig, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        headers = {"anthropic-version": config.api_version}
        if config.betas:
            headers["anthropic-beta"] = ",".join(config.betas)
        self._service = Service(
            self.name,
            config,
            refusals=REFUSALS,
            keys=(Key("x-api-key", config.api_key), Key("authorization", config.auth_token, "Bearer {}")),
            key_needed_at={ANTHROPIC_HOST: "ANTHROPIC_API_KEY"},
            headers=headers,
            transport=transport,
        )
        self.endpoint, self.aclose = self._service.endpoint, self._service.aclose
        headers |= {name.lower(): value for name, value in config.extra_headers.items()}
        self._base = "" if _VERSION_AT_END.search(config.base_url) else "/v1"
        self._writer = RequestWriter(
            self.endpoint,
            api_version=headers["anthropic-version"],
            max_tokens=config.max_tokens,
            cache={"type": "ephemeral", "ttl": config.cache_ttl} if config.cache else None,
            extra=config.extra_body,
        )
        self._shows_media = config.media_in_results
        self._limits: dict[str, int] = {}
        self._cache_ttl = config.cache_ttl

    def tool_format(self, model: str) -> str:
        """Return the one tool format there is."""
        return "anthropic"

    def takes_in_results(self, model: str, part: MediaPart) -> bool:
        """Return whether a tool's result for this model may hold this part; see MediaInResultsProvider."""
        shows = "claude" in model.lower() if self._shows_media is None else self._shows_media
        return shows and fits_in_result(part)

    def media_limits(self, model: str) -> MediaLimits:
        """Describe the media that a model accepts; see LimitedProvider."""
        return media_limits_of(model)

    def price_of(self, model: str) -> ModelPrice | None:
        """Return a model's price at Anthropic itself; see PricedProvider."""
        return price_of(model, self._cache_ttl) if self.endpoint == f"https://{ANTHROPIC_HOST}" else None

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Return the answer to one request; see ChatProvider."""
        time_left = TimeLeft(options.timeout_s)
        self._service.check_key()
        limit = await self._max_tokens(model, options, time_left)
        stream = limit > MAX_UNSTREAMED_TOKENS
        path, answer = f"{self._base}/messages", MessagesAnswer(self.endpoint)
        write = self._write(messages, model, options, stream=stream, limit=limit)
        if stream:
            events = self._service.pieces(path, write, answer, model=model, timeout_s=time_left())
            return result_of([event async for event in events])
        return await self._service.answer(path, write, answer, model=model, timeout_s=time_left())

    def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it arrives; see StreamingProvider."""
        return self._service.pieces(
            f"{self._base}/messages",
            self._write(messages, model, options, stream=True),
            MessagesAnswer(self.endpoint),
            model=model,
            timeout_s=options.timeout_s,
        )

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models of the service; see ChatProvider."""
        models: list[ModelInfo] = []
        after: str | None = ""
        for _ in range(_MAX_PAGES):
            page = f"&after_id={quote(after, safe='')}" if after else ""
            path = f"{self._base}/models?limit=1000{page}"
            answer = await self._service.get(path, read_models, what="a list of models")
            models += answer.models
            self._limits.update(answer.limits)
            after = answer.after
            if after is None:
                break
        return models

    def _write(
        self, messages: Sequence[Message], model: str, options: ChatOptions, *, stream: bool, limit: int | None = None
    ) -> Write:
        """Build the writer of a request, which drops earlier thinking when the service rejects it.

        Newer models bind thinking to the whole preceding conversation.
        Source: the service's refusal, "The block is bound to a different conversation".

        Args:
            limit: Maximum output tokens; None if not known yet.
        """
        longest, thinking = limit, True

        async def write(refusal: Refusal | None) -> Body | None:
            nonlocal longest, thinking
            if longest is None:
                longest = await self._max_tokens(model, options, TimeLeft(options.timeout_s))
            if refusal is None:
                return self._writer.body(messages, model, options, max_tokens=longest, stream=stream)
            if not thinking or refusal.status != 400 or not is_about_thinking(refusal.body):
                return None
            thinking = False
            body = self._writer.body(messages, model, options, max_tokens=longest, stream=stream, thinking=False)
            return Body(body.content, (*body.warnings, _WITHOUT_THINKING))

        return write

    async def _max_tokens(self, model: str, options: ChatOptions, time_left: TimeLeft) -> int:
        """Return the longest answer to ask for."""
        configured = self._writer.known_max_tokens(model, options)
        limit = await self._query_limit(model, time_left) if configured is None else configured
        return self._writer.with_room(limit, model, options)

    async def _query_limit(self, model: str, time_left: TimeLeft) -> int:
        """Query the service, once, for the maximum output of a model that is not in the table."""
        if model not in self._limits:
            path = f"{self._base}/models/{quote(model, safe='')}"
            try:
                answer = await self._service.http.get(path, timeout_s=time_left(_LOOK_UP_S))
            except ProviderError:
                return FALLBACK_MAX_TOKENS  # the chat request will report the cause
            if answer.status == 429 or answer.status >= 500:
                return FALLBACK_MAX_TOKENS
            limit = longest_answer(refusal_data(answer.body)) if answer.status < 400 else None
            self._limits[model] = limit or FALLBACK_MAX_TOKENS
        return self._limits[model]
