"""What a plugin hands over, and what FlexChat asks of it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs

from ..domain import (
    ChatEvent,
    ChatOptions,
    ChatResult,
    Embeddings,
    Message,
    ModelInfo,
    RetrievalHits,
    SchemaDialect,
    ToolDefinition,
)
from .threads import run_in_thread

if TYPE_CHECKING:
    import argparse

ToolEncoder = Callable[[Sequence[ToolDefinition]], list[dict[str, Any]]]
"""Says tool definitions in a provider's words. Pure; leaves its input alone."""


class ChatProvider(Protocol):
    """One configured LLM service. Opened with the app, closed with it.

    What only some can do is told by a method more: StreamingProvider, EmbeddingProvider, SplittingProvider. A provider
    that talks to a server says which in an attribute ``endpoint``, "https://api.example.com": services with one
    endpoint share what is known of its health.
    """

    @property
    def name(self) -> str:
        """The ProviderType's name."""

    def tool_format(self, model: str) -> str:
        """Return the name of the tool format this model is sent; usually the provider's own name."""

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Hold one exchange.

        Raises:
            ProviderError: Always one of its subclasses, never a transport's own error.
        """

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return what the service offers, as far as it tells.

        Raises:
            ProviderError: As generate_chat.
        """

    async def aclose(self) -> None:
        """Give back connections. Called once, at the end."""


class StreamingProvider(ChatProvider, Protocol):
    """A provider that can also answer piece by piece."""

    def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it comes; the last event is one StreamEnd.

        An async generator: closing it closes the HTTP response. Raises as generate_chat.
        """


class EmbeddingProvider(ChatProvider, Protocol):
    """A provider that can also turn texts into vectors."""

    async def embed(
        self,
        texts: Sequence[str],
        model: str,
        *,
        purpose: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
        timeout_s: float | None = None,
    ) -> Embeddings:
        """Return one vector for each text, in as many requests as the service needs.

        Args:
            texts: None of them empty.
            purpose: What the vectors are for, where a model makes different ones for questions and documents.
            dimensions: Length of the vectors, where a model leaves a choice.
            timeout_s: Seconds for all requests together.

        Raises:
            ProviderError: As generate_chat.
        """


class SplittingProvider(ChatProvider, Protocol):
    """A provider some of whose models take no response_format in a request that carries tools."""

    def combines_tools_and_format(self, model: str) -> bool:
        """Return whether this model takes both. Without this method a provider takes both always.

        Where it is False, the tools run first, and one last request without them asks for the format.
        """


class Retriever(Protocol):
    """One configured document store."""

    async def query(self, text: str, *, collection: str | None, top_k: int) -> RetrievalHits:
        """Return the top_k passages nearest to text, best first."""

    async def aclose(self) -> None:
        """Give back what is held. Called once, at the end."""


@attrs.frozen(kw_only=True)
class ProviderType:
    """A kind of LLM service.

    Attributes:
        name: What ``provider`` in an llms entry says: "openai".
        config_class: attrs class for the rest of that entry; field metadata {"secret": True} marks keys.
        create: From an instance of config_class to a provider. Touches no network and imports what is heavy.
        tool_formats: Encoders by format name. One has the type's own name; further dialects are "name.dialect".
        schema_dialects: What of JSON Schema its services take, by mode: "openai", "openai.strict". Read by
            ``flexchat tools lint``, and by the encoders, which rewrite schemas with them.
        summary: One line for ``flexchat plugins``.
    """

    name: str
    config_class: type
    create: Callable[[Any], ChatProvider]
    tool_formats: Mapping[str, ToolEncoder]
    schema_dialects: Mapping[str, SchemaDialect] = attrs.field(factory=dict)
    summary: str = ""


@attrs.frozen(kw_only=True)
class RetrieverType:
    """A kind of document store: what ``provider`` in a rag_services entry may say. Fields as in ProviderType."""

    name: str
    config_class: type
    create: Callable[[Any], Retriever]
    summary: str = ""


@attrs.frozen(kw_only=True)
class ToolHandler:
    """A function that tools may name.

    Attributes:
        kind: The implementation type that runs it: "builtin", "internal", or a plugin's.
        name: What ``implementation.handler`` says.
        call: (params, context) -> JSON data. A plain def runs in a thread and may block; an async def runs
            on the event loop and may not. Whatever it raises becomes the error the model reads, so write
            that text for the model. A deadline stops the waiting, not a thread: bound your own work.
    """

    kind: str
    name: str
    call: Callable[[Mapping[str, Any], ToolContext], Any]


@attrs.frozen(kw_only=True)
class ToolContext:
    """What a tool may use while it runs.

    Attributes:
        tool: The definition that is being run.
        handlers: All installed handlers, by kind and name.
        retrievers: The configured document stores, by their name in rag_services.
    """

    tool: ToolDefinition
    handlers: Mapping[tuple[str, str], ToolHandler] = attrs.field(factory=dict)
    retrievers: Mapping[str, Retriever] = attrs.field(factory=dict)

    async def call(self, handler: ToolHandler, params: Mapping[str, Any]) -> Any:
        """Run a handler where it belongs: on the event loop if it is async, else in a thread."""
        if inspect.iscoroutinefunction(handler.call):
            return await handler.call(params, self)
        value = await run_in_thread(handler.call, params, self)
        return await value if inspect.isawaitable(value) else value  # a plain function around an async one


@attrs.frozen(kw_only=True)
class ImplementationType:
    """A way to run a tool: what ``implementation.type`` in a tool definition may say.

    Attributes:
        settings_class: attrs class for the rest of the implementation table.
        run: async (settings, params, context) -> JSON data. What it raises becomes the error the model reads.
        check: (settings, tool, handlers) -> what is wrong with them, at load; None if nothing.
        summary: One line for ``flexchat plugins``.
    """

    name: str
    settings_class: type
    run: Callable[[Any, Mapping[str, Any], ToolContext], Awaitable[Any]]
    check: Callable[[Any, ToolDefinition, Mapping[tuple[str, str], ToolHandler]], str | None] | None = None
    summary: str = ""


@attrs.frozen(kw_only=True)
class Command:
    """A subcommand: ``flexchat NAME …``. run returns the exit status."""

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
