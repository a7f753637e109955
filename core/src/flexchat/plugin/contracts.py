"""What a plugin hands over, and what FlexChat asks of it."""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs

from ..domain import (
    ChatEvent,
    ChatOptions,
    ChatResult,
    Claim,
    Collection,
    ConversationInfo,
    ConversationTurn,
    Document,
    Effect,
    EffectCall,
    EffectState,
    Embeddings,
    Message,
    ModelInfo,
    RetrievalHits,
    SchemaDialect,
    Source,
    ToolDefinition,
    ToolResult,
    TurnInfo,
    Where,
)
from ..domain.journal import JournaledTurn, JournalEntry, TurnEnd, TurnState
from ..errors import Problem
from .call import NO_TURN, Call
from .current import Cited, current_turn
from .threads import run_in_thread

if TYPE_CHECKING:
    import argparse

ToolEncoder = Callable[[Sequence[ToolDefinition]], list[dict[str, Any]]]
"""Says tool definitions in a provider's words. Pure; leaves its input alone."""


class ChatProvider(Protocol):
    """One configured LLM service. Opened with the app, closed with it.

    What only some can do is told by one more method: StreamingProvider, EmbeddingProvider,
    ToolsOrFormatProvider; what one cannot do that all others can, by an attribute: StandInProvider. A provider
    that talks to a server says which in an attribute ``endpoint``, "https://api.example.com": LLMs with one endpoint
    share what is known of its health.
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
        """Yield the answer as it comes; the last event is one AnswerEnd.

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


class ToolsOrFormatProvider(ChatProvider, Protocol):
    """A provider some of whose models take no response_format in a request that carries tools."""

    def combines_tools_and_format(self, model: str) -> bool:
        """Return whether this model takes both. Without this method a provider takes both always.

        Where it is False, the tools run first, and one last request without them asks for the format.
        """


class StandInProvider(ChatProvider, Protocol):
    """A provider that stands in for a model, and does not do what a prompt says."""

    follows_instructions: bool
    """Whether its models do what a prompt says. Without this attribute they do.

    Where it is False, no phase asks it what a message is about or what its intent is.
    """


class Retriever(Protocol):
    """One configured document store, as far as every one goes: it can be asked. DocumentStore can also be filled."""

    async def query(
        self, text: str, *, collection: str | None, top_k: int, where: Where | None = None
    ) -> RetrievalHits:
        """Return the top_k passages that fit text best, best first.

        Args:
            collection: None searches all collections.
            where: Only documents whose metadata pass this filter; see flexchat.domain.filters.

        Raises:
            RetrievalError: The store cannot be asked; UnknownCollectionError if it has no such collection.
            FilterError: where cannot be read.
        """

    async def collections(self) -> Sequence[Collection]:
        """Return the collections there are, by name.

        Raises:
            RetrievalError: The store cannot be asked.
        """

    async def aclose(self) -> None:
        """Give back what is held. Called once, at the end."""


class DocumentStore(Retriever, Protocol):
    """A document store that can be filled. What a method was told to keep is durable when it returns.

    Every method may raise RetrievalError, and UnknownCollectionError for a collection that is not there.
    """

    async def add(self, documents: Sequence[Document], *, collection: str, source: Source | None = None) -> int:
        """Store documents, all or none, and return how many were new or had changed.

        A collection that is not there is created. A document whose id is there already is replaced; if its text is
        the same, no new vector is made for it. A document without an id gets one made of source and text.

        Args:
            source: Where all these documents come from. If it is complete, documents of that source which an earlier
                digest left behind go in the same step, and the source is remembered as finished.
        """

    async def delete(
        self,
        *,
        collection: str,
        ids: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> int:
        """Delete the documents that fit all that is given, and return how many those were.

        Sources that lose all their documents are forgotten. Nothing given means all documents of the collection.
        """

    async def list(
        self, *, collection: str, where: Where | None = None, limit: int = 100, after: str | None = None
    ) -> Sequence[Document]:
        """Return documents in the order of their ids, at most limit, from behind the id after."""

    async def sources(self, *, collection: str, limit: int = 1000, after: str | None = None) -> Sequence[Source]:
        """Return what documents were taken from, in the order of the names, from behind the name after."""

    async def save_collection(self, collection: Collection) -> None:
        """Create a collection, or change what is said of it; what the store sets itself is not read."""

    async def delete_collection(self, name: str) -> None:
        """Delete a collection with all its documents."""


class Embedder(Protocol):
    """Turns texts into vectors, for a document store.

    Attributes:
        name: "PROVIDER/MODEL": vectors made under one name can be compared with each other.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "document"]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in their order; the same question twice is asked once.

        Raises:
            ProviderError: The service did not answer.
        """


class Reranker(Protocol):
    """Reads a question and passages together, and says how well each fits."""

    async def rerank(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """Return a score for each passage, in their order; greater is better."""

    async def aclose(self) -> None:
        """Give back what is held. Called once, at the end."""


class ConversationStore(Protocol):
    """Keeps conversations. Each belongs to a tenant, and no method ever looks beyond the one it is told.

    What a method was told to keep is durable when it returns. Every method may raise StorageError. A name (of a tenant,
    a conversation, a turn) that cannot be kept as it is, is refused with it: two names made one would let tenants meet.
    """

    async def append(self, conversation: str, turn: ConversationTurn, *, tenant: str) -> None:
        """Add a turn at the end; a conversation that is not there begins with it, titled by its first message.

        A turn whose id is there already is not added again.
        """

    async def turns(self, conversation: str, *, tenant: str, last: int | None = None) -> Sequence[ConversationTurn]:
        """Return its turns, oldest first; the last so many of them, if that is given.

        Raises:
            UnknownConversationError: There is none of that id.
        """

    async def get(self, conversation: str, *, tenant: str) -> ConversationInfo:
        """Return what is known of a conversation.

        Raises:
            UnknownConversationError: There is none of that id.
        """

    async def list(
        self, *, tenant: str, search: str | None = None, limit: int = 50, before: str | None = None
    ) -> Sequence[ConversationInfo]:
        """Return conversations, the last used one first.

        Args:
            search: Words that must all occur in one of its texts (ConversationTurn.text) or in its title, also inside
                longer words, compared by str.casefold.
            before: Id of a conversation: only those used before it; for the next page.

        Raises:
            UnknownConversationError: There is no conversation ``before``.
        """

    async def rename(self, conversation: str, title: str, *, tenant: str) -> None:
        """Give it another title.

        Raises:
            UnknownConversationError: There is none of that id.
        """

    async def delete(self, conversation: str, *, tenant: str) -> None:
        """Delete it with all its turns; where the ledger of effects is kept with it, their texts, too.

        Raises:
            UnknownConversationError: There is none of that id.
        """

    async def aclose(self) -> None:
        """Give back what is held. Called once, at the end."""


class KeepingEffects(ConversationStore, Protocol):
    """A conversation store that can also keep the ledger of effects."""

    def ledger(self) -> EffectLedger:
        """Return the ledger, in the same database; closed with the store."""


class EffectLedger(Protocol):
    """Keeps a row for each effect, so that none happens twice and none is lost; see flexchat.domain.effects.

    What claim, finish, release and settle return is on the disk. Times are measured by a clock that all who use the
    ledger share and nobody sets. Every method may raise StorageError.
    """

    async def claim(self, call: EffectCall, *, owner: str, lease_s: float, take_over: bool = False) -> Claim:
        """Claim an effect, in one transaction: of all who claim one key, at any time, one is told "yours".

        A new key, and one that was given back, is "yours": its row says so, with the next fence, and the owner's
        lease begins anew. Any other row is left as it is.

        Args:
            lease_s: Seconds after which the owner counts as dead, if it does not renew before.
            take_over: A row whose owner is dead is "yours", too.
        """

    def renew(self, owner: str, lease_s: float) -> None:
        """Say that an owner lives, and with it all its claims. Blocks: it is called in a thread of its own."""

    async def finish(
        self, key: str, fence: int, *, state: Literal["done", "failed", "unknown"], result: str | None, note: str = ""
    ) -> bool:
        """Say how a claim ended. Where it is claimed or unknown with this very fence; else it is False, and too late.

        Args:
            result: The ToolResult as JSON.
        """

    async def release(self, key: str, fence: int, *, note: str) -> bool:
        """Give a claim back whose tool was never started, as failed: the next who asks may have it. As finish."""

    async def settle(
        self,
        key: str,
        *,
        tenant: str,
        state: Literal["done", "failed"],
        by: str,
        note: str = "",
        result: str | None = None,
    ) -> Effect:
        """Put a person's word in the place of "unknown", and of a claim whose owner is dead.

        Raises:
            UnknownEffectError: As get.
            CannotSettleError: It is neither.
        """

    async def get(self, key: str, *, tenant: str) -> Effect:
        """Return the effect with this key, or the only one whose key begins with it.

        A claim whose owner is dead is told as unknown, here and in the list.

        Raises:
            UnknownEffectError: There is none, or several.
        """

    async def list(
        self,
        *,
        tenant: str,
        states: Iterable[EffectState] | None = None,
        conversation: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Effect]:
        """Return effects, the one first claimed last at the top.

        Args:
            states, conversation: Only those; None for all.
            before: Key of an effect: only those claimed before it; for the next page.

        Raises:
            UnknownEffectError: There is no effect ``before``.
        """

    async def forget(self, *, older_than_s: float) -> None:
        """Forget arguments and results of what ended so long ago, and the rows that nobody can ask for any more.

        A row stays while its conversation is kept, and for a day at least. What is unknown stays whole.
        """

    async def forget_conversation(self, conversation: str, *, tenant: str) -> None:
        """Forget the arguments, results and notes of a conversation that is deleted. The rows stay."""

    async def aclose(self) -> None:
        """Give back what is held. Called once, at the end."""


class JournalingStore(ConversationStore, Protocol):
    """A ConversationStore that also keeps the steps of the turns, in the same place.

    Attributes:
        journal: Of all tenants.
    """

    journal: TurnJournal

    async def append(
        self, conversation: str, turn: ConversationTurn, *, tenant: str, end: TurnEnd | None = None
    ) -> None:
        """Add a turn at the end, as ConversationStore.append, and end it in the journal: both or neither.

        Args:
            end: How the turn ends in the journal; None for one that is not in it.

        Raises:
            LostTurnError: The turn has ended, or has been taken up by another owner.
        """


class TurnJournal(Protocol):
    """Keeps the steps of turns, so that a turn whose process died can go on where it stopped.

    A turn belongs to the owner that began it or took it up last, with that owner's fence. An owner lives as long as its
    lease, which runs by the store's clock; a running turn of an owner that is no longer alive is "interrupted". Every
    method may raise StorageError."""

    async def write(self, turn: JournaledTurn, entries: Sequence[JournalEntry], *, lease_s: float | None) -> None:
        """Add steps to a turn, all or none. With step 1 the turn begins.

        Args:
            lease_s: Seconds the owner's lease is to last from now on; None to leave it.

        The steps survive the end of the process; whether they survive a loss of power is open until a write that does
        (the turn's end, a claim or its finish) has returned.

        Raises:
            LostTurnError: The turn has ended, or has been taken up by another owner.
        """

    async def take(self, id: str, *, tenant: str, owner: str, lease_s: float) -> JournaledTurn:
        """Take up an interrupted turn, and return it as it is now: running, and this owner's. Of two, one succeeds.

        Args:
            id: The turn's id, or the beginning of it.

        Raises:
            UnknownTurnError: There is none, or there are several.
            TurnNotWaitingError: It is not interrupted.
        """

    async def release(self, turn: JournaledTurn, *, error: str = "") -> None:
        """Give up a turn, which is interrupted then.

        Args:
            error: Why it cannot go on.
        """

    async def read(self, id: str, *, tenant: str) -> tuple[JournaledTurn, Sequence[JournalEntry]]:
        """Return a turn with its steps, in order; id as in take.

        Raises:
            UnknownTurnError: There is none, or there are several.
        """

    async def list(
        self,
        *,
        tenant: str,
        states: Sequence[TurnState] | None = None,
        conversation: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[JournaledTurn]:
        """Return turns, the newest first.

        Args:
            before: Id of a turn: only those that began before it; for the next page.

        Raises:
            UnknownTurnError: There is no turn ``before``.
        """

    async def waiting(self, conversation: str, *, tenant: str) -> Sequence[str]:
        """Return the ids of a conversation's interrupted turns, oldest first. Asked before every turn: be quick."""

    def renew(self, owner: str, lease_s: float) -> None:
        """Let the lease of an owner run from now on, so many seconds. Blocks: it is called in a thread of its own."""

    async def forget(self, *, older_than_s: float) -> int:
        """Delete turns that ended so many seconds ago, with their steps; return how many."""


@attrs.frozen(kw_only=True)
class DocumentStoreContext:
    """What FlexChat hands to a document store when it opens one.

    Attributes:
        name: Of the entry in stores.
        folder: That of the config's file, from which relative paths are meant; None for a config without a file.
        embedder: Makes its vectors; None where the config names no embedding and no installed provider brings a model
            of its own: a store then searches by words.
        reranker: Reads the best hits again; None without.
    """

    name: str = "documents"
    folder: Path | None = None
    embedder: Embedder | None = None
    reranker: Reranker | None = None


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
        local_embeddings: A model of this provider that makes embeddings without key, settings or network: document
            stores use it where the config names none.
        embedding_thresholds: Distances that suit models which make embeddings, by their names: (match, partial), what
            is used where a config says nothing. Measure them.
        summary: One line for ``flexchat plugins``.
    """

    name: str
    config_class: type
    create: Callable[[Any], ChatProvider]
    tool_formats: Mapping[str, ToolEncoder]
    schema_dialects: Mapping[str, SchemaDialect] = attrs.field(factory=dict)
    local_embeddings: str | None = None
    embedding_thresholds: Mapping[str, tuple[float, float]] = attrs.field(factory=dict)
    summary: str = ""


@attrs.frozen(kw_only=True)
class DocumentStoreType:
    """A kind of document store: what ``provider`` in a stores entry may say.

    Attributes:
        config_class: As in ProviderType. Of the keys that are core's (description, collection, match_threshold,
            partial_threshold, top_k) it gets those it has a field for.
        create: From an instance of config_class and a context to a store. Opens and reads nothing yet.
    """

    name: str
    config_class: type
    create: Callable[[Any, DocumentStoreContext], Retriever]
    summary: str = ""


@attrs.frozen(kw_only=True)
class RerankerType:
    """A kind of reranker: what ``rerank`` in a stores entry may say."""

    name: str
    create: Callable[[], Reranker]
    summary: str = ""


@attrs.frozen(kw_only=True)
class ConversationStoreType:
    """A place to keep conversations: what ``provider`` in the table conversations may say. Fields as in ProviderType.

    Attributes:
        create: From an instance of config_class, and the folder of the config's file, to a store.
    """

    name: str
    config_class: type
    create: Callable[[Any, Path | None], ConversationStore]
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
        settings_class: attrs class for keys of its own in the implementation table of a tool, which the call gets as
            ``context.settings``; a key that core or the implementation type has, too, is theirs. None: it has none.
    """

    kind: str
    name: str
    call: Callable[[Mapping[str, Any], ToolContext], Any]
    settings_class: type | None = None


@attrs.frozen(kw_only=True)
class ToolContext:
    """What a tool may use while it runs, and what it may know of the call. Made for each call.

    Attributes:
        tool: The definition that is being run.
        handlers: All installed handlers, by kind and name.
        stores: The configured document stores, by their name in stores.
        settings: What the tool's implementation table says for its handler, an instance of the handler's
            settings_class; None where it has none.
    """

    tool: ToolDefinition
    handlers: Mapping[tuple[str, str], ToolHandler] = attrs.field(factory=dict)
    stores: Mapping[str, Retriever] = attrs.field(factory=dict)
    settings: Any = None
    _made_for: Call | None = attrs.field(default=None, repr=False)

    @property
    def call_id(self) -> str:
        """Id of the call, the same in the record and in every event; empty outside of calls."""
        return self._made_for.id if self._made_for is not None else ""

    @property
    def key(self) -> str | None:
        """Key of the call's effect, 64 hexadecimal digits: for a service that does one thing once per key.

        It is the same when this very call is made again, after a crash or a double delivery, and no other call has it.
        A tool that hands it on says so with ``honours_key``. None for tools whose effect is not "write".
        """
        return self._made_for.key if self._made_for is not None else None

    @property
    def turn(self) -> TurnInfo:
        """Which turn the call belongs to: ``turn.id``, ``turn.conversation``, ``turn.tenant``."""
        return self._made_for.turn if self._made_for is not None else NO_TURN

    @property
    def turn_id(self) -> str:
        """Id of the turn; empty outside of turns."""
        return self.turn.id

    @property
    def conversation(self) -> str | None:
        """Id of the kept conversation; None if the turn is not kept."""
        return self.turn.conversation

    @property
    def tenant(self) -> str:
        """Whose conversation or call it is."""
        return self.turn.tenant

    @property
    def context(self) -> Any:
        """What the caller gave along, ``call_tool(…, context=…)``: the very object, of any type; None without."""
        return self._made_for.context if self._made_for is not None else None

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call another tool, by its name: through the same steps as every call, in the same turn.

        In an async tool. Whatever comes of it is in the result: nothing is raised.
        """
        if self._made_for is None or self._made_for.runner is None:
            raise RuntimeError("this ToolContext was not made for a call: there is no other tool it could call")
        return await self._made_for.runner.run(self._made_for.child(name, arguments))

    def cite(self, store: str, hits: RetrievalHits) -> None:
        """Say what was found in a document store: the turn names it among its citations.

        Raises:
            ValueError: A document has no distance.
        """
        if len(hits.documents) != len(hits.distances) or not all(map(math.isfinite, hits.distances)):
            raise ValueError("every document that is cited needs a distance, a finite number")
        turn = current_turn.get()
        if turn is not None:
            turn.found.append(Cited(self.tool.name, store, hits))

    async def run_in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run what is the whole of the tool, function(*args), in a thread; see flexchat.plugin.run_in_thread.

        What it comes to after its time is over is still taken down, if it changes something.
        """
        late = self._made_for.late if self._made_for is not None else None
        return await run_in_thread(function, *args, late=late)

    async def call(self, handler: ToolHandler, params: Mapping[str, Any]) -> Any:
        """Run a handler where it belongs: on the event loop if it is async, else in a thread."""
        if inspect.iscoroutinefunction(handler.call):
            return await handler.call(params, self)
        value = await self.run_in_thread(handler.call, params, self)
        return await value if inspect.isawaitable(value) else value  # a plain function around an async one


@attrs.frozen(kw_only=True)
class ImplementationType:
    """A way to run a tool: what ``implementation.type`` in a tool definition may say.

    Attributes:
        settings_class: attrs class for the rest of the implementation table.
        run: async (settings, params, context) -> JSON data. What it raises becomes the error the model reads.
        check: (settings, tool, handlers) -> what is wrong with them, at load; None if nothing.
        stores: settings -> names in stores that a tool with these settings needs; one that is not configured is
            an error at load.
        summary: One line for ``flexchat plugins``.
    """

    name: str
    settings_class: type
    run: Callable[[Any, Mapping[str, Any], ToolContext], Awaitable[Any]]
    check: Callable[[Any, ToolDefinition, Mapping[tuple[str, str], ToolHandler]], str | None] | None = None
    stores: Callable[[Any], Iterable[str]] | None = None
    summary: str = ""


@attrs.frozen(kw_only=True)
class ConfigTable:
    """A table at the top of a configuration that a plugin reads: ``[NAME]``.

    What is read is in ``chat.config.tables[NAME]``, an instance of the class; a config without the table has no such
    entry. Its place in errors, the hint for a misspelt key and its part of the JSON Schema come from the class.

    Attributes:
        name: Of the table. Those of core cannot be taken.
        load: Returns the attrs class of its keys; field metadata as ProviderType's, and "help", "min", "max", "above".
            Called only where the table is written, and for the JSON Schema: import there what is heavy.
        summary: One line for the JSON Schema.
        demo: From the names of the tools there are to what the table holds where there is no configuration (--demo).
    """

    name: str
    load: Callable[[], type]
    summary: str = ""
    demo: Callable[[Sequence[str]], Mapping[str, Any]] | None = None


class CheckedConfig(Protocol):
    """A configuration that was read, as a check sees it.

    Attributes:
        config: What was read, a Config: ``config.tables["glossary"]``, ``config.llms``, ``config.responses`` …
    """

    config: Any

    def problem(self, place: tuple[str | int, ...], text: str) -> None:
        """Say what is wrong at a place, ("glossary", "file"): the file's name and the line come of themselves."""

    def note(self, place: tuple[str | int, ...], text: str) -> None:
        """Say what is remarkable and no error."""

    def add(self, problem: Problem) -> None:
        """Say what is wrong with another file, one that the configuration names."""


@attrs.frozen(kw_only=True)
class ConfigCheck:
    """What ``flexchat check`` looks at beyond the classes of tables: files that must exist, names that must fit.

    Runs only on a configuration whose tables core could read; a plugin's table that has problems is not among them.
    What a check raises is a problem, too.

    Attributes:
        name: What is checked, for errors: "validation cases".
        run: Tells the configuration (a CheckedConfig) what it finds; opens no connection.
        at_start: Whether it runs wherever a chat is made, too, where a problem keeps it from starting: then it must be
            quick. False: only where somebody asks what is wrong, as ``flexchat check`` does.
    """

    name: str
    run: Callable[[Any], None]
    at_start: bool = False


@attrs.frozen(kw_only=True)
class Command:
    """A subcommand: ``flexchat NAME …``, or ``flexchat GROUP NAME …`` with two words. run returns the exit status.

    What run is given has, beside its own arguments and those of every command: ``terminal``, to print with, and
    ``open_chat()``, which returns the configured FlexChat, or one for trying things where there is no config, and
    ``config_source()``, which returns what that is made from (a ReadConfig, or tables) and the PluginHost, and
    ``installed_plugins()``, which returns the PluginHost alone, whatever the config says.
    """

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
