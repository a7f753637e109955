"""An operation's parameters and body as one object of arguments.

Source: OpenAPI 3.1.1 §4.8.12 (Parameter Object).
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from ..headers import HEADER_NAME
from .body import BodyParts
from .errors import Unusable
from .library import Library
from .plan import Body, Parameter, Place
from .schemas import MAX_DESCRIPTION, Schemas, shorten
from .security import Scheme

PLACES: tuple[Place, ...] = ("path", "query", "header", "cookie")
MAX_ARGUMENTS = 3_000
"""More do not fit into a tool's schema."""
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
            source = _read_parameter(each, base, library, schemas)
            if source is not None:
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
    required = item.get("required") is True or place == "path"
    if required:
        schema = schemas.not_empty(schema, texts=place == "path")
    return _Wanted(name=name, place=place, schema=schema, required=required, parameter=parameter)


def _schema(item: dict[str, Any], base: str, library: Library, schemas: Schemas, parameter: Parameter) -> Any:
    """Return a parameter's schema; how it is sent is added to the parameter."""
    content = item.get("content")
    if isinstance(content, dict) and content:
        media = next(iter(content))
        entry, base, _ = library.follow(content[media], base)
        parameter["content"] = str(media)
        schema = schemas.translate(entry.get("schema", {}) if isinstance(entry, dict) else {}, base)
        return schema if isinstance(schema, dict) else {}
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
    schema = schemas.translate(item.get("schema", {}), base)
    return schema if isinstance(schema, dict) else {}


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
