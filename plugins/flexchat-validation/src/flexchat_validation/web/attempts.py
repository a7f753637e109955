"""Single attempts, as behind the matrix, and the cost of a run before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..attempts import attempt_to_dict
from ..cases import table_of
from ..pricing import estimate
from ..summary import stale_attempt
from .records import Records, Results
from .runs import ATTEMPT, WANTED, plan_of
from .shapes import COUNT, SWITCH, TEXTS, listed, record

if TYPE_CHECKING:
    from flexchat_web.typing import Call, Operation, Reply, Web

_AGED = {**ATTEMPT, "properties": {**ATTEMPT["properties"], "stale": SWITCH}}
_CHOICE = {"type": "string", "default": "", "maxLength": 300}


async def _list(call: Call) -> Reply:
    async with call.serving.chat() as chat:
        return await Records.of(call).encode(chat, _newest, call.tenant, call.query)


def _newest(results: Results, tenant: str, query: Mapping[str, Any]) -> Any:
    own = {run.id for run in results.store.runs_blocking() if run.tenant == tenant}
    wanted = [
        attempt
        for attempt in results.store.attempts_blocking(model_id=query["model_id"] or None)
        if (attempt.run is None or attempt.run in own) and query["case"] in ("", attempt.case)
    ]
    return {
        "attempts": [
            {
                **attempt_to_dict(one),
                "stale": bool(stale_attempt(one, results.keys(one.key.model_id), results.cases or {})),
            }
            for one in wanted[: -query["limit"] - 1 : -1]
        ]
    }


async def _plan(call: Call) -> Reply:
    async with call.serving.chat() as chat:
        plan = await plan_of(call, chat)
        store = Records.of(call).store(chat)
        earlier = [await store.attempts(model_id=model) for model in plan.models]
        costs = {
            model: await estimate(chat, table_of(chat.config), model, plan.cases, plan.runs, made)
            for model, made in zip(plan.models, earlier, strict=True)
        }
    known = [cost for cost in costs.values() if cost is not None]
    return call.web.Json(
        {
            "planned": len(plan.models) * len(plan.cases) * plan.runs,
            "models": list(plan.models),
            "cases": [case.name for case in plan.cases],
            "runs": plan.runs,
            "cost": sum(known) if known else None,
            "unpriced": [model for model, cost in costs.items() if cost is None],
        }
    )


def operations(web: Web) -> tuple[Operation, ...]:
    """Create the operations of the HTTP API."""
    return (
        web.Operation(
            method="GET",
            path="/api/validation/attempts",
            name="list_attempts",
            summary="List attempts, the last one first: all, those of a model, of a case, or of both.",
            tag="validation",
            handle=_list,
            query={
                "model_id": _CHOICE,
                "case": _CHOICE,
                "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
            },
            answers={200: record({"attempts": listed(_AGED)})},
            problems=(503,),
        ),
        web.Operation(
            method="POST",
            path="/api/validation/plan",
            name="plan_run",
            summary="Say how many tests a run would make, and what it would cost; begins nothing.",
            tag="validation",
            handle=_plan,
            body=WANTED,
            body_required=False,
            answers={
                200: record(
                    {
                        "planned": COUNT,
                        "models": TEXTS,
                        "cases": TEXTS,
                        "runs": COUNT,
                        "cost": {
                            "type": ["number", "null"],
                            "description": "US dollars, estimated; without the models in unpriced.",
                        },
                        "unpriced": TEXTS,
                    }
                )
            },
            problems=(404, 422, 503),
        ),
    )
