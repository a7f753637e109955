"""What is known about the models: their records, the cases, and models × cases."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import FlexChat, FlexChatError

from ..attempting import split_model
from ..cases import table_of
from ..fingerprint import case_hashes
from ..store import Rows, ValidationStore, rows_of
from ..summary import matrix, summarise
from ..tracker import ModelValidationTracker
from . import cases as case_files
from .records import Records, Results
from .shapes import COUNT, SAID, STATUS, SWITCH, TABLE, TEXT, TEXTS, body_schema, listed, record

if TYPE_CHECKING:
    from flexchat_web.typing import Call, Operation, Reply, Unread, Web

    from ..cases import Case
    from ..reading import Cases

MAX_MODELS = 100
"""Models of the matrix in one answer; imports may bring tens of thousands."""

MAX_CELLS = 10_000
"""Cells of the matrix in one answer; with many cases there are fewer models in it."""

_TAG = {"tag": {"type": "string", "default": "", "maxLength": 200}}
_PROBLEMS = listed(record({"path": TEXT, "text": TEXT, "line": {"type": ["integer", "null"]}}))


async def _validations(call: Call) -> Reply:
    async with call.serving.chat() as chat:
        return await Records.of(call).encode(chat, _all_validations)


def _all_validations(results: Results) -> Any:
    return {"validations": [status.to_dict() for status in results.tracker().get_all_validations()]}


async def _validate(call: Call) -> Reply:
    body = call.body
    async with call.serving.chat() as chat:
        model_id = "/".join(call.web.chosen_model(chat, body["model"]))
        tracker = await Records.of(call).tracker(chat)
        if body["success"]:
            found = await asyncio.to_thread(tracker.record_success, model_id, body.get("details"))
        else:
            why = body.get("error", body.get("details"))
            found = await asyncio.to_thread(tracker.record_failure, model_id, why)
    return call.web.Json(found.status())


async def _cases(call: Call) -> Reply:
    from ..reading import case_info

    async with call.serving.chat() as chat:
        found, problems = await case_files.readable(call.serving, chat)
        defaults = _defaults(call, chat)
    return call.web.Json(
        {
            "cases": [case_info(case) for case in _tagged(call, found)],
            "defaults": defaults,
            "problems": case_files.problems_as_data(problems, call.serving),
        }
    )


def _defaults(call: Call, chat: FlexChat) -> dict[str, Any]:
    """Return the defaults of a run that the configuration sets."""
    table, written = table_of(chat.config), call.serving.written.get("validation")
    models = []
    for model in table.models:
        with contextlib.suppress(FlexChatError):  # check reports its problems
            models.append("/".join(split_model(chat, model)))
    return {
        "models": list(dict.fromkeys(models)),
        "runs": table.runs if isinstance(written, Mapping) and "runs" in written else None,
        "run_tools": table.run_tools,
        "changing_tools": [tool.name for tool in chat.tools.get_registry().list() if tool.effect != "read"],
    }


async def _matrix(call: Call) -> Reply:
    records = Records.of(call)
    async with call.serving.chat() as chat:
        found, problems = await case_files.readable(call.serving, chat)
        tools, table = chat.tools.get_registry().list(), table_of(chat.config)
        hashes = await asyncio.to_thread(case_hashes, _tagged(call, found), tools, table)
        flaws = case_files.problems_as_data(problems, call.serving)
        return await records.encode(
            chat,
            _part_of_matrix,
            hashes,
            bool(found.cases),
            [*call.web.named_models(call.serving, chat)],
            flaws,
            call.query["start"],
            call.query["limit"],
        )


def _part_of_matrix(
    results: Results,
    shown: Mapping[str, str],
    has_cases: bool,
    named: Sequence[str],
    problems: Any,
    start: int,
    limit: int,
) -> Any:
    ids = [*dict.fromkeys([*named, *results.store.models_blocking()])]
    end = start + max(1, min(limit, MAX_CELLS // max(1, len(shown))))
    attempts = [attempt for id in ids[start:end] for attempt in results.store.attempts_blocking(model_id=id)]
    counting = shown if has_cases else None  # as in a model's record
    keys = {id: results.keys(id) for id in ids[start:end]}
    found = summarise(attempts, keys, counting, runs=results.store.runs_blocking())
    following = end if end < len(ids) else None
    return {**matrix(found, shown), "problems": problems, "total": len(ids), "next": following}


async def _export(call: Call) -> Reply:
    tenant = call.tenant if call.serving.settings.tokens else None
    async with call.serving.chat() as chat:
        made = await Records.of(call).encode(chat, _exported, tenant)
    return attrs.evolve(made, headers={"content-disposition": 'attachment; filename="flexchat-validation.json"'})


def _exported(results: Results, tenant: str | None) -> Any:
    data = results.tracker().export()
    if tenant is not None:  # what a model answered in a run belongs to the run's tenant
        own = {run["id"] for run in data["runs"] if run["tenant"] == tenant}
        data["runs"] = [run for run in data["runs"] if run["id"] in own]
        for model in data["records"]:
            model["attempts"] = [made for made in model["attempts"] if made["run"] is None or made["run"] in own]
    return data


async def _import(call: Call) -> Reply:
    async with call.serving.chat() as chat:
        store = Records.of(call).store(chat)
        try:
            if call.body.is_quick:
                made = await asyncio.to_thread(_rows_in, store, call.body)
            else:
                made = await call.web.Apart.of(call.serving).run(_rows_elsewhere, store.path, call.body)
        except ValueError as error:
            raise call.web.ApiError(422, f"nothing was imported: {error}", kind="import") from None
        return call.web.Json({"imported": await store.add_rows(made)})


def _rows_in(store: ValidationStore, body: Unread) -> Rows:
    return rows_of(*ModelValidationTracker(store).read(body.read()))


def _rows_elsewhere(path: Path, body: Unread) -> Rows:
    with closing(ValidationStore(path)) as store:
        return _rows_in(store, body)


def _tagged(call: Call, found: Cases) -> tuple[Case, ...]:
    """Return the cases with the requested tag; a tag that no case has gives an empty list, not an error."""
    tag = call.query["tag"]
    return tuple(case for case in found.cases if not tag or tag in case.tags)


def operations(web: Web) -> tuple[Operation, ...]:
    """Create the operations of the HTTP API."""
    return (
        web.Operation(
            method="GET",
            path="/api/tools/validation",
            name="list_validations",
            summary="Return the records of all models that were tested, with their last tests.",
            tag="validation",
            handle=_validations,
            answers={200: record({"validations": listed(STATUS)})},
            problems=(503,),
        ),
        web.Operation(
            method="POST",
            path="/api/tools/validate",
            name="record_validation",
            summary="Record a test of a model.",
            tag="validation",
            handle=_validate,
            body=body_schema({"model": SAID, "success": SWITCH}, details={}, error={}),
            answers={200: STATUS},
            problems=(404, 503),
        ),
        web.Operation(
            method="GET",
            path="/api/validation/cases",
            name="list_cases",
            summary="List the validation cases, and what is wrong with their files.",
            tag="validation",
            handle=_cases,
            query=_TAG,
            answers={
                200: record(
                    {
                        "cases": listed(
                            record(
                                {
                                    "name": TEXT,
                                    "tags": TEXTS,
                                    "message": TEXT,
                                    "turns": COUNT,
                                    "expects": TEXT,
                                    "aspects": TEXTS,
                                    "judge": TEXT,
                                }
                            )
                        ),
                        "defaults": record(
                            {
                                "models": TEXTS,
                                "runs": {"type": ["integer", "null"], "description": "null: not configured."},
                                "run_tools": SWITCH,
                                "changing_tools": TEXTS,
                            }
                        ),
                        "problems": _PROBLEMS,
                    }
                )
            },
        ),
        web.Operation(
            method="GET",
            path="/api/validation/matrix",
            name="validation_matrix",
            summary="Return what is known about each model, each case, and each thing a case can show.",
            tag="validation",
            handle=_matrix,
            query={
                **_TAG,
                "start": {"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_MODELS, "default": MAX_MODELS},
            },
            answers={
                200: record(
                    {
                        "models": listed(STATUS),
                        "cases": TEXTS,
                        "cells": listed(
                            record(
                                {
                                    "model_id": TEXT,
                                    "case": TEXT,
                                    "passed": COUNT,
                                    "failed": COUNT,
                                    "errors": COUNT,
                                    "stale": SWITCH,
                                    "last_problems": TEXTS,
                                }
                            )
                        ),
                        "aspects": listed(
                            record(
                                {"model_id": TEXT, "aspect": TEXT, "successes": COUNT, "tests": COUNT, "verdict": TEXT}
                            )
                        ),
                        "problems": _PROBLEMS,
                        "total": COUNT,
                        "next": {"type": ["integer", "null"]},
                    }
                )
            },
            problems=(503,),
        ),
        web.Operation(
            method="GET",
            path="/api/validation/export",
            name="export_validation",
            summary="Return all results, so that they can be imported elsewhere.",
            tag="validation",
            handle=_export,
            answers={200: record({"format": TEXT, "saved_at": TEXT, "records": listed(TABLE), "runs": listed(TABLE)})},
            problems=(503,),
        ),
        web.Operation(
            method="POST",
            path="/api/validation/import",
            name="import_validation",
            summary="Add results that were exported, here or by the Node original; existing ones are skipped.",
            tag="validation",
            handle=_import,
            unread=True,
            body={
                "type": ["object", "array"],
                "description": "The answer of the export, or a file of the Node original.",
                "examples": [{"records": {"robot/r1": {"totalTests": 1, "successCount": 1}}}],
            },
            max_body_bytes=8 * 1024 * 1024,
            answers={200: record({"imported": COUNT})},
            problems=(422, 503),
            edits=True,
        ),
    )
