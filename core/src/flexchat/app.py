"""FlexChat: a configuration and the installed plugins, put together. Opens and closes what they hold."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import attrs

from .assembly import Parts, assemble, assemble_rule, blocked_by, installed_plugins
from .calls.manager import ToolLike, ToolManager, as_definition
from .config.model import Config, IntentTable, LimitsTable, ReasoningTable, ResponseRule, RuleTools, TopicTable
from .conversations.view import Conversations
from .domain import (
    DEFAULT_TENANT,
    ChatRequest,
    CollectionChoice,
    Effort,
    Embeddings,
    Message,
    ModelInfo,
    StreamEvent,
    ToolResult,
    Turn,
    TurnInfo,
)
from .domain.copies import with_own_tables
from .domain.masking import Mask
from .domain.text import scrub
from .errors import ChatRequestError, Problem, ProviderError, ProviderProtocolError, ProviderTimeoutError
from .llms.llm import LLM, Llms
from .llms.local_models import LocalModels
from .plugin.call import Call, Origin
from .plugin.contracts import ChatProvider, ConversationStore, Reranker, Retriever
from .plugin.events import EventHooks, current_turn
from .plugin.foreign import ForeignError, contained
from .plugin.host import PluginHost
from .request import read_request
from .turn.answer import ResponseGenerator
from .turn.keeping import Keeper
from .turn.routing import Router
from .turn.run import Conversation, Explanation

if TYPE_CHECKING:
    from .config.document import Document
    from .schema.answer_form import AnswerForm


_Held = ChatProvider | LocalModels | Reranker | Retriever | ConversationStore


class FlexChat:
    """A configured chat: ask it with ``respond`` or ``stream``.

    Made with ``from_config`` (a file or a mapping) or ``from_model`` (one model and some tools). It holds connections:
    use it as ``async with FlexChat.from_config("chat.toml") as chat:`` or call ``aclose``. One instance serves any
    number of turns at once, on one event loop.

    Attributes:
        config: The configuration it runs.
        llms: The services its config names, opened; ``llms.resolve`` says who is asked for what.
        tools: Registry, executor and limits of its tools.
        retrievers: The document stores, by their name in rag_services.
        conversations: Those that are kept, of the default tenant; ``conversations.of(tenant)`` for another's. None if
            the config keeps none.
        packages: For each service in llms, the distribution whose plugin speaks to it: "flexchat-openai 0.1.0".
        mask: Takes the config's secrets out of texts.
        notes: What was remarkable when it was put together, nothing of it an error.
    """

    def __init__(
        self,
        config: Config,
        *,
        providers: Mapping[str, ChatProvider] | Llms,
        tools: ToolManager,
        events: EventHooks | None = None,
        retrievers: Mapping[str, Retriever] | None = None,
        held: Iterable[Reranker] = (),
        local_models: LocalModels | None = None,
        conversations: ConversationStore | None = None,
        usual_thresholds: Mapping[str, tuple[float, float]] | None = None,
        mask: Mask | None = None,
        packages: Mapping[str, str] | None = None,
        notes: Iterable[Problem] = (),
    ) -> None:
        events = self._events = events or EventHooks()
        self.config = config
        self.tools = tools
        self.packages = dict(packages or {})
        self.mask = mask or Mask()
        self.notes = tuple(notes)
        self.llms = providers if isinstance(providers, Llms) else Llms.given(providers, config.llms)
        self._local_models = local_models or LocalModels()
        self.retrievers: Mapping[str, Retriever] = dict(retrievers or {})
        self.conversations = Conversations(conversations) if conversations is not None else None
        self._keeper = Keeper(conversations) if conversations is not None else None
        # Closed from the end: a store may still need who makes its vectors.
        self._held: list[_Held] = [
            *(llm.provider for llm in self.llms.values()),
            self._local_models,
            *held,
            *self.retrievers.values(),
            *([conversations] if conversations is not None else []),
        ]
        generator = ResponseGenerator(self.llms, tools, events, limits=config.limits)
        router = Router(config, self.llms, self.retrievers, events, usual_thresholds, mask)
        self._conversation = Conversation(router, generator, events, mask)

    @classmethod
    def from_config(
        cls,
        source: str | Path | Document | Mapping[str, Any],
        *,
        tools: Iterable[ToolLike] = (),
        providers: Mapping[str, ChatProvider] | None = None,
        plugins: PluginHost | None = None,
        hooks: Iterable[object] = (),
    ) -> Self:
        """Put together what a configuration describes.

        Args:
            source: A TOML or JSON file, one that is read already, or the same as a mapping (in which ${VARIABLES} are
                not expanded).
            tools: Further tools, given in code; rules name them like those of the config.
            providers: Providers to use in place of those the config describes, by their name in llms; for tests.
            plugins: The plugins to use; absent: all that are installed.
            hooks: Objects with @hookimpl methods, for this chat alone: event hooks, gates, steps of tool calls. They
                come behind the plugins'.

        Raises:
            ConfigError: Everything that is wrong with the configuration, at once.
        """
        from .config.load import read_config  # imports cattrs: only where a configuration is read

        given = [item if isinstance(item, str) else as_definition(item) for item in tools]
        draft = read_config(source, tools=[item if isinstance(item, str) else item.name for item in given])
        return cls._of(assemble(draft, plugins or installed_plugins(blocked_by(draft)), given, providers or {}, hooks))

    @classmethod
    def from_model(
        cls,
        provider: str,
        model: str,
        *,
        prompt: str = "",
        tools: Iterable[ToolLike] = (),
        max_tokens: int | None = None,
        temperature: float | None = None,
        reasoning: Effort | None = None,
        max_iterations: int | None = None,
        limits: LimitsTable | None = None,
        plugins: PluginHost | None = None,
        hooks: Iterable[object] = (),
        **settings: Any,
    ) -> Self:
        """Put together one model and some tools, without a configuration.

        Args:
            provider: Kind of service: "openai", "rehearsal", …
            prompt: System prompt.
            reasoning: How much the model thinks first: "none", "low", "high", …
            max_iterations: Answers of the model that may ask for tools in one turn, from 1.
            tools: Functions, definitions, and names of tools that plugins offer: "calculator".
            hooks: As in from_config.
            settings: The provider's own settings, api_key="…", base_url="…", and retries.

        Raises:
            ConfigError: No installed plugin offers the provider, or it does not take these settings.
        """
        rule = ResponseRule(
            llm=provider,
            model=model,
            prompt=prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            reasoning=ReasoningTable(effort=reasoning) if reasoning else None,
            tools=RuleTools(max_iterations=max_iterations),
        )
        host = plugins or installed_plugins()
        return cls._of(assemble_rule(rule, settings, host, tools, limits or LimitsTable(), hooks))

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        return cls(
            parts.config,
            providers=parts.llms,
            tools=parts.tools,
            events=parts.events,
            retrievers=parts.retrievers,
            held=parts.held,
            local_models=parts.local_models,
            conversations=parts.conversations,
            usual_thresholds=parts.usual_thresholds,
            mask=parts.mask,
            packages=parts.packages,
            notes=parts.notes,
        )

    def with_rule(self, rule: ResponseRule, *, tools: Iterable[ToolLike] | None = None) -> FlexChat:
        """Return a chat over the same services that answers every message by one rule: for trying a model.

        It keeps no conversations and looks for no documents. It shares this one's connections: closing it closes
        nothing, and it ends with this one.

        Args:
            tools: In place of those of the config.
        """
        config = attrs.evolve(
            self.config,
            responses=(with_own_tables(rule),),
            rag_services={},
            topic=TopicTable(),
            intent=IntentTable(),
            conversations=None,
        )
        tried = FlexChat(
            config,
            providers=self.llms,
            tools=self.tools if tools is None else self.tools.with_tools(tools),
            events=self._events,
            mask=self.mask,
            packages=self.packages,
        )
        tried._held.clear()
        return tried

    async def respond(
        self,
        message: str | ChatRequest,
        *,
        history: Iterable[Message | Mapping[str, Any]] = (),
        topic: str | None = None,
        collections: Iterable[str | CollectionChoice] | None = None,
        variables: Mapping[str, Any] | None = None,
        response_format: Any = None,
        conversation: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Turn:
        """Answer a message.

        Args:
            history: Earlier messages: ``turn.response.messages`` of earlier turns, chained, or {role, content}.
                Comes behind the history of a ChatRequest.
            topic: What the conversation was about so far: ``turn.profile.topic`` of the last turn.
            collections: Where documents are looked for, as "SERVICE/COLLECTION" or "SERVICE"; absent: everywhere.
            variables: What prompts show as {{name}}, beside the profile's fields; before the config's ``variables``.
            response_format: What the answer must be: a class (attrs, dataclass, TypedDict, pydantic), of which
                ``turn.response.parsed`` will be an instance, or a JSON Schema. Goes before the rule's own.
            conversation: Id of a kept conversation (the config's ``conversations``), which this turn goes on with and
                is added to, however it ends; one that is not there begins. See ``new_conversation_id``.
            tenant: Whose conversation.

        Raises:
            ChatRequestError: The message is empty or too long, the history cannot be read, or the response_format
                can be no answer's form; or no conversations are kept.
            NoMatchingRuleError, UnknownServiceError, TurnTimeoutError, ProviderError: The turn failed.
            ResponseFormatError: The answer has not the form, also when asked again.

        An error of a turn, and the CancelledError of one that is stopped, has in ``turn`` what there was by then.
        """
        request, form = self._request(message, history, topic, collections, variables), _form(response_format)
        if conversation is None:
            return await self._conversation.respond(request, form)
        async with self._keeping().place(request, conversation=conversation, tenant=tenant) as place:
            return await self._conversation.respond(place.request, form, place.keep)

    def stream(
        self,
        message: str | ChatRequest,
        *,
        history: Iterable[Message | Mapping[str, Any]] = (),
        topic: str | None = None,
        collections: Iterable[str | CollectionChoice] | None = None,
        variables: Mapping[str, Any] | None = None,
        response_format: Any = None,
        conversation: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Answer a message piece by piece: a generator of events, of which the last is the TurnEnd.

        Closing the generator ends the turn: the provider's connection is closed, running tools are cancelled.

        Raises:
            The same as respond; what goes wrong during the turn is raised out of the generator.
        """
        request, form = self._request(message, history, topic, collections, variables), _form(response_format)
        if conversation is None:
            return self._conversation.stream(request, form)
        return self._stream_kept(self._keeping(), request, form, conversation, tenant)

    async def _stream_kept(
        self, keeper: Keeper, request: ChatRequest, form: AnswerForm | None, conversation: str, tenant: str
    ) -> AsyncGenerator[StreamEvent, None]:
        async with (
            keeper.place(request, conversation=conversation, tenant=tenant) as place,
            contextlib.aclosing(self._conversation.stream(place.request, form, place.keep)) as events,
        ):
            async for event in events:
                yield event

    def keep_in(self, store: ConversationStore) -> None:
        """Keep conversations in this store from now on, and not in the one of the config. Whoever made it closes it."""
        self.conversations, self._keeper = Conversations(store), Keeper(store)

    async def explain(
        self,
        message: str | ChatRequest,
        *,
        history: Iterable[Message | Mapping[str, Any]] = (),
        topic: str | None = None,
        collections: Iterable[str | CollectionChoice] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> Explanation:
        """Say which rule would answer a message, and why, without answering it.

        Phases 1 to 5 run as they do in a turn: models and document stores are asked. The variables are checked as in
        a turn; no rule depends on them.

        Raises:
            ChatRequestError: As respond.
        """
        return await self._conversation.explain(self._request(message, history, topic, collections, variables))

    async def call_tool(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        origin: Origin = "program",
        tenant: str = DEFAULT_TENANT,
        context: Any = None,
    ) -> ToolResult:
        """Run one tool, as a model would; trouble is in the result.

        Args:
            origin: Who asks, for gates and records: "command line", "api", … (flexchat.plugin.call.Origin).
            tenant: For whom, for gates and the tool.
            context: What the tool finds as ``ToolContext.context``: any object.
        """
        turn = TurnInfo(id=current_turn.get(), tenant=tenant)
        return await self.tools.calls.run(Call(name=name, arguments=params, origin=origin, turn=turn, context=context))

    async def embed(
        self,
        texts: Sequence[str],
        *,
        llm: str | None = None,
        model: str | None = None,
        purpose: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
    ) -> Embeddings:
        """Turn texts into vectors, one each, in their order.

        Args:
            llm: Name of an entry in llms, or a provider that brings its own model ("minilm"); None for the one the
                config's ``embedding`` names, or the only entry there is.
            model: None for that of ``embedding``, or the entry's default_model, or the provider's own.
            purpose: Whether the texts are questions or documents, where a model makes different vectors for them.
            dimensions: Length of the vectors, where a model leaves a choice.

        Raises:
            ChatRequestError: A text is empty, or it is not clear which service and model are meant.
            UnknownServiceError: llm is not configured.
            ProviderError: The service did not answer, or makes no embeddings.
        """
        from .llms.embeddings import embed

        return await embed(
            texts if isinstance(texts, str) else [scrub(t) if isinstance(t, str) else t for t in texts],
            self.llms,
            self.config.embedding,
            self._local_models,
            llm=llm,
            model=model,
            purpose=purpose,
            dimensions=dimensions,
        )

    async def list_models(
        self, *, timeout_s: float | None = None, services: Collection[str] | None = None
    ) -> dict[str, tuple[ModelInfo, ...] | ProviderError]:
        """Ask every configured service for its models; a service that does not answer gives its error.

        Args:
            timeout_s: Seconds each service has; None for the time its provider takes at most.
            services: Those to ask, others are left out; None for all.
        """

        async def ask(llm: LLM) -> tuple[ModelInfo, ...] | ProviderError:
            try:
                async with asyncio.timeout(timeout_s):
                    with contained():
                        return tuple(await llm.list_models())
            except TimeoutError:
                text = f"the list of models did not come within {timeout_s:g} s"
                return ProviderTimeoutError(text, provider=llm.provider.name)
            except ProviderError as error:
                return error
            except ForeignError as error:
                name = llm.provider.name
                return ProviderProtocolError(f"the provider {name} failed: {error}", provider=name)

        asked = {name: llm for name, llm in self.llms.items() if services is None or name in services}
        answers = await asyncio.gather(*map(ask, asked.values()))
        return dict(zip(asked, answers, strict=True))

    async def aclose(self) -> None:
        """Close connections and stores: all, whatever one of them raises. The object cannot be used afterwards."""
        async with contextlib.AsyncExitStack() as closing:
            while self._held:
                closing.push_async_callback(_close, self._held.pop())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _request(
        self,
        message: str | ChatRequest,
        history: Iterable[Message | Mapping[str, Any]],
        topic: str | None,
        collections: Iterable[str | CollectionChoice] | None,
        variables: Mapping[str, Any] | None = None,
    ) -> ChatRequest:
        limit, stores = self.config.limits.message_chars, self.retrievers
        request = read_request(
            message, history, topic, collections, message_chars=limit, stores=stores, variables=variables
        )
        if self.config.variables:
            request = attrs.evolve(request, variables={**self.config.variables, **request.variables})
        return request

    def _keeping(self) -> Keeper:
        if self._keeper is None:
            raise ChatRequestError("no conversations are kept: add a table 'conversations' to the config")
        return self._keeper


def _form(response_format: Any) -> AnswerForm | None:
    if response_format is None:
        return None
    from .schema.answer_form import answer_form

    return answer_form(response_format)


async def _close(held: _Held) -> None:
    with contextlib.suppress(ProviderError, OSError):  # nobody can do anything about a connection that breaks now
        await held.aclose()
