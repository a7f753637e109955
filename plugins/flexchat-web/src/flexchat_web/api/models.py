"""The models there are, and what is known of each."""

from __future__ import annotations

import asyncio
from typing import Any

from flexchat import ModelInfo, ProviderError
from flexchat_validation.tracker import ValidationRecord

from ..operations import Call, Json, Operation, Reply
from .records import Records, named_models, shown_status
from .shapes import NULLABLE_TEXT, STATUS, SWITCH, TEXT, TEXTS, listed, record


async def _list(call: Call) -> Reply:
    records = Records.of(call.serving)
    async with call.serving.chat() as chat:
        lists = await records.lists(chat, refresh=call.query["refresh"])
        tracker = await records.tracker(chat)
        known = await asyncio.to_thread(lambda: {found.model_id: found for found in tracker.get_all_validations()})
        named = named_models(chat)
        offered: dict[str, tuple[str, ModelInfo]] = {
            f"{llm}/{model.id}": (llm, model)
            for llm, models in lists.items()
            if not isinstance(models, ProviderError)
            for model in models
        }
        # One that a rule names may be tried also where its LLM lists none.
        for model_id, (llm, model) in named.items():
            offered.setdefault(model_id, (llm, ModelInfo(id=model)))
        entries = [
            _entry(model_id, llm, model, default=model_id in named)
            | {"validation": shown_status(known.get(model_id) or ValidationRecord(model_id=model_id))}
            for model_id, (llm, model) in offered.items()
        ]
        errors = [
            {"llm": llm, "error": call.serving.mask(str(error))}
            for llm, error in lists.items()
            if isinstance(error, ProviderError)
        ]
    return Json({"models": entries, "errors": errors})


def _entry(model_id: str, llm: str, model: ModelInfo, *, default: bool) -> dict[str, Any]:
    told = sorted(model.capabilities)
    may_call = "tools" in told or not told
    return {
        "id": model_id,
        "name": model.name or model.id,
        "llm": llm,
        "model": model.id,
        "capabilities": [*(["function-calling"] if may_call else []), *told],
        "context_length": model.context_length,
        "digest": model.digest,
        "default": default,
    }


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/models/list",
        name="list_models",
        summary="List the models of all LLMs, and those that the configuration names; a minute old at most.",
        tag="tools",
        handle=_list,
        query={"refresh": {"type": "boolean", "default": False}},
        answers={
            200: record(
                {
                    "models": listed(
                        record(
                            {
                                "id": TEXT,
                                "name": TEXT,
                                "llm": TEXT,
                                "model": TEXT,
                                "capabilities": TEXTS,
                                "context_length": {"type": ["integer", "null"]},
                                "digest": NULLABLE_TEXT,
                                "default": SWITCH,
                                "validation": STATUS,
                            }
                        )
                    ),
                    "errors": listed(record({"llm": TEXT, "error": TEXT})),
                }
            )
        },
        problems=(503,),
    ),
)
