"""Turns of a kept conversation: what was said before goes into the request, what is said now into the store."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import attrs

from ..domain import ChatRequest, ConversationTurn, Message, Turn
from ..errors import UnknownConversationError
from ..plugin.contracts import ConversationStore
from ..plugin.foreign import contained


def new_conversation_id() -> str:
    """Return an id for a new conversation: 32 hexadecimal digits that cannot be guessed."""
    return secrets.token_hex(16)


Keep = Callable[[Turn], Awaitable[Turn]]
"""Adds a turn to its conversation, however it ended, and returns it as kept. May raise StorageError."""


@attrs.frozen
class Place:
    """A turn's place in a conversation.

    Attributes:
        request: The request, with what was said before in its history.
    """

    request: ChatRequest
    keep: Keep


class Keeper:
    """Answers messages as part of a store's conversations.

    Turns of one conversation run one after another: the second waits for the first and knows what was said in it.
    Turns that other processes add at the same time are kept too, in the order in which they end, but do not know of
    each other.
    """

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self._locks: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def place(self, request: ChatRequest, *, conversation: str, tenant: str) -> AsyncIterator[Place]:
        """Lend out the place after the conversation's last turn; nobody else has it meanwhile.

        Args:
            request: Its history, if any, follows the conversation's; its topic takes precedence.
            conversation: An id; a conversation that does not exist yet is started.

        Raises:
            StorageError: The history cannot be read.
        """

        async def keep(turn: Turn) -> Turn:
            with contained():
                await self.store.append(conversation, _conversation_turn(turn), tenant=tenant)
            return attrs.evolve(turn, conversation=conversation)

        lock = self._locks.setdefault((tenant, conversation), asyncio.Lock())
        async with lock:
            yield Place(await self.continued(request, conversation, tenant), keep)

    async def continued(self, request: ChatRequest, conversation: str, tenant: str) -> ChatRequest:
        """Return the request with what was said before in its history.

        Raises:
            StorageError: The history cannot be read.
        """
        try:
            with contained():
                turns = await self.store.turns(conversation, tenant=tenant)
        except UnknownConversationError:
            return request
        earlier: list[Message] = [message for turn in turns if turn.replay for message in turn.messages]
        topic = request.topic if request.topic is not None or not turns else turns[-1].topic or None
        return attrs.evolve(request, history=(*earlier, *request.history), topic=topic)


def _conversation_turn(turn: Turn) -> ConversationTurn:
    response = turn.response
    return ConversationTurn(
        id=turn.id,
        messages=response.messages,
        topic=turn.profile.topic,
        llm=response.llm,
        model=response.model,
        usage=response.usage,
        citations=turn.citations,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        status=turn.status,
        error=turn.error,
        replay=turn.replay,
        intent=turn.profile.intent,
        rule=turn.rule,
        rule_name=turn.rule_name,
        phases=turn.phases,
        rounds=response.rounds,
        tool_calls=response.tool_calls,
        max_iterations_reached=response.max_iterations_reached,
        finish_reason=response.finish_reason,
        warnings=response.warnings,
        elapsed_ms=turn.elapsed_ms,
        parsed=response.data,
    )
