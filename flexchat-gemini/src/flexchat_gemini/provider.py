"""The provider of one ``llms`` entry: its endpoints and requests."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, urlsplit

import attrs
from flexchat.plugin import ChatResult
from flexchat_sdk import (
    Body,
    ChatEvent,
    ChatOptions,
    Embeddings,
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
)

from .answer import FRAMING, GeminiAnswer
from .config import GeminiConfig
from .contents import LIMITS, NO_MEDIA, fits_in_result
from .embeddings import BATCHES, ONE_BY_ONE, embed_request, normalised, read_embeddings
from .errors import REFUSALS, VERTEX_REFUSALS, is_about_batches, knows_no_json_schema
from .models import UNKNOWN, price_of, read_models, traits_of
from .request import RequestWriter

if TYPE_CHECKING:
    import httpx

_GOOGLE = "googleapis.com"
_GEMINI_HOST = f"generativelanguage.{_GOOGLE}"
_VERSION_AT_END = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?/?$")
_MAX_PAGES = 100


class GeminiProvider:
    """Provider for one llms entry. Its connections open with the first request.

    Args:
        transport: None for real connections; in tests, for example httpx.MockTransport.

    Attributes:
        endpoint: scheme://host[:port] of the service.
    """

    name = "gemini"

    def __init__(self, config: GeminiConfig, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        host = urlsplit(config.base_url).hostname or ""
        is_vertex = host.endswith(_GOOGLE) and host != _GEMINI_HOST
        variable = "GOOGLE_ACCESS_TOKEN" if is_vertex else "GEMINI_API_KEY"
        self._service = Service(
            self.name,
            config,
            refusals=VERTEX_REFUSALS if is_vertex else REFUSALS,
            keys=(Key("x-goog-api-key", config.api_key), Key("authorization", config.access_token, "Bearer {}")),
            key_needed_at={host: variable} if host.endswith(_GOOGLE) else {},
            framing=FRAMING,
            transport=transport,
        )
        self.endpoint, self.aclose = self._service.endpoint, self._service.aclose
        has_version = _VERSION_AT_END.search(config.base_url) or not config.api_version
        self._version = "" if has_version else f"/{config.api_version}"
        self._base = self._version + (f"/{config.path}" if config.path else "")
        self._may_fall_back = config.schema_field == "auto"
        self._writer = RequestWriter(self.endpoint, config)
        self._shows_media = config.media_in_results
        self._takes_no_batch: set[str] = set()

    def tool_format(self, model: str) -> str:
        """Return the tool format the service is known to take."""
        return "gemini.parameters" if self._writer.as_parameters else "gemini"

    def combines_tools_and_format(self, model: str) -> bool:
        """Return whether this model takes both; see ToolsOrFormatProvider."""
        return traits_of(model).combines

    def takes_in_results(self, model: str, part: MediaPart) -> bool:
        """Return whether a result for this model may have this part; see MediaInResultsProvider."""
        shows = traits_of(model).media if self._shows_media is None else self._shows_media
        return shows and fits_in_result(part)

    def media_limits(self, model: str) -> MediaLimits:
        """Describe the media that a model accepts; see LimitedProvider. One that is not Google's may accept any."""
        traits = traits_of(model)
        return LIMITS if traits.media or traits is UNKNOWN else NO_MEDIA

    def price_of(self, model: str) -> ModelPrice | None:
        """Return a model's price at the Gemini API itself; see PricedProvider."""
        return price_of(model) if self.endpoint == f"https://{_GEMINI_HOST}" else None

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Return the answer to one request; see ChatProvider."""
        return await self._service.answer(
            self._path(model, "generateContent"),
            self._request(messages, model, options),
            GeminiAnswer(self.endpoint),
            model=model,
            timeout_s=options.timeout_s,
        )

    def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it arrives; see StreamingProvider."""
        return self._service.pieces(
            self._path(model, "streamGenerateContent?alt=sse"),
            self._request(messages, model, options),
            GeminiAnswer(self.endpoint),
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
        """Return one vector for each text; see EmbeddingProvider."""
        unreadable = functools.partial(self._service.unreadable, model=model)

        async def post(method: str, fields: dict[str, object], left_s: float | None) -> Embeddings:
            path = self._path(model, method)
            return await self._service.post(
                path, fields, read_embeddings, what="embeddings", model=model, timeout_s=left_s
            )

        async def one(texts: Sequence[str], left_s: float | None) -> Embeddings:
            return await post("embedContent", embed_request(texts[0], _resource(model), purpose, dimensions), left_s)

        async def batch(texts: Sequence[str], left_s: float | None) -> Embeddings:
            time_left = TimeLeft(left_s)
            if model not in self._takes_no_batch:
                requests = [embed_request(text, _resource(model), purpose, dimensions) for text in texts]
                try:
                    embeddings = await post("batchEmbedContents", {"requests": requests}, time_left())
                    if len(embeddings.vectors) != 1 or len(texts) == 1:  # some answer with one vector for all texts
                        return embeddings
                except ProviderError as error:
                    if not is_about_batches(error):
                        raise
            embeddings = await ONE_BY_ONE.embed(texts, one, unreadable, dimensions=dimensions, timeout_s=time_left())
            self._takes_no_batch.add(model)
            return embeddings

        embeddings = await BATCHES.embed(texts, batch, unreadable, dimensions=dimensions, timeout_s=timeout_s)
        vectors = embeddings.vectors if dimensions is None else tuple(map(normalised, embeddings.vectors))
        return attrs.evolve(embeddings, vectors=vectors, model=model)

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that the service lists; see ChatProvider."""
        models: list[ModelInfo] = []
        page = ""
        for _ in range(_MAX_PAGES):
            path = f"{self._base}/models?pageSize=1000{page}"
            page_models, token = await self._service.get(path, read_models, what="a list of models")
            models += page_models
            if token is None:
                break
            page = f"&pageToken={quote(token, safe='')}"
        return models

    def _path(self, model: str, method: str) -> str:
        resource = quote(_resource(model), safe="/:@")
        # A whole resource name (projects/P/locations/L/endpoints/E) needs nothing before it.
        return f"{self._version if resource.startswith('projects/') else self._base}/{resource}:{method}"

    def _request(self, messages: Sequence[Message], model: str, options: ChatOptions) -> Write:
        """Build the writer of a request, which falls back to ``parameters`` if JSON Schema is not supported."""
        may_fall_back = self._may_fall_back

        def write(refusal: Refusal | None) -> Body | None:
            nonlocal may_fall_back
            if refusal is None:
                return self._writer.body(messages, model, options)
            if not may_fall_back or refusal.status != 400 or not knows_no_json_schema(refusal.body):
                return None
            may_fall_back, self._writer.as_parameters = False, True
            body = self._writer.body(messages, model, options)
            warning = (
                f"{self._service.host} does not know parametersJsonSchema: schemas go out as parameters from now on "
                '(schema_field = "parameters" does so at once)'
            )
            return Body(body.content, (*body.warnings, warning))

        return write


def _resource(model: str) -> str:
    """Return a model's resource name: models/x, unless it is one already (tunedModels/x, projects/…)."""
    return model if "/" in model else f"models/{model}"
