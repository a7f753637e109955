"""From an HTTP tool's settings and a call's arguments to a request, and the checks of its headers. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

import attrs
from flexchat.plugin import FetchRequest, ToolError

from .settings import PLACEHOLDER, PLACES, HttpToolSettings

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
SECRET_HEADER = re.compile(r"(?i)authorization|cookie|key|token|secret")
PROTOCOL_HEADER = re.compile(
    r"(?i)host|content-length|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|accept-encoding|"
    r"http2-settings|proxy-.*"
)
"""Headers that belong to the connection (RFC 9110, section 7.6.1): the HTTP client sends them itself."""
_SCHEME_ALONE = re.compile(r"(?i)(bearer|basic|token|digest|apikey|key)?")


def name_problem(name: str) -> str | None:
    """Validate a header name; return the error, or None."""
    if not HEADER_NAME.fullmatch(name):
        return f"'{name}' is not the name of a header"
    if PROTOCOL_HEADER.fullmatch(name):
        return f"the header {name} belongs to the connection and is sent by the HTTP client: leave it out"
    return None


def headers_problem(headers: Mapping[str, str], key_header: str | None) -> str | None:
    """Validate fixed headers, and the name of the one for the call's key; return the first error, or None."""
    for name in (*headers, key_header):
        if name is not None and (problem := name_problem(name)):
            return problem
    for name, value in headers.items():
        if not all(char == "\t" or " " <= char <= "~" or "\xa0" <= char <= "\xff" for char in value):
            return f"the value of the header {name} contains a line break or another character that cannot be sent"
        if SECRET_HEADER.search(name) and _SCHEME_ALONE.fullmatch(value.strip()):
            return f"the header {name} has no credential ('{value.strip()}'): set the variable it comes from"
    return None


_HOST_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_CONTENT_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}


def build_request(settings: HttpToolSettings, arguments: Mapping[str, Any]) -> FetchRequest:
    """Build the request of a call, without auth and idempotency key.

    Arguments fill the URL's placeholders. The others follow params_mapping or, without a mapping, go into the query
    (GET, HEAD, DELETE, OPTIONS) or the body. Nulls are omitted, except in a JSON body.

    Raises:
        ToolError: An argument cannot be represented in its location.

    Source: requirements TC-50 to TC-52.
    """
    placed = _group(settings, arguments)
    url = _fill_url(settings.url, placed["path"])
    if query := [pair for name, value in placed["query"].items() for pair in _pairs(name, value)]:
        url += ("&" if urlsplit(url).query else "?") + urlencode(query, quote_via=quote)
    headers = {name: header_text(name, value) for name, value in placed["header"].items() if value is not None}
    cookies = [(name, _cookie(name, value)) for name, value in placed["cookie"].items() if value is not None]
    if cookies:
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies)
    body, content_type = _body(settings, placed["body"])
    return FetchRequest(
        method=settings.method,
        url=url,
        headers=merge_headers({"Content-Type": content_type} if content_type else {}, headers, settings.headers),
        body=body,
        domains=settings.domains,
    )


def merge_headers(*several: Mapping[str, str]) -> dict[str, str]:
    """Return headers of several sources; of one name in any case, the last one counts: the operator's."""
    by_name: dict[str, tuple[str, str]] = {}
    for headers in several:
        for name, value in headers.items():
            by_name[name.lower()] = (name, value)
    return dict(by_name.values())


def with_query(request: FetchRequest, name: str, value: str) -> FetchRequest:
    """Return a request with one more parameter in its query."""
    mark = "&" if urlsplit(request.url).query else "?"
    return attrs.evolve(request, url=f"{request.url}{mark}{urlencode({name: value}, quote_via=quote)}")


def header_text(name: str, value: Any) -> str:
    """Return an argument as a header's value.

    Raises:
        ToolError: It contains a line break, or a character that headers cannot have.
    """
    text = _one_line(f"header {name}", value)
    if not text.isascii():
        raise ToolError(f"the value for header {name} cannot be sent: it contains a character beyond ASCII")
    return text.strip(" \t")


def as_text(value: Any) -> str:
    """Return an argument as text: true and false as in JSON, lists joined by commas, objects as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value):
        return ",".join(as_text(item) for item in value if item is not None)
    return json.dumps(value, ensure_ascii=False)


def place_of(target: str, method: str) -> tuple[str, str]:
    """Return where an entry of params_mapping sends an argument, and under which name."""
    place, mark, name = target.partition(":")
    if mark and place in PLACES:
        return place, name
    return ("query" if _is_query_method(method) else "body"), target


def destination_of(settings: HttpToolSettings, name: str) -> tuple[str, str] | None:
    """Return where an argument is sent, and under which name; None if it is not sent."""
    in_url = PLACEHOLDER.findall(settings.url)
    if (target := settings.params_mapping.get(name)) is not None:
        place, their = place_of(target, settings.method)
        return ("path" if their in in_url and ":" not in target else place), their
    if name in in_url:
        return "path", name
    return None if settings.params_mapping else ("query" if _is_query_method(settings.method) else "body", name)


def _is_query_method(method: str) -> bool:
    return method in ("GET", "HEAD", "DELETE", "OPTIONS")


def _group(settings: HttpToolSettings, arguments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Group the arguments by location, under the API's names."""
    placed: dict[str, dict[str, Any]] = {place: {} for place in PLACES}
    for name, value in arguments.items():
        if (destination := destination_of(settings, name)) is None:
            continue
        place, their = destination
        if place == "body" and name in settings.params_mapping and "." in their:
            _set_path(placed["body"], their.split("."), value)
        else:
            placed[place][their] = value
    return placed


def _set_path(body: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for step in path[:-1]:
        inner = body.setdefault(step, {})
        if not isinstance(inner, dict):
            raise ToolError(f"params_mapping sends two arguments to the same place of the body: {'.'.join(path)}")
        body = inner
    body[path[-1]] = value


def _fill_url(url: str, values: Mapping[str, Any]) -> str:
    """Fill the URL's placeholders, encoding each value for its part of the URL."""
    parts = urlsplit(url)

    def escaped(match: re.Match[str]) -> str:
        return quote(_segment(match[1], values), safe="")

    def of_host(match: re.Match[str]) -> str:
        text = _segment(match[1], values)
        if not _HOST_PART.fullmatch(text):
            raise ToolError(f"'{match[1]}' must consist of letters, digits and hyphens: it is part of a host name")
        return text

    segments = [(part, PLACEHOLDER.sub(escaped, part)) for part in parts.path.split("/")]
    for template, segment in segments:
        if template != segment and unquote(segment) in (".", ".."):
            raise ToolError(f"'{PLACEHOLDER.findall(template)[0]}' must not be '.' or '..': it is part of a path")
    host = PLACEHOLDER.sub(of_host, parts.netloc)
    path = "/".join(segment for _, segment in segments)
    return urlunsplit((parts.scheme, host, path, PLACEHOLDER.sub(escaped, parts.query), ""))


def _segment(name: str, values: Mapping[str, Any]) -> str:
    value = values.get(name)
    if value is None or value in ("", []):
        raise ToolError(f"'{name}' is needed: it is part of the address")
    return as_text(value)


def _pairs(name: str, value: Any) -> Iterable[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, list):
        return [(name, as_text(item)) for item in value if item is not None]
    return [(name, as_text(value))]


def _one_line(where: str, value: Any) -> str:
    text = as_text(value)
    if any(not (char == "\t" or " " <= char <= "~" or "\xa0" <= char <= "\xff") for char in text):
        raise ToolError(
            f"the value for {where} cannot be sent: it contains a line break, a control character or a character "
            "beyond Latin-1"
        )
    return text


def _cookie(name: str, value: Any) -> str:
    return quote(_one_line(f"cookie {name}", value).strip(" \t"), safe="!#$&'()*+-./:<=>?@[]^_`{|}~")


def _body(settings: HttpToolSettings, values: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the body and its content type; both empty for none."""
    if not values and (_is_query_method(settings.method) or settings.body != "json"):
        return b"", ""
    if settings.body == "json":
        return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode(), _CONTENT_TYPES["json"]
    if settings.body == "form":
        pairs = [pair for name, value in values.items() for pair in _pairs(name, value)]
        return urlencode(pairs).encode(), _CONTENT_TYPES["form"]
    if settings.body == "multipart":
        pairs = [pair for name, value in values.items() for pair in _pairs(name, value)]
        content, boundary = multipart([(name, "", text.encode(), False) for name, text in pairs])
        return content, f"multipart/form-data; boundary={boundary}"
    if len(values) != 1:
        raise ToolError(f"a body of text takes one argument, not {', '.join(values)}")
    return as_text(next(iter(values.values()))).encode(), "text/plain; charset=utf-8"


def multipart(parts: Sequence[tuple[str, str, bytes, bool]]) -> tuple[bytes, str]:
    """Encode a multipart/form-data body (RFC 7578).

    Args:
        parts: Name, media type ("" for none) and content of each, and whether it is a file.

    Returns:
        The body and its boundary: a digest of the body, so that equal calls are equal bytes. A part cannot contain it.
    """
    boundary = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    pieces = []
    for name, media, content, is_file in parts:
        # RFC 7578 §4.2 and the HTML standard: quotes and line breaks in names are percent-encoded.
        quoted = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{quoted}"'
        head += '; filename="file"' if is_file else ""
        head += f"\r\nContent-Type: {media}" if media else ""
        pieces += [head.encode("utf-8", "replace"), b"\r\n\r\n", content, b"\r\n"]
    return b"".join(pieces) + f"--{boundary}--\r\n".encode(), boundary
