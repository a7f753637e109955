"""Where an Ollama server is, in every form in which people write that."""

from __future__ import annotations

import ipaddress
import urllib.parse

OLLAMA_COM = "ollama.com"
"""Ollama's cloud. It speaks the same API, and wants a key."""


def server_address(text: str) -> str:
    """Return the URL of a server that is given as Ollama takes it in OLLAMA_HOST.

    ``host``, ``host:port``, ``:port``, an IPv6 address with or without brackets, or a URL. Nothing at all is Ollama's
    own default. Addresses to listen on, 0.0.0.0 and ::, become the loopback they include. Without a scheme the port is
    11434; with one it is the scheme's. What paths start with (/api) is left out.

    Raises:
        ValueError: It holds a user and a password, which would not be sent.

    Source: envconfig/config.go of the server, Host and ConnectableHost.
    """
    scheme, mark, rest = text.strip().partition("://")
    if not mark:
        scheme, rest = "http", text.strip()
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        raise ValueError("base_url holds a user or a password; extra_headers can say Authorization instead")
    host, port = _host_and_port(authority)
    if mark and not authority:
        return text  # web_address reports the error
    if not mark and host == OLLAMA_COM:
        scheme = "https"
    elif not mark and not port:
        port = ":11434"
    path = (slash + path).rstrip("/").removesuffix("/api")
    return f"{scheme.lower()}://{_reachable(host)}{port}{path}"


def _host_and_port(authority: str) -> tuple[str, str]:
    """Cut an authority in two; the port keeps its colon, and is empty if there is none."""
    if authority.count(":") > 1 and not authority.startswith("["):
        return authority, ""
    host, bracket, rest = authority.rpartition("]")
    name, colon, port = rest.partition(":")
    return host.removeprefix("[") if bracket else name, colon + port if port else ""


def _reachable(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return host if address.version == 4 else f"[{host}]"


def is_cloud(base_url: str) -> bool:
    """Return whether a URL leads to Ollama's cloud."""
    return urllib.parse.urlsplit(base_url).hostname == OLLAMA_COM


def runs_in_cloud(model: str) -> bool:
    """Return True if a model's name means that the server forwards requests to Ollama's cloud."""
    return model.endswith((":cloud", "-cloud"))
