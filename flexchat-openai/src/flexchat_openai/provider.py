"""Talks to the server: the only module of this package that does."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Literal

import attrs
import httpx
from flexchat.http.client import HttpClient, Timeouts
from flexchat.http.refusal import parsed
from flexchat.http.time_left import TimeLeft
from flexchat.http.wire_json import from_bytes
from flexchat.plugin import (
    AnswerEnd,
    ChatEvent,
    ChatOptions,
    ChatResult,
    Embeddings,
    Message,
    ModelInfo,
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    result_of,
)

from .answer_stream import AnswerStream
from .chat_answer import AnswerDraft, is_malformed_call
from .chat_request import ChatRequestWriter
from .chat_stream import ChatStream
from .config import OpenAIConfig
from .embeddings import Vectors, batches, embeddings_body
from .errors import service_error
from .history import OPENAI_HOST, HistoryWriter
from .models import read_models
from .traits import traits_of

# Where tools and a response_format go in one request. Elsewhere the tools are often lost: llama.cpp and vLLM hold the
# whole answer to the format's grammar, in which no call can be written (tried with llama.cpp), Groq answers 400.
_COMBINING_HOSTS = (OPENAI_HOST, ".openai.azure.com")


@attrs.frozen(kw_only=True)
class _Api:
    """One of the two APIs."""

    tool_format: str
    path: str
    writer: HistoryWriter
    stream: Callable[[Callable[[object], ProviderError], Callable[[str], ProviderProtocolError]], AnswerStream]


class OpenAIProvider:
    """One llms entry. Holds connections, which open with the first request.

    Attributes:
        endpoint: scheme://host[:port] of the server.

    Args:
        transport: None for real connections; httpx.MockTransport and its like in tests.
    """

    name = "openai"

    def __init__(self, config: OpenAIConfig, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        headers = {"accept": "application/json, text/event-stream"}
        if config.api_key:
            headers["authorization"] = f"Bearer {config.api_key}"
        if config.organization:
            headers["openai-organization"] = config.organization
        if config.project:
            headers["openai-project"] = config.project
        self._http = HttpClient(
            self.name,
            config.base_url,
            {**headers, **{name.lower(): value for name, value in config.extra_headers.items()}},
            timeouts=Timeouts.of(config),
            secrets=[secret for secret in (config.api_key, *config.extra_headers.values()) if secret],
            transport=transport,
        )
        is_openai = self._http.host == OPENAI_HOST
        self._lacks_key = is_openai and "authorization" not in headers
        origin = self.endpoint = self._http.origin
        chat = ChatRequestWriter(
            origin,
            max_tokens_field=config.max_tokens_field,
            system_role=config.system_role,
            stream_usage=config.stream_usage,
            parallel_tool_calls=config.parallel_tool_calls,
            extra=config.extra_body,
        )
        self._chat = _Api(
            tool_format="openai",
            path="/chat/completions",
            writer=chat,
            stream=functools.partial(ChatStream, origin, think_tags=config.think_tags),
        )
        combines = config.tools_with_format
        self._combines = self._http.host.endswith(_COMBINING_HOSTS) if combines is None else combines
        self._config = config
        self._which = config.api
        if config.api == "auto" and not is_openai:
            self._which = "chat"

    def tool_format(self, model: str) -> str:
        """Return the tool format of the API this model is asked in."""
        return self._api(model).tool_format

    def combines_tools_and_format(self, model: str) -> bool:
        """Return whether this server takes both; see ToolsOrFormatProvider."""
        return self._combines

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Hold one exchange; see ChatProvider."""
        self._check_key()
        api = self._api(model)
        body, warnings = api.writer.body(messages, model, options, stream=False)
        try:
            answer = await self._http.post(api.path, body, timeout_s=options.timeout_s)
            if answer.status >= 400:
                return self._refused(answer.body, answer.status, answer.headers, model, api.path).warned(warnings)
            failed = functools.partial(self._failed, None, answer.headers, model, api.path)
            stream = api.stream(failed, self._http.unreadable)
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
        api = self._api(model)
        body, warnings = api.writer.body(messages, model, options, stream=True)
        try:
            async with self._http.stream(api.path, body, timeout_s=options.timeout_s) as answer:
                if answer.status >= 400:
                    result = self._refused(await answer.read(), answer.status, answer.headers, model, api.path)
                    yield AnswerEnd(result.warned(warnings))
                    return
                failed = functools.partial(self._failed, None, answer.headers, model, api.path)
                stream = api.stream(failed, self._http.unreadable)
                async for piece in answer:
                    for event in stream.feed(piece):
                        yield _event_with(warnings, event) if warnings else event
                    if stream.is_done:
                        await answer.finish()
                        break
            for event in stream.end():
                yield _event_with(warnings, event) if warnings else event
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
        """Return one vector for each text; see EmbeddingProvider. OpenAI's models know no purposes."""
        self._check_key()
        path, left = "/embeddings", TimeLeft(timeout_s)
        vectors = Vectors(self._http.unreadable)
        try:
            for batch in batches(texts, vectors, dimensions):
                answer = await self._http.post(path, embeddings_body(batch, model, dimensions), timeout_s=left())
                if answer.status >= 400:
                    raise self._failed(answer.status, answer.headers, model, path, parsed(answer.body))
                vectors.add(answer.body, len(batch))
        except ProviderError as error:
            error.model = model
            raise
        return vectors.result()

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return what the server offers, as far as it tells; see ChatProvider."""
        self._check_key()
        answer = await self._http.get("/models")
        if answer.status >= 400:
            raise self._failed(answer.status, answer.headers, None, "/models", parsed(answer.body))
        try:
            return read_models(from_bytes(answer.body))
        except ValueError as error:
            raise self._http.unreadable("sent a list of models that cannot be read: is base_url right?") from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    @functools.cached_property
    def _responses(self) -> _Api:
        from .responses_request import ResponsesRequestWriter  # most servers are asked in the other API only
        from .responses_stream import ResponsesStream

        writer = ResponsesRequestWriter(
            self.endpoint,
            system_role=self._config.system_role,
            parallel_tool_calls=self._config.parallel_tool_calls,
            extra=self._config.extra_body,
        )
        stream = functools.partial(ResponsesStream, self.endpoint)
        return _Api(tool_format="openai.responses", path="/responses", writer=writer, stream=stream)

    def _api(self, model: str) -> _Api:
        if self._which == "auto":
            traits = traits_of(model)
            return self._responses if traits is None or traits.api == "responses" else self._chat
        return self._responses if self._which == "responses" else self._chat

    def _check_key(self) -> None:
        if self._lacks_key:
            raise ProviderAuthError(
                f'there is no key for {OPENAI_HOST}: set api_key, in a config to "${{OPENAI_API_KEY}}"',
                provider=self.name,
            )

    def _refused(self, body: bytes, status: int, headers: Mapping[str, str], model: str, path: str) -> ChatResult:
        """Return the answer that an error is in truth, or raise the error."""
        report = parsed(body)
        error = self._failed(status, headers, model, path, report)
        if not is_malformed_call(report):
            raise error
        draft = AnswerDraft(self.endpoint)
        draft.fail(error)
        return result_of(draft.end())

    def _failed(
        self, status: int | None, headers: Mapping[str, str], model: str | None, path: str, report: object
    ) -> ProviderError:
        return service_error(
            report, status=status, headers=headers, host=self._http.host, path=path, model=model, mask=self._http.mask
        )


def _event_with(warnings: tuple[str, ...], event: ChatEvent) -> ChatEvent:
    return AnswerEnd(event.result.warned(warnings)) if type(event) is AnswerEnd else event
