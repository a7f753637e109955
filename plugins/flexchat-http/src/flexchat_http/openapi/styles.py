"""Values of parameters as text: all styles of the specification.

Source: OpenAPI 3.1.1 §4.8.12.3 (style values), §4.8.12.4 (examples), appendix C; RFC 6570; RFC 3986 §2.
"""

from __future__ import annotations

import json
import math
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

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
            delimiter = mark or ","
            return mark + delimiter.join(f"{inner}={each}" for inner, each in pairs)
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
    if isinstance(value, (list, tuple)):
        return ",".join(as_text(each) for each in value)
    return as_text(value)
