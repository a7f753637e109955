"""The journal: the turns of kept conversations, and the steps of one. Each tenant's own."""

from __future__ import annotations

from typing import Any

import attrs
from flexchat import ChatRequestError, Cost, JournaledTurn, JournalEntry
from flexchat_cli import cost_of_steps, rounds_of

from ..operations import Call, Json, Operations, Reply
from ..problems import ApiError
from ..shapes import COST, NULLABLE_TABLE, Schema, listed, listing, record, schema_of
from .conversations import without_provider_data

_MESSAGE: Schema = {"type": "string", "description": "The beginning of the user's message."}
_STEP = schema_of(JournalEntry, plus={"cost": {**COST, **NULLABLE_TABLE}})
_TURN = schema_of(JournaledTurn, "key", plus={"message": _MESSAGE})
_WITH_STEPS = schema_of(JournaledTurn, "key", plus={"message": _MESSAGE, "cost": COST, "steps": listed(_STEP)})


operation = Operations("turns")


@operation(
    "GET",
    "/api/turns",
    query=listing(_TURN["properties"]["state"]["enum"]),
    answers={200: record({"turns": listed(_TURN)})},
    problems=(404, 503),
)
async def list_turns(call: Call) -> Reply:
    """List the turns of kept conversations, newest first."""
    state = call.query.get("state")
    async with call.serving.chat() as chat:
        try:
            turns = await chat.turns(
                tenant=call.tenant,
                states=None if state is None else [state],
                conversation=call.query.get("conversation"),
                limit=call.query["limit"],
                before=call.query.get("before"),
            )
        except ChatRequestError as error:
            raise _not_kept(error) from None
    return Json({"turns": [attrs.asdict(turn) for turn in turns]})


@operation("GET", "/api/turns/{id}", answers={200: _WITH_STEPS}, problems=(404, 503))
async def show_turn(call: Call) -> Reply:
    """Return a turn with its steps: what was asked, answered and run; the beginning of its id is enough."""
    async with call.serving.chat() as chat:
        try:
            turn, steps = await chat.turn(call.path["id"], tenant=call.tenant)
        except ChatRequestError as error:
            raise _not_kept(error) from None
    cost = cost_of_steps(turn, steps).to_dict()
    return Json({**attrs.asdict(turn), "cost": cost, "steps": [_step(step) for step in steps]})


def _step(step: JournalEntry) -> dict[str, Any]:
    rounds = rounds_of(step)
    cost = Cost.total(one.cost for one in rounds).to_dict() if rounds else None
    return {**attrs.asdict(step), "data": without_provider_data(step.data), "cost": cost}


def _not_kept(error: ChatRequestError) -> ApiError:
    return ApiError(404, str(error), kind="no-journal")
