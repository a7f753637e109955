"""Builds a request from a plan and arguments: the only code that puts arguments into requests.

No argument can change the host, the path or the set of headers: in URLs everything but letters, digits and ``-._~`` is
encoded, a path segment is never ``..``, and header values contain no control characters.

Source: OpenAPI 3.1.1 §4.8.12, §4.8.15, appendix C; RFC 6570; RFC 3986 §2; RFC 7578 (multipart/form-data); RFC 6265
§4.2.1 (Cookie).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

from flexchat.plugin import FetchRequest, ToolError

from ..request import multipart
from .plan import Body, Encoding, Parameter, Plan

_RESERVED = ":/?@!$'()*,;"
"""Not encoded with allowReserved. Not # [ ] & = +: they would end the value or change its meaning."""
_DELIMITERS = {"form": ",", "simple": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}

Pairs = list[tuple[str, str]]


def as_text(value: Any) -> str:
    """Return a single value as text: numbers and booleans as in JSON, whole numbers without a point."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isfinite(value) and value == int(value) and abs(value) < 2**53:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encode(value: Any, *, allow_reserved: bool = False) -> str:
    """Return a single value percent-encoded: nothing in it can end a part of a URL."""
    text = as_text(value)
    if not allow_reserved:
        return urllib.parse.quote(text, safe="-._~", errors="replace")
    # What is percent-encoded already stays so: OpenAPI 3.1.1 §4.8.12.2.1.
    parts = re.split(r"(%[0-9A-Fa-f]{2})", text)
    return "".join(
        part if at % 2 else urllib.parse.quote(part, safe=f"-._~{_RESERVED}", errors="replace")
        for at, part in enumerate(parts)
    )


def in_path(name: str, value: Any, style: str, explode: bool) -> str:
    """Return a path parameter's text: style simple, label or matrix."""
    mark = {"label": ".", "matrix": ";"}.get(style, "")
    key = encode(name)
    if isinstance(value, Mapping):
        pairs = [(encode(inner), encode(each)) for inner, each in value.items()]
        if explode:
            return mark + (mark or ",").join(f"{inner}={each}" for inner, each in pairs)
        flat = ",".join(part for pair in pairs for part in pair)
        return f";{key}={flat}" if style == "matrix" else mark + flat
    if isinstance(value, (list, tuple)):
        items = [encode(each) for each in value]
        if style == "matrix":
            return "".join(f";{key}={each}" for each in items) if explode else f";{key}={','.join(items)}"
        return mark + ("." if style == "label" and explode else ",").join(items)
    text = encode(value)
    if style == "matrix":
        return f";{key}={text}" if text else f";{key}"
    return mark + text


def in_query(name: str, value: Any, style: str, explode: bool, *, allow_reserved: bool = False) -> Pairs:
    """Return the pairs of a query parameter or of a form's property, encoded."""
    key = encode(name)

    def text(each: Any) -> str:
        return encode(each, allow_reserved=allow_reserved)

    if style == "deepObject" and isinstance(value, Mapping):
        return [pair for inner, each in value.items() for pair in _deep(f"{name}[{inner}]", each, allow_reserved)]
    delimiter = _DELIMITERS.get(style, ",")
    if isinstance(value, Mapping):
        pairs = [(encode(inner), text(each)) for inner, each in value.items() if each is not None]
        return pairs if explode else [(key, delimiter.join(part for pair in pairs for part in pair))]
    if isinstance(value, (list, tuple)):
        items = [text(each) for each in value]
        return [(key, each) for each in items] if explode else [(key, delimiter.join(items))] if items else []
    return [(key, text(value))]


def _deep(name: str, value: Any, allow_reserved: bool) -> Pairs:
    """Return pairs such as ``filter[a][b]=1``; the specification leaves more than one level to us, as most have it."""
    if isinstance(value, Mapping):
        return [pair for inner, each in value.items() for pair in _deep(f"{name}[{inner}]", each, allow_reserved)]
    if isinstance(value, (list, tuple)):
        return [(encode(name), encode(each, allow_reserved=allow_reserved)) for each in value]
    return [(encode(name), encode(value, allow_reserved=allow_reserved))]


def in_header(value: Any, explode: bool) -> str:
    """Return a header's text: style simple, not encoded."""
    if isinstance(value, Mapping):
        pairs = [(str(inner), as_text(each)) for inner, each in value.items()]
        return ",".join(f"{inner}={each}" if explode else f"{inner},{each}" for inner, each in pairs)
    return ",".join(map(as_text, value)) if isinstance(value, (list, tuple)) else as_text(value)


_DEFAULT_STYLES = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}


def build_request(plan: Plan, arguments: Mapping[str, Any]) -> FetchRequest:
    """Build the request of a call, without credentials and idempotency key.

    Args:
        arguments: Valid for the tool's parameters. Arguments that the plan does not mention are not sent.

    Raises:
        ToolError: An argument would change the path, has control characters for a header, or is invalid base64.
    """
    path, query = plan["path"].partition("#")[0], []
    path, _, fixed = path.partition("?")
    if fixed:  # not allowed, but some documents have it
        query.append(urllib.parse.quote(fixed, safe="=&%-._~/:,;@!$'()*+"))
    headers: dict[str, str] = {}
    cookies: list[str] = []
    values: dict[str, str] = {}
    for parameter in plan.get("parameters", ()):
        argument = parameter["argument"]
        if argument not in arguments:
            continue
        value, place = arguments[argument], parameter["place"]
        if place == "path":
            values[parameter["name"]] = _path_value(parameter, value)
        elif value is not None and place == "query":
            query += [f"{name}={text}" for name, text in _query_pairs(parameter, value)]
        elif value is not None and place == "header":
            headers[parameter["name"]] = _header_value(parameter, value)
        elif value is not None:
            cookies += [f"{name}={text}" for name, text in _query_pairs(parameter, value)]
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    content = b""
    if "body" in plan and (body := _body(plan["body"], arguments)) is not None:
        content, headers["Content-Type"] = body
    url = plan["server"] + _fill_path(path, values) + ("?" + "&".join(query) if query else "")
    return FetchRequest(method=plan["method"], url=url, headers=headers, body=content)


def _style(parameter: Parameter) -> tuple[str, bool]:
    style = parameter.get("style") or _DEFAULT_STYLES[parameter["place"]]
    return style, parameter.get("explode", style == "form")


def _path_value(parameter: Parameter, value: Any) -> str:
    if "content" in parameter:
        return encode(_as_content(value, parameter["content"]))
    style, explode = _style(parameter)
    if not (text := in_path(parameter["name"], value, style, explode)):
        raise ToolError(f"'{parameter['argument']}' is empty, and it is a part of the path")
    return text


def _query_pairs(parameter: Parameter, value: Any) -> Pairs:
    if "content" in parameter:
        return [(encode(parameter["name"]), encode(_as_content(value, parameter["content"])))]
    style, explode = _style(parameter)
    return in_query(parameter["name"], value, style, explode, allow_reserved=parameter.get("allow_reserved", False))


def _header_value(parameter: Parameter, value: Any) -> str:
    text = (
        _as_content(value, parameter["content"]) if "content" in parameter else in_header(value, _style(parameter)[1])
    )
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
        raise ToolError(f"'{parameter['argument']}' has a line break or another control character, and it is a header")
    return text.strip(" \t")


def _as_content(value: Any, media: str) -> str:
    if isinstance(value, str) and "json" not in media.lower():
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _fill_path(path: str, values: Mapping[str, str]) -> str:
    """Return the path with its placeholders filled in, encoded.

    Raises:
        ToolError: A placeholder has no value, or a segment with one would lead to another folder.
    """
    segments = []
    for segment in path.split("/"):
        parts = re.split(r"\{([^{}]*)\}", segment)
        for at in range(1, len(parts), 2):
            if parts[at] not in values:
                raise ToolError(f"'{parts[at]}' is missing, and it is a part of the path")
            parts[at] = values[parts[at]]
        parts[::2] = [urllib.parse.quote(part, safe="%-._~:@!$&'()*+,;=") for part in parts[::2]]
        filled = "".join(parts)
        if len(parts) > 1 and filled.lower().replace("%2e", ".") in (".", ".."):
            raise ToolError("a part of the path must not be '.' or '..'")
        segments.append(filled)
    return "/".join(segments)


def _body(body: Body, arguments: Mapping[str, Any]) -> tuple[bytes, str] | None:
    """Return a body's bytes and Content-Type; None if none is to be sent."""
    if "argument" in body:
        if body["argument"] not in arguments:
            if not body["required"]:
                return None
            value: Any = {} if body["kind"] in ("json", "form", "multipart") else ""
        else:
            value = arguments[body["argument"]]
    else:
        names = body["properties"]
        value = {names[argument]: each for argument, each in arguments.items() if argument in names}
        if not value and not body["required"]:
            return None
    media = body["media"]
    if body["kind"] == "json":
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass"), media
    if body["kind"] == "form":
        return _form(value, body.get("encoding", {})), media
    if body["kind"] == "multipart":
        return _multipart(value, body, media)
    if body["kind"] == "text":
        return as_text(value).encode("utf-8", "replace"), media
    return _bytes(value, body["argument"]), media


def _form(value: Any, encoding: Mapping[str, Encoding]) -> bytes:
    """Return application/x-www-form-urlencoded; OpenAPI 3.1.1 §4.8.15.1."""
    pairs: Pairs = []
    for name, each in value.items() if isinstance(value, Mapping) else ():
        rule = encoding.get(name, {})
        if each is None:
            continue
        is_json = "json" in rule.get("content", "") and not isinstance(each, str)
        if is_json and not rule.keys() & {"style", "explode", "allow_reserved"}:
            pairs.append((encode(name), encode(_as_content(each, "json"))))
            continue
        style = rule.get("style", "form")
        explode = rule.get("explode", style == "form")
        pairs += in_query(name, each, style, explode, allow_reserved=rule.get("allow_reserved", False))
    return "&".join(f"{name}={text}" for name, text in pairs).replace("%20", "+").encode("ascii")


def _multipart(value: Any, body: Body, media: str) -> tuple[bytes, str]:
    """Return multipart/form-data; each item of an array is a part of its own."""
    parts: list[tuple[str, str, bytes, bool]] = []
    for name, each in value.items() if isinstance(value, Mapping) else ():
        rule = body.get("encoding", {}).get(name, {})
        is_file = name in body.get("files", ())
        for item in each if isinstance(each, list) else [each]:
            if item is None:
                continue
            if is_file:
                parts.append((name, rule.get("content", "application/octet-stream"), _bytes(item, name), True))
            elif isinstance(item, (dict, list)) or "json" in rule.get("content", ""):
                content = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
                parts.append((name, rule.get("content", "application/json"), content.encode("utf-8", "replace"), False))
            else:
                parts.append((name, rule.get("content", ""), as_text(item).encode("utf-8", "replace"), False))
    encoded_parts, boundary = multipart(parts)
    return encoded_parts, f"{media.partition(';')[0]}; boundary={boundary}"


def _bytes(value: Any, argument: str) -> bytes:
    try:
        return base64.b64decode(re.sub(r"\s+", "", as_text(value)), validate=True)
    except (binascii.Error, ValueError):
        raise ToolError(f"'{argument}' is not base64, and its bytes are what is sent") from None
