"""A turn in its journal: its request, and its inputs step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

TurnState = Literal["accepted", "running", "suspended", "interrupted", "done", "failed", "cancelled"]
UNFINISHED: tuple[TurnState, ...] = ("accepted", "running", "suspended", "interrupted")
"""Of a turn in the journal. "accepted": it has not begun. "suspended": it waits for the reply to a question, and has no
owner. "interrupted": it can go on; the process that ran it died or was stopped, or a question has its reply."""


MAX_RESUMES = 5
"""How often a turn is resumed unasked: one that ends its process each time must not go on for ever."""


JOURNAL_FORMAT = 1
"""Of the steps that this FlexChat writes. It is raised with a change that earlier versions would resume wrongly."""


@attrs.frozen(kw_only=True)
class JournalEntry:
    """One step of a turn.

    Attributes:
        number: From 1, without gaps.
        kind: "accepted", "started", "phase", "rule", "request", "answer", "tool", "limit", "question",
            "reply" or "resumed".
        data: JSON data; its content depends on the kind: see flexchat/turn/journal.py.
        at: When it was noted: ISO 8601, UTC.
        media: When it is written, the bytes of media by their digests, if the journal keeps them apart from the data.
    """

    number: int
    kind: str
    data: Mapping[str, Any]
    at: str = ""
    media: Mapping[str, bytes] = attrs.field(factory=dict, eq=False, repr=False)


@attrs.frozen
class JournaledEvent:
    """An event of a turn, as sent to its listeners.

    Attributes:
        number: From 1, without gaps, also after the turn was resumed.
        name: Its kind, as the sender calls it: "text".
        data: JSON.
    """

    number: int
    name: str
    data: str


@attrs.frozen(kw_only=True)
class JournaledTurn:
    """A turn in the journal, without its steps.

    Attributes:
        id: Turn.id.
        conversation: Empty if it was deleted while the turn ran.
        message: The beginning of the user's message, for lists: at most 80 characters.
        owner: Who runs it, or ran it last: an id for each process that uses the store; effects have ids of their own.
        fence: Counts its runners, from 1: late writes by an earlier runner are refused. 0 for one that is accepted.
        suspensions: How often it was suspended, or stopped by its runner so that it can go on.
        began_at, ended_at: ISO 8601, UTC; ended_at is empty while it has not ended.
        error: Why it failed, or why it cannot be resumed; empty otherwise.
        key: The key its caller gave for it; empty if none.
        cancelled_by: Who has requested its cancellation, which its owner carries out; empty if it is not requested.
        due_at: For an accepted turn, when it may begin: ISO 8601, UTC; empty for at once.
        priority: For an accepted turn: those with a higher one begin first; 0 by default.
        format: Of its steps: a turn of a newer FlexChat is left to that.
    """

    id: str
    tenant: str
    conversation: str
    state: TurnState
    message: str = ""
    owner: str = ""
    fence: int = 1
    began_at: str = ""
    ended_at: str = ""
    error: str = ""
    key: str = ""
    suspensions: int = 0
    cancelled_by: str = ""
    due_at: str = ""
    priority: int = 0
    format: int = JOURNAL_FORMAT

    @property
    def interruptions(self) -> int:
        """How often a process has taken it up, less the times for which that ended in order."""
        return self.fence - self.suspensions


@attrs.frozen(kw_only=True)
class TurnKey:
    """A key that a caller gave for a request, and the turn it stands for.

    Attributes:
        turn: Turn.id.
        digest: Equal for equal requests.
        begun: Whether the turn has begun: one that has not, has done nothing. It stays true when the turn is deleted.
        bound_at: ISO 8601, UTC.
    """

    key: str
    tenant: str
    turn: str
    digest: str
    begun: bool = False
    bound_at: str = ""


@attrs.frozen(kw_only=True)
class TurnEnd:
    """How a turn ends in the journal.

    Attributes:
        entries: Its last steps, which have not been written yet.
        state: "done", "failed" or "cancelled".
        lease_s: Seconds the owner's lease is to last from now on; None to leave it.
    """

    turn: JournaledTurn
    entries: tuple[JournalEntry, ...]
    state: TurnState
    error: str = ""
    lease_s: float | None = None
