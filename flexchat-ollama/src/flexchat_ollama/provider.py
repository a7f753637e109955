"""The provider of one ``llms`` entry: requests to a server, after a check of the model's capabilities."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import attrs
from flexchat.plugin import ChatResult
from flexchat_sdk import (
    NDJSON,
    Body,
    ChatEvent,
    ChatOptions,
    Embeddings,
    Key,
    MediaLimits,
    MediaPart,
    Message,
    ModelInfo,
    Refusal,
    Service,
    TextReader,
    TimeLeft,
    ToolMessage,
    UserMessage,
    Write,
    offered_names,
)

from .chat_answer import ChatAnswer
from .chat_request import HEARS, MEDIA_SOURCE, SEES, ChatRequestWriter, fits_in_result, without_earlier_media
from .config import OLLAMA_COM, OllamaConfig, is_cloud, runs_in_cloud
from .embeddings import BATCHES, embed_fields, read_embeddings
from .errors import REFUSALS, cannot_call_tools, explained, lacks_capability, refuses_tools
from .models import UNKNOWN, Catalogue, model_info

if TYPE_CHECKING:
    import httpx

_CHAT = "/api/chat"
LINES = attrs.evolve(NDJSON, more_follows=lambda line: line.get("done") is False)
"""How it cuts a stream."""


class OllamaProvider:
    """Provider for one llms entry. Its connections open with the first request.

    Attributes:
        endpoint: scheme://host[:port] of the server.

    Args:
        transport: None for real connections; in tests, for example httpx.MockTransport.
    """

    name = "ollama"

    def __init__(self, config: OllamaConfig, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._service = Service(
            self.name,
            config,
            refusals=REFUSALS,
            keys=(Key("authorization", config.api_key, "Bearer {}"),),
            key_needed_at={OLLAMA_COM: "OLLAMA_API_KEY"},
            framing=LINES,
            headers={"accept": "application/json, application/x-ndjson"},
            explain=explained,
            transport=transport,
        )
        self.endpoint, self.aclose = self._service.endpoint, self._service.aclose
        self._config = config
        self._is_cloud = is_cloud(config.base_url)
        self._writer = ChatRequestWriter(self.endpoint, config)
        self._catalogue = Catalogue(self._service)

    def tool_format(self, model: str) -> str:
        """Return the tool format of this dialect."""
        return self.name

    def combines_tools_and_format(self, model: str) -> bool:
        """Return False: the grammar that makes the format keeps the model from calling tools."""
        return False

    def takes_in_results(self, model: str, part: MediaPart) -> bool:
        """Return whether a result for this model may have this part; see MediaInResultsProvider."""
        return self._config.media_in_results and fits_in_result(part)

    def media_limits(self, model: str) -> MediaLimits:
        """Describe the media that a model accepts, as far as the server has been asked; see LimitedProvider."""
        facts = self._catalogue.known_facts(model)
        sees, hears = not facts.lacks("vision"), not facts.lacks("audio")
        return MediaLimits(types={**(SEES if sees else {}), **(HEARS if hears else {})}, source=MEDIA_SOURCE)

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Return the answer to one request; see ChatProvider."""
        answer = self._answer(options)
        write = self._write(messages, model, options, answer, stream=False)
        return await self._service.answer(_CHAT, write, answer, model=model, timeout_s=options.timeout_s)

    def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it arrives; see StreamingProvider."""
        answer = self._answer(options)
        write = self._write(messages, model, options, answer, stream=True)
        return self._service.pieces(_CHAT, write, answer, model=model, timeout_s=options.timeout_s)

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

        async def ask(batch: Sequence[str], left_s: float | None) -> Embeddings:
            fields = embed_fields(batch, model, dimensions, self._config)
            return await self._service.post(
                "/api/embed", fields, read_embeddings, what="embeddings", model=model, timeout_s=left_s
            )

        unreadable = functools.partial(self._service.unreadable, model=model)
        embeddings = await BATCHES.embed(texts, ask, unreadable, dimensions=dimensions, timeout_s=timeout_s)
        length = len(embeddings.vectors[0]) if embeddings.vectors else dimensions
        if dimensions in (None, length):
            return embeddings
        warning = f"the vectors have {length} dimensions, not {dimensions}: {model} or the server cannot"
        return attrs.evolve(embeddings, warnings=(warning,))

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that the server lists; see ChatProvider."""
        return [model_info(name, facts) for name, facts in (await self._catalogue.installed()).items()]

    def _answer(self, options: ChatOptions) -> ChatAnswer:
        tools = offered_names(options) if self._config.read_text_calls else None
        text = TextReader(think_tags=self._config.think_tags, tools=tools)
        return ChatAnswer(self.endpoint, mask=self._service.mask, text=text)

    def _write(
        self, messages: Sequence[Message], model: str, options: ChatOptions, answer: ChatAnswer, *, stream: bool
    ) -> Write:
        """Build the writer of a request, after checking that the model is not known to lack a needed capability."""

        async def write(refusal: Refusal | None) -> Body | None:
            if refusal is not None:
                if self._config.check_models and refuses_tools(refusal.body):
                    able = await self._catalogue.able("tools")
                    raise cannot_call_tools(model, able, {"status": refusal.status})
                return None
            needs, facts = _needs(messages, options), UNKNOWN
            if self._must_ask(needs, options):
                facts = await self._catalogue.facts_of(model, TimeLeft(options.timeout_s))
            if "tools" in needs and facts.lacks("tools"):
                raise cannot_call_tools(model, await self._catalogue.able("tools"))
            sent = without_earlier_media(messages) if facts.lacks("vision") else messages
            for capability in needs if sent is messages else _needs(sent, options):
                if facts.lacks(capability):
                    raise lacks_capability(model, capability)
            if self._is_cloud or runs_in_cloud(model):
                facts = attrs.evolve(facts, is_remote=True)
            body, answer.num_ctx = self._writer.write(sent, model, options, facts, stream=stream)
            return body

        return write

    def _must_ask(self, needs: Iterable[str], options: ChatOptions) -> bool:
        if not self._config.check_models:
            return False
        tables = (self._config.extra_body.get("options"), options.extra.get("options"))
        chosen = self._config.num_ctx is not None or any(isinstance(t, Mapping) and "num_ctx" in t for t in tables)
        return bool(needs) or bool(self._config.think) or not (chosen or self._is_cloud)


def _needs(messages: Sequence[Message], options: ChatOptions) -> tuple[str, ...]:
    """Return the capabilities without which a model cannot do what is asked."""
    needs = dict.fromkeys(["tools"] if options.tools and options.tool_choice != "none" else [])
    if options.reasoning is not None and options.reasoning.effort not in (None, "none"):
        needs["reasoning"] = None
    for message in messages:
        for part in message.media if type(message) is UserMessage else ():
            needs["audio" if part.kind == "audio" else "vision"] = None
        if type(message) is ToolMessage and any(map(fits_in_result, message.media)):
            needs["vision"] = None
    return tuple(needs)
