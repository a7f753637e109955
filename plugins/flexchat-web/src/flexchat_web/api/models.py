"""The available models, and what is known about each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flexchat import ModelInfo, ProviderError

from ..operations import Call, Json, ModelFact, Operation, Reply
from .model_lists import ModelLists, listed_models, named_models
from .shapes import NULLABLE_TEXT, SWITCH, TEXT, TEXTS, listed, record


async def _list(call: Call) -> Reply:
    async with call.serving.chat() as chat:
        lists = await listed_models(call.serving, chat, refresh=call.query["refresh"])
        named = named_models(call.serving, chat)
        offered: dict[str, tuple[str, ModelInfo]] = {
            f"{llm}/{model.id}": (llm, model)
            for llm, models in lists.items()
            if not isinstance(models, ProviderError)
            for model in models
        }
        # One that a rule names may be tried even if its LLM lists none.
        for model_id, (llm, model) in named.items():
            offered.setdefault(model_id, (llm, ModelInfo(id=model)))
        facts = {fact.name: await fact.told(call, chat, [*offered]) for fact in ModelLists.of(call.serving).facts}
        entries = [
            _entry(model_id, llm, model, default=model_id in named)
            | {name: told[model_id] for name, told in facts.items()}
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


def operations(facts: Sequence[ModelFact]) -> tuple[Operation, ...]:
    """Create the operation that lists the models.

    Args:
        facts: Additional facts from plugins about each model.
    """
    return (
        Operation(
            method="GET",
            path="/api/models/list",
            name="list_models",
            summary="List the models of all LLMs and those named in the configuration; cached for up to a minute.",
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
                                    **{fact.name: fact.schema for fact in facts},
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
