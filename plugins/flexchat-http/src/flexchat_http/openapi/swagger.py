"""Conversion of OpenAPI 2.0 documents ("Swagger") to 3.0, as far as calls need it. Definitions are not moved.

Source: the OpenAPI Specification, version 2.0, and 3.0.4 §4.7.12 (Parameter Object).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .reading import as_table

_METHODS = ("get", "head", "options", "put", "post", "patch", "delete")
_SCHEMA_KEYS = (
    *("type", "format", "items", "default", "enum", "pattern", "multipleOf", "maximum", "minimum", "maxLength"),
    *("exclusiveMaximum", "exclusiveMinimum", "minLength", "maxItems", "minItems", "uniqueItems"),
)
_STYLES: Mapping[str, Mapping[str, Any]] = {
    "csv": {"explode": False},
    "ssv": {"style": "spaceDelimited", "explode": False},
    "pipes": {"style": "pipeDelimited", "explode": False},
    "multi": {"explode": True},
}
_FLOWS = {"application": "clientCredentials", "accessCode": "authorizationCode"}
_FORM, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


def is_swagger(document: Mapping[str, Any]) -> bool:
    """Return True for a document of version 2.0."""
    return str(document.get("swagger")) in ("2.0", "2")


def as_openapi(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a 2.0 document as 3.0; what it does not understand stays for the reader to refuse."""
    converted = {key: value for key, value in document.items() if key != "swagger"}
    converted["openapi"] = "3.0.4"
    converted["servers"] = _servers(document)
    schemes = {name: _scheme(each) for name, each in as_table(document.get("securityDefinitions")).items()}
    converted["components"] = {**as_table(document.get("components")), "securitySchemes": schemes}
    paths = as_table(document.get("paths"))
    converted["paths"] = {
        path: _path_item(document, item) if isinstance(item, dict) else item for path, item in paths.items()
    }
    return converted


def _servers(document: Mapping[str, Any]) -> list[dict[str, str]]:
    base, host = document.get("basePath"), document.get("host")
    path = f"/{base.strip('/')}" if isinstance(base, str) else "/"
    if not isinstance(host, str) or not host:
        return [{"url": path}]
    schemes = [each for each in _list(document.get("schemes")) if each in ("http", "https")]
    scheme = "https" if "https" in schemes or not schemes else schemes[0]
    return [{"url": f"{scheme}://{host}{path}"}]


def _path_item(document: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    shared = [_resolve(document, each) for each in _list(item.get("parameters"))]
    converted = {key: value for key, value in item.items() if key != "parameters"}
    for method in _METHODS:
        operation = item.get(method)
        if isinstance(operation, dict):
            own = [_resolve(document, each) for each in _list(operation.get("parameters"))]
            names = [_place(each) for each in own]
            every = [*(each for each in shared if _place(each) not in names), *own]
            converted[method] = _operation(document, operation, every)
    return converted


def _place(parameter: Any) -> tuple[Any, Any]:
    if not isinstance(parameter, dict):
        return None, None
    return parameter.get("in"), None if parameter.get("in") == "body" else parameter.get("name")


def _operation(document: Mapping[str, Any], operation: Mapping[str, Any], parameters: Sequence[Any]) -> dict[str, Any]:
    converted = {key: value for key, value in operation.items() if key != "parameters"}
    in_body = [each for each in parameters if isinstance(each, dict) and each.get("in") in ("body", "formData")]
    converted["parameters"] = [_parameter(each) for each in parameters if each not in in_body]
    kinds = [each for each in _list(operation.get("consumes", document.get("consumes"))) if isinstance(each, str)]
    if (whole := next((each for each in in_body if each["in"] == "body"), None)) is not None:
        content = {kind: {"schema": whole.get("schema", {})} for kind in kinds or ["application/json"]}
        converted["requestBody"] = {**_about(whole), "required": whole.get("required") is True, "content": content}
    elif in_body:
        converted["requestBody"] = _form(in_body, kinds)
    return converted


def _form(fields: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> dict[str, Any]:
    has_file = any(each.get("type") == "file" for each in fields)
    kind = _MULTIPART if has_file or (_MULTIPART in kinds and _FORM not in kinds) else _FORM
    properties, encoding = {}, {}
    for each in fields:
        name = str(each.get("name"))
        properties[name] = {**_schema(each), **_about(each)}
        if each.get("type") == "array" and kind == _FORM:
            encoding[name] = {"style": "form", **_STYLES.get(str(each.get("collectionFormat", "csv")), {})}
    required = [str(each.get("name")) for each in fields if each.get("required") is True]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    entry = {"schema": schema, **({"encoding": encoding} if encoding else {})}
    return {"required": bool(required), "content": {kind: entry}}


def _parameter(item: Any) -> Any:
    if not isinstance(item, dict) or "$ref" in item or "schema" in item:
        return item
    parameter = {key: value for key, value in item.items() if key not in _SCHEMA_KEYS and key != "collectionFormat"}
    parameter["schema"] = _schema(item)
    if item.get("type") == "array":
        style = _STYLES.get(str(item.get("collectionFormat", "csv")), _STYLES["csv"])
        parameter |= style if item.get("in") == "query" else {}
    return parameter


def _schema(item: Mapping[str, Any]) -> dict[str, Any]:
    if item.get("type") == "file":
        return {"type": "string", "format": "binary"}
    schema = {key: item[key] for key in _SCHEMA_KEYS if key in item}
    if item.get("x-nullable") is True:
        schema["nullable"] = True
    return schema


def _about(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": item["description"]} if isinstance(item.get("description"), str) else {}


def _scheme(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    if item.get("type") == "basic":
        return {"type": "http", "scheme": "basic"}
    if item.get("type") == "oauth2":
        name = str(item.get("flow"))
        flow = {key: item[key] for key in ("tokenUrl", "authorizationUrl", "scopes") if key in item}
        return {"type": "oauth2", "flows": {_FLOWS.get(name, name): flow}}
    return item


def _resolve(document: Mapping[str, Any], item: Any) -> Any:
    """Resolve a reference to a parameter in the same document; other values are returned unchanged."""
    reference = item.get("$ref") if isinstance(item, dict) else None
    if not isinstance(reference, str) or not reference.startswith("#/parameters/"):
        return item
    name = reference.removeprefix("#/parameters/").replace("~1", "/").replace("~0", "~")
    return as_table(document.get("parameters")).get(name, item)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
