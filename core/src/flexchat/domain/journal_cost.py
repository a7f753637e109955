"""The cost of a turn according to its journal: also while it runs, and if its process has died."""

from __future__ import annotations

from collections.abc import Sequence

from .chat import Round
from .journal import JournaledTurn, JournalEntry
from .message_json import phase_from_dict, round_from_step
from .prices import Cost
from .turn import cost_of


def rounds_of(step: JournalEntry) -> tuple[Round, ...]:
    """Return the models' answers in a step; empty if it called none."""
    if step.kind == "phase":
        return phase_from_dict(step.data["record"]).rounds
    return (round_from_step(step.data),) if step.kind == "answer" else ()


def cost_of_steps(turn: JournaledTurn, steps: Sequence[JournalEntry]) -> Cost:
    """Return the cost of a turn, as Turn.cost does: of its phases and its answers."""
    rounds = [one for step in steps for one in rounds_of(step)]
    rule = next((step.data["index"] for step in steps if step.kind == "rule"), None)
    return cost_of(rounds, (), "done" if turn.state == "done" else "failed", rule)
