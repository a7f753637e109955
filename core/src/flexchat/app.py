"""FlexChat: a configuration combined with the installed plugins. Opens and closes what they hold."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import json
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

import attrs

from .assembly import Parts, assemble, assemble_rule, installed_plugins, plugins_for, split_model
from .attachments import AttachmentReader
from .calls.manager import ToolLike, as_definition
from .config.model import IntentTable, LimitsTable, ResponseRule, RuleTools, TopicTable
from .conversations.effect_rows import time_text
from .conversations.view import Conversations
from .domain import (
    DEFAULT_TENANT,
    ChatRequest,
    Effect,
    EffectState,
    Effort,
    Embeddings,
    ModelInfo,
    Principal,
    Reasoning,
    StreamEvent,
    ToolResult,
    Turn,
    TurnFailed,
    TurnFinished,
)
from .domain.conversation import result_to_json
from .domain.copies import with_own_tables
from .domain.fetching import Fetcher
from .domain.journal import MAX_RESUMES, JournaledEvent, JournaledTurn, JournalEntry, TurnState
from .domain.media import StoredMedia
from .domain.prices import Cost, PriceSettings
from .domain.questions import OnQuestion, PendingQuestion, QuestionState, Reply
from .domain.text import scrub
from .domain.version import __version__
from .errors import (
    ChatClosedError,
    ChatRequestError,
    NotPermittedError,
    ProviderError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderTimeoutError,
    StorageError,
    StuckTurnError,
    TurnNotWaitingError,
    TurnRunningError,
    UnknownConversationError,
    UnknownEffectError,
    UnknownQuestionError,
    UnknownTurnError,
)
from .events.log import EventLog
from .events.sink import Feed
from .llms.llm import LLM
from .plugin.call import Call, Origin, Report, current_call, current_info, current_turn, place_within, principal_here
from .plugin.contracts import ChatProvider, ConversationStore, MediaStore, SeparateJournal, TurnJournal
from .plugin.foreign import ForeignError, contained
from .plugin.hooks import AppInfo, ModelRequest
from .plugin.host import PluginHost
from .plugin.tool_sources import Closable, OpenSource
from .request import CommonRequestOptions, RequestOptions, read_request
from .turn.active import ActiveTurn
from .turn.engine import TurnEngine
from .turn.handle import TurnHandle
from .turn.journal import read_row
from .turn.keyed import JoinedTurn, KeyedTurns, KeyMemory
from .turn.questions import Person, answer
from .turn.recording import ConversationRecorder, turn_not_begun
from .turn.run import Explanation, Work, accept_turn, close_turn, explain, preview, read_turn, run_turn

if TYPE_CHECKING:
    from .config.document import ConfigDocument
    from .config.reading import ReadConfig

log = logging.getLogger(__name__)

T = TypeVar("T")

CANCEL_TIMEOUT_S = 30.0
"""How long a turn of another process may take to be cancelled."""

MAX_PRIORITY = 1_000_000  # of a submitted turn; as low as its negative
NOTIFY_TIMEOUT_S = 10.0  # for the plugins, when a chat is opened or closed


class FlexChat:
    """A configured chat: ask it with ``respond`` or ``stream``.

    Made with ``from_config`` (a file or a mapping) or ``from_model`` (one model and some tools). It holds connections:
    use it as ``async with FlexChat.from_config("chat.toml") as chat:`` or call ``aclose``. One instance serves any
    number of turns at once, on one event loop.

    Args:
        parts: What it is made of; ``from_config`` and ``from_model`` assemble them.

    Attributes:
        config: The configuration it runs.
        llms: The services its config names, opened; ``llms.resolve`` returns who is asked for what.
        tools: Its tools' registry, executor and limits.
        hooks: Event hooks, gates and steps of the plugins and of this chat.
        stores: The document stores, by their name in stores.
        conversations: The default tenant's kept conversations; ``conversations.of(tenant)`` for another's. None if
            the config keeps none.
        packages: For each service in llms, the distribution whose plugin talks to it: "flexchat-openai 0.1.0".
        mask: Removes the config's secrets from texts.
        notes: Things worth noting from its assembly, none of them an error.
        keys: What it remembers of keys whose turns are not kept.
    """

    def __init__(self, parts: Parts) -> None:
        self.config = parts.config
        self.llms = parts.llms
        self.tools = parts.tools
        self.hooks = parts.hooks
        self.stores = parts.stores
        self.packages = parts.packages
        self.mask = parts.mask
        self.notes = parts.notes
        self._parts = parts
        store = parts.conversations
        self.conversations: Conversations | None = None
        self._engine = TurnEngine(
            parts.config,
            parts.llms,
            parts.tools,
            hooks=parts.hooks,
            stores=parts.stores,
            usual_thresholds=parts.usual_thresholds,
            recorder=self._recorder(store, parts.journal) if store is not None else None,
            mask=parts.mask,
        )
        tool_names = tuple(tool.name for tool in parts.tools.every_tool.own())
        parts.tools.restrict_listings()
        self._about = AppInfo(llms=parts.packages, tools=tool_names, chat=self)
        self._is_open = self._is_closed = self._has_migrated = False
        self._process: int | None = None  # the one that uses it, once one does
        self._started: set[TurnHandle] = set()
        self.keys = KeyMemory()
        self._keyed = self._keyed_turns()

    @classmethod
    def from_config(
        cls,
        source: str | Path | ConfigDocument | ReadConfig | Mapping[str, Any],
        *,
        tools: Iterable[ToolLike] = (),
        providers: Mapping[str, ChatProvider] | None = None,
        plugins: PluginHost | None = None,
        hooks: Iterable[object] = (),
        sources: Mapping[str, OpenSource] | None = None,
        history_policy: Callable[..., Any] | None = None,
    ) -> Self:
        """Build the chat a configuration describes.

        Args:
            source: A TOML or JSON file, one already read, or its content as a mapping (in which ${VARIABLES} are
                not expanded).
            tools: Further tools, given in code; rules name them like those of the config.
            providers: Providers to use instead of those the config describes, by their name in llms; for tests. Such
                an LLM needs no entry, and the settings of an existing entry's service are not read.
            plugins: The plugins to use; default: all installed ones.
            hooks: Objects with @hookimpl methods, for this chat only: event hooks, gates, steps of tool calls. They
                come after the plugins'.
            sources: Further tool sources, by name: for each, an async function that opens it, given a
                ToolSourceContext.
            history_policy: A function, async or not, that receives the history, without system prompt and current
                message, and returns what to send of it: ``lambda messages: messages[-6:]``. Needs flexchat-history.

        Raises:
            ConfigError: All problems of the configuration at once.
        """
        from .config.reading import read_config  # imports cattrs: only when a configuration is read

        tools_ = [item if isinstance(item, str) else as_definition(item) for item in tools]
        names = [*(item if isinstance(item, str) else item.name for item in tools_), *(f"{n}/*" for n in sources or ())]
        providers = providers or {}
        reading = read_config(source, tools=names, llms={name: each.name for name, each in providers.items()})
        host = plugins or plugins_for(reading)
        parts = assemble(reading, host, tools_, providers, hooks, sources or {}, history_policy=history_policy)
        return cls(parts)

    @classmethod
    def from_model(
        cls,
        model: str,
        *,
        prompt: str = "",
        tools: Iterable[ToolLike] = (),
        max_tokens: int | None = None,
        temperature: float | None = None,
        reasoning: Effort | None = None,
        max_iterations: int | None = None,
        prices: Mapping[str, PriceSettings] | None = None,
        limits: LimitsTable | None = None,
        plugins: PluginHost | None = None,
        hooks: Iterable[object] = (),
        **settings: Any,
    ) -> Self:
        """Build a chat from one model and some tools, without a configuration.

        Args:
            model: "PROVIDER/MODEL": the kind of service and the model's name there, "openai/gpt-5.2". The name may
                itself contain slashes.
            prompt: System prompt.
            reasoning: How much the model thinks first: "none", "low", "high", …
            max_iterations: How many of the model's answers may ask for tools in one turn; at least 1.
            tools: Functions, definitions, and names of tools offered by plugins: "calculator".
            prices: What models cost, as in a config: {"gpt-5.2": {"input": 1.75, "output": 14}}; "*" for all others.
            hooks: As in from_config.
            settings: The provider's own settings, api_key="…", base_url="…", and retries. Without a key, the one in
                the service's usual environment variable is used: OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or
                GOOGLE_API_KEY.

        Raises:
            ConfigError: The model names no provider, no installed plugin offers it, it does not accept these
                settings, or a price is none.
        """
        host = plugins or installed_plugins()
        llm, name = split_model(model, host)
        rule = ResponseRule(
            llm=llm,
            model=name,
            prompt=prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            reasoning=Reasoning(effort=reasoning) if reasoning else None,
            tools=RuleTools(max_iterations=max_iterations),
        )
        return cls(assemble_rule(rule, settings, host, tools, limits or LimitsTable(), hooks, prices))

    def with_rule(self, rule: ResponseRule, *, tools: Iterable[ToolLike] | None = None) -> FlexChat:
        """Return a chat with the same services that answers every message by one rule, for trying out a model.

        It keeps no conversations and searches no documents. It shares this chat's connections: closing it closes
        nothing, and it ends with this chat.

        Args:
            tools: Tools to use instead of the config's.
        """
        config = attrs.evolve(
            self.config,
            responses=(with_own_tables(rule),),
            stores={},
            topic=TopicTable(),
            intent=IntentTable(),
            conversations=None,
        )
        tools_ = self.tools if tools is None else self.tools.with_tools(tools)
        parts = Parts(
            config=config,
            llms=self.llms,
            tools=tools_,
            hooks=self.hooks,
            mask=self.mask,
            packages=self.packages,
            holds=(),
        )
        chat = FlexChat(parts)
        chat.keys, chat._keyed = self.keys, chat._keyed_turns(about=repr(rule))
        chat._process = self._process
        return chat

    def take_over(self, old: FlexChat) -> None:
        """Continue for a chat that this one replaces: its keys, and its open tool sources.

        A source whose table is the same is not opened again if something runs behind it: a server goes on running,
        and is closed with the last chat that uses it. All are opened again if ``[network]`` has changed. Call it before
        this chat is used, on the same event loop, and close the other one when its turns have ended.
        """
        self.keys = old.keys
        if self.config.network == old.config.network:
            self.tools.sources.take_over(old.tools.sources)

    @overload
    async def respond(
        self, message: str | ChatRequest, *, response_format: type[T], **options: Unpack[CommonRequestOptions]
    ) -> Turn[T]: ...
    @overload
    async def respond(self, message: str | ChatRequest, **options: Unpack[RequestOptions]) -> Turn: ...
    async def respond(self, message: str | ChatRequest, **options: Unpack[RequestOptions]) -> Turn:
        """Answer a message. With a class as ``response_format``, ``turn.response.parsed`` is an instance of it.

        Args:
            options: Further facts about it; see RequestOptions. Overrides the fields of a ChatRequest.

        Raises:
            ChatRequestError: The message is empty or too long, the history or an option cannot be read, the
                response_format is invalid, or no conversations are kept.
            ChatClosedError: The chat is closed.
            NoMatchingRuleError, UnknownLLMError, TurnTimeoutError, RequestRefusedError, ProviderError: The turn
                failed.
            ResponseFormatError: The answer does not have the form, even after being asked again.
            NestedTurnError: A tool started it, and it would never end.
            KeyReusedError, TurnRunningError, FailedTurnError, ForgottenAnswerError, StuckTurnError: Only with an
                idempotency key; see join.

        A turn's error, or the CancelledError of a stopped turn, holds what existed by then in ``turn``. With a key,
        cancelling this does not stop the turn: who repeats the request joins it.
        """
        request = self._request(message, options)
        if request.attachments:
            request = await self._read_attachments(request)
        if request.idempotency_key is None:
            return await self._run_turn(self._engine.create_turn(request))
        joined = await self._keyed.join(request, self.keys)
        turn = await joined.handle.result()
        return attrs.evolve(turn, is_repeat=True) if joined.is_repeat else turn

    def stream(
        self, message: str | ChatRequest, *, is_whole: bool = False, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[StreamEvent, None]:
        """Answer a message piece by piece: a generator of events, the last of which is the TurnFinished.

        Closing the generator ends the turn: the provider's connection is closed, running tools are cancelled. The turn
        runs in its own task, with the context variables of this call. If you leave the stream at an event, no request
        and no tool after it has started. With a key, all this is different: the turn waits for no reader and goes on
        when you leave, and who repeats the request gets its events from the first.

        Args:
            is_whole: Yield the pieces of an answer only once it is complete: one that breaks off is then asked for
                again, or left to the fallback, as in respond.
            options: As in respond.

        Raises:
            The same as respond; errors during the turn are raised from the generator.
        """
        request = self._request(message, options)
        if request.idempotency_key is not None:
            return self._stream_joined(request, is_whole)
        feed = Feed()
        turn = self._engine.create_turn(request, feed, is_whole=is_whole)
        return read_turn(turn, feed, contextvars.copy_context(), self._work_of(request))

    def start(self, message: str | ChatRequest, **options: Unpack[RequestOptions]) -> TurnHandle:
        """Start a turn that runs independently of its listeners: for servers, whose clients come and go.

        It starts at once, in a task of the running event loop, with the context variables of this call. Unlike a
        turn of ``stream``, it never waits for a reader. Closing this chat ends it.

        Args:
            options: As in respond.

        Raises:
            ChatRequestError, NestedTurnError: As for respond; errors during the turn are reported by the handle.
        """
        request = self._request(message, options)
        if request.idempotency_key is not None:
            raise ChatRequestError("an idempotency_key has to be looked up: await join, instead of start")
        event_log: EventLog[StreamEvent] = EventLog()
        return self._handle(self._engine.create_turn(request, event_log), event_log, self._work_of(request))

    async def join(self, message: str | ChatRequest, **options: Unpack[RequestOptions]) -> JoinedTurn:
        """Start the turn that a key stands for, as ``start`` does, unless an earlier request has: then join that one.

        For 24 hours, the same key of a tenant and the same request are the same turn, in every process that uses the
        conversations' store; a turn that is not kept, only in this one. One that is running here is joined, and waited
        for if it runs elsewhere. One that has ended is replayed. One whose process died is resumed. One that failed and
        called no tool that changes something is started anew; if it may have changed something, it fails again.

        Args:
            options: As in respond, with a key.

        Raises:
            ChatRequestError: As for respond; there is no key, or it is not 1 to 255 printable characters.
            KeyReusedError: The key stands for another request.
            TurnRunningError: Another process runs it, and has not ended it within limits.turn_timeout_ms.
            StuckTurnError: It was interrupted, and cannot go on.
            ForgottenAnswerError: Its answer is no longer kept: its conversation was deleted, or 1,000 other turns that
                are not kept have ended since.
            NestedTurnError, StorageError: As respond. Errors during the turn are reported by the handle: for one that
                failed in another process, and may have changed something, a FailedTurnError.
        """
        request = self._request(message, options)
        if request.idempotency_key is None:
            raise ChatRequestError("join needs an idempotency_key; start takes none")
        return await self._keyed.join(await self._read_attachments(request), self.keys)

    async def resume(
        self,
        id: str,
        *,
        tenant: str = DEFAULT_TENANT,
        context: Any = None,
        on_question: OnQuestion | None = None,
    ) -> Turn:
        """Take up a turn whose process ended before it did, and return it once it has ended.

        It goes on where it stopped: answers of models and results of tools that its journal has are used, and neither
        paid for nor run again. It ends as respond does.

        Args:
            id: The turn's id, or the beginning of it; ``turns`` lists those that wait.
            context: What tools and policies are to have as ``context``: that of the first run is kept nowhere.
            on_question: Asks the person behind the turn, as in respond.

        Raises:
            ChatRequestError: No conversations are kept, or their store keeps no journal.
            UnknownTurnError: There is no such turn.
            TurnNotWaitingError: It is running, or has ended.
            StuckTurnError: The configuration no longer fits it; the text names the missing part.
            FlexChatError: As respond.
        """
        turn = await self._engine.restore_turn(id, tenant=tenant, context=context, on_question=on_question)
        return await self._run_turn(turn)

    async def start_resumed(
        self,
        id: str,
        *,
        tenant: str = DEFAULT_TENANT,
        context: Any = None,
        on_question: OnQuestion | None = None,
        only_if_fit: bool = False,
    ) -> TurnHandle:
        """Take up a turn as ``resume`` does, and return it as ``start`` does, once it is this process's.

        Its events begin with TurnResumed, and what stands of the turn; of an accepted one, with TurnStarted.

        Args:
            only_if_fit: Leave the turn unchanged, for another process, if this configuration does not fit it: then a
                StuckTurnError is raised. One that was interrupted 6 times is left to a person.

        Raises:
            ChatRequestError, UnknownTurnError, TurnNotWaitingError, StuckTurnError, StorageError: As resume; other
                errors are reported by the handle.
        """
        steps = await self._engine.check_fit(id, tenant=tenant) if only_if_fit else ()
        return await self._start_resumed(
            id, tenant=tenant, context=context, on_question=on_question, is_unasked=only_if_fit, steps=steps
        )

    async def report_stuck(self, id: str, why: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Leave a turn that cannot go on to a person: ``turns`` shows the reason, and only ``resume`` takes it up.

        Raises:
            ChatRequestError, UnknownTurnError, TurnNotWaitingError, StorageError: As resume.
        """
        row, _ = await self._engine.journal.read(id, tenant=tenant)
        assert self._engine.recorder is not None
        await self._engine.recorder.abandon(row, why)
        log.warning("the turn %s is not resumed any more: %s", row.id, why)

    async def release_turn(self, id: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Release a turn that belongs to this process and does not run in it, so that any process can resume it.

        That is its state if its end could not be written. Any other turn is left unchanged.

        Raises:
            ChatRequestError, UnknownTurnError, StorageError: As resume.
        """
        _ = self._engine.journal
        assert self._engine.recorder is not None
        if all(handle.id != id for handle in self._started):
            await self._engine.recorder.release(id, tenant=tenant)

    async def _start_resumed(self, id: str, **how: Any) -> TurnHandle:
        event_log: EventLog[StreamEvent] = EventLog()
        return self._handle(await self._engine.restore_turn(id, receiver=event_log, **how), event_log)

    async def resume_interrupted(self, *, most: int = 4) -> list[TurnHandle]:
        """Take up interrupted turns, of all tenants, the oldest first, then accepted ones; return those that run now.

        Each call also moves the media of some older turns out of their JSON, until all are.

        Questions whose time has passed have no reply from then on, and their turns go on. Of two processes that do
        this, one gets a turn. One that the configuration does not fit is left, as is one that was interrupted 6 times:
        it may be the reason. Both are logged once; ``turns`` shows why they wait, and ``resume`` takes them up
        nevertheless.

        Args:
            most: How many, at most.

        Raises:
            ChatRequestError: As resume. StorageError: The journal cannot be used.
        """
        await self._open()
        handles, journal, recorder = [], self._engine.journal, self._engine.recorder
        for id, tenant in [*recorder.unreleased.items()] if recorder is not None else ():
            with contextlib.suppress(UnknownTurnError):
                await self.release_turn(id, tenant=tenant)
        await journal.expire_questions()
        await self._migrate_media()
        interrupted = await journal.list_resumable(limit=most)
        for turn in interrupted:
            try:
                if turn.interruptions > MAX_RESUMES:
                    why = f"it was interrupted {turn.interruptions} times"
                    await self.report_stuck(turn.id, why, tenant=turn.tenant)
                else:
                    handles.append(await self._start_resumed(turn.id, tenant=turn.tenant, is_unasked=True))
            except StuckTurnError as error:
                log.warning("%s", error)
            except (TurnNotWaitingError, UnknownTurnError):
                continue  # another process was faster
        return handles

    async def _migrate_media(self) -> None:
        media = None if self.conversations is None else self.conversations.media
        if self._has_migrated or media is None:
            return
        try:
            self._has_migrated = not await media.migrate()
        except StorageError as error:  # the turns are read as they are, and others must not wait for them
            self._has_migrated = True
            log.warning("the media of older turns stay in their JSON until the next start: %s", error)

    async def close_turn(self, id: str, *, tenant: str = DEFAULT_TENANT) -> Turn:
        """End an interrupted turn without going on: its conversation gets what it did, and what is unknown of it.

        The next turn of the conversation does the same to one that has not been resumed by then.

        Raises:
            ChatRequestError, UnknownTurnError, TurnNotWaitingError, StorageError: As resume.
        """
        return await close_turn(self._engine, id, tenant=tenant)

    async def cancel_turn(self, id: str, *, tenant: str = DEFAULT_TENANT, by: str = "") -> Turn:
        """Cancel a turn wherever it runs, or end it where none does, and return it once it has ended.

        The request is on the disk before anything else: if the turn's process dies, the next one carries it out.

        Args:
            by: Who requests it, for the record.

        Raises:
            ChatRequestError, UnknownTurnError, StorageError: As resume.
            TurnNotWaitingError: It has ended.
            TurnRunningError: The process that runs it has not ended it within 30 seconds; it will.
        """
        journal = self._engine.journal
        if self._viewer(tenant) is not None:
            await self.turn(id, tenant=tenant)  # raises UnknownTurnError for another's
        row = await journal.request_cancel(id, tenant=tenant, by=by or "its caller")
        until = time.monotonic() + CANCEL_TIMEOUT_S
        while True:
            if row.state in ("interrupted", "suspended", "accepted"):
                try:
                    return await self.close_turn(row.id, tenant=tenant)
                except TurnNotWaitingError as error:
                    # Another process was faster; or it waits for an earlier turn, and ends when its place comes.
                    if error.state == "accepted":
                        return turn_not_begun(row, "cancelled")
            elif row.state != "running":
                assert self._engine.recorder is not None
                request = ChatRequest(row.message, conversation=row.conversation)
                return await self._engine.recorder.read_ended(row, request)
            if time.monotonic() > until:
                raise TurnRunningError(row.id)
            await self.wait_for_change(row.id, timeout_s=0.5)
            row = await read_row(journal, row.id, tenant=tenant)

    async def wait_for_change(self, id: str, *, timeout_s: float) -> None:
        """Wait until another process may have changed a turn, or its events; at most so many seconds.

        Args:
            id: The turn's whole id.

        Raises:
            ChatRequestError: As resume.
        """
        assert self._engine.journal is not None
        if self._engine.recorder is not None and self._engine.recorder.watcher is not None:
            await self._engine.recorder.watcher.wait(id, timeout_s)

    async def submit(
        self,
        message: str | ChatRequest,
        *,
        at: datetime | None = None,
        priority: int = 0,
        **options: Unpack[RequestOptions],
    ) -> str:
        """Accept a message of a kept conversation, to be answered later, in any process; return the turn's id.

        It is on the disk when this returns. ``resume_interrupted`` and ``start_resumed`` run it, after the turns of its
        conversation that were accepted before.

        Args:
            at: When it may begin, with a time zone; None for at once.
            priority: Those with a higher one begin first; -1,000,000 to 1,000,000.
            options: As in respond.

        Raises:
            ChatRequestError: As respond, and as resume; it names no conversation, or ``at`` has no time zone.
            KeyReusedError: Its idempotency key stands for another request.
            StorageError: It cannot be kept.
        """
        request = self._request(message, options)
        if at is not None and at.tzinfo is None:
            raise ChatRequestError("at needs a time zone: datetime(2026, 12, 1, 9, tzinfo=UTC)")
        if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
            text = f"priority is at least {-MAX_PRIORITY:,} and at most {MAX_PRIORITY:,}, got {priority!s:.40}"
            raise ChatRequestError(text)
        if request.conversation is None:
            raise ChatRequestError("only a turn of a kept conversation can be accepted: name its conversation")
        _ = self._engine.journal
        turn = self._engine.create_turn(request := await self._read_attachments(request))
        assert turn.journal is not None
        if request.idempotency_key is not None:
            bound = await self._keyed.bind(request, turn.info.id)
            if bound != turn.info.id:
                return bound
        due_at = "" if at is None else time_text(at.timestamp())
        await self._open()
        await accept_turn(turn, turn.journal, due_at=due_at, priority=priority)
        return turn.info.id

    async def pending(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        states: Sequence[QuestionState] | None = ("open",),
        conversation: str | None = None,
        turn: str | None = None,
        remembered: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[PendingQuestion]:
        """Return the kept questions, the newest first.

        Args:
            states: Only those in one of these; None for all.
            remembered: Only those whose reply counts again, under this key or, if it is empty, under any.
            before: Id of a question: only those asked before it.

        Raises:
            ChatRequestError, StorageError: As resume. UnknownQuestionError: There is no question ``before``.
        """
        rows = await self._engine.journal.questions(
            tenant=tenant,
            states=states,
            conversation=conversation,
            turn=turn,
            remembered=remembered,
            limit=limit,
            before=before,
        )
        if self.permits("approve", tenant=tenant):
            return rows
        return [row for row in rows if await self._is_visible(tenant, row.conversation, row.turn)]

    async def question(self, id: str, *, tenant: str = DEFAULT_TENANT) -> PendingQuestion:
        """Return a kept question, by its id or the beginning of it.

        Raises:
            ChatRequestError, StorageError: As resume. UnknownQuestionError: There is none.
        """
        row = await self._engine.journal.question(id, tenant=tenant)
        if self.permits("approve", tenant=tenant) or await self._is_visible(tenant, row.conversation, row.turn):
            return row
        raise UnknownQuestionError(id)

    async def answer(
        self, id: str, reply: Reply, *, by: str = "", tenant: str = DEFAULT_TENANT, resume: bool = True
    ) -> TurnHandle | None:
        """Reply to a question, which any process may have asked; the first reply counts.

        It is on the disk when this returns. If the turn is suspended, it goes on here, and is returned; otherwise the
        process that runs it gets the reply.

        Args:
            id: The question's id, or the beginning of it.
            by: Who replies, for the record.
            resume: Whether a suspended turn goes on here; else ``resume_interrupted`` of some process takes it up.

        Raises:
            NotPermittedError: ``current_principal`` lacks the permission "approve".
            UnknownQuestionError: There is none.
            ClosedQuestionError: It has a reply, has expired, or its turn has ended.
            InvalidReplyError: The reply does not fit the question.
            StorageError: It cannot be recorded.
        """
        self._refuse_if_closed()
        self.require("approve", tenant=tenant)
        row = await answer(self._engine.parts.questions, id, reply, tenant=tenant, by=by)
        if row is None or not resume:
            return None
        try:
            return await self.start_resumed(row.turn, tenant=tenant)
        except (TurnNotWaitingError, UnknownTurnError):
            return None  # it runs in some process, which gets the reply

    async def revoke(self, id: str, *, tenant: str = DEFAULT_TENANT) -> PendingQuestion:
        """Make a remembered reply count no more, and return its question; raises as ``question``.

        Raises:
            NotPermittedError: ``current_principal`` lacks the permission "approve".
        """
        self.require("approve", tenant=tenant)
        return await self._engine.journal.revoke(id, tenant=tenant)

    @property
    def questions_expire_s(self) -> float:
        """Seconds for which a question of a kept turn waits for a reply; 0 if it does not. ``questions.expires``."""
        return self._engine.parts.questions.expires_s

    @questions_expire_s.setter
    def questions_expire_s(self, seconds: float) -> None:
        self._engine.parts.questions.expires_s = seconds

    async def turns(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        states: Sequence[TurnState] | None = None,
        conversation: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[JournaledTurn]:
        """Return the turns of kept conversations, the newest first.

        Args:
            states: Only those in one of these; ["interrupted"] are those that ``resume`` takes up.
            before: Id of a turn: only those that began before it.

        Raises:
            ChatRequestError: As resume. UnknownTurnError: There is no turn ``before``.
        """
        rows = await self._engine.journal.list(
            tenant=tenant, states=states, conversation=conversation, limit=limit, before=before
        )
        return [row for row in rows if await self._is_visible(tenant, row.conversation, row.id)]

    async def turn(self, id: str, *, tenant: str = DEFAULT_TENANT) -> tuple[JournaledTurn, Sequence[JournalEntry]]:
        """Return a turn of a kept conversation and its steps: what was asked, answered and run, with the times.

        Args:
            id: The turn's id, or the beginning of it.

        Raises:
            ChatRequestError: As resume. UnknownTurnError: There is no such turn.
        """
        row, steps = await self._engine.journal.read(id, tenant=tenant)
        if not await self._is_visible(tenant, row.conversation, row.id):
            raise UnknownTurnError(id)
        return row, steps

    async def events(
        self, id: str, *, tenant: str = DEFAULT_TENANT, after: int = 0
    ) -> tuple[JournaledTurn, Sequence[JournaledEvent]]:
        """Return a turn, and what was kept of its events with ``TurnHandle.add_events``: for a day after its end.

        Args:
            id: The turn's whole id.
            after: Number of the last event already known; 0 for none.

        Raises:
            ChatRequestError: As resume. UnknownTurnError: There is no such turn. StorageError: It cannot be read.
        """
        return await self._engine.journal.events(id, tenant=tenant, after=after)

    def keep_in(self, store: ConversationStore) -> None:
        """Keep conversations in this store from now on, instead of the config's. The caller must close it.

        Effects go with them, if the store can keep effects and the config names no place for them.
        """
        make = getattr(store, "ledger", None)
        if make is not None and not self.tools.effects.is_fixed:
            self.tools.effects.ledger = make()
        if self._engine.recorder is not None:
            self._engine.recorder.close()
        self._engine.record_in(self._recorder(store))

    @property
    def media(self) -> MediaStore:
        """Where the media of its kept conversations are.

        Raises:
            ChatRequestError: No conversations are kept, or their store keeps media within the messages.
        """
        media = None if self.conversations is None else self.conversations.media
        if media is None:
            raise ChatRequestError("no media are kept: they need conversations, in a store that keeps media")
        return media

    async def save_media(
        self,
        data: bytes | AsyncIterable[bytes],
        *,
        tenant: str = DEFAULT_TENANT,
        name: str | None = None,
        max_bytes: int | None = None,
    ) -> StoredMedia:
        """Keep a medium for a later message, whose ``attachments`` it may be; deleted after a day if no turn has it.

        Args:
            data: The bytes, or pieces of them, which are written as they arrive.
            max_bytes: How many they may be.

        Raises:
            ChatRequestError: As media.
            MediaQuotaError: They are more than ``max_bytes``, or the tenant's media exceed its quota.
            StorageError: They cannot be kept.
        """
        self._refuse_if_closed()
        return StoredMedia(await self.media.add(data, tenant=tenant, max_bytes=max_bytes), name=name)

    async def read_media(self, sha256: str, *, tenant: str = DEFAULT_TENANT) -> bytes:
        """Return the bytes of a medium; ``media.pieces`` yields them in pieces.

        Raises:
            ChatRequestError: As media.
            UnknownMediaError: The tenant has none with this digest.
            StorageError: It cannot be read.
        """
        self._refuse_if_closed()
        return await self.media.read(sha256, tenant=tenant)

    async def explain(self, message: str | ChatRequest, **options: Unpack[RequestOptions]) -> Explanation:
        """Explain which rule would answer a message, and why, without answering it.

        Phases 1 to 5 run as they do in a turn: models and document stores are asked. The variables are checked as in
        a turn; no rule depends on them. No conversation is read, and none is added to.

        Raises:
            ChatRequestError: As for respond.
        """
        return await explain(self._engine, await self._read_attachments(self._request(message, options)))

    async def preview(self, message: str | ChatRequest, **options: Unpack[RequestOptions]) -> ModelRequest:
        """Return the first request to a model that would answer a message, without sending it.

        It names the LLM and the model, and what they would get: ``system``, the prompt filled in; ``messages``, with
        the history of a kept conversation; ``options``, with ``options.tools`` in the provider's format. Phases 1 to 5
        run as in explain. Plugins' gates (flexchat_before_model_request) are not asked: they may still change or refuse
        the request when it is sent. No conversation is added to.

        Raises:
            ChatRequestError, NoMatchingRuleError, UnknownLLMError, TurnTimeoutError, StorageError: As for respond.
        """
        return await preview(self._engine, await self._read_attachments(self._request(message, options)))

    def require(self, permission: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Check that ``current_principal`` has a permission: "approve", "edit", "view_costs" or "view_others".

        Raises:
            NotPermittedError: It lacks it. Never if no plugin decides about permissions.
        """
        if self.hooks.restricts and (why := self.hooks.refusal(current_info(tenant), permission)) is not None:
            raise NotPermittedError(f"this is not permitted: {why}")

    def _viewer(self, tenant: str) -> str | None:
        """Return the name of the principal that sees what is its own, empty for none; None if it sees everything."""
        if self.permits("view_others", tenant=tenant):
            return None
        principal = current_info(tenant).principal
        return "" if principal is None else principal.name

    async def _is_visible(self, tenant: str, conversation: str | None, turn: str) -> bool:
        """Return whether the current principal may see what belongs to a turn, or to its conversation."""
        viewer = self._viewer(tenant)
        if viewer is None or not viewer:
            return viewer is None
        if conversation and self.conversations is not None:
            with contextlib.suppress(UnknownConversationError):
                return await self.conversations.of(tenant).owner(conversation) == viewer
        with contextlib.suppress(UnknownTurnError, ChatRequestError):  # its conversation has no turn that has ended
            _, steps = await self._engine.journal.read(turn, tenant=tenant)
            principal = steps[0].data["request"].get("principal") if steps else None
            return principal is not None and principal["name"] == viewer
        return False

    def permits(self, permission: str, *, tenant: str = DEFAULT_TENANT) -> bool:
        """Return whether ``current_principal`` has a permission; see require."""
        return not self.hooks.restricts or self.hooks.refusal(current_info(tenant), permission) is None

    def cost(self, *, tenant: str = DEFAULT_TENANT) -> Cost:
        """Add up what models have cost a tenant since this chat was made, in conversations and outside of them.

        Turns that tools start are in it, and the requests of ``explain`` and ``preview``; of a turn that was resumed,
        the answers that this chat has got. ``conversations.cost`` has what is kept, also from before.
        """
        return self._engine.parts.spent.get(tenant, Cost(amount=Decimal(0)))

    async def call_tool(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        origin: Origin = "program",
        tenant: str = DEFAULT_TENANT,
        principal: Principal | None = None,
        context: Any = None,
        on_question: OnQuestion | None = None,
        on_progress: Report | None = None,
        idempotency_key: str | None = None,
    ) -> ToolResult:
        """Run one tool, as a model would; errors are in the result.

        Args:
            origin: Who asks, for gates and records: "command line", "api", … (flexchat.plugin.call.Origin).
            tenant, principal: For whom, for gates, roles and the tool. Within a turn, those of the turn.
            context: Any object; the tool gets it as ``ToolContext.context``.
            on_question: Asks a person what the tool wants to know, as in respond. If it raises a CallSuspended, the
                call ends with that, unless it may have changed something.
            on_progress: Awaited with the call, how much is done, of how much (None: unknown), and a text.
            idempotency_key: For a tool that changes something, a key chosen by the tenant: a repeated key, with the
                same arguments, returns the result of the first call, and nothing runs again. None makes every call a
                new one.

        Raises:
            ChatClosedError: The chat is closed.
        """
        self._refuse_if_closed()
        await self._open()
        turn = current_info(tenant, principal)
        waiting = (current_turn.get(), current_call.get())
        place = place_within() if idempotency_key is None else f"key:{idempotency_key}"
        call = Call(
            name=name,
            arguments=params,
            origin=origin,
            turn=turn,
            context=context,
            asker=Person(on_question, self.config.limits, self._engine.parts.questions, None, waiting),
            report=on_progress,
            path=place,
            is_new=not place,
        )
        return await self.tools.calls.run(call)

    async def effects(
        self,
        *,
        states: Iterable[EffectState] | None = None,
        conversation: str | None = None,
        tenant: str = DEFAULT_TENANT,
        limit: int = 50,
        before: str | None = None,
    ) -> Sequence[Effect]:
        """List the effects of tools, certain and unknown, newest first.

        Args:
            states: Only these: ("unknown",) for what a person has to check; None for all.
            before: Key of the last effect on a page, to get the next page.

        Raises:
            UnknownEffectError: There is no effect ``before``.
            StorageError: The ledger cannot be read.
        """
        rows = await self.tools.effects.ledger.list(
            tenant=tenant, states=states, conversation=conversation, limit=limit, before=before
        )
        return [row for row in rows if await self._is_visible(tenant, row.conversation, row.turn)]

    async def effect(self, key: str, *, tenant: str = DEFAULT_TENANT) -> Effect:
        """Return the effect with this key, or the only one whose key starts with it.

        Raises:
            UnknownEffectError: There is none, or several.
            StorageError: The ledger cannot be read.
        """
        effect = await self.tools.effects.ledger.get(key, tenant=tenant)
        if not await self._is_visible(tenant, effect.conversation, effect.turn):
            raise UnknownEffectError(key)
        return effect

    async def settle_effect(
        self,
        key: str,
        state: Literal["done", "failed"],
        *,
        by: str,
        note: str = "",
        result: Any = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Effect:
        """Record how an unknown effect ended. Repeating the call then returns that, and nothing runs again.

        Args:
            key: As in effect.
            by: Who settles it, for the record.
            result: What the tool would have returned, JSON data.

        Raises:
            NotPermittedError: ``current_principal`` lacks the permission "approve".
            UnknownEffectError: As for effect.
            CannotSettleError: It is not unknown.
            TypeError, ValueError: The result is not JSON data.
            StorageError: It could not be written.
        """
        self.require("approve", tenant=tenant)
        effect = await self.effect(key, tenant=tenant)
        text = None
        if result is not None:
            encoded = json.dumps(result, allow_nan=False)
            text = result_to_json(ToolResult(success=True, tool_name=effect.tool, result=result, encoded=encoded))
        return await self.tools.effects.ledger.settle(
            effect.key, tenant=tenant, state=state, by=by, note=note, result=text
        )

    async def embed(
        self,
        texts: Sequence[str],
        *,
        llm: str | None = None,
        model: str | None = None,
        purpose: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
    ) -> Embeddings:
        """Turn texts into vectors, one for each, in order.

        Args:
            llm: Name of an entry in llms, or of a provider with its own model ("minilm"). Default: the one the
                config's ``embedding`` names, or the only entry.
            model: Default: that of ``embedding``, or the entry's default_model, or the provider's own.
            purpose: Whether the texts are questions or documents; some models make different vectors for them.
            dimensions: Length of the vectors, if the model lets you choose.

        Raises:
            ChatRequestError: A text is empty, or it is unclear which service and model are meant.
            UnknownLLMError: llm is not configured.
            ProviderError: The service did not answer, or cannot make embeddings.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) and text.strip() for text in texts):
            raise ChatRequestError("embed takes a list of texts, none of them empty")
        usual = self.config.embedding
        if llm is None:
            if usual is None and len(self.llms) != 1:
                raise ChatRequestError("say which service makes the embeddings: llm=…, or 'embedding' in the config")
            llm = next(iter(self.llms)) if usual is None else usual.llm
        if usual is not None and usual.llm == llm:
            model = model or usual.model
        embedder, model = self.llms.resolve(llm, model, beside=self._parts.local_models)
        provider = embedder.provider
        if not hasattr(provider, "embed"):
            raise ProviderRequestError(
                f"{embedder.name} (provider {provider.name}) cannot make embeddings",
                provider=provider.name,
                kind="unsupported_feature",
            )
        if not model:
            raise ChatRequestError(f"say which model of {embedder.name} makes the embeddings: model=…")
        if not texts:
            return Embeddings(vectors=(), model=model)
        with contained():
            return await embedder.embed([*map(scrub, texts)], model, purpose=purpose, dimensions=dimensions)

    async def list_models(
        self, *, timeout_s: float | None = None, llms: Collection[str] | None = None
    ) -> dict[str, tuple[ModelInfo, ...] | ProviderError]:
        """Ask every configured service for its models; for one that does not answer, return its error.

        Args:
            timeout_s: Seconds each service has; None for its provider's own limit.
            llms: Names of the services to ask; None for all.
        """

        async def ask(llm: LLM) -> tuple[ModelInfo, ...] | ProviderError:
            try:
                async with asyncio.timeout(timeout_s):
                    with contained():
                        return tuple(await llm.list_models())
            except TimeoutError:
                text = f"the list of models did not arrive within {timeout_s:g} s"
                return ProviderTimeoutError(text, provider=llm.provider.name)
            except ProviderError as error:
                return error
            except ForeignError as error:
                name = llm.provider.name
                return ProviderProtocolError(f"the provider {name} failed: {error}", provider=name)

        services = {name: llm for name, llm in self.llms.items() if llms is None or name in llms}
        answers = await asyncio.gather(*map(ask, services.values()))
        return dict(zip(services, answers, strict=True))

    async def aclose(self) -> None:
        """Close all connections and stores, even if one of them raises. The object cannot be used afterwards.

        Turns started with ``start`` are ended first.
        """
        self._is_closed = self._is_closed or bool(self._parts.holds)
        if self._process not in (None, os.getpid()):
            return  # the sockets, files and event loops are the parent's, and closing them here would end its requests
        await self._end_started()
        if self._engine.recorder is not None:
            self._engine.recorder.close()
        resources, self._parts = self._parts.holds, attrs.evolve(self._parts, holds=())
        async with contextlib.AsyncExitStack() as closing:
            for each in resources:
                closing.push_async_callback(_close, each)
            if self._is_open:
                self._is_open = False
                await self._tell("flexchat_app_closed")

    def _recorder(self, store: ConversationStore, journal: SeparateJournal | None = None) -> ConversationRecorder:
        """Show the conversations of a store, and return what records turns there."""
        effects = self.tools.effects
        is_apart = effects.is_fixed or not hasattr(store, "ledger")
        apart = (effects.ledger if is_apart else None, journal)
        apart_from = [each for each in apart if each is not None]
        self.conversations = Conversations(store, apart=apart_from, viewer=self._viewer)
        if (media := self.conversations.media) is not None:
            media.quota_bytes = self.config.media.quota_bytes
        effects.questions, effects.is_apart = journal or getattr(store, "journal", None), is_apart
        return ConversationRecorder(
            store, journal, lease_s=effects.lease_s, keep_s=effects.keep_s, run_by=self._about_runs, effects=effects
        )

    def _about_runs(self) -> Mapping[str, Any]:
        """Identify this chat in the journals of turns: a digest of the settings that decide them, and the packages."""
        config = self.config
        deciding = (config.responses, config.tools, config.variables, config.topic, config.intent, config.limits)
        return {
            "config": hashlib.sha256(repr(deciding).encode("utf-8", "replace")).hexdigest()[:16],
            "packages": sorted({f"flexchat-core {__version__}", *self.packages.values()}),
        }

    @property
    def journal(self) -> TurnJournal | None:
        """Where its kept turns and their questions are; None if it keeps none."""
        return self._engine.recorder.journal if self._engine.recorder is not None else None

    @property
    def fetcher(self) -> Fetcher | None:
        """The client of its tools, which reaches what ``network`` allows; None if no plugin offers one."""
        return self._parts.fetcher

    async def _run_turn(self, turn: ActiveTurn) -> Turn:
        await self._open()
        return await run_turn(self._engine, turn)

    def _work_of(self, request: ChatRequest) -> Work:
        return self._read_and_run if request.attachments else self._run_turn

    async def _read_and_run(self, turn: ActiveTurn) -> Turn:
        turn.request = await self._read_attachments(turn.request)
        return await self._run_turn(turn)

    async def _read_attachments(self, request: ChatRequest) -> ChatRequest:
        """Return a request whose attachments have their bytes. Raises ChatRequestError, StorageError."""
        if not request.attachments:
            return request
        reader = AttachmentReader(
            max_bytes=self.config.media.max_bytes,
            fetcher=self.fetcher,
            store=None if self.conversations is None else self.conversations.media,
            tenant=request.tenant,
        )
        return attrs.evolve(request, attachments=await reader.read(request.attachments))

    async def _stream_joined(self, request: ChatRequest, is_whole: bool) -> AsyncGenerator[StreamEvent, None]:
        joined = await self._keyed.join(await self._read_attachments(request), self.keys)
        async with contextlib.aclosing(joined.handle.events(waits=lambda: is_whole)) as events:
            async for _, event in events:
                if isinstance(event, TurnFailed):
                    raise event.error
                if isinstance(event, TurnFinished) and joined.is_repeat:
                    event = attrs.evolve(event, turn=attrs.evolve(event.turn, is_repeat=True))
                yield event

    def _keyed_turns(self, about: str = "") -> KeyedTurns:
        return KeyedTurns(
            engine=self._engine,
            start=self._handle,
            resume=self.start_resumed,
            running=lambda id: next((handle for handle in self._started if handle.id == id), None),
            variables=self.config.variables,
            about=about,
        )

    def _handle(self, turn: ActiveTurn, event_log: EventLog[StreamEvent], work: Work | None = None) -> TurnHandle:
        handle = TurnHandle(turn, event_log, work or self._run_turn)
        self._started.add(handle)
        handle.when_ended(self._started.discard)
        return handle

    async def _end_started(self) -> None:
        ending = [*self._started]
        for handle in ending:
            # A resumed one goes on elsewhere: no caller of this chat has begun it.
            handle.interrupt() if handle.is_resumed else handle.cancel()
        for handle in ending:
            with contextlib.suppress(Exception):  # the turn reports it to its listeners
                await handle.result()

    async def _open(self) -> None:
        """Notify the plugins, once, that it is in use."""
        if not self._is_open and self._parts.holds:
            self._is_open = True
            await self._tell("flexchat_app_opened")

    async def _tell(self, hook: str) -> None:
        try:
            async with asyncio.timeout(NOTIFY_TIMEOUT_S):
                await self.hooks.tell_app(hook, self._about)
        except TimeoutError:
            log.warning("the plugins take over %g s for %s", NOTIFY_TIMEOUT_S, hook)

    async def __aenter__(self) -> Self:
        self._refuse_if_closed()
        await self._open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise ChatClosedError("this FlexChat is closed: make a new one")
        process = os.getpid()
        if self._process != process:
            if self._process is not None:
                raise ChatClosedError(from_a_fork("FlexChat", self._process))
            self._process = process

    def _request(self, message: str | ChatRequest, options: RequestOptions) -> ChatRequest:
        self._refuse_if_closed()
        limits, variables = self.config.limits, self.config.variables
        request = read_request(
            message, options, message_chars=limits.message_chars, stores=self.stores, variables=variables
        )
        if (principal := principal_here(request.principal)) is not request.principal:
            request = attrs.evolve(request, principal=principal)
        if request.caller_tools:
            self.tools.every_tool.refuse_clashes(request.caller_tools)
        return request


def from_a_fork(kind: str, process: int | None) -> str:
    """Explain why a forked process cannot use its parent's chat."""
    return (
        f"this {kind} was used by process {process}, from which this one was forked, and its connections and threads "
        "cannot be shared: make one in each process, after the fork"
    )


async def _close(resource: Closable) -> None:
    with contextlib.suppress(ProviderError, OSError):  # nothing can be done about a connection that breaks now
        await resource.aclose()
