"""The OpenAPI document, built from the operations. Source: OpenAPI Specification 3.1.1."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

import flexchat

from .operations import Call, Json, Operation, Reply
from .shapes import NULLABLE_TEXT, STREAM_EVENTS, TEXT, Schema, listed, record

PROBLEM: Schema = {
    **record(
        {
            "type": {**TEXT, "description": "Distinguishes this problem from others with the same status."},
            "title": TEXT,
            "status": {"type": "integer"},
            "detail": {**TEXT, "description": "The problem, and its remedy."},
            "error": {**TEXT, "description": "The same as detail."},
        },
        problems=listed(record({"path": TEXT, "text": TEXT}, line={"type": ["integer", "null"]})),
    ),
    "description": "A problem (RFC 9457).",
}
OPENAI_ERROR = record({"error": record({"message": TEXT, "type": TEXT, "param": NULLABLE_TEXT, "code": NULLABLE_TEXT})})
TAGS = {
    "chat": "Ask the six phases.",
    "media": "Files of messages and of tools' results.",
    "conversations": "Kept conversations.",
    "turns": "Turns: those that run, and those of kept conversations.",
    "effects": "Changes that tools have made.",
    "tools": "The tools, and testing models with them.",
    "validation": "Which models really call tools.",
    "configuration": "The configuration's file.",
    "openai": "OpenAI's API for this configuration.",
    "server": "The server itself.",
}

_ALWAYS = (400, 405, 408, 413, 421, 403, 500)
_UPLOADS: Mapping[str, Schema] = {
    "application/octet-stream": {"type": "string", "format": "binary"},
    "multipart/form-data": {
        "type": "object",
        "properties": {"prompt": TEXT, "file": {"type": "string", "format": "binary"}},
        "additionalProperties": False,
        "description": "Also the other fields of the JSON body, those that are not texts as JSON, and more files.",
    },
}
_PARAMETER = re.compile(r"\{([a-z_]+)(?::path)?\}")


def openapi_operation(operations: Callable[[], Iterable[Operation]]) -> Operation:
    """Return the operation that shows the document."""

    async def handle(call: Call) -> Reply:
        return Json(document(operations(), base=call.base, token=call.serving.authentication.is_required))

    return Operation(
        method="GET",
        path="/openapi.json",
        name="openapi",
        summary="This document.",
        tag="server",
        handle=handle,
        answers={200: {"type": "object"}},
        open=True,
    )


def document(operations: Iterable[Operation], *, base: str = "", token: bool = False) -> dict[str, Any]:
    """Return the OpenAPI document.

    Args:
        base: Path under which the application is mounted.
        token: Whether the server asks for a token.
    """
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = _PARAMETER.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, token=token)
    components: dict[str, Any] = {"schemas": {"Problem": PROBLEM, "OpenAIError": OPENAI_ERROR}}
    if token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "FlexChat",
            "version": flexchat.__version__,
            "description": "Chat with tool calling, assembled from plugins and described in a config file.",
        },
        "servers": [{"url": base or "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": components,
    }


def _parameter(name: str, place: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": dict(schema)}


def _operation(operation: Operation, *, token: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary, "tags": [operation.tag]}
    parameters = [_parameter(name, "path", {**TEXT, "minLength": 1}) for name in _PARAMETER.findall(operation.path)]
    parameters += [_parameter(name, "query", schema) for name, schema in operation.query.items()]
    if operation.resumes:
        number = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}
        parameters.append(_parameter("Last-Event-ID", "header", number))
    if operation.takes_key:
        text = (
            "Chosen by the client, a new one for each request. For 24 hours, the same request with the same key gets "
            "the answer of the first, and nothing is done twice. Such an answer has the header Idempotent-Replayed."
        )
        key = {"type": "string", "pattern": "^[!-~]([ -~]{0,253}[!-~])?$"}
        parameters.append({**_parameter("Idempotency-Key", "header", key), "description": text})
    if parameters:
        document["parameters"] = parameters
    if operation.takes_body:
        schemas = {media: _UPLOADS.get(media, {}) for media in operation.uploads if media != "*/*"}
        if operation.body is not None:
            schemas = {"application/json": operation.body, **schemas}
        content = {media: {"schema": dict(schema)} for media, schema in schemas.items()}
        document["requestBody"] = {"required": operation.body_required, "content": content}
    document["responses"] = {str(status): answer for status, answer in sorted(_answers(operation, token=token).items())}
    if token and not operation.open:
        document["security"] = [{"token": []}]
    return document


def _answers(operation: Operation, *, token: bool) -> dict[int, Any]:
    statuses = {*_ALWAYS, *operation.problems}
    if operation.takes_body:
        statuses |= {415, 503}
    if operation.takes_key:
        statuses |= {409, 410, 422}
    if token and not operation.open:
        statuses.add(401)
    if "{" in operation.path:
        statuses.add(404)
    schema = "OpenAIError" if operation.openai_errors else "Problem"
    media = "application/json" if operation.openai_errors else "application/problem+json"
    answers: dict[int, Any] = {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {media: {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
        }
        for status in statuses
    }
    for status, answer in operation.answers.items():
        content = {**answers.get(status, {}).get("content", {}), **_content(operation, status, answer)}
        answers[status] = {"description": HTTPStatus(status).phrase, **({"content": content} if content else {})}
        if operation.links and status < 300:
            answers[status]["links"] = {name: dict(link) for name, link in operation.links.items()}
    return answers


def _content(operation: Operation, status: int, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if schema is not None:
        content["application/json"] = {"schema": dict(schema)}
    elif status != 204 and not operation.streams:
        for media in operation.media:
            is_data = media.endswith(("json", "yaml"))
            content[media] = {"schema": {} if is_data else {"type": "string"}}
    if operation.streams and status == 200:
        content["text/event-stream"] = {"schema": _events(operation)}
    return content


def _events(operation: Operation) -> Schema:
    """Return the schema of one event of a stream: that of its data under its name, where they are a turn's."""
    text = "Server-sent events, their data JSON."
    if operation.tag == "openai" or not operation.path.startswith(("/chat/", "/api/turns/")):
        return {"description": text}
    kinds = [
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "event": {"const": name}, "data": dict(data)},
            "required": ["event", "data"],
        }
        for name, data in STREAM_EVENTS.items()
    ]
    return {"description": text, "anyOf": kinds}
