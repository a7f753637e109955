"""Turns of a kept conversation: what was said before goes into the request, what is said goes into the store."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import attrs

from ..domain import ChatRequest, ConversationTurn, Message, StreamEvent, Turn, TurnEnd
from ..errors import UnknownConversationError
from ..plugin.contracts import ConversationStore


def new_conversation_id() -> str:
    """Return an id for a new conversation: 32 hexadecimal digits, not to be guessed."""
    return secrets.token_hex(16)


class Keeper:
    """Answers messages as part of conversations of a store.

    Turns of one conversation follow each other: the second waits for the first and knows what was said in it. Turns
    that other processes add at the same time are kept too, in the order in which they end, and do not know of each
    other. A turn that fails, or whose stream is closed before its end, leaves nothing.
    """

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self._locks: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()

    async def respond(
        self,
        request: ChatRequest,
        answer: Callable[[ChatRequest], Awaitable[Turn]],
        *,
        conversation: str,
        tenant: str,
    ) -> Turn:
        """Answer a message and keep the turn; what is returned is kept.

        Args:
            request: Its history, if it has any, comes behind that of the conversation; its topic goes before.
            conversation: An id; one that is not there yet begins.

        Raises:
            StorageError: The history cannot be read, or the turn not be kept. What answer raises.
        """
        async with self._turn(conversation, tenant):
            return await self._kept(
                await answer(await self._continued(request, conversation, tenant)), conversation, tenant
            )

    async def stream(
        self,
        request: ChatRequest,
        answer: Callable[[ChatRequest], AsyncGenerator[StreamEvent, None]],
        *,
        conversation: str,
        tenant: str,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Answer a message piece by piece; by the time the TurnEnd comes the turn is kept. Else like respond."""
        async with self._turn(conversation, tenant):
            events = answer(await self._continued(request, conversation, tenant))
            async with contextlib.aclosing(events):
                async for event in events:
                    if isinstance(event, TurnEnd):
                        yield TurnEnd(await self._kept(event.turn, conversation, tenant))
                    else:
                        yield event

    @contextlib.asynccontextmanager
    async def _turn(self, conversation: str, tenant: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault((tenant, conversation), asyncio.Lock())
        async with lock:
            yield

    async def _continued(self, request: ChatRequest, conversation: str, tenant: str) -> ChatRequest:
        try:
            turns = await self.store.turns(conversation, tenant=tenant)
        except UnknownConversationError:
            return request
        earlier: list[Message] = [message for turn in turns for message in turn.messages]
        topic = request.topic if request.topic is not None or not turns else turns[-1].topic or None
        return attrs.evolve(request, history=(*earlier, *request.history), topic=topic)

    async def _kept(self, turn: Turn, conversation: str, tenant: str) -> Turn:
        await self.store.append(conversation, _conversation_turn(turn), tenant=tenant)
        return attrs.evolve(turn, conversation=conversation)


def _conversation_turn(turn: Turn) -> ConversationTurn:
    return ConversationTurn(
        id=turn.id,
        messages=turn.response.messages,
        topic=turn.profile.topic,
        service=turn.response.service,
        model=turn.response.model,
        usage=turn.response.usage,
        citations=turn.citations,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
