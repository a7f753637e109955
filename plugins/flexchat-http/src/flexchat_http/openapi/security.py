"""Security requirements of an operation.

Source: OpenAPI 3.1.1 §4.8.27 (Security Scheme Object), §4.8.30 (Security Requirement Object).
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from .errors import Unusable


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
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    return schemes if isinstance(schemes, dict) else {}


def security_of(requirements: Any, schemes: Any, resolve: Callable[[Any], Any], address: str) -> list[list[Scheme]]:
    """Return the alternatives, each a list of what it needs together; empty if nothing is needed.

    Args:
        resolve: Follows references.
        address: The document's own, which relative URLs start at.

    An alternative with a scheme that does not exist, or that we cannot send (mutual TLS, digest), is left out, unless
    it is the only one: then it is kept with the type "other".
    """
    alternatives = []
    for requirement in requirements if isinstance(requirements, list) else ():
        if isinstance(requirement, dict):
            schemes_needed = [_scheme(name, scopes, schemes, resolve, address) for name, scopes in requirement.items()]
            alternatives.append(schemes_needed)
    usable = [each for each in alternatives if all(scheme["type"] != "other" for scheme in each)]
    return usable or alternatives


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
    entry = schemes.get(name) if isinstance(schemes, dict) else None
    try:
        entry = resolve(entry)
    except Unusable:
        entry = None
    if not isinstance(entry, dict):
        return {"scheme": name, "type": "other"}
    kind, http = entry.get("type"), str(entry.get("scheme", "")).lower()
    if kind == "apiKey" and entry.get("in") in ("header", "query", "cookie") and isinstance(entry.get("name"), str):
        return {"scheme": name, "type": "key", "place": entry["in"], "key": entry["name"]}
    if kind == "http" and http in ("bearer", "basic"):
        return {"scheme": name, "type": http}
    if kind in ("oauth2", "openIdConnect"):
        scheme: Scheme = {"scheme": name, "type": "oauth2"}
        flows = entry.get("flows")
        flow = flows.get("clientCredentials") if isinstance(flows, dict) else None
        if isinstance(flow, dict) and isinstance(flow.get("tokenUrl"), str):
            scheme["token_url"] = urllib.parse.urljoin(address, flow["tokenUrl"])
        if isinstance(scopes, list) and scopes:
            scheme["scopes"] = [scope for scope in scopes if isinstance(scope, str)]
        return scheme
    return {"scheme": name, "type": "other"}
