"""The parts shared by all turns of one chat: models, tools, hooks and limits."""

from __future__ import annotations

import logging
from typing import Protocol

import attrs

from ..calls.manager import ToolManager
from ..config.model import LimitsTable, ResponseRule
from ..domain import ResponseFormat, ToolCallRecord
from ..domain.masking import Mask
from ..domain.prices import Cost
from ..llms.llm import Llms
from ..plugin.hooks import Hooks
from ..schema.answer_format import AnswerFormat, answer_format
from ..tools.registry import ToolRegistry

log = logging.getLogger(__name__)


class StoredRecords(Protocol):
    """Where the calls of earlier turns are stored."""

    async def record(self, conversation: str, call_id: str, *, tenant: str) -> ToolCallRecord | None:
        """Load the record of a call of a conversation.

        Raises:
            StorageError: The conversation cannot be read.
        """


@attrs.define(eq=False, kw_only=True)
class TurnParts:
    """The parts shared by all turns of one chat. A turn refers to these and not to its engine, which starts turns.

    Attributes:
        llms: The models that can be called.
        tools: The tools' registry, executor and limits.
        stored: Where the conversations are stored; None if none are.
        has_ceiling: Whether limits.turn_cost or limits.turn_tokens is set.
        spent: What the turns that have ended cost, by tenant.
    """

    llms: Llms
    tools: ToolManager
    limits: LimitsTable
    hooks: Hooks = attrs.field(factory=Hooks)
    mask: Mask = attrs.field(factory=Mask)
    stored: StoredRecords | None = None
    spent: dict[str, Cost] = attrs.field(factory=dict)
    has_ceiling: bool = attrs.field(init=False)
    _formats: dict[int, tuple[ResponseFormat, AnswerFormat]] = attrs.field(factory=dict, init=False)

    @has_ceiling.default
    def _has_ceiling(self) -> bool:
        return self.limits.turn_cost is not None or self.limits.turn_tokens is not None

    def offered_to(self, rule: ResponseRule, offer: ToolRegistry | None = None) -> tuple[str, ...]:
        """Return the names of the tools offered to this rule's model; none means the standard flow (RG-8, RG-12)."""
        names = self.tools.offered_to(rule) if offer is None else offer.names()
        if not names and rule.tools is not None and rule.tools.enabled and self.tools.is_enabled():
            log.warning("no tool is available to this rule; answering without tools")
        return names

    def format_of(self, rule: ResponseRule) -> AnswerFormat | None:
        """Return the form a rule's answers must have; None for any text."""
        table = rule.response_format
        if table is None:
            return None
        entry = self._formats.get(id(table))
        if entry is None:
            entry = self._formats[id(table)] = (table, answer_format(table))
        return entry[1]
