"""Finding the next page of a response."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit

import attrs
from flexchat.plugin import Fetched, FetchRequest, ToolError

from .answer import pick
from .settings import Paging

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
    target = _next_link(answer.headers.get("link", ""))
    if target is None:
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
