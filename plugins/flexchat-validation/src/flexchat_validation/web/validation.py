"""Results: the records of models, the cases, models × cases, and the attempts behind them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import FlexChat, FlexChatError
from flexchat_web.shapes import SWITCH, WORDS, body_schema, listed, record, schema_of
from flexchat_web.typing import Call, Operations, Reply, Unread

from ..attempting import split_model
from ..attempts import attempt_to_dict
from ..cases import table_of
from ..store import Rows, ValidationStore, rows_of
from ..summary import Cell, matrix, stale_attempt, summarise
from ..tracker import ModelValidationTracker
from .records import STATUS, Results, encode, problems_as_data, readable, results_of, store_of
from .runs import ATTEMPT

if TYPE_CHECKING:
    from ..cases import Case
    from ..reading import Cases

MAX_MODELS = 100
"""Maximum number of models in one answer; imports may add tens of thousands."""

MAX_CELLS = 10_000
"""Maximum number of cells of the matrix in one answer; with many cases there are fewer models in it."""

_TAG = {"tag": {"type": "string", "default": "", "maxLength": 200}}
_PART = {
    "start": {"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_MODELS, "default": MAX_MODELS},
}
_FOLLOWING = {"total": int, "next": int | None}
_PROBLEMS = listed(record({"path": str, "text": str, "line": int | None}))


_CHOICE = {"type": "string", "default": "", "maxLength": 300}
_CASE = record(
    {
        **dict.fromkeys(("name", "message", "expects", "judge"), str),
        **dict.fromkeys(("tags", "aspects"), list[str]),
        "turns": int,
    }
)
_DEFAULTS = record(
    {
        **dict.fromkeys(("models", "changing_tools"), list[str]),
        "runs": {"type": ["integer", "null"], "description": "null: not configured."},
        "run_tools": bool,
    }
)
_ASPECT = record(
    {**dict.fromkeys(("model_id", "aspect", "verdict"), str), **dict.fromkeys(("successes", "tests"), int)}
)

operation = Operations("validation", problems=(503,))


@operation("GET", "/api/tools/validation", query=_PART, answer=record({"validations": listed(STATUS), **_FOLLOWING}))
async def list_validations(call: Call, chat: FlexChat) -> Reply:
    """Return the records of models that were tested, with their last tests; next is the position to continue from."""
    return await encode(call, chat, _part_of_validations, call.query["start"], call.query["limit"])


def _part_of_validations(results: Results, start: int, limit: int) -> Any:
    records = results.tracker().get_all_validations()
    page = [record.to_dict() for record in records[start : start + limit]]
    following = start + limit if start + limit < len(records) else None
    return {"validations": page, "total": len(records), "next": following}


@operation(
    "POST",
    "/api/tools/validate",
    body=body_schema({"model": WORDS, "success": bool}, details={}, error={}),
    answer=STATUS,
    problems=(404, 503),
)
async def record_validation(call: Call, chat: FlexChat) -> Reply:
    """Record a test of a model."""
    body = call.body
    model_id = "/".join(call.web.chosen_model(chat, body["model"]))
    tracker = (await results_of(call, chat)).tracker()
    if body["success"]:
        result = await asyncio.to_thread(tracker.record_success, model_id, body.get("details"))
    else:
        error = body.get("error", body.get("details"))
        result = await asyncio.to_thread(tracker.record_failure, model_id, error)
    return call.web.Json(result.status())


@operation(
    "GET",
    "/api/validation/cases",
    permission="edit",
    query=_TAG,
    answer=record({"cases": listed(_CASE), "defaults": _DEFAULTS, "problems": _PROBLEMS}),
    problems=(),
)
async def list_cases(call: Call, chat: FlexChat) -> Reply:
    """List the validation cases, and the problems of their files."""
    from ..reading import case_info

    cases, problems = await readable(call.serving, chat)
    return call.web.Json(
        {
            "cases": [case_info(case) for case in _tagged(call, cases)],
            "defaults": _defaults(call, chat),
            "problems": problems_as_data(problems, call.serving),
        }
    )


def _defaults(call: Call, chat: FlexChat) -> dict[str, Any]:
    """Return the defaults of a run that the configuration sets."""
    table, own_table = table_of(chat.config), call.serving.written.get("validation")
    models = []
    for model in table.models:
        with contextlib.suppress(FlexChatError):  # check reports its problems
            models.append("/".join(split_model(chat, model)))
    return {
        "models": list(dict.fromkeys(models)),
        "runs": table.runs if isinstance(own_table, Mapping) and "runs" in own_table else None,
        "run_tools": table.run_tools,
        "changing_tools": [tool.name for tool in chat.tools.get_registry().list() if tool.effect != "read"],
    }


@operation(
    "GET",
    "/api/validation/matrix",
    query={**_TAG, **_PART},
    answer=record(
        {
            "models": listed(STATUS),
            "cases": list[str],
            "cells": listed(schema_of(Cell)),
            "aspects": listed(_ASPECT),
            "problems": _PROBLEMS,
            **_FOLLOWING,
        }
    ),
)
async def validation_matrix(call: Call, chat: FlexChat) -> Reply:
    """Return the results of each model, for each case and each ability."""
    cases, problems = await readable(call.serving, chat)
    names = [case.name for case in _tagged(call, cases)]
    configured = [*call.web.named_models(call.serving, chat)]
    return await encode(
        call, chat, _part_of_matrix, names, configured, problems_as_data(problems, call.serving), call.query
    )


def _part_of_matrix(
    results: Results, names: Sequence[str], configured: Sequence[str], problems: Any, query: Mapping[str, Any]
) -> Any:
    ids = [*dict.fromkeys([*configured, *results.store.models_blocking()])]
    start: int = query["start"]
    end = start + max(1, min(query["limit"], MAX_CELLS // max(1, len(names))))
    attempts = [attempt for id in ids[start:end] for attempt in results.store.attempts_blocking(model_id=id)]
    hashes = results.cases and {name: results.cases[name] for name in names if name in results.cases}
    keys = {id: results.keys(id) for id in ids[start:end]}
    summaries = summarise(attempts, keys, hashes, runs=results.store.runs_blocking())
    following = end if end < len(ids) else None
    return {**matrix(summaries, names), "problems": problems, "total": len(ids), "next": following}


@operation(
    "GET",
    "/api/validation/attempts",
    permission="view_others",
    query={
        "model_id": _CHOICE,
        "case": _CHOICE,
        "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
    },
    answer=record({"attempts": listed({**ATTEMPT, "properties": {**ATTEMPT["properties"], "stale": SWITCH}})}),
)
async def list_attempts(call: Call, chat: FlexChat) -> Reply:
    """List attempts, newest first: all, those of a model, of a case, or of both."""
    return await encode(call, chat, _newest, call.tenant, call.query)


def _newest(results: Results, tenant: str, query: Mapping[str, Any]) -> Any:
    own = {run.id for run in results.store.runs_blocking() if run.tenant == tenant}
    attempts = [
        attempt
        for attempt in results.store.attempts_blocking(model_id=query["model_id"] or None)
        if (attempt.run is None or attempt.run in own) and query["case"] in ("", attempt.case)
    ]
    return {
        "attempts": [
            {
                **attempt_to_dict(attempt),
                "stale": bool(stale_attempt(attempt, results.keys(attempt.key.model_id), results.cases or {})),
            }
            for attempt in attempts[: -query["limit"] - 1 : -1]
        ]
    }


@operation(
    "GET",
    "/api/validation/export",
    permission="view_others",
    answer=record({"format": str, "saved_at": str, "records": listed(dict), "runs": listed(dict)}),
)
async def export_validation(call: Call, chat: FlexChat) -> Reply:
    """Return all results, so that they can be imported elsewhere."""
    answer = await encode(call, chat, _exported, call.tenant if call.serving.authentication.is_required else None)
    return attrs.evolve(answer, headers={"content-disposition": 'attachment; filename="flexchat-validation.json"'})


def _exported(results: Results, tenant: str | None) -> Any:
    data = results.tracker().export()
    if tenant is not None:  # what a model answered in a run belongs to the run's tenant
        own = {run["id"] for run in data["runs"] if run["tenant"] == tenant}
        data["runs"] = [run for run in data["runs"] if run["id"] in own]
        for model in data["records"]:
            model["attempts"] = [each for each in model["attempts"] if each["run"] is None or each["run"] in own]
    return data


@operation(
    "POST",
    "/api/validation/import",
    unread=True,
    body={
        "type": ["object", "array"],
        "description": "The answer of the export, or a file of the Node original.",
        "examples": [{"records": {"robot/r1": {"totalTests": 1, "successCount": 1}}}],
    },
    max_body_bytes=8 * 1024 * 1024,
    answer=record({"imported": int}),
    problems=(422, 503),
    edits=True,
)
async def import_validation(call: Call, chat: FlexChat) -> Reply:
    """Add results that were exported, here or by the Node original; existing ones are skipped."""
    store = store_of(call, chat)
    try:
        if call.body.is_quick:
            rows = await asyncio.to_thread(_rows_in, store, call.body)
        else:
            rows = await call.web.Apart.of(call.serving).run(_rows_elsewhere, store.path, call.body)
    except ValueError as error:
        raise call.web.ApiError(422, f"nothing was imported: {error}", kind="import") from None
    return call.web.Json({"imported": await store.add_rows(rows)})


def _rows_in(store: ValidationStore, body: Unread) -> Rows:
    return rows_of(*ModelValidationTracker(store).read(body.read()))


def _rows_elsewhere(path: Path, body: Unread) -> Rows:
    with closing(ValidationStore(path)) as store:
        return _rows_in(store, body)


def _tagged(call: Call, cases: Cases) -> tuple[Case, ...]:
    """Return the cases with the requested tag; a tag that no case has gives an empty list, not an error."""
    tag = call.query["tag"]
    return tuple(case for case in cases.cases if not tag or tag in case.tags)
