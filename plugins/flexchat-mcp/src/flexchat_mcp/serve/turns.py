"""The stored turns behind calls: submitted, run here, followed to their end in any process, answered, cancelled.

A call is a turn of its own if it may outlive its request: it asks a person, it is a task, or it has a key.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs
from flexchat import (
    CeilingReachedError,
    ChatRequest,
    ClosedQuestionError,
    ConversationTurn,
    FlexChat,
    InterruptedTurnError,
    InvalidReplyError,
    JournaledTurn,
    MediaPart,
    PendingQuestion,
    RequestedCall,
    TextDelta,
    ToolProgress,
    ToolStarted,
    Turn,
    TurnFailed,
    TurnHandle,
    TurnNotWaitingError,
    TurnSuspended,
)
from flexchat.plugin import FlexChatError, Reply, ToolResult

from .questions import BY_CLIENT

Progress = Callable[[float, float | None, str], Awaitable[None]]
Ask = Callable[[Any], Awaitable[Reply | None]]

MAX_MESSAGE_CHARS = 1_000
ENDED = ("done", "failed", "cancelled")
POLL_S = 1.0
_NO_EVENTS = 2**31  # no turn has as many


@attrs.frozen(kw_only=True)
class Outcome:
    """How far a turn has come: it has ended, or it waits for replies.

    Attributes:
        turn: The ended turn; None if it waits, or if its record is gone.
        open: Its open questions.
        error: Why it failed, or has no answer; empty otherwise.
    """

    id: str
    status: str
    conversation: str | None = None
    turn: Turn | ConversationTurn | None = None
    open: Sequence[PendingQuestion] = ()
    error: str = ""


class Turns:
    """The turns that this process runs for MCP clients."""

    def __init__(self) -> None:
        self._handles: dict[str, TurnHandle] = {}

    async def submit(
        self, chat: FlexChat, tenant: str, *, call: RequestedCall | None = None, message: str = "",
        conversation: str | None = None, key: str | None = None, attachments: tuple[MediaPart, ...] = (),
    ) -> str:  # fmt: skip
        """Accept a call, or a message to the chat; return the turn's id. It is on the disk when this returns.

        A repeated key of the tenant, with the same call, returns the id of the first turn.
        """
        if call is not None:
            message = f"{call.name}({json.dumps(call.arguments, ensure_ascii=False, default=repr)})"[:MAX_MESSAGE_CHARS]
        if conversation is None:
            # A repetition must be the same request.
            digest = None if key is None else hashlib.sha256(f"{tenant}\0{key}".encode("utf-8", "replace")).hexdigest()
            conversation = f"{'mcp' if call is None else 'mcp-call'}-{(digest or os.urandom(16).hex())[:32]}"
        return await chat.submit(
            ChatRequest(
                message,
                call=call,
                conversation=conversation,
                tenant=tenant,
                idempotency_key=key,
                attachments=attachments,
            )
        )

    async def follow(
        self,
        chat: FlexChat,
        tenant: str,
        id: str,
        *,
        ask: Ask | None = None,
        report: Progress | None = None,
        is_chat: bool = False,
    ) -> Outcome:
        """Wait until a turn has ended, or waits for replies; take it up if no process runs it.

        Args:
            id: The turn's whole id.
            ask: Asks the client while the turn runs here.
            report: Reports its progress: what its tool reports, or the steps of a chat.

        Raises:
            UnknownTurnError, StorageError: It cannot be read.
            CeilingReachedError: A limit or a budget has refused it, before anything ran.
        """
        while True:
            handle = self._handles.get(id)
            if handle is not None:
                outcome = await self._listen(handle, report, is_chat=is_chat)
                if outcome is not None:
                    return outcome
            row = await self.row(chat, tenant, id)
            if row.state in ENDED:
                return await self._ended(chat, row)
            if row.state == "suspended" and (pending := await chat.pending(tenant=tenant, turn=id)):
                return Outcome(id=id, status="suspended", conversation=row.conversation, open=pending)
            if row.state in ("accepted", "interrupted") and await self.take(chat, tenant, id, ask=ask):
                continue
            await chat.wait_for_change(id, timeout_s=POLL_S)

    async def take(self, chat: FlexChat, tenant: str, id: str, *, ask: Ask | None = None) -> bool:
        """Run a turn that waits for a process; return False if another one was faster, or it cannot begin yet."""
        if id in self._handles:
            return True
        try:
            handle = await chat.start_resumed(id, tenant=tenant, on_question=ask)
        except TurnNotWaitingError:
            return False
        self._handles[id] = handle
        handle.when_ended(lambda ended: self._handles.pop(ended.id, None))
        return True

    async def row(self, chat: FlexChat, tenant: str, id: str) -> JournaledTurn:
        """Read a turn's row, by its whole id. Raises UnknownTurnError, also for another principal's."""
        if not chat.permits("view_others", tenant=tenant):
            await chat.turn(id, tenant=tenant)
        return (await chat.events(id, tenant=tenant, after=_NO_EVENTS))[0]

    async def state(self, chat: FlexChat, tenant: str, id: str) -> tuple[JournaledTurn, Outcome | None]:
        """Return a turn's row, and its outcome: None while it runs. One without a process is run here."""
        row = await self.row(chat, tenant, id)
        if row.state in ENDED:
            return row, await self._ended(chat, row)
        # Also of a turn that goes on after one of several replies: the others are still open.
        pending = await chat.pending(tenant=tenant, turn=id)
        if pending:
            return row, Outcome(id=id, status="suspended", conversation=row.conversation, open=pending)
        if row.state in ("accepted", "interrupted"):
            await self.take(chat, tenant, id)
        return row, None

    async def reply(self, chat: FlexChat, tenant: str, id: str, replies: Mapping[str, Reply]) -> None:
        """Record replies to a turn's questions, by the questions' ids; one that does not fit leaves its question open.

        Raises:
            ClosedQuestionError: A question has had another reply.
        """
        for question, reply in replies.items():
            try:
                await chat.answer(question, reply, tenant=tenant, by=BY_CLIENT, resume=False)
            except ClosedQuestionError:
                # The same reply again: the client has lost the answer to it.
                recorded = (await chat.question(question, tenant=tenant)).reply
                if recorded is None or (recorded.action, dict(recorded.content)) != (reply.action, dict(reply.content)):
                    raise
            except InvalidReplyError:
                continue
        # Nothing runs it after the reply unless it was suspended by then.
        row = await self.row(chat, tenant, id)
        if replies and row.state == "interrupted":
            await self.take(chat, tenant, id)

    async def cancel(self, chat: FlexChat, tenant: str, id: str) -> None:
        """Cancel a turn wherever it runs. One that has ended stays as it ended."""
        row = await self.row(chat, tenant, id)
        if row.state not in ENDED:
            await chat.cancel_turn(id, tenant=tenant, by=BY_CLIENT)

    def abandon(self, id: str) -> None:
        """Cancel a turn that runs here, whose caller has gone and cannot come back."""
        if (handle := self._handles.get(id)) is not None:
            handle.cancel()

    async def aclose(self) -> None:
        """Stop the turns that run here, so that another process goes on with them."""
        for handle in [*self._handles.values()]:
            handle.interrupt()
            await handle.last()

    async def _listen(self, handle: TurnHandle, report: Progress | None, *, is_chat: bool) -> Outcome | None:
        """Report a turn's progress until it ends here; None if it goes on in its journal."""
        steps, is_answering = 0, False
        if report is not None:
            async for _, event in handle.events():
                if not is_chat:
                    if isinstance(event, ToolProgress):
                        await report(event.progress, event.total, event.message)
                    continue
                text = ""
                if isinstance(event, ToolStarted):
                    text, is_answering = f"calls {event.call.name}", False
                elif isinstance(event, ToolProgress):
                    text = f"{event.tool}: {event.message or f'{event.progress:g}'}"
                elif isinstance(event, TextDelta) and not is_answering:
                    text, is_answering = "answers", True
                if text:
                    steps += 1
                    await report(steps, None, text)
        end = await handle.last()
        if isinstance(end, TurnSuspended) or (
            isinstance(end, TurnFailed) and isinstance(end.error, InterruptedTurnError)
        ):
            return None
        if isinstance(end, TurnFailed) and isinstance(end.error, CeilingReachedError) and not end.turn.response.rounds:
            raise end.error
        error = str(end.error) if isinstance(end, TurnFailed) else ""
        return Outcome(
            id=handle.id,
            status=end.turn.status,
            conversation=handle.info.conversation,
            turn=end.turn,
            error=error or end.turn.error,
        )

    async def _ended(self, chat: FlexChat, row: JournaledTurn) -> Outcome:
        turn, error = None, row.error
        if chat.conversations is not None and row.conversation:
            try:
                turns = await chat.conversations.of(row.tenant).turns(row.conversation)
                turn = next((turn for turn in turns if turn.id == row.id), None)
            except FlexChatError as problem:
                error = error or str(problem)
        if turn is None and not error:
            error = "its result is no longer kept: its conversation was deleted"
        status = row.state if turn is not None else "failed"
        return Outcome(id=row.id, status=status, conversation=row.conversation, turn=turn, error=error)


def called_result(turn: Turn | ConversationTurn) -> ToolResult | None:
    """Return the result of a turn that is a call of a tool; None for one that a model has answered."""
    llm = turn.response.llm if isinstance(turn, Turn) else turn.llm
    if llm or turn.tool_calls is None or len(turn.tool_calls) != 1:
        return None
    (record,) = turn.tool_calls
    effect = record.facts.get("effect")  # a plugin's step may use this name for data of its own
    return attrs.evolve(record.result, is_unknown=isinstance(effect, Mapping) and effect.get("state") == "unknown")
