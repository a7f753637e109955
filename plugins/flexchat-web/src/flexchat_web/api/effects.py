"""Effects: what tools have changed, and how a person settles one that is unknown. Each tenant's own."""

from __future__ import annotations

import json
from typing import Any

import attrs
from flexchat import Effect

from ..operations import Call, Json, Operations, Reply
from ..shapes import TEXT, Schema, body_schema, listed, listing, record, schema_of

# The result may be long; the handle of a job permits reading or cancelling it at some services.
_HIDDEN = ("result", "handle")
_ARGUMENTS: Schema = {"type": "string", "description": "JSON, with secrets masked; cut if it is long."}
_RESULT: Schema = {"description": "What the tool returned, with secrets masked, or null."}
_EFFECT = schema_of(Effect, *_HIDDEN, plus={"arguments": _ARGUMENTS})
_WITH_RESULT = schema_of(Effect, *_HIDDEN, plus={"arguments": _ARGUMENTS, "result": _RESULT})


operation = Operations("effects")


@operation(
    "GET",
    "/api/effects",
    query=listing(_EFFECT["properties"]["state"]["enum"]),
    answers={200: record({"effects": listed(_EFFECT)})},
    problems=(404, 503),
)
async def list_effects(call: Call) -> Reply:
    """List what tools have changed, or may have changed, newest first."""
    state = call.query.get("state")
    async with call.serving.chat() as chat:
        effects = await chat.effects(
            states=None if state is None else (state,),
            conversation=call.query.get("conversation"),
            tenant=call.tenant,
            limit=call.query["limit"],
            before=call.query.get("before"),
        )
    return Json({"effects": [_facts(effect) for effect in effects]})


@operation("GET", "/api/effects/{id}", answers={200: _WITH_RESULT}, problems=(404, 503))
async def show_effect(call: Call) -> Reply:
    """Return an effect with its result; the beginning of its key is enough."""
    async with call.serving.chat() as chat:
        return Json(_whole(await chat.effect(call.path["id"], tenant=call.tenant)))


@operation(
    "POST",
    "/api/effects/{id}/settle",
    body={
        **body_schema({"state": {"enum": ["done", "failed"]}}, note={**TEXT, "maxLength": 2000}),
        "examples": [{"state": "done", "note": "the bank shows it, receipt 118"}],
    },
    answers={200: _WITH_RESULT},
    problems=(404, 409, 503),
)
async def settle_effect(call: Call) -> Reply:
    """Settle an unknown effect: done if it happened, failed if it did not."""
    by = call.tenant if call.serving.settings.tokens else "web"
    async with call.serving.chat() as chat:
        effect = await chat.settle_effect(
            call.path["id"], call.body["state"], by=by, note=call.body.get("note", "").strip(), tenant=call.tenant
        )
    return Json(_whole(effect))


def _facts(effect: Effect) -> dict[str, Any]:
    return {name: value for name, value in attrs.asdict(effect).items() if name not in _HIDDEN}


def _whole(effect: Effect) -> dict[str, Any]:
    return {**_facts(effect), "result": None if effect.result is None else json.loads(effect.result)}
