"""Talks to the server: the only module of this package that does."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import attrs
import httpx
from flexchat.plugin import ChatResult
from flexchat.provider import (
    AnswerEnd,
    ChatEvent,
    ChatOptions,
    Embeddings,
    HttpAnswer,
    HttpClient,
    Message,
    ModelInfo,
    ProviderAuthError,
    ProviderError,
    ProviderRequestError,
    TimeLeft,
    Timeouts,
    Usage,
    UserMessage,
    refusal_data,
    result_of,
)

from .address import OLLAMA_COM, is_cloud, runs_in_cloud
from .catalogue import Catalogue
from .chat_answer import AnswerDraft
from .chat_request import ChatRequestWriter, WrittenRequest
from .chat_stream import ChatStream, whole_answer
from .config import OllamaConfig
from .context_window import measured_warning
from .embeddings import Vectors, batches, embed_body, read_embeddings
from .errors import REFUSALS, cannot_call_tools, explained, lacks_capability, malformed_call
from .models import UNKNOWN, model_info

_CHAT = "/api/chat"


class OllamaProvider:
    """One llms entry. Holds connections, which open with the first request.

    Attributes:
        endpoint: scheme://host[:port] of the server.

    Args:
        transport: None for real connections; httpx.MockTransport and its like in tests.
    """

    name = "ollama"

    def __init__(self, config: OllamaConfig, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        headers = {"accept": "application/json, application/x-ndjson"}
        if config.api_key:
            headers["authorization"] = f"Bearer {config.api_key}"
        headers |= {name.lower(): value for name, value in config.extra_headers.items()}
        self._config = config
        self._http = HttpClient(
            self.name,
            config.base_url,
            headers,
            timeouts=Timeouts.of(config),
            secrets=[secret for secret in (config.api_key, *config.extra_headers.values()) if secret],
            transport=transport,
        )
        self.endpoint = self._http.origin
        self._is_cloud = is_cloud(config.base_url)
        self._lacks_key = self._is_cloud and "authorization" not in headers
        self._writer = ChatRequestWriter(self._http.origin, config)
        self._catalogue = Catalogue(self._http, self._failure)

    def tool_format(self, model: str) -> str:
        """Return the tool format of this dialect."""
        return self.name

    def combines_tools_and_format(self, model: str) -> bool:
        """Return False: the grammar that makes the format keeps the model from calling tools."""
        return False

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Hold one exchange; see ChatProvider."""
        with self._errors_of(model):
            left = TimeLeft(options.timeout_s)
            request = await self._written(messages, model, options, left, stream=False)
            answer = await self._http.post(_CHAT, request.body, timeout_s=left())
            draft = self._draft(request)
            if answer.status >= 400:
                events = await self._refused(draft, answer, model)
            else:
                failed = functools.partial(self._failure, None, answer.headers, model)
                events = whole_answer(answer.body, draft, failed, self._http.unreadable)
            return _with_warnings(request, result_of(events))

    async def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it comes; see StreamingProvider."""
        with self._errors_of(model):
            left = TimeLeft(options.timeout_s)
            request = await self._written(messages, model, options, left, stream=True)
            draft = self._draft(request)
            async with self._http.stream(_CHAT, request.body, timeout_s=left()) as answer:
                if answer.status >= 400:
                    whole = HttpAnswer(status=answer.status, headers=answer.headers, body=await answer.read())
                    last = await self._refused(draft, whole, model)
                else:
                    failed = functools.partial(self._failure, None, answer.headers, model)
                    stream = ChatStream(draft, failed, self._http.unreadable)
                    async for piece in answer:
                        for event in stream.feed(piece):
                            yield event
                        if stream.is_done:
                            await answer.finish()
                            break
                    last = stream.end()
            for event in last:
                if type(event) is AnswerEnd:
                    event = AnswerEnd(_with_warnings(request, event.result))
                yield event

    async def embed(
        self,
        texts: Sequence[str],
        model: str,
        *,
        purpose: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
        timeout_s: float | None = None,
    ) -> Embeddings:
        """Return one vector for each text; see EmbeddingProvider. ``purpose`` makes no difference to Ollama."""
        with self._errors_of(model):
            self._check_key()
            left = TimeLeft(timeout_s)
            made = [await self._embedded(batch, model, dimensions, left) for batch in batches(texts)]
        vectors = tuple(vector for some in made for vector in some.vectors)
        if len({len(vector) for vector in vectors}) > 1:
            raise self._http.unreadable("sent vectors of different lengths", model=model)
        counts = [some.input_tokens for some in made if some.input_tokens is not None]
        warning = ""
        if dimensions is not None and vectors and len(vectors[0]) != dimensions:
            warning = f"the vectors have {len(vectors[0])} dimensions, not {dimensions}: {model} or the server cannot"
        return Embeddings(
            vectors=vectors,
            model=made[0].model if made else None,
            usage=Usage(input_tokens=sum(counts)) if counts else None,
            warnings=(warning,) if warning else (),
        )

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return what the server has, as far as it tells; see ChatProvider."""
        with self._errors_of(None):
            self._check_key()
            return [model_info(name, facts) for name, facts in (await self._catalogue.installed()).items()]

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _written(
        self, messages: Sequence[Message], model: str, options: ChatOptions, left: TimeLeft, *, stream: bool
    ) -> WrittenRequest:
        """Write a request, once it is known that the model can do what it asks for, or that nobody knows."""
        self._check_key()
        needs = _needs(messages, options)
        facts = await self._catalogue.facts_of(model, left) if self._must_ask(needs, options) else UNKNOWN
        if "tools" in needs and facts.lacks("tools"):
            raise cannot_call_tools(model, await self._catalogue.able("tools"))
        for capability in needs:
            if facts.lacks(capability):
                raise lacks_capability(model, capability)
        if self._is_cloud or runs_in_cloud(model):
            facts = attrs.evolve(facts, is_remote=True)
        return self._writer.write(messages, model, options, facts, stream=stream)

    def _must_ask(self, needs: Iterable[str], options: ChatOptions) -> bool:
        if not self._config.check_models:
            return False
        tables = (self._config.extra_body.get("options"), options.extra.get("options"))
        chosen = self._config.num_ctx is not None or any(isinstance(t, Mapping) and "num_ctx" in t for t in tables)
        return bool(needs) or bool(self._config.think) or not (chosen or self._is_cloud)

    async def _embedded(self, texts: Sequence[str], model: str, dimensions: int | None, left: TimeLeft) -> Vectors:
        body = embed_body(texts, model, dimensions, self._config)
        answer = await self._http.post("/api/embed", body, timeout_s=left())
        report = refusal_data(answer.body)
        if answer.status >= 400 or (isinstance(report, dict) and report.get("error")):
            raise self._failure(answer.status if answer.status >= 400 else None, answer.headers, model, report)
        try:
            return read_embeddings(report, len(texts))
        except ValueError as error:
            raise self._http.unreadable(f"sent no vectors that can be used: {error}") from error

    def _draft(self, request: WrittenRequest) -> AnswerDraft:
        tools = request.tool_names if self._config.read_text_calls else frozenset()
        return AnswerDraft(self._http.origin, mask=self._http.mask, text_tools=tools)

    async def _refused(self, draft: AnswerDraft, answer: HttpAnswer, model: str) -> Iterator[ChatEvent]:
        """Return the end of the answer that an error is in truth, or raise the error."""
        report = refusal_data(answer.body)
        why = malformed_call(report)
        if why is not None:
            draft.fail(why)
            return draft.end()
        error = self._failure(answer.status, answer.headers, model, report)
        if self._config.check_models and isinstance(error, ProviderRequestError) and error.kind == "unsupported_tools":
            raise cannot_call_tools(model, await self._catalogue.able("tools"), {"status": answer.status})
        raise error

    def _failure(
        self, status: int | None, headers: Mapping[str, str], model: str | None, report: object
    ) -> ProviderError:
        """Return the error that the server reports."""
        return REFUSALS.error(
            report,
            status=status,
            headers=headers,
            host=self._http.origin,
            path=_CHAT,
            model=model,
            mask=self._http.mask,
        )

    def _check_key(self) -> None:
        if self._lacks_key:
            raise ProviderAuthError(
                f'there is no key for {OLLAMA_COM}: set api_key, in a config to "${{OLLAMA_API_KEY}}"',
                provider=self.name,
            )

    @contextlib.contextmanager
    def _errors_of(self, model: str | None) -> Iterator[None]:
        """Say in every error which model it is about, and in those of a server that is away how to start it."""
        try:
            yield
        except ProviderError as error:
            error.model = model
            explained(error, self._http.origin)
            raise


def _needs(messages: Sequence[Message], options: ChatOptions) -> tuple[str, ...]:
    """Return the capabilities without which a model cannot do what is asked."""
    needs = dict.fromkeys(["tools"] if options.tools and options.tool_choice != "none" else [])
    if options.reasoning is not None and options.reasoning.effort not in (None, "none"):
        needs["reasoning"] = None
    for message in messages:
        for part in message.media if type(message) is UserMessage else ():
            needs["audio" if part.kind == "audio" else "vision"] = None
    return tuple(needs)


def _with_warnings(request: WrittenRequest, result: ChatResult) -> ChatResult:
    used = result.usage.input_tokens if result.usage is not None else None
    late = measured_warning(used, request.num_ctx)
    warnings = (*request.warnings, *result.warnings, *((late,) if late else ()))
    return attrs.evolve(result, warnings=warnings) if warnings else result
