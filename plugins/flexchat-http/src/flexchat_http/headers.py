"""Headers of an operator's config, checked before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
