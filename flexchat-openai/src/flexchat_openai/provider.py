"""The provider for one ``llms`` entry: it chooses the API and sends the requests."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Literal

import attrs
from flexchat.plugin import ChatResult
from flexchat_sdk import (
    SSE_DONE,
    Answer,
    ChatEvent,
    ChatOptions,
    Embeddings,
    Key,
    MediaLimits,
    MediaPart,
    Message,
    ModelInfo,
    ModelPrice,
    Service,
    TextReader,
    offered_names,
)

from .chat_answer import ChatStream
from .chat_request import ChatRequestWriter
from .config import OpenAIConfig
from .embeddings import BATCHES, embeddings_fields, read_embeddings
from .errors import REFUSALS
from .hosts import (
    AUDIO,
    COMBINING_HOSTS,
    IMAGES,
    MAX_COUNT,
    MAX_TOTAL_BYTES,
    MEDIA_SOURCE,
    OPENAI_HOST,
    PDF,
    is_openai,
)
from .models import price_of, read_models, traits_of

if TYPE_CHECKING:
    import httpx

    from .responses_request import ResponsesRequestWriter


@attrs.frozen(kw_only=True)
class _Api:
    """One of the two APIs."""

    tool_format: str
    path: str
    writer: ChatRequestWriter | ResponsesRequestWriter
    answer: Callable[[ChatOptions], Answer]


class OpenAIProvider:
    """Provider for one llms entry. Its connections open with the first request.

    Attributes:
        endpoint: scheme://host[:port] of the server.

    Args:
        transport: None for real connections; in tests, for example httpx.MockTransport.
    """

    name = "openai"

    def __init__(self, config: OpenAIConfig, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._service = Service(
            self.name,
            config,
            refusals=REFUSALS,
            keys=(Key("authorization", config.api_key, "Bearer {}"),),
            key_needed_at={OPENAI_HOST: "OPENAI_API_KEY"},
            framing=SSE_DONE,
            headers={
                name: value
                for name, value in (("openai-organization", config.organization), ("openai-project", config.project))
                if value
            },
            transport=transport,
        )
        self.endpoint, self.aclose = self._service.endpoint, self._service.aclose
        self._config = config
        self._chat = _Api(
            tool_format="openai",
            path="/chat/completions",
            writer=ChatRequestWriter(self.endpoint, config),
            answer=self._chat_answer,
        )
        combines = config.tools_with_format
        self._combines = self._service.host.endswith(COMBINING_HOSTS) if combines is None else combines
        self._which = config.api
        if config.api == "auto" and self._service.host != OPENAI_HOST:
            self._which = "chat"

    def tool_format(self, model: str) -> str:
        """Return the tool format of the API used for this model."""
        return self._api(model).tool_format

    def combines_tools_and_format(self, model: str) -> bool:
        """Return whether this server accepts both; see ToolsOrFormatProvider."""
        return self._combines

    def takes_in_results(self, model: str, part: MediaPart) -> bool:
        """Return whether a tool's result for this model may have this part; see MediaInResultsProvider."""
        shows = self._config.media_in_results
        if shows is None:
            shows = (traits := traits_of(model)) is not None and traits.sees
        return shows and self._api(model).writer.fits_in_result(part)

    def media_limits(self, model: str) -> MediaLimits:
        """Describe the media that a model accepts; see LimitedProvider. Other servers may accept images."""
        traits = traits_of(model)
        writer = self._api(model).writer
        types = {*writer.accepted_types}
        if not is_openai(self.endpoint):
            return MediaLimits(types=dict.fromkeys(sorted(types)))
        if traits is not None:
            types -= set() if traits.sees else {*IMAGES, PDF}
            types -= set() if traits.hears else {*AUDIO}
        return MediaLimits(
            types=dict.fromkeys(sorted(types)),
            max_count=MAX_COUNT,
            max_total_bytes=MAX_TOTAL_BYTES,
            source=MEDIA_SOURCE,
        )

    def price_of(self, model: str) -> ModelPrice | None:
        """Return a model's price at OpenAI itself; see PricedProvider."""
        return price_of(model) if self.endpoint == f"https://{OPENAI_HOST}" else None

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Return the answer to one request; see ChatProvider."""
        api = self._api(model)
        return await self._service.answer(
            api.path,
            lambda refusal: api.writer.body(messages, model, options, stream=False) if refusal is None else None,
            api.answer(options),
            model=model,
            timeout_s=options.timeout_s,
        )

    def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it arrives; see StreamingProvider."""
        api = self._api(model)
        return self._service.pieces(
            api.path,
            lambda refusal: api.writer.body(messages, model, options, stream=True) if refusal is None else None,
            api.answer(options),
            model=model,
            timeout_s=options.timeout_s,
        )

    async def embed(
        self,
        texts: Sequence[str],
        model: str,
        *,
        purpose: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
        timeout_s: float | None = None,
    ) -> Embeddings:
        """Return one vector for each text; see EmbeddingProvider. OpenAI's models ignore ``purpose``."""

        async def ask(batch: Sequence[str], left_s: float | None) -> Embeddings:
            fields = embeddings_fields(batch, model, dimensions)
            return await self._service.post(
                "/embeddings", fields, read_embeddings, what="embeddings", model=model, timeout_s=left_s
            )

        return await BATCHES.embed(
            texts,
            ask,
            functools.partial(self._service.unreadable, model=model),
            dimensions=dimensions,
            timeout_s=timeout_s,
        )

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models the server lists; see ChatProvider."""
        return await self._service.get("/models", read_models, what="a list of models")

    @functools.cached_property
    def _responses(self) -> _Api:
        from .responses_answer import ResponsesStream
        from .responses_request import ResponsesRequestWriter  # most servers only need the other API

        return _Api(
            tool_format="openai.responses",
            path="/responses",
            writer=ResponsesRequestWriter(self.endpoint, self._config),
            answer=lambda options: ResponsesStream(self.endpoint),
        )

    def _chat_answer(self, options: ChatOptions) -> ChatStream:
        tools = offered_names(options) if self._config.read_text_calls else None
        return ChatStream(self.endpoint, TextReader(think_tags=self._config.think_tags, tools=tools))

    def _api(self, model: str) -> _Api:
        if self._which == "auto":
            traits = traits_of(model)
            return self._responses if traits is None or traits.api == "responses" else self._chat
        return self._responses if self._which == "responses" else self._chat
