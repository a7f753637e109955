"""The implementation type "http": a tool that is one request to a service."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit

import attrs
from flexchat.host import SchemaEngine, UncheckedError, limited_work, schema_problems, sentence
from flexchat.plugin import Fetched, FetchError, FetchRequest, ToolContext, ToolDefinition, ToolError, ToolHandler

from .answer import path_problem, pick, value_of
from .request import SECRET_HEADER, build_request, destination_of, headers_problem, name_problem, place_of
from .sending import Sending, auth_problem
from .settings import PLACEHOLDER, PLACES, HttpToolSettings, Paging


async def run(settings: HttpToolSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    """Send the request of a call and decode the response.

    Raises:
        ToolError: The arguments cannot be sent, or the response is unusable.
        FetchError: There was no response, or its status is an error.
    """
    request = build_request(settings, params)
    sending = Sending(
        auth=settings.auth,
        key_header=settings.idempotency_header,
        traceparent=settings.traceparent,
        max_bytes=settings.max_bytes,
        secrets=tuple(text for name, text in settings.headers.items() if SECRET_HEADER.search(name)),
    )
    if settings.paging is not None:
        return _fitting(settings, await _all_pages(settings, request, sending, context), context)
    answer = await sending.send(request, context)
    is_write = context.tool.effect == "write"
    value = pick(value_of(answer, reading=settings.result, is_write=is_write), settings.response_path)
    return _fitting(settings, value, context)


async def _all_pages(settings: HttpToolSettings, request: Any, sending: Sending, context: ToolContext) -> Any:
    """Read up to max_pages pages and merge them into {"items", "has_more"}."""
    assert settings.paging is not None
    items: list[Any] = []
    page, size, visited = request, 0, {request.url}
    for _ in range(settings.paging.max_pages):
        answer = await sending.send(page, context)
        size += len(answer.body)
        data = value_of(answer, reading=settings.result)
        picked_items = pick(data, settings.response_path)
        items += picked_items if isinstance(picked_items, list) else [] if picked_items is None else [picked_items]
        if (following := next_page(settings.paging, request, answer, data)) is None:
            return {"items": items, "has_more": False}
        if following.url in visited:
            why = "the service names a page again that has been read; whether there are more is unknown"
            return {"items": items, "has_more": True, "stopped": why}
        visited.add(following.url)
        page = following
        if size > settings.max_bytes:
            break
    return {"items": items, "has_more": True}


def _fitting(settings: HttpToolSettings, value: Any, context: ToolContext) -> Any:
    """Validate a result against the output schema and return it.

    Raises:
        FetchError: The result is invalid; a write has taken effect nevertheless.
    """
    if settings.output_schema is None:
        return value
    if not settings.engines:
        settings.engines.append(SchemaEngine(settings.output_schema))
    engine = settings.engines[0]
    try:
        with limited_work():
            errors = engine.errors(value)
    except UncheckedError as error:
        wrong = f"it holds {error}"
    else:
        if not errors:
            return value
        wrong = sentence(errors[0])[:300]
    text = f"the service's answer does not fit the tool's output_schema: {wrong}"
    raise FetchError(text, may_have_arrived=context.tool.effect == "write")


def check(
    settings: HttpToolSettings, tool: ToolDefinition, handlers: Mapping[tuple[str, str], ToolHandler]
) -> str | None:
    """Validate a tool's settings; return the first error, or None."""
    problems = (
        _url_problem(settings, tool),
        headers_problem(settings.headers, settings.idempotency_header),
        _mapping_problem(settings, tool),
        _collision(settings, tool),
        settings.auth and auth_problem(settings.auth),
        settings.response_path and (problem := path_problem(settings.response_path)) and f"response_path: {problem}",
        _paging_problem(settings),
        settings.output_schema
        and next((f"output_schema: {each}" for each in schema_problems(settings.output_schema)), None),
    )
    return next((str(problem) for problem in problems if problem), None)


def _url_problem(settings: HttpToolSettings, tool: ToolDefinition) -> str | None:
    try:
        parts = urlsplit(settings.url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"url cannot be read: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return "url must start with http:// or https:// and a host"
    if "@" in parts.netloc:
        return "url must not contain a user name or a password: use auth"
    if parts.fragment:
        return "url must not have a fragment (#…)"
    if port is None and PLACEHOLDER.search(parts.netloc.rpartition(":")[2]) and ":" in parts.netloc:
        return "url must not have a placeholder in its port"
    if PLACEHOLDER.search(parts.netloc) and not settings.domains:
        return "url has a placeholder in its host: domains must say which hosts it may reach"
    rest = PLACEHOLDER.sub("", settings.url)
    if "{" in rest or "}" in rest or any(char.isspace() for char in rest):
        return "url contains a brace or a space outside of its {placeholders}"
    mapped = {
        target.partition(":")[2] if target.startswith("path:") else target
        for target in settings.params_mapping.values()
    }
    for name in PLACEHOLDER.findall(settings.url):
        properties = tool.parameters.get("properties") or {}
        if name not in properties and name not in mapped:
            known = ", ".join(properties) or "none"
            return f"url has a placeholder {{{name}}}, which is not a parameter (parameters: {known})"
    return None


def _mapping_problem(settings: HttpToolSettings, tool: ToolDefinition) -> str | None:
    properties = tool.parameters.get("properties") or {}
    for name, target in settings.params_mapping.items():
        if properties and name not in properties:
            return f"params_mapping names '{name}', which is not a parameter (parameters: {', '.join(properties)})"
        place, _, their = target.partition(":")
        if ":" in target and place not in PLACES:
            return f"params_mapping.{name}: '{place}' is not a place (places: {', '.join(PLACES)})"
        if not (their if ":" in target else target):
            return f"params_mapping.{name} must not be empty"
        if place_of(target, settings.method)[0] == "header" and (problem := name_problem(their)):
            return f"params_mapping.{name}: {problem}"
        if place == "path" and their not in PLACEHOLDER.findall(settings.url):
            return f"params_mapping.{name}: url has no placeholder {{{their}}}"
    return None


def _collision(settings: HttpToolSettings, tool: ToolDefinition) -> str | None:
    """Return which two values would be sent under one name, so that one of them would be lost."""
    owners: dict[tuple[str, str], str] = {}
    for place, name, source in _destinations(settings, tool):
        key = (place, name.lower() if place == "header" else name)
        if key in owners:
            where = "part of the path" if place == "path" else f"{place} value" if place != "header" else "header"
            return f"{owners[key]} and {source} are sent as one {where}, '{name}': give one of them another name"
        owners[key] = source
    bodies = {name: source for (place, name), source in owners.items() if place == "body"}
    for name, source in bodies.items():
        if (outer := next((other for other in bodies if name.startswith(f"{other}.")), None)) is not None:
            return f"{bodies[outer]} and {source} are sent as one body value, '{outer}': give one of them another name"
    return None


def _destinations(settings: HttpToolSettings, tool: ToolDefinition) -> Iterator[tuple[str, str, str]]:
    """Yield location, name and source of each value of a request."""
    for name in settings.headers:
        yield "header", name, f"headers.{name}"
    if settings.idempotency_header is not None:
        yield "header", settings.idempotency_header, "idempotency_header"
    if settings.traceparent:
        yield "header", "traceparent", "traceparent"
    for name in dict.fromkeys(name for name, _ in parse_qsl(urlsplit(settings.url).query, keep_blank_values=True)):
        yield "query", name, "the query of url"
    auth = settings.auth
    if auth is not None and auth.type == "api_key" and auth.name:
        yield auth.place, auth.name, "auth"
    elif auth is not None and auth.type != "api_key":
        yield "header", "Authorization", "auth"
    if settings.paging is not None and settings.paging.cursor_param:
        yield "query", settings.paging.cursor_param, "paging.cursor_param"
    for name in dict.fromkeys([*settings.params_mapping, *(tool.parameters.get("properties") or {})]):
        if (destination := destination_of(settings, name)) is not None:
            is_mapped = name in settings.params_mapping
            yield *destination, f"params_mapping.{name}" if is_mapped else f"the parameter '{name}'"
    places = {place_of(target, settings.method)[0] for target in settings.params_mapping.values()}
    if "cookie" in places:
        yield "header", "Cookie", "params_mapping"


def _paging_problem(settings: HttpToolSettings) -> str | None:
    if (paging := settings.paging) is None:
        return None
    if not settings.is_safe:
        return "paging is for tools that read: with method GET"
    if paging.type == "cursor" and not (paging.cursor_path and paging.cursor_param):
        return "paging of type cursor needs cursor_path and cursor_param"
    problem = path_problem(paging.cursor_path) if paging.cursor_path else None
    return f"paging.cursor_path: {problem}" if problem else None


_LINK = re.compile(r"<([^>]*)>((?:\s*;\s*[^\s;,=]+(?:\s*=\s*(?:\"[^\"]*\"|[^\s;,\"]*))?)*)")
_RELATION = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]*))", re.IGNORECASE)


def next_page(paging: Paging, request: FetchRequest, answer: Fetched, data: Any) -> FetchRequest | None:
    """Return the request for the next page; None after the last one.

    Raises:
        ToolError: The next page is at another origin, which must not get the key.
    """
    if paging.type == "cursor":
        cursor = pick(data, paging.cursor_path)
        if cursor is None or cursor in ("", False, []) or not isinstance(cursor, (str, int)):
            return None
        return attrs.evolve(request, url=_with_parameter(request.url, paging.cursor_param or "cursor", str(cursor)))
    if (target := _next_link(answer.headers.get("link", ""))) is None:
        return None
    url = urljoin(answer.url, target)
    if _origin(url) != _origin(request.url):
        raise ToolError(f"the next page is at another address, {_origin(url)[1] or 'nowhere'}: it is not read")
    return attrs.evolve(request, url=url)


def _next_link(header: str) -> str | None:
    for match in _LINK.finditer(header):
        relation = _RELATION.search(match[2])
        if relation and "next" in (relation[1] or relation[2] or "").lower().split():
            return match[1]
    return None


def _with_parameter(url: str, name: str, value: str) -> str:
    parts = urlsplit(url)
    query = [(key, text) for key, text in parse_qsl(parts.query, keep_blank_values=True) if key != name]
    return urlunsplit(parts._replace(query=urlencode([*query, (name, value)], quote_via=quote)))


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        usual = {"http": 80, "https": 443}.get(parts.scheme)
        return parts.scheme, parts.hostname, parts.port or usual
    except ValueError:
        return "", None, None
