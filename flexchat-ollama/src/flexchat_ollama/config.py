"""Settings of an llms entry with ``provider = "ollama"``, and where its server is, in every form people write that."""

from __future__ import annotations

import ipaddress
import math
import re
import urllib.parse
from typing import Any, Literal

import attrs
from flexchat_sdk import HttpSettings, key, secret_key, web_address

OLLAMA_COM = "ollama.com"
"""Ollama's cloud. It speaks the same API, and wants a key."""

# Go's time.ParseDuration, which reads it at the server: a number alone is not one.
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*")
_seconds = attrs.fields(HttpSettings).timeout_s.validator


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


def _tokens(instance: object, attribute: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{attribute.name} must be at least 1 token, got {value}")


def _keep_alive(instance: object, attribute: attrs.Attribute[Any], value: float | str | None) -> None:
    fits = _DURATION.fullmatch(value) if isinstance(value, str) else value is None or math.isfinite(value)
    if not fits:
        raise ValueError('keep_alive must be seconds as a number, or a duration such as "5m"')


@attrs.frozen(kw_only=True)
class OllamaConfig(HttpSettings):
    """An Ollama server, or Ollama's cloud. Times are in seconds."""

    base_url: str = key(
        "Address of the server, in any form OLLAMA_HOST accepts: host, host:port, :port.",
        default="http://127.0.0.1:11434",
        converter=server_address,
        validator=web_address,
    )
    api_key: str | None = secret_key(
        "API key for Ollama's cloud or a protected server; a local server needs none.",
        variables={"ollama.com": ("OLLAMA_API_KEY",)},
    )
    num_ctx: int | None = key(
        "Most tokens the model reads and writes; default: the model's own limit, up to max_num_ctx.",
        default=None,
        validator=_tokens,
    )
    max_num_ctx: int = key("Upper limit of num_ctx if num_ctx is not set.", default=16384, validator=_tokens)
    keep_alive: float | str | None = key(
        'How long the model stays loaded: seconds, or a duration such as "5m"; 0 unloads it, -1 keeps it.',
        default=None,
        validator=_keep_alive,
    )
    think: bool | Literal["low", "medium", "high", "max"] | None = key(
        "Whether or how much models think, unless a request sets it; default: those that can, do.", default=None
    )
    truncate: bool = key(
        "Whether the server may leave out messages that do not fit; false: that is an error.", default=True
    )
    read_text_calls: bool = key(
        "Whether tool calls that a small model writes as text are read as calls.", default=False
    )
    think_tags: bool | Literal["closing"] = key(
        'Text between <think> and </think> at the start of an answer is reasoning; "closing": also before a lone '
        "</think>.",
        default=False,
    )
    media_in_results: bool = key(
        "Whether models are shown the images that tools return; only for models that can see.", default=False
    )
    check_models: bool = key(
        "Whether to ask the server once per model what it can do and how much it reads.", default=True
    )
    # A model is loaded before its first answer, which takes minutes; and while it writes a tool call nothing is sent.
    timeout_s: float = key("For a whole answer.", default=600.0, validator=_seconds)
    first_byte_timeout_s: float = key(
        "For the first piece of a streamed answer; loading a model takes minutes.", default=300.0, validator=_seconds
    )
    idle_timeout_s: float = key(
        "Between two pieces of a streamed answer; a tool call is one piece.", default=120.0, validator=_seconds
    )
