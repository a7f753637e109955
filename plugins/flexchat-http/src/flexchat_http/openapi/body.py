"""Which body a request has.

Source: OpenAPI 3.1.1 §4.8.13 to §4.8.15 (Request Body, Media Type and Encoding Objects).
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from .errors import Unusable
from .library import Library
from .plan import Body, Encoding
from .schemas import Schemas

_KINDS: tuple[tuple[str, str], ...] = (
    (r"application/json", "json"),
    (r"application/[^;]*\+json|text/json|application/json-.*", "json"),
    (r"application/json.*", "json"),
    (r"application/x-www-form-urlencoded", "form"),
    (r"multipart/form-data", "multipart"),
    (r"\*/\*|application/\*", "json"),
    (r"text/plain", "text"),
    (r"text/.*|application/([^;]*\+)?xml|application/(x-)?(yaml|ndjson|jwt|graphql|sql.*)|.*\+(yaml|json-seq)", "text"),
    (r".*", "bytes"),
)
"""What is preferred comes first."""
_CONCRETE = {"*/*": "application/json", "application/*": "application/json", "application/*+json": "application/json",
             "text/*": "text/plain"}  # fmt: skip
_MEDIA = re.compile(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+(\s*;\s*[\w.-]+=(\"[^\"\r\n]*\"|[\w.:+/-]+))*\s*", re.ASCII)
_MAX_LISTS = 20
_PLAIN = {"type", "properties", "required", "description", "additionalProperties", "default"}


@attrs.frozen(kw_only=True)
class BodyParts:
    """A body, before its arguments have names.

    Attributes:
        schemas: The schema of each property of the body that becomes an argument; of "" for the whole.
        required: Those that calls must have.
    """

    body: Body
    schemas: dict[str, Any]
    required: frozenset[str]


def body_of(request_body: Any, base: str, library: Library, schemas: Schemas) -> BodyParts | None:
    """Convert an operation's body; None if it has none.

    Raises:
        Unusable: The body is required, but the document does not describe it.
    """
    request_body, base, _ = library.follow(request_body, base)
    if not isinstance(request_body, dict):
        return None
    required = request_body.get("required") is True
    chosen = _choose_media(request_body.get("content"))
    if chosen is None:
        if required:
            raise Unusable("its body has no media type")
        return None
    media, kind = chosen
    entry, base, _ = library.follow(request_body["content"][media], base)
    entry = entry if isinstance(entry, dict) else {}
    schema = schemas.translate(entry.get("schema", {}), base)
    body: Body = {"media": _CONCRETE.get(media.lower(), media.strip()), "kind": kind, "required": required}
    about = request_body.get("description")
    if kind in ("text", "bytes"):
        return _whole(body, _as_text(schema, kind, media), about)
    plain = _plain(schema, schemas)
    if kind in ("form", "multipart"):
        if plain is None and (target := _target(schema, schemas)) is not None and target.get("properties"):
            plain = target
        if plain is not None:
            _add_encoding(body, entry.get("encoding"), plain.get("properties", {}), schemas)
    if plain is None or (not required and plain.get("required")) or not plain.get("properties"):
        return _whole(body, schema, about)
    properties, needed = dict(plain["properties"]), frozenset(plain.get("required", ())) & plain["properties"].keys()
    if kind != "json":
        properties |= {name: schemas.not_empty(properties[name], texts=False) for name in needed}
    return BodyParts(body=body, schemas=properties, required=needed)


def _choose_media(content: Any) -> tuple[str, Any] | None:
    names = [name for name in content if isinstance(name, str)] if isinstance(content, dict) else []
    names = [name for name in names if _MEDIA.fullmatch(name)]
    for pattern, kind in _KINDS:
        for name in names:
            if re.fullmatch(pattern, name.partition(";")[0].strip().lower()):
                return name, kind
    return None


def _whole(body: Body, schema: Any, about: Any) -> BodyParts:
    """Return a body that is one argument."""
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(about, str) and about.strip() and "description" not in schema:
        schema = {**schema, "description": about.strip()[:500]}
    body["argument"] = ""
    return BodyParts(body=body, schemas={"": schema}, required=frozenset([""] if body["required"] else ()))


def _as_text(schema: Any, kind: str, media: str) -> dict[str, Any]:
    keywords = {"description"} if kind == "bytes" else {"description", "minLength", "maxLength", "pattern", "enum"}
    is_text = isinstance(schema, dict) and schema.get("type") == "string"
    text_schema = {key: value for key, value in schema.items() if key in keywords} if is_text else {}
    if kind == "bytes":
        return {"type": "string", "contentEncoding": "base64", **text_schema}
    name = media.partition(";")[0].strip()
    about = f"{text_schema.pop('description', '')} (as {name})".strip() if name != "text/plain" else ""
    return {"type": "string", **text_schema, **({"description": about} if about else {})}


def _plain(schema: Any, schemas: Schemas) -> dict[str, Any] | None:
    """Return a schema whose properties may become arguments: an object with nothing but properties."""
    target = _target(schema, schemas)
    if target is None or target.get("type", "object") != "object" or not target.keys() <= _PLAIN:
        return None
    properties = target.get("properties")
    if not properties or "" in properties or target.get("additionalProperties", False) is not False:
        return None
    return target if properties.keys() >= set(target.get("required", ())) else None


def _target(schema: Any, schemas: Schemas) -> dict[str, Any] | None:
    for _ in range(30):
        if not isinstance(schema, dict) or schema.keys() - {"$ref", "description"} or "$ref" not in schema:
            break
        name = schema["$ref"].removeprefix("#/$defs/")
        if name in schemas.broken:
            raise Unusable(schemas.broken[name])
        schema = schemas.definitions[name]
    return schema if isinstance(schema, dict) else None


def _add_encoding(body: Body, rules: Any, properties: dict[str, Any], schemas: Schemas) -> None:
    """Say how each property of a form goes, where it is not as its kind has it."""
    encoding: dict[str, Encoding] = {}
    rules = rules if isinstance(rules, dict) else {}
    for name, entry in rules.items():
        if isinstance(entry, dict) and name in properties:
            rule: Encoding = {}
            content = entry.get("contentType")
            if isinstance(content, str) and _MEDIA.fullmatch(first := content.partition(",")[0].strip()):
                rule["content"] = _CONCRETE.get(first, first)
            if isinstance(entry.get("style"), str):
                rule["style"] = entry["style"]
            if isinstance(entry.get("explode"), bool):
                rule["explode"] = entry["explode"]
            if entry.get("allowReserved") is True:
                rule["allow_reserved"] = True
            if rule:
                encoding[name] = rule
    if encoding:
        body["encoding"] = encoding
    if body["kind"] == "multipart":
        files = [name for name, schema in properties.items() if _is_binary(_target(schema, schemas), schemas)]
        if files:
            body["files"] = files


def _is_binary(schema: dict[str, Any] | None, schemas: Schemas) -> bool:
    for _ in range(_MAX_LISTS):  # a list may be one of itself
        if schema is None or schema.get("type") != "array":
            break
        schema = _target(schema.get("items"), schemas)
    if schema is None:
        return False
    return schema.get("format") == "binary" or ("contentMediaType" in schema and "contentEncoding" not in schema)
