"""The server that an operation's requests are sent to, and the credentials they need.

Source: OpenAPI 3.1.1 §4.8.5 (Server Object), §4.8.27 (Security Scheme Object), §4.8.30 (Security Requirement Object).
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from .reading import NoServer, Unusable, as_table

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
    server = as_table(servers[0])
    url = str(server.get("url", "/")).strip()
    url = _VARIABLE.sub(lambda match: _default(server.get("variables"), match[1]), url)
    return check_server(url if "://" in url else _absolute(url, address))


def _default(variables: Any, name: str) -> str:
    default = as_table(as_table(variables).get(name)).get("default")
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


class Scheme(TypedDict, total=False):
    """Transport of one credential: as ``key`` in header, query or cookie, or in the header Authorization.

    ``scheme`` is its name in the document, and the key of the credential in the settings.
    """

    scheme: str
    type: str  # "key", "bearer", "basic", "oauth2"
    place: str  # of a key
    key: str  # of a key: the name of the header, parameter or cookie
    token_url: str  # of oauth2, if it has the flow clientCredentials
    scopes: list[str]


def schemes_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a document's security schemes by name; empty if there are none."""
    return as_table(as_table(document.get("components")).get("securitySchemes"))


def security_of(
    requirements: Any, schemes: Mapping[str, Any], resolve: Callable[[Any], Any], address: str
) -> list[list[Scheme]]:
    """Return the alternatives, each a list of what it needs together; empty if nothing is needed.

    Args:
        resolve: Follows references.
        address: The document's own, which relative URLs start at.

    An alternative with a scheme that does not exist, or that we cannot send (mutual TLS, digest), is left out, unless
    it is the only one: then it is kept with the type "other".
    """
    alternatives = [
        [_scheme(name, scopes, schemes, resolve, address) for name, scopes in requirement.items()]
        for requirement in (requirements if isinstance(requirements, list) else ())
        if isinstance(requirement, dict)
    ]
    return [each for each in alternatives if all(scheme["type"] != "other" for scheme in each)] or alternatives


def combine_demanded(alternatives: list[list[Scheme]], demanded: set[tuple[str, str]]) -> list[list[Scheme]]:
    """Return each alternative combined with the keys that are required parameters, followed by the plain alternatives.

    Some documents (Trello's) list keys as alternatives that the service requires together; others declare a key as a
    required parameter although another alternative does not need it.

    Args:
        demanded: Location and name of required parameters that are also keys.
    """
    keys = [each for some in alternatives for each in some if (each.get("place", ""), each.get("key", "")) in demanded]
    together = list({each["scheme"]: each for each in keys}.values())
    combined: list[list[Scheme]] = []
    for some in [*(together + [each for each in some if each not in together] for some in alternatives), *alternatives]:
        if some not in combined:
            combined.append(some)
    return combined


def _scheme(name: str, scopes: Any, schemes: Any, resolve: Callable[[Any], Any], address: str) -> Scheme:
    try:
        entry = as_table(resolve(schemes.get(name)))
    except Unusable:
        entry = {}
    kind, http = entry.get("type"), str(entry.get("scheme", "")).lower()
    if kind == "apiKey" and entry.get("in") in ("header", "query", "cookie") and isinstance(entry.get("name"), str):
        return {"scheme": name, "type": "key", "place": entry["in"], "key": entry["name"]}
    if kind == "http" and http in ("bearer", "basic"):
        return {"scheme": name, "type": http}
    if kind in ("oauth2", "openIdConnect"):
        scheme: Scheme = {"scheme": name, "type": "oauth2"}
        flow = as_table(as_table(entry.get("flows")).get("clientCredentials"))
        if isinstance(flow.get("tokenUrl"), str):
            scheme["token_url"] = urllib.parse.urljoin(address, flow["tokenUrl"])
        if isinstance(scopes, list) and scopes:
            scheme["scopes"] = [scope for scope in scopes if isinstance(scope, str)]
        return scheme
    return {"scheme": name, "type": "other"}
