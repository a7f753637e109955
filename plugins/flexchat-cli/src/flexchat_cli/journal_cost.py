"""The cost of a turn according to its journal: also while it runs, and if its process has died."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from flexchat.domain import PhaseRecord, Round, Usage
from flexchat.domain.codec import value_from_dict
from flexchat.domain.journal import JournaledTurn, JournalEntry
from flexchat.domain.prices import Cost
from flexchat.domain.turn import cost_of


def rounds_of(step: JournalEntry) -> tuple[Round, ...]:
    """Return the models' answers in a step; empty if it called none."""
    if step.kind == "phase":
        return value_from_dict(PhaseRecord, step.data["record"]).rounds
    if step.kind != "answer":
        return ()
    usage = step.data["result"].get("usage")
    answer = value_from_dict(Round, step.data)
    return (attrs.evolve(answer, usage=None if usage is None else value_from_dict(Usage, usage)),)


def cost_of_steps(turn: JournaledTurn, steps: Sequence[JournalEntry]) -> Cost:
    """Return the cost of a turn, as Turn.cost does: of its phases and its answers."""
    rounds = [one for step in steps for one in rounds_of(step)]
    rule = next((step.data["index"] for step in steps if step.kind == "rule"), None)
    return cost_of(rounds, (), "done" if turn.state == "done" else "failed", rule)
