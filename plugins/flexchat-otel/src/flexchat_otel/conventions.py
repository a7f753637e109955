"""Conventions as data: how spans, attributes and metrics are called in one version of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs
from flexchat.host import parse_document

from .settings import SEMCONV

_OWN = {
    "request": "flexchat.request.duration",
    "tokens": "flexchat.request.tokens",
    "turn": "flexchat.turn.duration",
    "tool": "flexchat.tool.duration",
}
"""Metrics that a version has no name for."""


@attrs.frozen(eq=False)
class Conventions:
    """One version: the attributes of each kind of span by the facts they state, and the names of metrics."""

    _names: Mapping[str, Any]

    def attributes(self, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes that state these facts; None, and what the version has no name for, is left out."""
        names = self._names[kind]
        return {names[fact]: value for fact, value in facts.items() if value is not None and fact in names}

    @property
    def token_type(self) -> str:
        """Return the label of the kind of tokens."""
        return str(self._names["labels"]["token_type"])

    def metric(self, which: str) -> str:
        """Return a metric's name."""
        name: str = self._names["metrics"].get(which) or _OWN[which]
        return name

    def labels(self, which: str, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the facts about a span that are labels of a metric."""
        allowed = self._names["metric_labels"].get(which)
        if allowed is None:
            return {f"flexchat.{fact}": value for fact, value in facts.items() if value is not None}
        names = {**self._names[kind], **self._names["labels"]}
        return {names[fact]: value for fact, value in facts.items() if value is not None and fact in allowed}

    def provider(self, service: str, address: str | None) -> str:
        """Return the name of a provider, given its kind in the config and its server."""
        for host, name in self._names["hosts"].items():
            if address is not None and (address == host or address.endswith(f".{host}")):
                return str(name)
        return str(self._names["providers"].get(service, service or "_OTHER"))


@functools.cache
def conventions(version: str) -> Conventions:
    """Read a version."""
    file = SEMCONV / f"{version}.toml"
    return Conventions(parse_document(file.read_bytes(), file).data)


@functools.lru_cache(maxsize=256)
def server_of(endpoint: str) -> tuple[str | None, int | None]:
    """Return address and port of "https://api.example.com"; None if it is no address."""
    parts = urlsplit(endpoint)
    if parts.hostname is None:
        return None, None
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
