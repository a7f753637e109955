"""Selection of the server for an operation's requests.

Source: OpenAPI 3.1.1 §4.8.5 (Server Object).
"""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

from .errors import NoServer, Unusable

_VARIABLE = re.compile(r"\{([^{}]*)\}")


def server_of(levels: list[Any], address: str) -> str:
    """Return the URL that paths are appended to, without a slash at its end.

    Args:
        levels: The ``servers`` of the operation, of its path and of the document; the first list that is not empty
            counts, and of it the first server.
        address: The document's own, which relative URLs start at.

    Raises:
        Unusable: It is not an http(s) URL, or relative in a document from a file.
    """
    servers = next((level for level in levels if isinstance(level, list) and level), [{"url": "/"}])
    server = servers[0] if isinstance(servers[0], dict) else {}
    variables = server.get("variables")
    url = str(server.get("url", "/")).strip()
    url = _VARIABLE.sub(lambda match: _default(variables, match.group(1)), url)
    return check_server(url if "://" in url else _absolute(url, address))


def _default(variables: Any, name: str) -> str:
    variable = variables.get(name) if isinstance(variables, dict) else None
    default = variable.get("default") if isinstance(variable, dict) else None
    if not isinstance(default, (str, int, float)) or isinstance(default, bool):
        raise NoServer(f"its server has a variable '{name}' without a default: set server to the URL to use")
    return str(default)


def _absolute(url: str, address: str) -> str:
    if address.startswith("file:") and not url.startswith("//"):
        text = f"its server, '{url[:80]}', is relative, and the document is a file: set server to the URL to use"
        raise NoServer(text)
    return urllib.parse.urljoin(address.replace("file:", "https:"), url)


def check_server(url: str) -> str:
    """Return a server's URL as plans have it.

    Raises:
        Unusable: It cannot be one.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        has_port = parts.port is not None or not parts.netloc.endswith(":")
    except ValueError:
        raise Unusable(f"its server, '{url[:80]}', is not a URL") from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not has_port:
        raise Unusable(f"its server, '{url[:80]}', is not an http(s) URL")
    if "@" in parts.netloc:
        raise Unusable("its server's URL has a user name in it")
    if re.search(r"[\s\x00-\x20\x7f\\<>\"{}|^`]", url):
        raise Unusable(f"its server, '{url[:80]}', has characters that URLs do not have")
    path = urllib.parse.quote(parts.path, safe="/%:@!$&'()*+,;=-._~")
    return f"{parts.scheme.lower()}://{parts.netloc}{path}".rstrip("/")
