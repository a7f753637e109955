"""The journal and the ledger: turns of kept conversations with their steps, and what tools have changed.

A person settles an effect that is unknown. Each tenant sees its own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import attrs
from flexchat import ChatRequestError, Cost, Effect, FlexChat, JournaledTurn, JournalEntry
from flexchat_cli import cost_of_steps, rounds_of

from ..operations import Call, Json, Operations, Reply
from ..problems import ApiError
from ..shapes import CONVERSATION_ID, COST, PAGE, TEXT, Schema, body_schema, listed, record, schema_of
from .conversations import without_provider_data

_MESSAGE: Schema = {"type": "string", "description": "The beginning of the user's message."}
_STEP = schema_of(JournalEntry, "media", plus={"cost": {**COST, "type": ["object", "null"]}})
_TURN = schema_of(JournaledTurn, "key", plus={"message": _MESSAGE})
_WITH_STEPS = schema_of(JournaledTurn, "key", plus={"message": _MESSAGE, "cost": COST, "steps": listed(_STEP)})

# The result may be long; the handle of a job permits reading or cancelling it at some services.
_HIDDEN = ("result", "handle")
_ARGUMENTS: Schema = {"type": "string", "description": "JSON, with secrets masked; cut if it is long."}
_RESULT: Schema = {"description": "What the tool returned, with secrets masked, or null."}
_EFFECT = schema_of(Effect, *_HIDDEN, plus={"arguments": _ARGUMENTS})
_WITH_RESULT = schema_of(Effect, *_HIDDEN, plus={"arguments": _ARGUMENTS, "result": _RESULT})

turns = Operations("turns", problems=(404, 503))
effects = Operations("effects", problems=(404, 503))


def list_query(entry: Schema) -> dict[str, Schema]:
    """Return the parameters of a list's query, for the schema of its entries."""
    states = {"type": "string", "enum": entry["properties"]["state"]["enum"]}
    return {"state": states, "conversation": CONVERSATION_ID, **PAGE}


def list_arguments(call: Call) -> dict[str, Any]:
    """Return the arguments of the chat's lists for the parameters of a query."""
    query = call.query
    states = [query["state"]] if "state" in query else None
    page = {"limit": query["limit"], "before": query.get("before")}
    return {"states": states, "conversation": query.get("conversation"), "tenant": call.tenant, **page}


@turns("GET", "/api/turns", query=list_query(_TURN), answer=record({"turns": listed(_TURN)}))
async def list_turns(call: Call, chat: FlexChat) -> Reply:
    """List the turns of kept conversations, newest first."""
    with _not_kept():
        return Json({"turns": [attrs.asdict(turn) for turn in await chat.turns(**list_arguments(call))]})


@turns("GET", "/api/turns/{id}", answer=_WITH_STEPS)
async def show_turn(call: Call, chat: FlexChat) -> Reply:
    """Return a turn with its steps: what was asked, answered and run; the beginning of its id is enough."""
    with _not_kept():
        turn, steps = await chat.turn(call.path["id"], tenant=call.tenant)
    cost = cost_of_steps(turn, steps).to_dict()
    return Json({**attrs.asdict(turn), "cost": cost, "steps": [_step(step) for step in steps]})


def _step(step: JournalEntry) -> dict[str, Any]:
    rounds = rounds_of(step)
    cost = Cost.total(one.cost for one in rounds).to_dict() if rounds else None
    step_data = {"number": step.number, "kind": step.kind, "at": step.at}
    return {**step_data, "data": without_provider_data(step.data), "cost": cost}


@contextlib.contextmanager
def _not_kept() -> Iterator[None]:
    try:
        yield
    except ChatRequestError as error:
        raise ApiError(404, str(error), kind="no-journal") from None


@effects("GET", "/api/effects", query=list_query(_EFFECT), answer=record({"effects": listed(_EFFECT)}))
async def list_effects(call: Call, chat: FlexChat) -> Reply:
    """List the changes that tools have made, or may have made, newest first."""
    return Json({"effects": [_facts(effect) for effect in await chat.effects(**list_arguments(call))]})


@effects("GET", "/api/effects/{id}", answer=_WITH_RESULT)
async def show_effect(call: Call, chat: FlexChat) -> Reply:
    """Return an effect with its result; the beginning of its key is enough."""
    return Json(_whole(await chat.effect(call.path["id"], tenant=call.tenant)))


@effects(
    "POST",
    "/api/effects/{id}/settle",
    body={
        **body_schema({"state": {"enum": ["done", "failed"]}}, note={**TEXT, "maxLength": 2000}),
        "examples": [{"state": "done", "note": "the bank shows it, receipt 118"}],
    },
    answer=_WITH_RESULT,
    problems=(404, 409, 503),
)
async def settle_effect(call: Call, chat: FlexChat) -> Reply:
    """Settle an unknown effect: done if it happened, failed if it did not."""
    effect = await chat.settle_effect(
        call.path["id"], call.body["state"], by=call.user, note=call.body.get("note", "").strip(), tenant=call.tenant
    )
    return Json(_whole(effect))


def _facts(effect: Effect) -> dict[str, Any]:
    return {name: value for name, value in attrs.asdict(effect).items() if name not in _HIDDEN}


def _whole(effect: Effect) -> dict[str, Any]:
    return {**_facts(effect), "result": None if effect.result is None else json.loads(effect.result)}
