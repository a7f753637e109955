"""Finds secrets where people write them: arguments of a command, and URLs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from urllib.parse import parse_qsl, unquote, urlsplit

from flexchat.host import is_secret_name

_OPTION = re.compile(r"-{1,2}([A-Za-z][\w.-]*)")
_ASSIGNED = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)\s*[=:]\s*(?!//)(.+)", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+")
_SCHEME = re.compile(r"(?:bearer|basic|token|apikey)\s+", re.IGNORECASE)
# The beginnings of keys that services publish, so that scanners find them.
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-|sk_|pk_|rk_|gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|AKIA|ASIA|AIza|ya29\.|ntn_|hf_"
    r"|pplx-|tvly-|fc-|lin_api_|figd_|pat|npm_|pypi-|dop_v1_|eyJ)[A-Za-z0-9_.=-]{12,}"
)
_NAMES = {"authorization", "auth", "key", "pat", "pwd", "credentials", "dsn"}
_LONG = re.compile(r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[A-Za-z0-9_-]{24,}")
"""A part of a URL's path that is long and mixes letters with digits: services put tokens there."""


def secrets_in(arguments: Sequence[str], url: str | None = None) -> list[str]:
    """Return the secrets in a command's arguments and in a URL; references to variables are none."""
    secrets = [*_of_arguments(arguments), *(_of_url(url) if url is not None else ())]
    return [*dict.fromkeys(secret for secret in secrets if secret and "${" not in secret)]


def is_secret(name: str) -> bool:
    """Whether the name of an option, a variable or a header marks its value as secret."""
    return is_secret_name(name) or name.lower() in _NAMES


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which *** stands for each secret, however short."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    for before, argument in pairwise(("", *arguments)):
        option = _OPTION.fullmatch(before)
        if option is not None and is_secret(option[1]) and not argument.startswith("-"):
            yield argument
        assigned = _ASSIGNED.fullmatch(argument)
        if assigned is not None and is_secret(assigned[1]):
            yield _SCHEME.sub("", assigned[2], count=1)
        yield from _KNOWN.findall(argument)
        for url in _URL.findall(argument):
            yield from _of_url(url)


def _of_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        password, user = parts.password, parts.username
    except ValueError:
        return
    if password or user:
        yield from (part for part in (password, user if not password else None) if part)
    for text in (parts.query, parts.fragment):
        for name, value in parse_qsl(text):
            if is_secret(name):
                yield value
                yield from (
                    raw for raw in text.split("&") if unquote(raw) == f"{name}={value}" and raw != f"{name}={value}"
                )
    yield from _KNOWN.findall(url)
    yield from (part for part in parts.path.split("/") if _LONG.fullmatch(part))
