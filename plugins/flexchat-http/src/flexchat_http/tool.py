"""The implementation type "http": a tool that is one request to a service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from flexchat.host import SchemaEngine, UncheckedError, limited_work, schema_problems, sentence
from flexchat.plugin import FetchError, ToolContext, ToolDefinition, ToolHandler

from .answer import path_problem, picked, value_of
from .auth import auth_problem
from .paging import next_page
from .request import build_request, place_of
from .sending import Sending
from .settings import PLACEHOLDER, PLACES, HttpToolSettings

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_HEADER = re.compile(r"(?i)authorization|cookie|key|token|secret")


async def run(settings: HttpToolSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    """Send the request of a call and return what its answer says.

    Raises:
        ToolError: The arguments cannot be sent, or the answer cannot be used.
        FetchError: There was no answer, or the service refused or failed.
    """
    request = build_request(settings, params)
    sending = Sending(
        auth=settings.auth,
        key_header=settings.idempotency_header,
        traceparent=settings.traceparent,
        max_bytes=settings.max_bytes,
        secrets=tuple(text for name, text in settings.headers.items() if _SECRET_HEADER.search(name)),
    )
    if settings.paging is not None:
        return _fitting(settings, await _all_pages(settings, request, sending, context), context)
    answer = await sending.send(request, context)
    is_write = context.tool.effect == "write"
    return _fitting(
        settings, picked(value_of(answer, reading=settings.result, is_write=is_write), settings.response_path), context
    )


async def _all_pages(settings: HttpToolSettings, request: Any, sending: Sending, context: ToolContext) -> Any:
    """Read up to max_pages pages, and say whether there are more."""
    assert settings.paging is not None
    items: list[Any] = []
    page, size = request, 0
    for _ in range(settings.paging.max_pages):
        answer = await sending.send(page, context)
        size += len(answer.body)
        data = value_of(answer, reading=settings.result)
        found = picked(data, settings.response_path)
        items += found if isinstance(found, list) else [] if found is None else [found]
        following = next_page(settings.paging, request, answer, data)
        if following is None:
            return {"items": items, "has_more": False}
        page = following
        if size > settings.max_bytes:
            break
    return {"items": items, "has_more": True}


def _fitting(settings: HttpToolSettings, value: Any, context: ToolContext) -> Any:
    """Return a result that fits the output schema.

    Raises:
        FetchError: It does not fit; a write has taken effect all the same.
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
    """Return what is wrong with a tool; None if nothing is."""
    problems = (
        _url_problem(settings, tool),
        _headers_problem(settings),
        _mapping_problem(settings, tool),
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
        known = tool.parameters.get("properties") or {}
        if name not in known and name not in mapped:
            return (
                f"url has a placeholder {{{name}}}, which is not a parameter (parameters: {', '.join(known) or 'none'})"
            )
    return None


def _headers_problem(settings: HttpToolSettings) -> str | None:
    names = [*settings.headers, *([settings.idempotency_header] if settings.idempotency_header is not None else [])]
    for name in names:
        if not _HEADER_NAME.fullmatch(name):
            return f"'{name}' is not the name of a header"
    for name, value in settings.headers.items():
        if not all(char == "\t" or " " <= char <= "~" or "\xa0" <= char <= "\xff" for char in value):
            return f"the value of the header {name} contains a line break or another character that cannot be sent"
    return None


def _mapping_problem(settings: HttpToolSettings, tool: ToolDefinition) -> str | None:
    known = tool.parameters.get("properties") or {}
    for name, target in settings.params_mapping.items():
        if known and name not in known:
            return f"params_mapping names '{name}', which is not a parameter (parameters: {', '.join(known)})"
        place, _, their = target.partition(":")
        if ":" in target and place not in PLACES:
            return f"params_mapping.{name}: '{place}' is not a place (places: {', '.join(PLACES)})"
        if not (their if ":" in target else target):
            return f"params_mapping.{name} must not be empty"
        if place_of(target, settings.method)[0] == "header" and not _HEADER_NAME.fullmatch(their):
            return f"params_mapping.{name}: '{their}' is not the name of a header"
        if place == "path" and their not in PLACEHOLDER.findall(settings.url):
            return f"params_mapping.{name}: url has no placeholder {{{their}}}"
    return None


def _paging_problem(settings: HttpToolSettings) -> str | None:
    paging = settings.paging
    if paging is None:
        return None
    if not settings.is_safe:
        return "paging is for tools that read: with method GET"
    if paging.type == "cursor" and not (paging.cursor_path and paging.cursor_param):
        return "paging of type cursor needs cursor_path and cursor_param"
    problem = path_problem(paging.cursor_path) if paging.cursor_path else None
    return f"paging.cursor_path: {problem}" if problem else None
