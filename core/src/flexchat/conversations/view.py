"""The conversations of one tenant, for programs and commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..domain import DEFAULT_TENANT, ConversationInfo, ConversationTurn
from ..domain.prices import Cost
from ..plugin.contracts import ConversationStore, EffectLedger, SeparateJournal
from .export import to_json, to_markdown

_PAGE = 200


class Conversations:
    """A tenant's kept conversations; no method sees another tenant's. Every method may raise StorageError.

    Attributes:
        store: Where they are kept.

    Args:
        apart: The ledger of their effects and the journal of their turns, if kept elsewhere: they forget the content
            of a deleted conversation.
    """

    def __init__(
        self,
        store: ConversationStore,
        tenant: str = DEFAULT_TENANT,
        *,
        apart: Sequence[EffectLedger | SeparateJournal] = (),
    ) -> None:
        self.store = store
        self.tenant = tenant
        self._apart = apart

    def of(self, tenant: str) -> Conversations:
        """Return the conversations of another tenant."""
        return Conversations(self.store, tenant, apart=self._apart)

    async def cost(self, *, tenant: str | None = None) -> Cost:
        """Add up the cost of all kept conversations of a tenant, at the prices of then; those deleted are not in it.

        Args:
            tenant: Default: the one whose conversations these are.
        """
        costs: list[Cost] = []
        before = None
        while True:
            page = await self.store.list(tenant=tenant or self.tenant, limit=_PAGE, before=before)
            unknown = Cost(unpriced=("the store of the conversations adds up no costs",))
            costs += [unknown if info.cost is None else info.cost for info in page]
            if len(page) < _PAGE:
                return Cost.total(costs)
            before = page[-1].id

    async def list(self, *, limit: int = 50, before: str | None = None) -> Sequence[ConversationInfo]:
        """Return the conversations, most recently used first.

        Args:
            before: Id of the last conversation on a page, to get the next page.
        """
        return await self.store.list(tenant=self.tenant, limit=limit, before=before)

    async def search(self, words: str, *, limit: int = 50, before: str | None = None) -> Sequence[ConversationInfo]:
        """Return the conversations with a turn or a title that contains all these words."""
        return await self.store.list(tenant=self.tenant, search=words, limit=limit, before=before)

    async def get(self, conversation: str) -> ConversationInfo:
        """Return the summary of a conversation.

        Raises:
            UnknownConversationError: There is no conversation with that id.
        """
        return await self.store.get(conversation, tenant=self.tenant)

    async def turns(self, conversation: str, *, last: int | None = None) -> Sequence[ConversationTurn]:
        """Return a conversation's turns, oldest first; with ``last``, only that many of the latest.

        Raises:
            UnknownConversationError: There is no conversation with that id.
        """
        return await self.store.turns(conversation, tenant=self.tenant, last=last)

    async def rename(self, conversation: str, title: str) -> None:
        """Rename a conversation.

        Raises:
            UnknownConversationError: There is no conversation with that id.
        """
        await self.store.rename(conversation, title, tenant=self.tenant)

    async def delete(self, conversation: str) -> None:
        """Delete a conversation with all its turns.

        Raises:
            UnknownConversationError: There is no conversation with that id.
        """
        await self.store.delete(conversation, tenant=self.tenant)
        for each in self._apart:
            await each.forget_conversation(conversation, tenant=self.tenant)

    async def export_markdown(self, conversation: str) -> str:
        """Return a conversation as Markdown, for people: its messages, and the tools that ran.

        Raises:
            UnknownConversationError: There is no conversation with that id.
        """
        return to_markdown(await self.get(conversation), await self.turns(conversation))

    async def export_json(self, conversation: str) -> dict[str, Any]:
        """Return all stored data of a conversation, as JSON data.

        Raises:
            UnknownConversationError: There is no conversation with that id.
        """
        return to_json(await self.get(conversation), await self.turns(conversation))
