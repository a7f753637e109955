"""Operations on connections: list the kinds, and test one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import Any, Literal

import attrs
from flexchat import ConfigError, FlexChatError, ModelInfo, host
from flexchat.host import LLMEntry, StoreEntry
from flexchat.store import DocumentStoreContext
from flexchat_cli import config_schema
from flexchat_sdk import ChatProvider

from ..operations import Call, Json, Operations, Reply
from ..problems import ApiError
from ..shapes import body_schema, listed
from .permitted import refused
from .secrets import MASKED

TEST_SECONDS = 10.0

Kind = Literal["llm", "rag"]
_SECTIONS = {"llm": "llms", "rag": "stores"}


_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_CONFIG = {"type": "object", "description": "The entry's settings, as in the configuration."}
_ROBOT = {"provider": "rehearsal", "config": {}}
_LISTED = listed(body_schema(dict.fromkeys(("name", "summary", "package"), str)))
_RESULT = body_schema(
    {"success": bool, "message": str, "elapsed_ms": {"type": "integer"}}, models=int, collections=int, error=str
)
_MODEL = body_schema({"id": str, "name": str, "capabilities": list[str], "context_length": int | None})
_MODELS = body_schema({"provider": str, "count": {"type": "integer"}, "models": listed(_MODEL)})


operation = Operations("configuration")


@operation(
    "GET",
    "/api/connections/providers",
    name="listProviders",
    answer=body_schema({"llm": _LISTED, "rag": _LISTED}),
)
async def providers(call: Call) -> Reply:
    """List the installed kinds of LLM and document store."""
    return Json({"llm": _kinds(call, "llm"), "rag": _kinds(call, "rag")})


@operation(
    "GET",
    "/api/connections/providers/{name}/schema",
    name="getProviderSchema",
    query={"type": {"type": "string", "enum": ["llm", "rag"], "default": "llm"}},
    answer={"type": "object"},
)
async def provider_schema(call: Call) -> Reply:
    """Return the JSON Schema of a kind's settings."""
    kind: Kind = call.query["type"]
    kind_record = _type_of(call, kind, call.path["name"])
    whole = config_schema(call.serving.plugins)
    entry = whole["$defs"]["LLMEntry" if kind == "llm" else "StoreEntry"]
    branch = next(b["then"] for b in entry["allOf"] if b["if"]["properties"]["provider"]["const"] == call.path["name"])
    secret = {field.name for field in attrs.fields(kind_record.config_class) if field.metadata.get("secret")}
    properties = {
        name: {**field_schema, "format": "password", "writeOnly": True} if name in secret else field_schema
        for name, field_schema in branch["properties"].items()
    }
    required = [*dict.fromkeys(["provider", *branch.get("required", ())])]
    return Json({**branch, "type": "object", "properties": properties, "required": required, "$defs": whole["$defs"]})


@operation(
    "POST",
    "/api/connections/test",
    name="testConnection",
    body={
        "anyOf": [
            body_schema({"name": _NAME}),
            body_schema({"type": {"enum": ["llm", "rag"]}, "provider": _NAME}, config=_CONFIG),
        ],
        "examples": [{"type": "llm", **_ROBOT}],
    },
    answers={200: _RESULT, 400: _RESULT},
    problems=(404, 422),
)
async def test(call: Call) -> Reply:
    """List the models or collections of an LLM or store, from the configuration or described in the body."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(TEST_SECONDS):
            outcome = await _tested(call)
    except TimeoutError:
        outcome = {"success": False, "message": f"no answer within {TEST_SECONDS:g} seconds"}
    except (FlexChatError, OSError) as error:
        outcome = {"success": False, "message": _masked(call, str(error))}
    outcome["elapsed_ms"] = round((time.monotonic() - began) * 1000)
    if not outcome["success"]:
        outcome["error"] = outcome["message"]
    return Json(outcome, status=200 if outcome["success"] else 400)


@operation(
    "POST",
    "/api/connections/providers/{name}/models",
    name="listProviderModels",
    body=body_schema({}, config=_CONFIG),
    answer=_MODELS,
    problems=(422,),
    edits=True,
)
async def provider_models(call: Call) -> Reply:
    """List the models of an LLM described in the body."""
    return await _models(call, call.path["name"])


@operation(
    "POST",
    "/api/connections/llm/discovery/models",
    name="discoverModels",
    body={**body_schema({"provider": _NAME}, config=_CONFIG), "examples": [_ROBOT]},
    answer=_MODELS,
    problems=(404, 422),
    edits=True,
)
async def discovered_models(call: Call) -> Reply:
    """List the models of an LLM described in the body; the path of the Node original."""
    return await _models(call, call.body["provider"])


async def _models(call: Call, name: str) -> Reply:
    try:
        async with asyncio.timeout(TEST_SECONDS):
            models = await _models_of(_opened(call, "llm", name, call.body.get("config", {})))
    except TimeoutError:
        raise ApiError(400, f"{name} did not answer within {TEST_SECONDS:g} seconds") from None
    except (FlexChatError, OSError) as error:
        raise ApiError(400, _masked(call, str(error))) from None
    described = [
        {
            "id": model.id,
            "name": model.name or model.id,
            "capabilities": sorted(model.capabilities),
            "context_length": model.context_length,
        }
        for model in models
    ]
    return Json({"provider": name, "count": len(described), "models": described})


async def _tested(call: Call) -> dict[str, Any]:
    body = call.body
    if "name" in body:
        return await _tested_by_name(call, body["name"])
    if not call.may_edit:
        raise ApiError(403, "this server only tests connections that are in the configuration", kind="edit")
    opened = _opened(call, body["type"], body["provider"], body.get("config", {}))
    if body["type"] == "llm":
        return _success(await _models_of(opened), "model")
    async with contextlib.aclosing(opened):
        return _success(await opened.collections(), "collection")


async def _tested_by_name(call: Call, name: str) -> dict[str, Any]:
    async with call.serving.chat() as chat:
        if name in chat.stores:
            return _success(await chat.stores[name].collections(), "collection")
        if name not in chat.config.llms:
            names = ", ".join([*chat.config.llms, *chat.stores])
            raise ApiError(404, f"the configuration has no LLM or store called {name[:80]!r} (there is {names})")
        answer = (await chat.list_models())[name]
    if isinstance(answer, FlexChatError):
        raise answer
    return _success(answer, "model")


def _success(items: Sized, noun: str) -> dict[str, Any]:
    return {"success": True, "message": f"connected: {host.counted(len(items), noun)}", f"{noun}s": len(items)}


async def _models_of(provider: ChatProvider) -> tuple[ModelInfo, ...]:
    async with contextlib.aclosing(provider):
        return tuple(await provider.list_models())


def _opened(call: Call, kind: Kind, name: str, config: Mapping[str, Any]) -> Any:
    """Return a provider or document store made from settings in a request.

    Raises:
        ApiError: 404: no such kind; 422: the settings do not fit it, or may not come with a request.
    """
    kind_record = _type_of(call, kind, name)
    entry = {**_expanded(call, kind, name, config), "provider": name}
    own = host.own_keys(LLMEntry if kind == "llm" else StoreEntry)
    fields = {field.name for field in attrs.fields(kind_record.config_class)}
    settings = {key: value for key, value in entry.items() if key not in own - (fields - {"provider"})}
    config_object, problems = host.structure_mapping(settings, kind_record.config_class)
    if problems:
        raise ApiError(422, _masked(call, "; ".join(problems)))
    source = call.serving.source
    context = DocumentStoreContext(folder=source.parent if isinstance(source, Path) else None)
    try:
        return kind_record.create(config_object) if kind == "llm" else kind_record.create(config_object, context)
    except (FlexChatError, TypeError, ValueError) as error:
        raise ApiError(422, _masked(call, str(error))) from None


def _expanded(call: Call, kind: Kind, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the environment variables that the operator allows.

    Raises:
        ApiError: 422: they hold a mask, another variable, or a file's place.
    """
    section, allowed = _SECTIONS[kind], call.serving.settings.allow_env
    try:
        posted = host.document_of({section: {"tested": {**config, "provider": name}}})
    except ConfigError as error:
        raise ApiError(422, error.problems[0].text, flaws=error.problems) from None
    problems = [*posted.problems, *refused(posted, {}, allow_env=allowed, expanded={})]
    if any(value == MASKED for value in config.values()):
        raise ApiError(422, f"{MASKED} hides the secret: write it again, or test the saved connection by its name")
    if problems:
        raise ApiError(422, f"{problems[0].path}: {problems[0].text}", flaws=problems)
    expanded = host.expand_variables(posted, lambda name: host.variable_value(name) if name in allowed else None)
    if expanded.problems:
        raise ApiError(422, expanded.problems[0].text, flaws=expanded.problems)
    settings: dict[str, Any] = expanded.document.data[section]["tested"]
    return settings


def _masked(call: Call, text: str) -> str:
    """Return a text without the secrets of the configuration, of the environment, and of the request."""
    posted = [value for value in (call.body or {}).get("config", {}).values() if isinstance(value, str)]
    secrets = [value for value in posted if len(value) >= 12 and "://" not in value]
    return host.Mask([*secrets, *host.secrets_of_environment()])(call.serving.mask(text))


def _records(call: Call, kind: Kind) -> Any:
    return call.serving.plugins.providers if kind == "llm" else call.serving.plugins.document_stores


def _kinds(call: Call, kind: Kind) -> list[dict[str, Any]]:
    records = _records(call, kind)
    return [
        {"name": name, "summary": records.by_name[name].summary, "package": records.package(name)}
        for name in sorted(records.by_name)
    ]


def _type_of(call: Call, kind: Kind, name: str) -> Any:
    records = _records(call, kind)
    if name not in records.by_name:
        raise ApiError(404, records.missing(name[:80]))
    return records.by_name[name]
