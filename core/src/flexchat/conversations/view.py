"""The conversations of one tenant, for programs and commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..domain import DEFAULT_TENANT, ConversationInfo, ConversationTurn
from ..plugin.contracts import ConversationStore
from .export import to_json, to_markdown


class Conversations:
    """The kept conversations of a tenant; no method sees another's. Every method may raise StorageError.

    Attributes:
        store: Where they are.
    """

    def __init__(self, store: ConversationStore, tenant: str = DEFAULT_TENANT) -> None:
        self.store = store
        self.tenant = tenant

    def of(self, tenant: str) -> Conversations:
        """Return the conversations of another tenant."""
        return Conversations(self.store, tenant)

    async def list(self, *, limit: int = 50, before: str | None = None) -> Sequence[ConversationInfo]:
        """Return them, the last used one first.

        Args:
            before: Id of the last one of a page, for the next page.
        """
        return await self.store.list(tenant=self.tenant, limit=limit, before=before)

    async def search(self, words: str, *, limit: int = 50, before: str | None = None) -> Sequence[ConversationInfo]:
        """Return those with a turn, or a title, that has all these words."""
        return await self.store.list(tenant=self.tenant, search=words, limit=limit, before=before)

    async def get(self, conversation: str) -> ConversationInfo:
        """Return what is known of one.

        Raises:
            UnknownConversationError: There is none of that id.
        """
        return await self.store.get(conversation, tenant=self.tenant)

    async def turns(self, conversation: str, *, last: int | None = None) -> Sequence[ConversationTurn]:
        """Return its turns, oldest first; the last so many of them, if that is given.

        Raises:
            UnknownConversationError: There is none of that id.
        """
        return await self.store.turns(conversation, tenant=self.tenant, last=last)

    async def rename(self, conversation: str, title: str) -> None:
        """Give it another title.

        Raises:
            UnknownConversationError: There is none of that id.
        """
        await self.store.rename(conversation, title, tenant=self.tenant)

    async def delete(self, conversation: str) -> None:
        """Delete it with all its turns.

        Raises:
            UnknownConversationError: There is none of that id.
        """
        await self.store.delete(conversation, tenant=self.tenant)

    async def export_markdown(self, conversation: str) -> str:
        """Return it for people: what was said, and which tools ran.

        Raises:
            UnknownConversationError: There is none of that id.
        """
        return to_markdown(await self.get(conversation), await self.turns(conversation))

    async def export_json(self, conversation: str) -> dict[str, Any]:
        """Return all that is kept of it, as JSON data.

        Raises:
            UnknownConversationError: There is none of that id.
        """
        return to_json(await self.get(conversation), await self.turns(conversation))
