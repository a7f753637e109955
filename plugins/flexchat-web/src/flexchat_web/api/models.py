"""The available models: those that LLMs list, and those that the configuration names; and what is known about each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from flexchat import FlexChat, ModelInfo, ProviderError
from flexchat.host import UnknownNameError, did_you_mean

from ..operations import Call, Json, Lists, ModelFact, Operation, Operations, Reply
from ..serving import Serving
from ..shapes import Schema, listed, record

LIST_S = 5.0
"""Seconds an LLM has to list its models."""

FRESH_S = 60.0
"""Seconds for which a list of models is cached."""


class ModelLists:
    """What is known about models, for all requests of a server.

    Attributes:
        facts: Facts that plugins add to each model.
    """

    def __init__(self, serving: Serving) -> None:
        self.facts: tuple[ModelFact, ...] = ()
        self._lists: WeakKeyDictionary[FlexChat, tuple[float, Lists]] = WeakKeyDictionary()
        self._listing = asyncio.Lock()

    async def list(self, chat: FlexChat, *, refresh: bool) -> Lists:
        """Return the models of each LLM, or why it does not list them; a minute old at most."""
        async with self._listing:
            cached = self._lists.get(chat)
            if refresh or cached is None or time.monotonic() - cached[0] > FRESH_S:
                cached = self._lists[chat] = time.monotonic(), await chat.list_models(timeout_s=LIST_S)
            return cached[1]


async def listed_models(serving: Serving, chat: FlexChat, *, refresh: bool = False) -> Lists:
    """Return the models of each LLM, or why it does not list them; a minute old at most."""
    return await serving.shared(ModelLists).list(chat, refresh=refresh)


def chosen_model(chat: FlexChat, model_id: str) -> tuple[str, str]:
    """Return service and model of "LLM/MODEL" or "LLM:MODEL", split at the first sign after a service (C14).

    A model without a service belongs to the only one there is.

    Raises:
        UnknownNameError: No configured service is meant.
    """
    services = chat.llms
    for service in sorted(services, key=len, reverse=True):
        rest = model_id.removeprefix(service)
        if rest != model_id and rest[:1] in ("/", ":") and rest[1:]:
            return service, rest[1:]
    if model_id in services and services[model_id].default_model:
        return model_id, services.resolve(model_id)[1]
    if len(services) == 1 and model_id:
        return next(iter(services)), model_id
    start = model_id.replace(":", "/").partition("/")[0]
    raise UnknownNameError(
        f"the model '{model_id[:200]}' names no LLM of the configuration{did_you_mean(start, services)}; write "
        f"LLM/MODEL (services: {', '.join(services) or 'none'})"
    )


def named_models(serving: Serving, chat: FlexChat) -> dict[str, tuple[str, str]]:
    """Return the models that rules, services and facts of plugins name: service and model by "LLM/MODEL"."""
    models: dict[str, tuple[str, str]] = {}

    def add(service: str, model: str | None) -> None:
        if service in chat.llms:
            model = chat.llms.resolve(service, model)[1]
            if model:
                models.setdefault(f"{service}/{model}", (service, model))

    for rule in chat.config.responses:
        add(rule.llm, rule.model)
    for service in chat.config.llms:
        add(service, None)
    for fact in serving.shared(ModelLists).facts:
        for model_id in fact.models(chat):
            add(*model_id.partition("/")[::2])
    return models


def _list_schema(facts: Sequence[ModelFact]) -> Schema:
    fields = {
        **dict.fromkeys(("id", "name", "llm", "model"), str),
        "capabilities": list[str],
        "context_length": int | None,
        "digest": str | None,
        "default": bool,
    }
    models = listed(record({**fields, **{fact.name: fact.schema for fact in facts}}))
    return record({"models": models, "errors": listed(record({"llm": str, "error": str}))})


operation = Operations("tools")


@operation(
    "GET",
    "/api/models/list",
    query={"refresh": {"type": "boolean", "default": False}},
    answer=_list_schema(()),
    problems=(503,),
)
async def list_models(call: Call, chat: FlexChat) -> Reply:
    """List the models of all LLMs and those named in the configuration; cached for up to a minute."""
    lists = await listed_models(call.serving, chat, refresh=call.query["refresh"])
    by_config = named_models(call.serving, chat)
    offered: dict[str, tuple[str, ModelInfo]] = {
        f"{llm}/{model.id}": (llm, model)
        for llm, models in lists.items()
        if not isinstance(models, ProviderError)
        for model in models
    }
    # One that a rule names may be tried even if its LLM lists none.
    for model_id, (llm, model) in by_config.items():
        offered.setdefault(model_id, (llm, ModelInfo(id=model)))
    facts = {fact.name: await fact.values(call, chat, [*offered]) for fact in call.serving.shared(ModelLists).facts}
    entries = [
        _entry(model_id, llm, model, default=model_id in by_config)
        | {name: values[model_id] for name, values in facts.items()}
        for model_id, (llm, model) in offered.items()
    ]
    errors = [
        {"llm": llm, "error": call.serving.mask(str(error))}
        for llm, error in lists.items()
        if isinstance(error, ProviderError)
    ]
    return Json({"models": entries, "errors": errors})


def _entry(model_id: str, llm: str, model: ModelInfo, *, default: bool) -> dict[str, Any]:
    capabilities = sorted(model.capabilities)
    may_call = "tools" in capabilities or not capabilities
    return {
        "id": model_id,
        "name": model.name or model.id,
        "llm": llm,
        "model": model.id,
        "capabilities": [*(["function-calling"] if may_call else []), *capabilities],
        "context_length": model.context_length,
        "digest": model.digest,
        "default": default,
    }


def with_facts(listing: Operation, facts: Sequence[ModelFact]) -> Operation:
    """Add the facts that plugins offer to the schema of the list of models."""
    return attrs.evolve(listing, answers={200: _list_schema(facts)})
