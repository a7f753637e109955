"""What a plugin provides, and what FlexChat requires of it."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs

from ..domain import (
    ChatEvent,
    ChatOptions,
    ChatResult,
    Claim,
    Collection,
    ConversationHistory,
    ConversationInfo,
    ConversationTurn,
    Document,
    Effect,
    EffectCall,
    EffectState,
    Embeddings,
    MediaPart,
    Message,
    ModelInfo,
    RetrievalHits,
    Source,
    ToolDefinition,
    ToolResult,
    TurnInfo,
    Where,
)
from ..domain.counters import Charge, HourlySum, Refusal
from ..domain.fetching import Fetcher
from ..domain.journal import JournaledEvent, JournaledTurn, JournalEntry, TurnEnd, TurnKey, TurnState
from ..domain.prices import ModelPrice
from ..domain.questions import Approval, PendingQuestion, QuestionState, Reply
from ..errors import Problem
from .call import REPORTED_AGAIN_S, Call, Cited, EarlierResult, current_turn, traceparent_here
from .foreign import run_in_thread
from .records import summary_from
from .tool_sources import Closable, ConfiguredSource, ToolSource, ToolSourceContext

if TYPE_CHECKING:
    from ..domain.masking import Mask

ToolEncoder = Callable[[Sequence[ToolDefinition]], list[dict[str, Any]]]
"""Converts tool definitions into a provider's format. Pure; leaves its input alone."""


class ChatProvider(Closable, Protocol):
    """One configured LLM service. Opened with the app, closed with it.

    Extra abilities are declared by an extra method: StreamingProvider, EmbeddingProvider, ToolsOrFormatProvider,
    MediaInResultsProvider, PricedProvider; a missing ability is declared by an attribute: StandInProvider. A provider
    that talks to a server names it in an attribute ``endpoint``, "https://api.example.com": LLMs with the same endpoint
    share what is known about its health. Its exchanges raise subclasses of ProviderError, never the transport library's
    own errors.
    """

    @property
    def name(self) -> str:
        """The ProviderType's name."""

    def tool_format(self, model: str) -> str:
        """Return the name of the tool format sent to this model; usually the provider's own name."""

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Hold one exchange."""

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models the service offers, with the details it gives."""


class StreamingProvider(ChatProvider, Protocol):
    """A provider that can also answer piece by piece."""

    def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield the answer as it arrives; the last event is an AnswerEnd.

        An async generator: closing it closes the HTTP response.
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
            purpose: What the vectors are for; some models make different ones for questions and documents.
            dimensions: Length of the vectors, if the model lets you choose.
            timeout_s: Seconds for all requests together.
        """


class ToolsOrFormatProvider(ChatProvider, Protocol):
    """A provider some of whose models do not accept a response_format together with tools."""

    def combines_tools_and_format(self, model: str) -> bool:
        """Return whether this model accepts both. A provider without this method always does.

        If False, the tools run first, and a last request without them asks for the format.
        """


class MediaInResultsProvider(ChatProvider, Protocol):
    """A provider some of whose models can be shown images or files that a tool returned."""

    def takes_in_results(self, model: str, part: MediaPart) -> bool:
        """Return whether a ToolMessage for this model may have this part in its ``media``.

        Without this method, none may: the model reads a description of the part instead. Asked for each part of each
        request, so it must be quick, and is best decided by the type. All parts have data.
        """


class PricedProvider(ChatProvider, Protocol):
    """A provider with a price list."""

    def price_of(self, model: str) -> ModelPrice | None:
        """Return a model's price at the provider's own service; None if unknown, or at the address of another service.

        Uses no network. A config can set another price. Without this method no price is known.
        """


class StandInProvider(ChatProvider, Protocol):
    """A provider that stands in for a model and does not follow prompts."""

    follows_instructions: bool
    """Whether its models follow prompts. Without this attribute, they do.

    If False, no phase asks it what a message is about or what its intent is.
    """


class Retriever(Closable, Protocol):
    """One configured document store that can be searched, as all of them can. DocumentStore can also be filled.

    Every method may raise RetrievalError, and UnknownCollectionError for a collection that does not exist.
    """

    async def query(
        self, text: str, *, collection: str | None, top_k: int, where: Where | None = None
    ) -> RetrievalHits:
        """Return the top_k passages that best fit text, best first.

        Args:
            collection: None searches all collections.
            where: Only documents whose metadata passes this filter; see flexchat.domain.filters.

        Raises:
            FilterError: where is invalid.
        """

    async def collections(self) -> Sequence[Collection]:
        """Return the existing collections, by name."""


class DocumentStore(Retriever, Protocol):
    """A document store that can be filled. When a method returns, its changes are durable."""

    async def add(self, documents: Sequence[Document], *, collection: str, source: Source | None = None) -> int:
        """Store documents, all or none, and return how many were new or had changed.

        A missing collection is created. A document whose id already exists is replaced; if its text is the same, no
        new vector is made for it. A document without an id gets one derived from its source and text.

        Args:
            source: Where all these documents come from. If it is complete, documents of that source left behind by an
                earlier digest are removed in the same step, and the source is remembered as finished.
        """

    async def delete(
        self,
        *,
        collection: str,
        ids: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> int:
        """Delete the documents that match all given criteria, and return how many.

        Sources that lose all their documents are forgotten. No criteria means all documents of the collection.
        """

    async def list(
        self, *, collection: str, where: Where | None = None, limit: int = 100, after: str | None = None
    ) -> Sequence[Document]:
        """Return at most ``limit`` documents in order of their ids, starting after the id ``after``."""

    async def sources(self, *, collection: str, limit: int = 1000, after: str | None = None) -> Sequence[Source]:
        """Return at most ``limit`` sources in order of their names, starting after the name ``after``."""

    async def save_collection(self, collection: Collection) -> None:
        """Create a collection or change its settings; fields set by the store are ignored."""

    async def delete_collection(self, name: str) -> None:
        """Delete a collection with all its documents."""


class Embedder(Protocol):
    """Turns texts into vectors, for a document store.

    Attributes:
        name: "PROVIDER/MODEL": vectors made under the same name can be compared.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "document"]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order; a repeated query is sent only once.

        Raises:
            ProviderError: The service did not answer.
        """


class Reranker(Closable, Protocol):
    """Reads a question together with passages, and scores how well each fits."""

    async def rerank(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """Return a score for each passage, in order; greater is better."""


class ConversationStore(Closable, Protocol):
    """Keeps conversations. Each belongs to a tenant, and no method ever looks beyond the given one.

    Writes are durable when a method returns. A method that takes a conversation, apart from append, raises
    UnknownConversationError if there is none of that id. Every method may raise StorageError. It does so for a name (of
    a tenant, a conversation, a turn) that cannot be kept unchanged: merging two names could mix up tenants.
    """

    async def append(self, conversation: str, turn: ConversationTurn, *, tenant: str) -> None:
        """Add a turn at the end; a new conversation starts with it, titled after its first message.

        A turn whose id already exists is not added again.
        """

    async def turns(self, conversation: str, *, tenant: str, last: int | None = None) -> Sequence[ConversationTurn]:
        """Return a conversation's turns, oldest first; with ``last``, only that many of the latest."""

    async def get(self, conversation: str, *, tenant: str) -> ConversationInfo:
        """Return a conversation without its messages."""

    async def list(
        self, *, tenant: str, search: str | None = None, limit: int = 50, before: str | None = None
    ) -> Sequence[ConversationInfo]:
        """Return conversations, most recently used first.

        Args:
            search: Words that must all occur in one of its texts (ConversationTurn.text) or in its title, also inside
                longer words, compared by str.casefold.
            before: Id of a conversation: only those last used before it; for the next page.

        Raises:
            UnknownConversationError: There is no conversation ``before``.
        """

    async def rename(self, conversation: str, title: str, *, tenant: str) -> None:
        """Rename a conversation."""

    async def delete(self, conversation: str, *, tenant: str) -> None:
        """Delete a conversation with all its turns and, if the ledger of effects is kept here, its effects' texts.

        A JournalingStore also deletes the journal of its turns; one that is running belongs to no conversation from
        then on: it may end, but is not added, and once its owner is dead, there is no such turn.
        """


class HistoryStore(ConversationStore, Protocol):
    """A conversation store that can read what later turns need of earlier ones, without their records.

    Every turn reads the history of its conversation. From another store, it reads all earlier turns whole each time.
    """

    async def history(self, conversation: str, *, tenant: str, after: str | None = None) -> ConversationHistory:
        """Return the history of a conversation, in one consistent read.

        Args:
            after: The version of an earlier history of this conversation: only turns added since then are returned. If
                it is not one, or the conversation has been deleted since, even if it has been started again with turns
                of the same ids, the history is whole."""


class KeepingEffects(ConversationStore, Protocol):
    """A conversation store that can also keep the ledger of effects."""

    def ledger(self) -> EffectLedger:
        """Return the ledger, in the same database; closed with the store."""


class KeepingMedia(ConversationStore, Protocol):
    """A conversation store that keeps the bytes of media apart from the messages, each once per tenant.

    They are written with the turn, in one transaction, and its turns are read with their bytes. If it is a
    JournalingStore, its journal has the same attribute ``media``: then the data of a step have the digest of a medium
    in place of its bytes, which are written with the step, from JournalEntry.media.
    """

    @property
    def media(self) -> MediaStore:
        """The media, in the same database."""


class MediaStore(Protocol):
    """Keeps bytes under their SHA-256 digest, for each tenant apart: 64 lower-case hexadecimal digits.

    A medium is deleted with the last turn, stored or journaled, whose messages have it; one that no turn has yet, when
    it is a day old. No method looks beyond the given tenant. Every method may raise StorageError.

    Attributes:
        quota_bytes: Most bytes of a tenant's media, for ``add``; None for no limit. What a turn that has begun gets
            from tools and models counts, and is never refused.
    """

    quota_bytes: int | None

    async def add(self, data: bytes | AsyncIterable[bytes], *, tenant: str, max_bytes: int | None = None) -> str:
        """Keep bytes, and return their digest; they are on the disk by then. Pieces are written as they arrive.

        Args:
            max_bytes: Most bytes of this medium.

        Raises:
            MediaQuotaError: They are more than ``max_bytes``, or the tenant's media exceed its quota; nothing is kept.
        """

    async def read(self, sha256: str, *, tenant: str) -> bytes:
        """Return the bytes.

        Raises:
            UnknownMediaError: There are none.
        """

    def pieces(self, sha256: str, *, tenant: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes in pieces, in order. Raises as read, before the first."""

    async def migrate(self) -> bool:
        """Move the media of some older turns, of all tenants, out of their JSON; return whether there may be more.

        One step is short, and changes all or nothing.
        """


def media_store_of(store: ConversationStore | TurnJournal) -> MediaStore | None:
    """Return where a store keeps the bytes of media, once for each tenant; None if they are within its rows."""
    media: MediaStore | None = getattr(store, "media", None)
    return media


class KeepingCounters(ConversationStore, Protocol):
    """A conversation store that also has counters."""

    @property
    def counters(self) -> CounterStore:
        """The counters, of all tenants, in the same database."""


class CounterStore(Protocol):
    """Counts what is reserved and what is spent, for all processes that share it, by a clock that they share as well.

    Setting that clock gives no counter room: what it skips does not count as passed, once a process has noticed. A
    reservation belongs to an owner. Once that has no lease any more, the reservation expires: what it took of a counter
    with a period counts as spent, since it may have been, and any other amount is returned. Every method may raise
    StorageError.
    """

    async def reserve(
        self,
        id: str,
        charges: Sequence[Charge],
        *,
        owner: str,
        lease_s: float | None = None,
        labels: Mapping[str, str] | None = None,
        worst: Mapping[str, int] | None = None,
        wait_s: float = 0.0,
    ) -> Refusal | None:
        """Take amounts of several counters, each at most once: all of them, or none; return None or the first refusal.

        Reserving an open id again changes nothing.

        Args:
            lease_s: Seconds the owner's lease is to last from now on; None to leave it.
            labels: What it is for, for the sums.
            worst: What is added to the sums if the reservation expires. With it, the reservation survives a loss of
                power; others survive the end of the process.
            wait_s: Seconds for which this id keeps its place among those that wait for the counters that refuse it: who
                comes later does not get what it waits for. It asks again with the same id, and leaves with ``settle``.
        """

    async def settle(self, id: str, amounts: Mapping[str, int], *, sums: Mapping[str, int] | None = None) -> bool:
        """End a reservation: of each counter, the real amount counts from now on, or nothing if none is given.

        Args:
            sums: Added to the sums of this hour, under its labels.

        Returns:
            False, and no change, if it is not open: it was settled, or has expired.
        """

    async def sums(self, *, since_s: float = 0.0) -> Sequence[HourlySum]:
        """Return the sums of the hours that end after a time in seconds since 1970, oldest first."""

    async def forget(self) -> None:
        """Delete counters whose period is long over. The sums stay."""

    def renew(self, owner: str, lease_s: float) -> None:
        """Extend an owner's lease to this many seconds from now. Blocks: it is called in a thread of its own."""


AddTurn = Callable[[dict[str, int], JournaledTurn, Sequence[JournalEntry]], None]
"""Adds a turn that has ended to the values of its hour, given its steps of the kinds in sum_rows.SUMMED_KINDS."""


class TurnSums(Protocol):
    """Sums of the turns that have ended, by hour and tenant, in a journal's database. They outlive the turns.

    A journal that has them has this as its attribute ``sums``. Every method may raise StorageError.
    """

    async def add(self, add: AddTurn, *, limit: int = 200) -> int:
        """Add the oldest turns that are in no sum yet, each exactly once, whatever is killed.

        Args:
            add: May be called again for a turn whose transaction failed. What it raises is raised, and adds nothing.
            limit: How many turns at most; each is marked in the transaction that writes the sums.

        Returns:
            How many were there; 0 if all turns that have ended are in the sums. Another process may have added some.
        """

    async def read(self, *, tenant: str | None = None, since_s: float = 0.0) -> Sequence[HourlySum]:
        """Return the sums of the hours that end after a time in seconds since 1970, oldest first.

        Their labels are {"tenant": …}.

        Args:
            tenant: Whose; None for all.
        """


@attrs.frozen(kw_only=True)
class MediaLimits:
    """What a model accepts as media of messages; a limit of None is unknown, and not checked.

    Attributes:
        types: Most bytes of one medium, by media type: {"image/png": 5_242_880}. Other types are refused.
        max_count: Most media of one request, earlier messages included.
        max_total_bytes: Most bytes of all media of one request.
        max_side, max_pixels: Of an image: its longer side, and width times height.
        many_images, max_side_of_many: With more images than that in a request, their longer side.
        max_pages: Of a PDF.
        source: The document that states them, for people.
    """

    types: Mapping[str, int | None]
    max_count: int | None = None
    max_total_bytes: int | None = None
    max_side: int | None = None
    max_pixels: int | None = None
    many_images: int | None = None
    max_side_of_many: int | None = None
    max_pages: int | None = None
    source: str = ""


class LimitedProvider(ChatProvider, Protocol):
    """A provider that states what its models accept as media. Others are sent everything."""

    def media_limits(self, model: str) -> MediaLimits:
        """Return the limits of a model; without types for one that reads text only. Uses no network."""


class EffectLedger(Closable, Protocol):
    """Keeps a row for each effect, so that none happens twice and none is lost; see flexchat.domain.effects.

    Attributes:
        holds_questions: Whether the questions of the turns are in its database, so that a claim uses up its approval.
            Absent: they are not.

    When claim, remember, finish, release and settle return, their changes are on disk. Leases are measured by a clock
    that all users of the ledger share; setting that clock must not make a living owner's claim lost. For a person, the
    beginning of a key stands for the only key that starts with it; UnknownEffectError is raised if there is none, or
    several. Every method may raise StorageError.
    """

    async def claim(
        self,
        call: EffectCall,
        *,
        owner: str,
        lease_s: float,
        take_over: bool = False,
        approval: Approval | None = None,
    ) -> Claim:
        """Claim an effect, in one transaction: at any time, only one of those claiming a key gets "yours".

        A new key, or one that was released or is pending, is "yours": its row records that, with the next fence, and
        the owner's lease starts again. Any other row is left unchanged.

        Args:
            lease_s: Seconds after which the owner counts as dead unless it renews the lease.
            take_over: A row whose owner is dead is also "yours", and so is an unknown one that has a handle. Its handle
                stays.
            approval: Used up by a claim that is "yours", in the same transaction, as by TurnJournal.use_approval with
                the key, which may repeat: if that returns False, the outcome is "unapproved", and the row is left
                unchanged. Passed only if ``holds_questions``.
        """

    def renew(self, owner: str, lease_s: float) -> None:
        """Renew an owner's lease, and with it all its claims. Blocks: it is called in its own thread."""

    async def remember(self, key: str, fence: int, *, handle: str) -> bool:
        """Keep a handle with a claim, in place of an earlier one. Returns as finish.

        Args:
            handle: JSON, in ASCII, at most MAX_HANDLE_CHARS long.
        """

    async def finish(
        self, key: str, fence: int, *, state: Literal["done", "failed", "unknown"], result: str | None, note: str = ""
    ) -> bool:
        """Record how a claim ended; False, and no change, unless it is claimed or unknown with this very fence.

        Args:
            result: The ToolResult as JSON.
        """

    async def release(self, key: str, fence: int, *, note: str, is_pending: bool = False) -> bool:
        """Release a claim whose tool was never started, and mark it as failed; anyone may claim it next.

        The approval that the claim used, if any, can be used again by this key.

        Args:
            is_pending: The tool has started, changed nothing, and waits for a reply: the row is marked as pending, and
                keeps its handle. The same call may claim it next.

        Returns the same as finish, and False for a row that has a handle, unless it becomes pending.
        """

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
        """Settle, by a person's verdict, an effect that is "unknown" or whose owner is dead.

        Raises:
            CannotSettleError: It is neither.
        """

    async def get(self, key: str, *, tenant: str) -> Effect:
        """Return the effect with this key. A claim whose owner is dead is shown as unknown, here and in the list."""

    async def list(
        self,
        *,
        tenant: str,
        states: Iterable[EffectState] | None = None,
        conversation: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Effect]:
        """Return effects, newest first by their first claim.

        Args:
            states, conversation: Only those; None for all.
            before: Key of an effect: only those claimed before it; for the next page.
        """

    async def forget(self, *, older_than_s: float) -> None:
        """Forget the texts of effects that ended that long ago, and rows that cannot be asked for any more.

        Texts are arguments, results, notes and handles.

        A row stays while its conversation is kept, and for at least a day. Unknown effects are kept whole.
        """

    async def forget_conversation(self, conversation: str, *, tenant: str) -> None:
        """Forget the texts of a deleted conversation's effects, including unknown ones. The rows stay.

        Pending ones end, with a note that names the deletion: as failed, or as unknown if they have a handle.
        """


class JournalingStore(ConversationStore, Protocol):
    """A ConversationStore that also keeps the steps of the turns, in the same place."""

    @property
    def journal(self) -> TurnJournal:
        """The journal, of all tenants."""

    async def append(
        self, conversation: str, turn: ConversationTurn, *, tenant: str, end: TurnEnd | None = None
    ) -> None:
        """Add a turn at the end, as ConversationStore.append, and end it in the journal: both or neither.

        Args:
            end: How the turn ends in the journal; None for one that is not in it.

        Raises:
            LostTurnError: The turn has ended, or another owner has resumed it.
            UnknownConversationError: The conversation was deleted after the turn had begun, even if there is a new one
                of that id. The turn has ended in the journal, without its steps, and is added nowhere.
        """


class TurnJournal(Protocol):
    """Keeps the steps of turns, so that a turn whose process died can go on where it stopped.

    A turn belongs to the owner that began it or took it up last, with that owner's fence. An owner lives as long as its
    lease, which runs by the store's clock; a running turn of an owner that is no longer alive is "interrupted". Where
    the beginning of a turn's id is accepted, UnknownTurnError is raised if there is no such turn, or several. Every
    method may raise StorageError.

    A suspended turn has no owner; it becomes interrupted when one of its questions has a reply. Of the turns of a
    conversation that are accepted, only the first can be acquired, and only when no other turn of it is unfinished.
    """

    async def write(
        self,
        turn: JournaledTurn,
        entries: Sequence[JournalEntry],
        *,
        lease_s: float | None,
        questions: Sequence[PendingQuestion] = (),
    ) -> None:
        """Add steps to a turn, all or none. With step 1 the turn begins; if it has a key, that is marked as begun.

        A turn whose ``state`` is "accepted" begins without an owner, and is accepted until it is acquired.

        If step 1 names in ``after`` a turn that its conversation no longer has, the conversation was deleted meanwhile.

        Args:
            lease_s: Seconds the owner's lease is to last from now on; None to leave it.
            questions: Those that the turn asks with these steps, open. One that is there is left out. A "withdrawn" one
                is withdrawn if it is open.

        Steps that the turn has by now are left out, step 1 included: those of a write that failed or was cancelled are
        written again with the next ones.

        The steps survive the end of the process; whether they survive a loss of power is open until a write that does
        (the turn's end, a claim or its finish) has returned.

        Raises:
            LostTurnError: The turn has ended, or another owner has resumed it; or it would begin, and its key stands
                for another turn by now.
        """

    async def bind(
        self, key: str, *, tenant: str, turn: str, digest: str, keep_s: float, instead_of: TurnKey | None = None
    ) -> TurnKey:
        """Bind a caller's key to a turn that is about to begin, and return what the key stands for now: that turn, or
        an earlier one. It is on the disk before this returns.

        A key outlives the deletion of its turn: it must not begin another one.

        Args:
            digest: Of the request.
            keep_s: Seconds after which a bound key is free again.
            instead_of: The key's turn at an earlier look: it is replaced if the key still stands for that turn, and the
                turn has not begun since; or else the key keeps its turn.
        """

    async def acquire(self, id: str, *, tenant: str, owner: str, lease_s: float) -> JournaledTurn:
        """Take up a turn that is interrupted, suspended or accepted, and return its new state: running, and this
        owner's, with the next fence. Of two, one succeeds.

        Args:
            id: The turn's id, or the beginning of it.

        Raises:
            TurnNotWaitingError: It is running or has ended; or it is accepted, and an earlier turn of its conversation
                (one that began before it) has not ended.
        """

    async def suspend(self, turn: JournaledTurn, entries: Sequence[JournalEntry]) -> bool:
        """Add steps to a turn as ``write`` does, and suspend it, in one transaction; ``suspensions`` is counted.

        Returns:
            False if one of its questions has a reply without a step "reply" (or is expired), or its cancellation is
            requested: then the turn stays this owner's, with the steps.

        Raises:
            LostTurnError: As ``write``.
        """

    async def answer(self, id: str, *, tenant: str, reply: Reply, by: str) -> PendingQuestion:
        """Record the reply to an open question, and return the question. Of two replies, the first counts.

        It is on the disk when this returns. If the question's turn is suspended, it is interrupted from then on.
        ``remembered`` becomes what the question's ``remember`` has for the reply's, if it accepts.

        Args:
            id: The question's id, or the beginning of it.

        Raises:
            UnknownQuestionError: There is none.
            ClosedQuestionError: It has a reply, has expired by now, or its turn has ended.
        """

    async def question(self, id: str, *, tenant: str) -> PendingQuestion:
        """Return a question; id as in answer. One whose time has passed is shown as expired, here and in the list."""

    async def questions(
        self,
        *,
        tenant: str,
        states: Sequence[QuestionState] | None = None,
        conversation: str | None = None,
        turn: str | None = None,
        remembered: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[PendingQuestion]:
        """Return questions, the newest first.

        Args:
            remembered: Only those whose replies count again, under this key, or under any key if it is empty.
            before: Id of a question: only those asked before it; for the next page.

        Raises:
            UnknownQuestionError: There is no question ``before``.
        """

    async def revoke(self, id: str, *, tenant: str) -> PendingQuestion:
        """Make a reply count no more under its key, and return the question. Raises UnknownQuestionError."""

    async def use_approval(self, approval: Approval, *, tenant: str, by: str, may_repeat: bool = False) -> bool:
        """Use up an approval for a call: its question has this digest and an accepting reply, and is not used yet.

        Args:
            by: What identifies the call: the key of its effect, or its turn and place.
            may_repeat: Whether the same ``by`` may use it again.
        """

    async def expire_questions(self) -> int:
        """Mark the open questions whose time has passed as expired; a suspended turn of one is interrupted then.

        Returns how many.
        """

    async def request_cancel(self, id: str, *, tenant: str, by: str) -> JournaledTurn:
        """Request that a turn that has not ended be cancelled, and return it; id as in acquire.

        A suspended one is interrupted then. It is on the disk when this returns.

        Raises:
            UnknownTurnError: There is none.
        """

    async def list_commands(self, owner: str) -> Sequence[str]:
        """Return the ids of an owner's running turns whose cancellation is requested or whose questions have a reply
        without a step "reply"."""

    def watch(self) -> AsyncGenerator[str, None]:
        """Yield the ids of turns that other processes may have changed, as soon as possible: their questions, their
        events, their end, or a request to cancel them. An empty id stands for any turn. It may yield more than has
        happened, and never ends. What happened before the first item is awaited may be left out.
        """

    async def release(self, turn: JournaledTurn, *, error: str = "") -> None:
        """Give up a turn, which is interrupted then. Its ``suspensions`` become those of this turn.

        Args:
            error: Why it cannot go on until a person sees to it; empty if it can.
        """

    async def list_resumable(self, *, limit: int) -> Sequence[JournaledTurn]:
        """Return the turns of all tenants that can go on, without an ``error``.

        First the interrupted ones, oldest first; then those that are accepted, due and can be acquired, by priority and
        age.
        """

    async def add_events(self, turn: JournaledTurn, events: Sequence[JournaledEvent], *, forget: int = 0) -> None:
        """Keep the events that the listeners of a turn get next, all or none; it may have ended. They survive the end
        of the process. One whose number is in use is left out.

        Args:
            forget: Delete the turn's events up to this number.

        Raises:
            LostTurnError: There is no such turn, or another owner has taken it up.
        """

    async def events(self, id: str, *, tenant: str, after: int = 0) -> tuple[JournaledTurn, Sequence[JournaledEvent]]:
        """Return a turn, and those of its events whose number is greater, in order; both read at one moment.

        Args:
            id: The turn's whole id.

        Raises:
            UnknownTurnError: There is none.
        """

    async def read(self, id: str, *, tenant: str) -> tuple[JournaledTurn, Sequence[JournalEntry]]:
        """Return a turn with its steps, in order; id as in acquire."""

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

    async def list_interrupted(self, conversation: str, *, tenant: str) -> Sequence[str]:
        """Return the ids of a conversation's interrupted and suspended turns, oldest first. Asked before every turn: be
        quick."""

    def renew(self, owner: str, lease_s: float) -> None:
        """Extend an owner's lease to this many seconds from now. Blocks: it is called in a thread of its own."""

    async def forget(self, *, older_than_s: float, events_older_than_s: float) -> int:
        """Delete turns that ended at least that many seconds ago, with their steps and events; return how many.

        Args:
            events_older_than_s: The events of turns that ended at least that many seconds ago are deleted as well.
        """


class SendingJournal(TurnJournal, Protocol):
    """A journal that also records which open questions have been sent to a webhook: every question is unsent at first.

    A process that ends before it has sent one leaves it to another: each is sent at least once.
    """

    async def take_unsent(self, *, limit: int, again_s: float) -> Sequence[PendingQuestion]:
        """Return open questions of all tenants that are due to be sent, the longest due first. Of two callers, one
        gets a question.

        Each is due again when it has been open for twice as long, but at the earliest after ``again_s``, and at the
        latest after an hour or ``again_s``.
        """

    async def mark_sent(self, id: str, *, tenant: str) -> None:
        """Record that a question has been sent: it is never due again. One that does not exist is left out."""


class SeparateJournal(TurnJournal, Closable, Protocol):
    """A journal of turns whose conversations are in another store, so ending a turn is not one transaction with it."""

    async def end(self, end: TurnEnd) -> None:
        """End a turn.

        Raises:
            LostTurnError: The turn has ended, or has another owner.
        """

    async def forget_conversation(self, conversation: str, *, tenant: str) -> None:
        """Delete the turns of a deleted conversation; running ones belong to no conversation from then on."""


@attrs.frozen(kw_only=True)
class SchemaState:
    """How far the tables of a database are, counted in the steps that make them.

    Attributes:
        version: Steps that have been done; 0 if there is no database yet.
        newest: Steps that this FlexChat knows.
        oldest: Steps that a FlexChat must know to use the database: later steps only added to it.
    """

    version: int
    newest: int
    oldest: int

    @property
    def is_usable(self) -> bool:
        """Whether this FlexChat can use the database as soon as its missing steps are done."""
        return self.oldest <= self.newest

    @property
    def is_behind(self) -> bool:
        """Whether steps are missing."""
        return self.version < self.newest


class StoreDatabase(Protocol):
    """The database of a store, for backups and upgrades: a store that has one has it as its attribute ``database``.

    Every method may raise StorageError.

    Attributes:
        place: Where it is, for people, without secrets. Stores with the same place share one database.
        migrates: Whether its first use also does the missing steps. If it is False, a database that lacks some cannot
            be used until ``migrate`` has done them.
    """

    migrates: bool

    @property
    def place(self) -> str: ...  # noqa: D102

    async def schema(self) -> SchemaState:
        """Read how far the tables are, and change nothing."""

    async def migrate(self) -> None:
        """Create the database, or do the missing steps. Older FlexChats that can use it go on meanwhile."""

    async def copy_to(self, file: Path) -> SchemaState:
        """Write everything as it is at one moment to a new file, while others read and write; return its schema."""

    async def check_copy(self, file: Path) -> SchemaState:
        """Check that a file written by ``copy_to`` is complete, and can be restored here; return its schema.

        Raises:
            StorageError: It cannot, or a database is here already.
        """

    async def restore(self, file: Path) -> None:
        """Fill this place, which has no data, from a file written by ``copy_to``: everything or nothing.

        What happened after the copy is unknown. So turns that had not ended then wait for a person
        (``flexchat turns resume``), and effects that were claimed or pending are unknown.
        """


@attrs.frozen(kw_only=True)
class DocumentStoreContext:
    """What FlexChat passes to a document store when opening it.

    Attributes:
        name: The name of the entry in stores.
        folder: The folder of the config file, which relative paths start from; None for a config without a file.
        embedder: Makes its vectors; None if the config names no embedding and no installed provider has its own model:
            the store then searches by words.
        reranker: Reranks the best hits; None for no reranking.
    """

    name: str = "documents"
    folder: Path | None = None
    embedder: Embedder | None = None
    reranker: Reranker | None = None


@attrs.frozen(kw_only=True)
class ProviderType:
    """A kind of LLM service.

    Attributes:
        name: The value of ``provider`` in an llms entry: "openai".
        config_class: attrs class for the rest of that entry; field metadata {"secret": True} marks keys.
        create: Makes a provider from an instance of config_class. Uses no network; do heavy imports here.
        tool_formats: Encoders by format name. One has the type's own name; further dialects are "name.dialect".
        schema_dialects: The parts of JSON Schema its services accept, by mode: "openai", "openai.strict". Used by
            ``flexchat tools lint``, and by the encoders, which rewrite schemas with them.
        local_embeddings: A model of this provider that makes embeddings without key, settings or network: the document
            stores' default.
        embedding_thresholds: Distances that suit embedding models, by model name: (match, partial), the default for
            configs that set none. Measure them.
        summary: One line for ``flexchat plugins``. Default, here and in the other records: the first line of the
            docstring of what makes or runs it, or of its settings' class.
        models: Regular expression of the names that models have only here, so that ``-m gpt-5.2`` is enough.
        prompted: Wraps a provider for models without an API for tools (``tools = "prompted"`` in the entry):
            ``flexchat_sdk.prompted_tools``, which works with any provider. None if its models have none.
    """

    name: str
    config_class: type
    create: Callable[[Any], ChatProvider]
    tool_formats: Mapping[str, ToolEncoder]
    schema_dialects: Mapping[str, Any] = attrs.field(factory=dict)
    local_embeddings: str | None = None
    embedding_thresholds: Mapping[str, tuple[float, float]] = attrs.field(factory=dict)
    summary: str = summary_from("create", "config_class")
    models: str = ""
    prompted: Callable[[ChatProvider], ChatProvider] | None = None


@attrs.frozen(kw_only=True)
class DocumentStoreType:
    """A kind of document store: a value of ``provider`` in a stores entry.

    Attributes:
        config_class: As in ProviderType. Of core's keys (description, collection, match_threshold,
            partial_threshold, top_k) it gets those it has a field for.
        create: Makes a store from an instance of config_class and a context. Opens and reads nothing yet.
    """

    name: str
    config_class: type
    create: Callable[[Any, DocumentStoreContext], Retriever]
    summary: str = summary_from("create", "config_class")


@attrs.frozen(kw_only=True)
class RerankerType:
    """A kind of reranker: a value of ``rerank`` in a stores entry."""

    name: str
    create: Callable[[], Reranker]
    summary: str = summary_from("create")


@attrs.frozen(kw_only=True)
class ConversationStoreType:
    """A place to keep conversations: a value of ``provider`` in the conversations table. Fields as in ProviderType.

    Attributes:
        create: Makes a store from an instance of config_class and the folder of the config file.
        create_ledger: Makes a ledger without conversations, for ``tools.effects.store``; None if there is no such
            place without settings.
        create_journal: Makes a journal for the turns of a store that has none; None as for create_ledger.
    """

    name: str
    config_class: type
    create: Callable[[Any, Path | None], ConversationStore]
    create_ledger: Callable[[], EffectLedger] | None = None
    create_journal: Callable[[], SeparateJournal] | None = None
    summary: str = summary_from("create", "config_class")


@attrs.frozen(kw_only=True)
class ToolHandler:
    """A function that tools may name.

    Attributes:
        kind: The implementation type that runs it: "builtin", "internal", or a plugin's.
        name: The value of ``implementation.handler``.
        call: (params, context) -> JSON data. A plain def runs in a thread and may block; an async def runs
            on the event loop and may not. Whatever it raises becomes the error the model reads, so write
            that text for the model. A deadline ends the wait, not the thread: bound your own work.
        settings_class: attrs class for its own keys in a tool's implementation table, passed to the call as
            ``context.settings``; core and the implementation type keep any keys of the same name. None for no keys.
    """

    kind: str
    name: str
    call: Callable[[Mapping[str, Any], ToolContext], Any]
    settings_class: type | None = None


@attrs.frozen(kw_only=True)
class FetcherType:
    """The client with which tools send requests to addresses that users, models or documents name.

    There is one for all tools of a chat: if two plugins offer one, plugins.prefer or plugins.block must choose.

    Attributes:
        create: Makes the client, given network.allow, network.domains and the mask of secrets; opens no connection.
    """

    create: Callable[[Sequence[str], Sequence[str] | None, Mask], ClosableFetcher]


_NO_CALL = Call(name="", arguments=None, origin="program", id="")  # of a context made outside calls


@attrs.frozen(kw_only=True)
class ToolContext:
    """The resources of a running tool, and the facts about its call. Made for each call.

    Attributes:
        tool: The definition being run.
        handlers: All installed handlers, by kind and name.
        stores: The configured document stores, by their name in stores.
        settings: The handler's keys from the tool's implementation table, an instance of the handler's
            settings_class; None if it has none.
        source: The tool source the tool comes from, with its settings; None if it comes from none.
    """

    tool: ToolDefinition
    handlers: Mapping[tuple[str, str], ToolHandler] = attrs.field(factory=dict)
    stores: Mapping[str, Retriever] = attrs.field(factory=dict)
    settings: Any = None
    source: ConfiguredSource | None = None
    _fetcher: Fetcher | None = attrs.field(default=None, repr=False)
    _made_for: Call = attrs.field(default=_NO_CALL, repr=False)

    @property
    def fetcher(self) -> Fetcher:
        """The client for requests to addresses from outside the config: of a user, a model, a document.

        Raises:
            RuntimeError: This ToolContext was made without one.
        """
        if self._fetcher is None:
            raise RuntimeError("this ToolContext was made without a fetcher, so it cannot send requests")
        return self._fetcher

    @property
    def call_id(self) -> str:
        """Id of the call, the same in the record and in every event; empty outside calls."""
        return self._made_for.id

    @property
    def key(self) -> str | None:
        """Key of the call's effect, 64 hexadecimal digits: for a service that acts once per key.

        It is the same when this very call is repeated, after a crash or a double delivery, and no other call has it. A
        tool that passes it on declares ``honours_key``. None for tools whose effect is not "write".
        """
        return self._made_for.key

    @property
    def attempt(self) -> int:
        """Which attempt of the call this is, from 1; see ToolDefinition.retry."""
        return max(self._made_for.attempts, 1)

    @property
    def turn(self) -> TurnInfo:
        """Which turn the call belongs to: ``turn.id``, ``turn.conversation``, ``turn.tenant``."""
        return self._made_for.turn

    @property
    def turn_id(self) -> str:
        """Id of the turn; empty outside turns."""
        return self.turn.id

    @property
    def conversation(self) -> str | None:
        """Id of the kept conversation; None if the turn is not kept."""
        return self.turn.conversation

    @property
    def traceparent(self) -> str:
        """The W3C trace context to pass on with requests, as the header ``traceparent``; empty outside calls."""
        return traceparent_here() or self.turn.traceparent

    @property
    def trace_context(self) -> Mapping[str, str]:
        """The W3C trace context as headers: ``traceparent``, and ``tracestate`` if there is one; none outside calls."""
        headers = {"traceparent": self.traceparent, "tracestate": self.turn.tracestate}
        return {name: value for name, value in headers.items() if value and self.traceparent}

    @property
    def tenant(self) -> str:
        """Whose conversation or call it is."""
        return self.turn.tenant

    @property
    def context(self) -> Any:
        """What the caller passed along, ``call_tool(…, context=…)``: the same object, of any type; default: None."""
        return self._made_for.context

    @property
    def handle(self) -> Any:
        """What an earlier call, or attempt, of this very effect has remembered; None if there is nothing.

        A tool that finds a handle starts nothing: it only asks about the job that was started. If the job is gone, or
        cannot be asked, it raises EffectUnknownError; only a ToolError means that the job failed.
        """
        handle = self._made_for.handle
        return None if handle is None else json.loads(handle)

    @contextlib.contextmanager
    def preparing(self) -> Iterator[None]:
        """Mark work before the tool's own that changes nothing: fetching a token, opening a connection.

        If the body fails, is cancelled or does not end in time, it is certain that the tool has not acted, so that its
        effect is not unknown. Not for use once the tool may have changed something.
        """
        try:
            yield
        except BaseException as error:
            with contextlib.suppress(AttributeError):  # of a class with slots: then its effect counts as unknown
                error.nothing_done = True  # type: ignore[attr-defined]  # exceptions have a __dict__
            raise

    async def remember(self, handle: Any) -> None:
        """Keep a handle of a job this tool has just started elsewhere, so that it survives this process.

        When this returns, it is on disk. If the process is killed, or the call ends without a known outcome, the same
        call made again runs the tool with this handle. For a tool that changes nothing, it is dropped.

        Args:
            handle: JSON data, the job's id for example; as text at most MAX_HANDLE_CHARS long. A later one replaces it.

        Raises:
            EffectUnknownError: It is not kept: another process has taken the call over, the ledger cannot be written,
                or it is too long or not JSON data. Let it through: the job runs, and its outcome cannot be asked for.
        """
        if self._made_for.remember is not None:
            await self._made_for.remember(handle)

    @property
    def is_interrupted(self) -> bool:
        """Whether the turn is being stopped so that it goes on later: then leave a job running whose handle is kept."""
        turn = current_turn.get()
        return turn is not None and turn.is_interrupted

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call another tool, by its name: through the same steps as every call, in the same turn.

        For async tools. Every outcome is in the result: nothing is raised.
        """
        if self._made_for.runner is None:
            raise RuntimeError("this ToolContext was not made for a call, so it cannot call other tools")
        return await self._made_for.runner.run(self._made_for.child(name, arguments))

    async def earlier_result(self, call_id: str) -> EarlierResult | None:
        """Return the whole result of an earlier call that the model of this turn was shown, by the call's id.

        The call may be of this turn or, in a kept conversation, of an earlier turn that is in the history. None if
        there is no such call.

        Raises:
            StorageError: The conversation cannot be read.
        """
        turn = current_turn.get()
        if turn is None or turn.info.id != self.turn_id:
            return None
        return await turn.earlier_result(call_id)

    def deferred_tools(self) -> Mapping[str, ToolDefinition]:
        """Return the turn's deferred tools that its principal may use, by the names that the model calls them by.

        None outside turns.
        """
        turn = current_turn.get()
        return {} if turn is None or turn.info.id != self.turn_id else turn.deferred_tools()

    def load_tools(self, tools: Iterable[ToolDefinition]) -> None:
        """Have the later requests of the conversation contain these deferred tools, the most important first."""
        self._made_for.facts["loads"] = [tool.name for tool in tools]

    async def ask(self, message: str, schema: Mapping[str, Any] | None = None, *, url: str = "") -> Reply:
        """Ask the person behind the turn, and return the reply. While they think, no time limit runs.

        For async tools. Without a person to ask, or a reply in time, the reply is no "accept", and has the reason in
        ``why``. Ask before you change anything: a turn that is killed meanwhile is resumed by running the call again,
        or, if the tool changes something, leaves it unknown.

        Args:
            message: What the person reads.
            schema: JSON Schema of the object you want; its properties become the fields of a form. None: yes or no.
            url: A page where the person does something, in place of a form.

        Raises:
            StorageError: The turn is kept, and the question cannot be recorded.
        """
        return await self._made_for.ask(message, schema, url=url)

    async def report_progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report the tool's progress to the listeners of the turn. Costs next to nothing; ten times a second are shown.

        For async tools. A number that is not finite, or less than before, is no error: it is not shown.

        Args:
            progress: How much is done.
            total: How much there is to do; None if it is not known.
            message: What is being done, for people: at most 200 characters of it are shown.
        """
        call = self._made_for
        if call.report is None or not _is_number(progress):
            return
        now = time.monotonic()
        if now - call.reported_at < REPORTED_AGAIN_S:
            return
        call.reported_at = now
        of = float(total) if total is not None and _is_number(total) else None
        await call.report(call, float(progress), of, str(message or "")[:200])

    def cite(self, store: str, hits: RetrievalHits) -> None:
        """Cite what was found in a document store: the turn lists it among its citations.

        Raises:
            ValueError: A document has no distance.
        """
        if len(hits.documents) != len(hits.distances) or not all(map(math.isfinite, hits.distances)):
            raise ValueError("every document that is cited needs a distance, a finite number")
        turn = current_turn.get()
        if turn is not None:
            turn.cited.append(Cited(self.tool.name, store, hits))

    async def run_in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run function(*args), the tool's entire work, in a thread; see flexchat.plugin.run_in_thread.

        If the tool changes something, its outcome is still recorded after its time has run out.
        """
        return await run_in_thread(function, *args, late=self._made_for.on_late_result)

    async def call(self, handler: ToolHandler, params: Mapping[str, Any]) -> Any:
        """Run a handler where it belongs: on the event loop if it is async, otherwise in a thread."""
        if inspect.iscoroutinefunction(handler.call):
            return await handler.call(params, self)
        value = await self.run_in_thread(handler.call, params, self)
        return await value if inspect.isawaitable(value) else value  # a plain function around an async one


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@attrs.frozen(kw_only=True)
class ImplementationType:
    """A way to run a tool: a value of ``implementation.type`` in a tool definition.

    Attributes:
        settings_class: attrs class for the rest of the implementation table.
        run: async (settings, params, context) -> JSON data. What it raises becomes the error the model reads.
        check: (settings, tool, handlers) -> what is wrong with them, at load; None if nothing is.
        stores: settings -> names in stores that a tool with these settings needs; a store that is not configured is
            an error at load.
        defaults: settings -> defaults of a tool with these settings, which its entry in the config overrides: any of
            "effect", "honours_key" (for a write only) and "timeout_ms".
        summary: One line for ``flexchat plugins``.
    """

    name: str
    settings_class: type
    run: Callable[[Any, Mapping[str, Any], ToolContext], Awaitable[Any]]
    check: Callable[[Any, ToolDefinition, Mapping[tuple[str, str], ToolHandler]], str | None] | None = None
    stores: Callable[[Any], Iterable[str]] | None = None
    defaults: Callable[[Any], Mapping[str, Any]] | None = None
    summary: str = summary_from("run", "settings_class")


class ClosableFetcher(Fetcher, Closable, Protocol):
    """A Fetcher whose connections are closed with the chat."""


@attrs.frozen(kw_only=True)
class ConfigTable:
    """A top-level table of a configuration that a plugin reads: ``[NAME]``.

    It is read into ``chat.config.tables[NAME]``, an instance of the class or, of a list of tables, a tuple of them; a
    config without the table has no such entry. Positions in errors, hints for misspelt keys and the table's part of the
    JSON Schema come from the class.

    Attributes:
        name: The table's name. Core's names are reserved.
        load: Returns the attrs class of its keys; field metadata as ProviderType's, and "help", "min", "max", "above".
            Called only if the table is written, and for the JSON Schema: do heavy imports here.
        summary: One line for the JSON Schema.
        demo: Given the names of the existing tools, returns the table's content for use without a config (--demo).
        is_list: Whether it is a list of tables, each with the keys of the class: ``[[NAME]]``.
        database: Returns the database that belongs to the table, for backups and upgrades, given the table (None if it
            is not written) and the folder of the config file (None if there is none); None for none. Opens nothing.
        is_named: Whether it is a table of tables, each with the keys of the class: ``[NAME.…]``, read into a dict.
        source: Opens the tool source that the table describes, which has its name: async (what was read of it,
            ToolSourceContext) -> ToolSource. None: it describes none.
    """

    name: str
    load: Callable[[], type]
    summary: str = ""
    demo: Callable[[Sequence[str]], Mapping[str, Any]] | None = None
    is_list: bool = False
    database: Callable[[Any, Path | None], StoreDatabase | None] | None = None
    is_named: bool = False
    source: Callable[[Any, ToolSourceContext], Awaitable[ToolSource]] | None = None


class CheckedConfig(Protocol):
    """A configuration as a check sees it.

    Attributes:
        config: The Config: ``config.tables["glossary"]``, ``config.llms``, ``config.responses`` …
    """

    config: Any

    def tables(self, *path: str | int) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
        """Yield the tables in a table or a list, each with its path, as written: also if their class refuses them."""

    def problem(self, path: tuple[str | int, ...], text: str) -> None:
        """Report a problem at a path, ("glossary", "file"); the file's name and the line are added for you."""

    def note(self, path: tuple[str | int, ...], text: str) -> None:
        """Report something worth noting that is not an error."""

    def add(self, problem: Problem) -> None:
        """Report a problem with another file, one named by the configuration."""


@attrs.frozen(kw_only=True)
class ConfigCheck:
    """A check ``flexchat check`` runs in addition to the tables' classes: files that must exist, names that must match.

    Runs only on a configuration whose tables core could read, without plugins' tables that have problems. An exception
    from a check also counts as a problem.

    Attributes:
        name: What is checked, for errors: "validation cases".
        run: Reports what it finds to the configuration (a CheckedConfig); opens no connection.
        at_start: Whether it also runs whenever a chat is made, and a problem prevents it from starting: then it must be
            quick. False: only on request, as ``flexchat check`` does.
        review: In place of run: called with the configuration and the parts of the chat (its tools, its llms and its
            plugins) whenever one is made, once tools are registered and models are known; ``may_take_long`` is True for
            ``flexchat check``.
        grants: In place of run: called by ``flexchat check --grants`` with an open chat and a tenant, to return a
            sentence for each permission that its kept turns have not used.
    """

    name: str
    run: Callable[[Any], None] | None = None
    at_start: bool = False
    review: Callable[[Any, Any], None] | None = None
    grants: Callable[[Any, str], Awaitable[Sequence[str]]] | None = None
