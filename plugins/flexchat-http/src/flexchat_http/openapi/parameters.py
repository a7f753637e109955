"""An operation's parameters and body as one object of arguments.

Source: OpenAPI 3.1.1 §4.8.12 (Parameter Object), §4.8.13 to §4.8.15 (Request Body, Media Type and Encoding Objects).
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from ..request import HEADER_NAME
from .library import Library
from .plan import Body, Encoding, Parameter, Place
from .reading import Unusable, as_table
from .schemas import MAX_DESCRIPTION, Schemas, shorten
from .security import Scheme

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
    if (chosen := _choose_media(request_body.get("content"))) is None:
        if required:
            raise Unusable("its body has no media type")
        return None
    media, kind = chosen
    entry, base, _ = library.follow(request_body["content"][media], base)
    entry = as_table(entry)
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
    names = [name for name in as_table(content) if isinstance(name, str) and _MEDIA.fullmatch(name)]
    for pattern, kind in _KINDS:
        for name in names:
            if re.fullmatch(pattern, name.partition(";")[0].strip().lower()):
                return name, kind
    return None


def _whole(body: Body, schema: Any, about: Any) -> BodyParts:
    """Return a body that is one argument."""
    schema = as_table(schema)
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
    for name, entry in as_table(rules).items():
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


PLACES: tuple[Place, ...] = ("path", "query", "header", "cookie")
MAX_ARGUMENTS = 3_000  # more do not fit into a tool's schema
_OURS = re.compile(
    r"accept|content-type|authorization|host|connection|content-length|transfer-encoding|te|trailer|upgrade|cookie|"
    r"expect|keep-alive|proxy-.*|x-forwarded-.*",
    re.IGNORECASE,
)
"""Headers that are not the model's to choose; the first three: OpenAPI 3.1.1 §4.8.12.1."""
_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}


@attrs.frozen(kw_only=True)
class Arguments:
    """The arguments of an operation.

    Attributes:
        schema: An object schema whose references point to the document's definitions.
        parameters: Destinations of the arguments outside the body.
        body: The body with the names of its arguments; None for none.
        demanded: Location and name of required parameters that are credentials rather than arguments.
    """

    schema: dict[str, Any]
    parameters: list[Parameter]
    body: Body | None
    demanded: set[tuple[str, str]]


@attrs.define(kw_only=True)
class _Wanted:
    """An argument that has no name yet."""

    name: str
    place: str
    schema: dict[str, Any]
    required: bool
    parameter: Parameter | None = None


def arguments_of(
    levels: list[Any],
    base: str,
    path: str,
    body: BodyParts | None,
    security: list[list[Scheme]],
    library: Library,
    schemas: Schemas,
) -> Arguments:
    """Return the arguments of an operation.

    Args:
        levels: The ``parameters`` of the path and of the operation, which replace those of the path.
        security: A credential that is also listed as a parameter is not an argument: the settings have it.

    Raises:
        Unusable: A parameter cannot be sent.
    """
    by_key: dict[tuple[str, str], _Wanted] = {}
    for level in levels:
        for each in level if isinstance(level, list) else ():
            if (source := _read_parameter(each, base, library, schemas)) is not None:
                by_key[source.place, source.name] = source
    in_path = re.findall(r"\{([^{}]*)\}", path)
    credentials = {(each["place"], each["key"]) for some in security for each in some if each.get("type") == "key"}
    sources = [
        source
        for key, source in by_key.items()
        if key not in credentials and (source.place != "path" or source.name in in_path)
    ]
    for name in dict.fromkeys(in_path):
        if ("path", name) not in by_key:  # the document forgot it
            sources.append(_Wanted(name=name, place="path", schema={"type": "string", "minLength": 1}, required=True))
            sources[-1].parameter = {"name": name, "place": "path"}
    if len(sources) + (len(body.schemas) if body is not None else 0) > MAX_ARGUMENTS:
        raise Unusable(f"it has more than {MAX_ARGUMENTS:,} parameters")
    sources.sort(key=lambda source: PLACES.index(source.place))
    demanded = {key for key, source in by_key.items() if key in credentials and source.required}
    return _name_arguments(sources, body, demanded)


def _read_parameter(item: Any, base: str, library: Library, schemas: Schemas) -> _Wanted | None:
    item, base, _ = library.follow(item, base)
    if not isinstance(item, dict):
        return None
    name, place = item.get("name"), item.get("in")
    if not isinstance(name, str) or not name or place not in PLACES:
        return None
    if place == "header" and _OURS.fullmatch(name):
        return None
    if place in ("header", "cookie") and not HEADER_NAME.fullmatch(name):
        raise Unusable(f"its {place} parameter '{name[:80]}' has a name that cannot be sent")
    parameter: Parameter = {"name": name, "place": place}
    schema = _schema(item, base, library, schemas, parameter)
    about = item.get("description")
    if isinstance(about, str) and about.strip():
        schema = {**schema, "description": shorten(about, MAX_DESCRIPTION)}
    if required := item.get("required") is True or place == "path":
        schema = schemas.not_empty(schema, texts=place == "path")
    return _Wanted(name=name, place=place, schema=schema, required=required, parameter=parameter)


def _schema(item: dict[str, Any], base: str, library: Library, schemas: Schemas, parameter: Parameter) -> Any:
    """Return a parameter's schema; how it is sent is added to the parameter."""
    content = item.get("content")
    if isinstance(content, dict) and content:
        media = next(iter(content))
        entry, base, _ = library.follow(content[media], base)
        parameter["content"] = str(media)
        return as_table(schemas.translate(as_table(entry).get("schema", {}), base))
    place = parameter["place"]
    style = item.get("style")
    if style in _STYLES[place] and style != _STYLES[place][0]:
        parameter["style"] = style
    style = parameter.get("style", _STYLES[place][0])
    explode = item.get("explode")
    if isinstance(explode, bool) and explode != (style == "form"):
        parameter["explode"] = explode
    if item.get("allowReserved") is True and place == "query":
        parameter["allow_reserved"] = True
    return as_table(schemas.translate(item.get("schema", {}), base))


def _name_arguments(sources: list[_Wanted], parts: BodyParts | None, demanded: set[tuple[str, str]]) -> Arguments:
    """Name each argument, with its own name if that is free and valid for providers; path first, body last."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    parameters: list[Parameter] = []
    for source in sources:
        name = _free(source.name, source.place, properties)
        properties[name] = source.schema
        if source.required:
            required.append(name)
        if source.parameter is not None:
            parameters.append({"argument": name, **source.parameter})
    body = _name_body(parts, properties, required) if parts is not None else None
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return Arguments(schema=schema, parameters=parameters, body=body, demanded=demanded)


def _name_body(parts: BodyParts, properties: dict[str, Any], required: list[str]) -> Body:
    body = parts.body
    names: dict[str, str] = {}
    for inner, schema in parts.schemas.items():
        name = _free(inner or "body", "body", properties)
        properties[name] = schema
        names[name] = inner
        if inner in parts.required:
            required.append(name)
    if "" in parts.schemas and "argument" in body:
        body["argument"] = next(iter(names))
    else:
        body["properties"] = names
    return body


def _free(name: str, place: str, arguments: dict[str, Any]) -> str:
    """Return a free name that providers take: 1 to 64 letters, digits, _, . and -."""
    legal = re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name)
    base = name if legal else re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:56] or place
    if base not in arguments:
        return base
    base = f"{base[:48]}_{place}"
    candidate, count = base, 1
    while candidate in arguments:
        count += 1
        candidate = f"{base}_{count}"
    return candidate
