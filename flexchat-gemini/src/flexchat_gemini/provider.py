"""Talks to the server: the only module of this package that does."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Literal
from urllib.parse import quote

import httpx
from flexchat.plugin import ChatResult
from flexchat.provider import (
    AnswerEnd,
    ChatEvent,
    ChatOptions,
    Embeddings,
    HttpClient,
    Message,
    ModelInfo,
    ProviderAuthError,
    ProviderError,
    TimeLeft,
    Timeouts,
    Usage,
    from_bytes,
    refusal_data,
    result_of,
    to_bytes,
)

from .config import GeminiConfig
from .embeddings import BATCH, embed_request, normalised, read_embeddings, tokens_of
from .errors import is_about_batches, knows_no_json_schema, service_error
from .models import read_models
from .request import RequestWriter
from .stream import GeminiStream
from .traits import traits_of

GEMINI_HOST = "generativelanguage.googleapis.com"
_VERSION_AT_END = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?/?$")
_MOST_PAGES = 100


class GeminiProvider:
    """One llms entry. Holds connections, which open with the first request.

    Args:
        transport: None for real connections; httpx.MockTransport and its like in tests.

    Attributes:
        endpoint: scheme://host[:port] of the service.
    """

    name = "gemini"

    def __init__(self, config: GeminiConfig, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        headers = {"accept": "application/json, text/event-stream"}
        if config.api_key:
            headers["x-goog-api-key"] = config.api_key
        if config.access_token:
            headers["authorization"] = f"Bearer {config.access_token}"
        headers |= {name.lower(): value for name, value in config.extra_headers.items()}
        self._http = HttpClient(
            self.name,
            config.base_url,
            headers,
            timeouts=Timeouts.of(config),
            secrets=[s for s in (config.api_key, config.access_token, *config.extra_headers.values()) if s],
            transport=transport,
        )
        self.endpoint = self._http.origin
        self._lacks_key = self._http.host.endswith("googleapis.com") and not (
            headers.keys() & {"x-goog-api-key", "authorization"}
        )
        has_version = _VERSION_AT_END.search(config.base_url) or not config.api_version
        self._version = "" if has_version else f"/{config.api_version}"
        self._base = self._version + (f"/{config.path}" if config.path else "")
        self._may_fall_back = config.schema_field == "auto"
        self._writer = RequestWriter(
            self._http.origin,
            as_parameters=config.schema_field == "parameters",
            safety_settings=config.safety_settings,
            extra=config.extra_body,
        )
        self._singly: set[str] = set()

    def tool_format(self, model: str) -> str:
        """Return the tool format the service is known to take."""
        return "gemini.parameters" if self._writer.as_parameters else "gemini"

    def combines_tools_and_format(self, model: str) -> bool:
        """Return whether this model takes both; see ToolsOrFormatProvider."""
        return traits_of(model).combines

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Hold one exchange; see ChatProvider."""
        self._check_key()
        path = self._path(model, "generateContent")
        try:
            left = TimeLeft(options.timeout_s)
            body, warnings = self._writer.body(messages, model, options)
            answer = await self._http.post(path, body, timeout_s=left())
            if answer.status == 400 and self._falls_back(refusal_data(answer.body)):
                body, warnings = self._writer.body(messages, model, options)
                warnings = (*warnings, self._fallback_warning())
                answer = await self._http.post(path, body, timeout_s=left())
            if answer.status >= 400:
                raise self._failed(answer.status, answer.headers, model, refusal_data(answer.body))
            failed = functools.partial(self._failed, None, answer.headers, model)
            stream = GeminiStream(self._http.origin, failed, self._http.unreadable)
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                return result_of([*stream.feed(answer.body), *stream.end()]).warned(warnings)
            return result_of(stream.whole(answer.body)).warned(warnings)
        except ProviderError as error:
            error.model = model
            raise

    async def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it comes; see StreamingProvider."""
        self._check_key()
        path = self._path(model, "streamGenerateContent?alt=sse")
        fallback: tuple[str, ...] = ()
        left = TimeLeft(options.timeout_s)
        try:
            while True:
                body, warnings = self._writer.body(messages, model, options)
                async with self._http.stream(path, body, timeout_s=left()) as answer:
                    if answer.status >= 400:
                        report = refusal_data(await answer.read())
                        if answer.status == 400 and not fallback and self._falls_back(report):
                            fallback = (self._fallback_warning(),)
                            continue
                        raise self._failed(answer.status, answer.headers, model, report)
                    failed = functools.partial(self._failed, None, answer.headers, model)
                    stream = GeminiStream(self._http.origin, failed, self._http.unreadable)
                    async for piece in answer:
                        for event in stream.feed(piece):
                            yield event
                for event in stream.end():
                    if type(event) is AnswerEnd:
                        event = AnswerEnd(event.result.warned(warnings + fallback))
                    yield event
                return
        except ProviderError as error:
            error.model = model
            raise

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
        self._check_key()
        requests = [embed_request(text, _resource(model), purpose, dimensions) for text in texts]
        left = TimeLeft(timeout_s)
        vectors: list[tuple[float, ...]] = []
        tokens: int | None = None
        try:
            for start in range(0, len(requests), BATCH):
                found, read = await self._embed_batch(requests[start : start + BATCH], model, left)
                vectors += found
                tokens = read if tokens is None else tokens + (read or 0)
        except ProviderError as error:
            error.model = model
            raise
        if len({len(vector) for vector in vectors}) > 1:
            raise self._http.unreadable("sent vectors of different lengths", model=model)
        if dimensions is not None:
            vectors = [normalised(vector) for vector in vectors]
        return Embeddings(
            vectors=tuple(vectors), model=model, usage=Usage(input_tokens=tokens) if tokens is not None else None
        )

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return what the service offers, as far as it tells; see ChatProvider."""
        self._check_key()
        models: list[ModelInfo] = []
        token: str | None = ""
        for _ in range(_MOST_PAGES):
            page = f"&pageToken={quote(token, safe='')}" if token else ""
            answer = await self._http.get(f"{self._base}/models?pageSize=1000{page}")
            if answer.status >= 400:
                raise self._failed(answer.status, answer.headers, None, refusal_data(answer.body))
            try:
                found, token = read_models(from_bytes(answer.body))
            except ValueError as error:
                raise self._http.unreadable("sent a list of models that cannot be read: is base_url right?") from error
            models += found
            if token is None:
                break
        return models

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _embed_batch(
        self, requests: Sequence[Mapping[str, object]], model: str, left: TimeLeft
    ) -> tuple[list[tuple[float, ...]], int | None]:
        if model not in self._singly:
            body = to_bytes({"requests": requests})
            answer = await self._http.post(self._path(model, "batchEmbedContents"), body, timeout_s=left())
            report = refusal_data(answer.body)
            if answer.status < 400:
                vectors = self._vectors(report)
                if len(vectors) == len(requests):
                    return [*vectors], tokens_of(report)
                if len(vectors) != 1:
                    raise self._http.unreadable(f"sent {len(vectors)} vectors for {len(requests)} texts")
            elif not is_about_batches(report, answer.status):
                raise self._failed(answer.status, answer.headers, model, report)
        found: list[tuple[float, ...]] = []
        tokens: int | None = None
        for request in requests:
            answer = await self._http.post(self._path(model, "embedContent"), to_bytes(request), timeout_s=left())
            report = refusal_data(answer.body)
            if answer.status >= 400:
                raise self._failed(answer.status, answer.headers, model, report)
            vectors = self._vectors(report)
            if len(vectors) != 1:
                raise self._http.unreadable(f"sent {len(vectors)} vectors for one text")
            found += vectors
            read = tokens_of(report)
            tokens = read if tokens is None else tokens + (read or 0)
        self._singly.add(model)
        return found, tokens

    def _vectors(self, report: object) -> tuple[tuple[float, ...], ...]:
        try:
            return read_embeddings(report)
        except ValueError as error:
            raise self._http.unreadable("sent embeddings that cannot be read: is base_url right?") from error

    def _path(self, model: str, method: str) -> str:
        resource = quote(_resource(model), safe="/:@")
        # A whole resource name (projects/P/locations/L/endpoints/E) needs nothing before it.
        return f"{self._version if resource.startswith('projects/') else self._base}/{resource}:{method}"

    def _check_key(self) -> None:
        if not self._lacks_key:
            return
        if self._http.host == GEMINI_HOST:
            text = 'set api_key, in a config to "${GEMINI_API_KEY}"'
        else:
            text = "set access_token (Vertex AI), or api_key"
        raise ProviderAuthError(f"there is no key for {self._http.host}: {text}", provider=self.name)

    def _falls_back(self, report: object) -> bool:
        """Say whether the request is worth sending again with ``parameters``, and remember it."""
        if not self._may_fall_back or not knows_no_json_schema(report):
            return False
        self._writer.as_parameters = True
        return True

    def _fallback_warning(self) -> str:
        return (
            f"{self._http.host} does not know parametersJsonSchema: schemas go out as parameters from now on "
            '(schema_field = "parameters" does so at once)'
        )

    def _failed(
        self, status: int | None, headers: Mapping[str, str], model: str | None, report: object
    ) -> ProviderError:
        return service_error(
            report, status=status, headers=headers, host=self._http.host, model=model, mask=self._http.mask
        )


def _resource(model: str) -> str:
    """Return a model's resource name: models/x, unless it is one already (tunedModels/x, projects/…)."""
    return model if "/" in model else f"models/{model}"
