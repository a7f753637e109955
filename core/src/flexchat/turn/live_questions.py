"""The questions that calls of this process are waiting for, and the replies that end the wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from ..domain import TurnInfo
from ..domain.questions import PendingQuestion, Question, Reply
from ..errors import UnknownQuestionError
from ..plugin.contracts import TurnJournal

UNANSWERED = Reply(action="cancel", why="the turn ended before there was a reply")
"""The reply to a question that is open when its turn is stopped. A resumed turn asks the question again."""


class LiveQuestions:
    """The questions that calls of this process are waiting for, whether they are kept or not.

    Attributes:
        expires_s: Seconds for which a question of a kept turn waits for a reply; 0 if it does not.
        journal: Where the others are; None without one.
        refusal_of: Returns why a principal lacks a permission; None if no plugin decides that.
    """

    def __init__(self, expires_s: float = 0.0) -> None:
        self.expires_s = expires_s
        self.journal: TurnJournal | None = None
        self.refusal_of: Callable[[TurnInfo, str], str | None] | None = None
        self._open: dict[tuple[str, str], tuple[Question, asyncio.Future[Reply]]] = {}

    @contextlib.contextmanager
    def add(self, tenant: str, question: Question) -> Iterator[asyncio.Future[Reply]]:
        """Yield what becomes the reply, if there is one before the block ends."""
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._open[tenant, question.id] = question, reply
        try:
            yield reply
        finally:
            del self._open[tenant, question.id]

    async def look(self) -> None:
        """Look for the replies that other processes have recorded. Raises StorageError."""
        for tenant, id in [*self._open]:
            with contextlib.suppress(UnknownQuestionError):  # it is not kept
                row = await self.journal.question(id, tenant=tenant) if self.journal is not None else None
                if row is not None and (reply := reply_in(row)) is not None:
                    self.answer(tenant, id, reply)

    def find(self, tenant: str, id: str) -> Question | None:
        """Return a question that waits here, by its whole id; None if it does not."""
        entry = self._open.get((tenant, id))
        return None if entry is None or entry[1].done() else entry[0]

    def answer(self, tenant: str, id: str, reply: Reply) -> bool:
        """Pass a valid reply to the call that waits for it; return whether one did here."""
        entry = self._open.get((tenant, id))
        if entry is None or entry[1].done():
            return False
        entry[1].set_result(reply)
        return True


def reply_in(row: PendingQuestion) -> Reply | None:
    """Return the reply to a kept question; None while it is open."""
    if row.state == "expired":
        return Reply(action="cancel", why=f"there was no reply until {row.expires_at}")
    return UNANSWERED if row.state == "withdrawn" else row.reply
