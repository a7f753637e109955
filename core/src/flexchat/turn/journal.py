"""A turn's journal: written before what follows from it may happen; read when the turn is resumed.

What the entries hold, by kind:

accepted  request (ChatRequest): it begins later
started   request (ChatRequest), after (id of the conversation's last turn then, or null), config (a digest of what
          decides about turns), packages ("flexchat-core 0.1.0", and those of the configured services)
phase     record (PhaseRecord), and the phase's result: topic and status, rag (RagResults), or intent
rule      index, outcome (of the phase's record): the rule that was chosen; tools (names), sources (by the tools' names)
history   round (number of the answers before), llm, model, smaller, record: what its request leaves out of the history
request   llm, model, messages (how many), found (names of the deferred tools in it): a model is about to be asked
answer    result (ChatResult), llm, model, fallback, elapsed_ms, price (Price, or null), asked_for_form, warnings,
          history (the record of its request, if it has one)
tool      iteration, index, record (ToolCallRecord), wrote (this tool, or an earlier one, must not run twice)
limit     why: the tool loop was ended, and the model did not finish by itself
question  iteration, index, place (of its call), call (digest of its tool and arguments), question (Question),
          unchanged (true if its tool has started, and changed nothing yet): a person is about to be asked
reply     iteration, index, id (of the question), reply (Reply)
resumed   config, packages: the turn goes on

A turn is resumed by running it again: each phase, answer and call that the journal has is read from it instead of being
made once more. "request", "limit" and "resumed" are for people, and "started" is written with the first step that must
survive: a turn that ends before it has left nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..calls.claim import digest_of
from ..calls.effects import Lease, finish_uncancelled
from ..domain import (
    AnswerEnd,
    ChatRequest,
    ChatResult,
    ConversationTurn,
    HistoryTurn,
    ReasoningDelta,
    ReasoningPart,
    StreamEvent,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallRecord,
    ToolFinished,
    ToolStarted,
    TurnInfo,
)
from ..domain.codec import digests_in, value_from_dict, value_to_dict
from ..domain.events import WaitReason
from ..domain.journal import JournaledEvent, JournaledTurn, JournalEntry, TurnEnd, TurnState
from ..domain.questions import PendingQuestion, Question, Reply
from ..errors import FlexChatError, LostTurnError, UnknownMediaError
from ..plugin.call import Call
from ..plugin.contracts import TurnJournal, media_store_of
from ..schema.answer_format import answer_format
from .live_questions import reply_in

if TYPE_CHECKING:
    from ..events.sink import Sink

T = TypeVar("T")

MAX_TURN_QUESTIONS = 10_000
"""Questions of one turn that are looked at."""

_NO_EVENTS = 2**31  # after this number, no turn has any


class Journal:
    """Records the steps of one turn while it runs, and replays those recorded before it was interrupted.

    Attributes:
        turn: The turn's row in the store.
        rule: The entry of the rule that was chosen; None if none was.
        phases, calls: The entries of phases by name, of calls by iteration and index: those that have ended.
        live_sink: Reports events once something new happens; None from then on, and in a turn that was not resumed.
        is_closed: Whether nothing new may happen: the turn is only to be recorded as far as it got.
        has_slot: Whether the place after the conversation's last turn is lent to the turn that ends this one.
        store: Where it is written.
        media: Gets the bytes of the media of the next step; None if the store does not keep them apart.
        info: The turn's.
    """

    def __init__(
        self,
        store: TurnJournal,
        lease: Lease,
        turn: JournaledTurn,
        recorded: Sequence[JournalEntry] = (),
        *,
        run_by: Mapping[str, Any],
        media: MutableMapping[str, bytes] | None = None,
    ) -> None:
        """Open it.

        Args:
            media: Of the recorded steps: see ``read_media``.
        """
        self.turn = turn
        self.media: dict[str, bytes] | None = None if media_store_of(store) is None else {}
        self._recorded_media = media or {}
        self.is_closed = self.has_slot = False
        self.info = TurnInfo()
        self.live_sink: Sink | None = None
        self.store, self._lease, self._run_by = store, lease, run_by
        self._writing = asyncio.Lock()
        self._recorded = recorded
        self._number = len(recorded)
        self._has_advanced = False  # in this process
        self._unwritten: list[JournalEntry] = []
        self._unwritten_questions: list[PendingQuestion] = []
        self.phases = {entry.data["record"]["phase"]: entry.data for entry in recorded if entry.kind == "phase"}
        self._started = next((entry.data for entry in recorded if entry.kind == "started"), None)
        self.rule = next((entry.data for entry in recorded if entry.kind == "rule"), None)
        self._answers = deque(entry.data for entry in recorded if entry.kind == "answer")
        self.calls = {
            (entry.data["iteration"], entry.data["index"]): entry.data for entry in recorded if entry.kind == "tool"
        }
        self._replies = {
            entry.data["id"]: value_from_dict(Reply, entry.data["reply"]) for entry in recorded if entry.kind == "reply"
        }
        self._questions: dict[_Place, list[str]] = {}
        self._recalled: Counter[_Place] = Counter()
        self._asked_before: set[str] = set()
        self._asked_unchanged: dict[str, str] = {}
        self._approvals: dict[str, tuple[Question, str]] = {}
        for entry in recorded:
            # Entries of older versions have no place; such questions are asked again.
            if entry.kind == "question" and "place" in entry.data:
                self._note_question(value_from_dict(Question, entry.data["question"]), entry.data)

    @property
    def is_restored(self) -> bool:
        """Whether the turn had begun, or was accepted, before this run of it."""
        return bool(self._recorded)

    def turns_before(self, turns: Sequence[ConversationTurn | HistoryTurn]) -> Sequence[ConversationTurn | HistoryTurn]:
        """Return those of a conversation's turns that were there when this turn began."""
        if self._started is None:
            return turns
        after = self._started["after"]
        at = next((index for index, turn in enumerate(turns) if turn.id == after), -1)
        return turns[: at + 1]

    def record_start(self, request: ChatRequest, turns: Sequence[ConversationTurn | HistoryTurn]) -> None:
        """Note what the turn begins with, unless that was noted before."""
        if self._started is None:
            self.add(
                "started",
                request=self._as_begun(request),
                after=turns[-1].id if turns else None,
                **self._run_by,
            )

    def _as_begun(self, request: ChatRequest) -> Any:
        traced = attrs.evolve(request, traceparent=self.info.traceparent, tracestate=self.info.tracestate)
        return request_to_json(traced, self.media)

    def record_resumption(self) -> None:
        """Note that the turn goes on."""
        self.add("resumed", **self._run_by)

    def record_limit(self, why: str) -> None:
        """Note that the tool loop was ended, unless that was noted before."""
        if all(entry.kind != "limit" for entry in self._recorded):
            self.add("limit", why=why)

    def add(self, kind: str, **data: Any) -> None:
        """Note a step; ``flush`` writes it."""
        self._number += 1
        self._has_advanced = self._has_advanced or kind != "resumed"
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = JournalEntry(number=self._number, kind=kind, data=data, at=at)
        if self.media:
            entry, self.media = attrs.evolve(entry, media=self.media), {}
        self._unwritten.append(entry)

    def decode(self, cls: type[T], data: Any) -> T:
        """Return a value of a recorded step. Raises ValueError."""
        return value_from_dict(cls, data, self._recorded_media)

    async def keep_attachments(self, request: ChatRequest) -> None:
        """Keep the media of a message before its turn begins, where they count against the tenant's quota.

        What tools and models add to a turn that has begun counts, but is never refused.

        Raises:
            MediaQuotaError, StorageError: They cannot be kept.
        """
        if self.media is not None:
            for part in request.attachments:
                await self.store.media.add(part.data or b"", tenant=self.turn.tenant)  # type: ignore[attr-defined]

    async def flush(self) -> None:
        """Write what has been noted: before a model is asked, and before a tool runs.

        Raises:
            StorageError, LostTurnError: It cannot be written, or another owner has resumed the turn; nothing that
                follows from it may happen.
        """
        if self._unwritten or self._unwritten_questions:
            async with self._writing:
                await self._flush()

    async def _flush(self) -> None:
        # Taken before the wait: calls that run side by side add steps meanwhile, for the next write.
        entries, self._unwritten = self._unwritten, []
        questions, self._unwritten_questions = self._unwritten_questions, []
        if not entries and not questions:
            return
        try:
            new_questions = {"questions": tuple(questions)} if questions else {}
            await self.store.write(self.turn, entries, lease_s=self._lease.due(), **new_questions)
        # Cancellations included: whether the steps are written is open then, and the store leaves out those it has.
        except BaseException:
            # Back in front of the newer steps: their numbers must reach the store in order and without a gap.
            self._unwritten = entries + self._unwritten
            self._unwritten_questions = questions + self._unwritten_questions
            raise

    async def end(self, state: TurnState, error: str, write: Callable[[TurnEnd], Awaitable[None]]) -> None:
        """End the turn, with the steps not written yet; ``write`` adds it to its conversation. Raises as flush."""
        async with self._writing:
            # Cleared only after the write: one that fails leaves the steps to be written.
            entries = tuple(self._unwritten)
            try:
                await write(
                    TurnEnd(turn=self.turn, entries=entries, state=state, error=error, lease_s=self._lease.due())
                )
            except LostTurnError:
                # Ours all the same if an earlier call was cancelled while its write went through.
                if not await self._has_ended(state):
                    raise
            self._unwritten.clear()

    async def _has_ended(self, state: TurnState) -> bool:
        ours = self.turn
        try:
            now, _ = await self.store.read(ours.id, tenant=ours.tenant)
        except FlexChatError:  # gone, or unreadable: then the refusal stands
            return False
        expected = state, ours.owner, ours.fence, ours.conversation
        return (now.state, now.owner, now.fence, now.conversation) == expected

    async def interrupt(self, *, in_tool: bool) -> None:
        """Stop at the current step, and release the turn so that another owner can resume it. Raises as flush.

        Args:
            in_tool: Whether a tool runs, which may be what stops the process.
        """
        await self.flush()
        # Stopped in order, which does not count as an interruption: except in a tool that was running the last time as
        # well, since it may signal its own process, or use so much memory that the process is asked to stop.
        counts = in_tool and not self._has_advanced
        await self.store.release(
            self.turn if counts else attrs.evolve(self.turn, suspensions=self.turn.suspensions + 1)
        )

    async def suspend(self) -> bool:
        """Stop until one of the turn's questions has a reply, and release the turn; False if one has it by now.

        A cancellation waits until it is known which of the two. Raises as flush.
        """
        async with self._writing:
            entries = tuple(self._unwritten)
            is_suspended, cancelled = await finish_uncancelled(self.store.suspend(self.turn, entries))
            self._unwritten = self._unwritten[len(entries) :]
        if cancelled is not None and not is_suspended:
            raise cancelled
        return is_suspended

    async def record_stale_replies(self, question_ids: Collection[str]) -> None:
        """Record the replies to questions that no call waits for, so that the turn can be suspended despite them.

        A call that runs again may ask another question: its policy, or the definition of its tool, has changed.

        Args:
            question_ids: Of the questions that calls wait for.

        Raises:
            StorageError: The questions cannot be read.
        """
        of_turn = {"tenant": self.turn.tenant, "turn": self.turn.id}
        for row in await self.store.questions(**of_turn, states=["replied", "expired"], limit=MAX_TURN_QUESTIONS):
            reply = reply_in(row)
            if reply is not None and row.id not in question_ids and row.id not in self._replies:
                self.add_reply(row.id, reply)

    async def is_cancelled(self) -> bool:
        """Return whether the turn's cancellation is requested. Raises StorageError."""
        return (await read_row(self.store, self.turn.id, tenant=self.turn.tenant)).cancelled_by != ""

    async def accept(self, request: ChatRequest, *, due_at: str = "", priority: int = 0) -> None:
        """Keep the turn as accepted, to begin later, in any process. Raises StorageError."""
        self.turn = attrs.evolve(self.turn, state="accepted", owner="", fence=0, due_at=due_at, priority=priority)
        await self.keep_attachments(request)
        self.add("accepted", request=self._as_begun(request))
        await self.store.write(self.turn, self._unwritten, lease_s=None)

    async def add_events(self, events: Sequence[JournaledEvent], *, forget: int = 0) -> None:
        """Keep events in the form in which the turn's listeners get them; see TurnJournal. Raises as flush."""
        async with self._writing:
            if not self.has_begun:  # the turn itself comes first
                await self._flush()
            await self.store.add_events(self.turn, events, forget=forget)

    def replay_events(self, info: TurnInfo, *, has_format: bool) -> Iterator[StreamEvent]:
        """Yield what stands of the turn that was resumed: its whole answers, and the tools that have their results.

        Not what it finds anew, such as the result of a tool in the ledger.
        """
        for entry in self._recorded:
            if entry.kind == "answer":
                result = self.decode(ChatResult, entry.data["result"])
                for index, part in enumerate(result.message.parts):
                    if type(part) is ReasoningPart:
                        yield ReasoningDelta(index, part.text)
                    elif type(part) is TextPart and not has_format:
                        yield TextDelta(index, part.text)
                yield AnswerEnd(result)
            elif entry.kind == "tool":
                yield from call_events(info, self.decode(ToolCallRecord, entry.data["record"]))

    async def list_interrupted(self) -> Sequence[str]:
        """Return the ids of the interrupted and suspended turns of this turn's conversation. Raises StorageError."""
        return await self.store.list_interrupted(self.turn.conversation, tenant=self.turn.tenant)

    async def release(self, why: str = "") -> None:
        """Give the turn up: it is interrupted again, and ``why`` explains why it cannot go on. Raises StorageError."""
        await self.store.release(self.turn, error=why)

    def unfinished_calls(self) -> list[str]:
        """Return the names, as the model wrote them, of the calls of the last answer that have no result yet."""
        if not self._answers:
            return []
        calls = self.decode(ChatResult, self._answers[-1]["result"]).tool_calls
        ended = {entry["record"].get("call_id") for entry in self.calls.values()}
        return [call.name for call in calls if call.id not in ended]

    def answer(self) -> Mapping[str, Any] | None:
        """Return the next answer that was written, each once; None if the model has to be asked."""
        return self._answers.popleft() if self._answers else None

    def history(self, place: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what was recorded of the history of this very request before the turn was interrupted, or None."""
        steps = (entry.data for entry in reversed(self._recorded) if entry.kind == "history")
        return next((each["record"] for each in steps if all(each[key] == place[key] for key in place)), None)

    def recall_question(self, call: Call, question: Question) -> tuple[str, Reply | None] | None:
        """Return the id that a question had in an earlier run of its call, and its reply if it had one; or None.

        Each recorded question is returned once in a run. It is the same question only if the text, the form, the
        digest, and the arguments of its call are: a yes to one payment must not stand for another.
        """
        place = _place_of(call.path, digest_of(call.name, None, call.arguments), question)
        # Counted, because one call may ask the same question twice, and each reply answers one of them.
        earlier, number = self._questions.get(place, ()), self._recalled[place]
        self._recalled[place] += 1
        return (earlier[number], self._replies.get(earlier[number])) if number < len(earlier) else None

    def recall_again(self, place: str) -> None:
        """Return the questions of a call, and of those that its tool makes, once more: it runs again."""
        for each in [*self._recalled]:
            if each[0] == place or each[0].startswith(f"{place}/"):
                del self._recalled[each]

    def add_question(self, call: Call, question: Question, row: PendingQuestion | None) -> bool:
        """Note a question that is about to be asked, and its row; return False if nothing is to be written."""
        if row is not None:
            self._unwritten_questions.append(row)
        # Recalled without a reply: it is asked again under its old id, and written once.
        if question.id in self._asked_before:
            return row is not None
        earlier, _ = self._approvals.get(call.path, (None, ""))
        # The call, its tool or its policy has changed since: who replied to the earlier question would approve nothing.
        if row is not None and question.digest and earlier is not None and earlier.id not in self._replies:
            self._unwritten_questions.append(attrs.evolve(row, question=earlier, state="withdrawn"))
        at: dict[str, Any] = {"iteration": call.iteration, "index": call.index, "place": call.path}
        # Decided now: the tool may be declared otherwise when the turn is resumed.
        if call.has_started and call.handle is None and call.can_wait:
            at["unchanged"] = True
        at["call"] = digest_of(call.name, None, call.arguments)
        self.add("question", **at, question=value_to_dict(question))
        self._note_question(question, at)
        return True

    def _note_question(self, question: Question, at: Mapping[str, Any]) -> None:
        place = at["place"]
        self._questions.setdefault(_place_of(place, at["call"], question), []).append(question.id)
        self._asked_before.add(question.id)
        if at.get("unchanged"):
            self._asked_unchanged[place] = question.id
        if question.digest:
            self._approvals[place] = question, at["call"]

    def approval_of(self, call: Call) -> tuple[Question, bool] | None:
        """Return the last question that asked for a call's approval, and whether it was about these arguments."""
        if (entry := self._approvals.get(call.path)) is None:
            return None
        return entry[0], entry[1] == digest_of(call.name, None, call.arguments)

    def was_asking(self, place: str) -> bool:
        """Return whether the run of a call that broke off was waiting for a reply, and had changed nothing before.

        It could not go on from there: a reply is written before the tool gets it, by the turn's owner only.
        """
        question = self._asked_unchanged.get(place)
        return question is not None and question not in self._replies

    def add_reply(self, id: str, reply: Reply, **at: int) -> None:
        """Note the reply to a question; ``at``: iteration and index of the call that asked it."""
        self._replies[id] = reply
        self.add("reply", **at, id=id, reply=value_to_dict(reply))

    @property
    def offered(self) -> tuple[str, ...]:
        """Names of the tools that the model was offered; empty if no rule was chosen yet."""
        return tuple(self.rule["tools"]) if self.rule is not None else ()

    @property
    def is_undecided_elsewhere(self) -> bool:
        """Whether it began with another configuration, and neither a rule had been chosen nor a call requested."""
        started = self._started or {}
        is_open = self.rule is None and started.get("request", {}).get("call") is None
        return is_open and started.get("config") not in (None, self._run_by.get("config"))

    def wait(self) -> tuple[WaitReason, float]:
        """Return what a turn that goes on has waited for, and for how many milliseconds."""
        last, now = self._recorded[-1], datetime.now(UTC)
        is_new = last.kind == "accepted"
        times = [datetime.fromisoformat(at) for at in (last.at, self.turn.due_at if is_new else "") if at]
        reason: WaitReason = "person" if last.kind in ("question", "reply") else "lease"
        return "queue" if is_new else reason, (now - max(times, default=now)).total_seconds() * 1000

    @property
    def runs(self) -> tuple[str, ...]:
        """The traceparents of the turn's earlier runs, those that are noted, and of its acceptance."""
        data = [entry.data for entry in self._recorded if entry.kind in ("accepted", "started", "resumed")]
        traced = [each.get("traceparent") or each.get("request", {}).get("traceparent") for each in data]
        return tuple(dict.fromkeys(filter(None, traced)))

    def note_run(self, traceparent: str) -> None:
        """Set the traceparent that this run of the turn has, apart from the turn's own."""
        self._run_by = {**self._run_by, "traceparent": traceparent}

    @property
    def was_accepted(self) -> bool:
        """Whether the turn was accepted before it began."""
        return bool(self._recorded) and self._recorded[0].kind == "accepted"

    @property
    def has_begun(self) -> bool:
        """Whether the turn is in the store."""
        return self._number > 0 and not (self._unwritten and self._unwritten[0].number == 1)

    @property
    def is_resumed(self) -> bool:
        """Whether the turn has been interrupted and goes on."""
        return self.turn.fence > 1


async def read_row(store: TurnJournal, id: str, *, tenant: str) -> JournaledTurn:
    """Read a turn without its steps and events, by its whole id. Raises UnknownTurnError or StorageError."""
    row, _ = await store.events(id, tenant=tenant, after=_NO_EVENTS)
    return row


def call_events(info: TurnInfo, record: ToolCallRecord) -> Iterator[StreamEvent]:
    """Yield the events of a call that has ended before."""
    arguments = record.params if record.raw_arguments is None else None
    call = ToolCall(id=record.call_id, name=record.tool, arguments=arguments, raw_arguments=record.raw_arguments)
    yield ToolStarted(info=info, call=call)
    yield ToolFinished(info=info, record=record)


_Place = tuple[str, ...]
"""Of a question: the place of its call, the digest of that, text, form, address, and what it approves."""


def _place_of(place: str, digest: str, question: Question) -> _Place:
    form = json.dumps(question.schema, sort_keys=True, default=repr)
    return place, digest, question.message, form, question.url, question.digest


async def read_media(store: TurnJournal, entries: Sequence[JournalEntry], *, tenant: str) -> dict[str, bytes]:
    """Return the media of recorded steps by their digests. Raises StorageError."""
    media: dict[str, bytes] = {}
    if (media_store := media_store_of(store)) is not None:
        for digest in digests_in(json.dumps(entry.data, separators=(",", ":"), default=str) for entry in entries):
            with contextlib.suppress(UnknownMediaError):  # an argument may look like one
                media[digest] = await media_store.read(digest, tenant=tenant)
    return media


def request_to_json(request: ChatRequest, media: MutableMapping[str, bytes] | None = None) -> Any:
    """Return a request as JSON data, without what lives in its process alone; media as value_to_dict."""
    form = request.response_format
    if form is not None:
        form = answer_format(form).format
    data = value_to_dict(attrs.evolve(request, context=None, on_question=None, response_format=form), media)
    if "idempotency_key" in data:
        data["key"] = data.pop("idempotency_key")  # the name it has in every journal
    return data


def request_from_json(data: Mapping[str, Any], media: MutableMapping[str, bytes] | None = None) -> ChatRequest:
    """Return the request in data of ``request_to_json``. Raises ValueError."""
    return value_from_dict(
        ChatRequest, {"idempotency_key" if name == "key" else name: value for name, value in data.items()}, media
    )
