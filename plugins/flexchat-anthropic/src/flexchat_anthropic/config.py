"""Settings of an llms entry with ``provider = "anthropic"``."""

from __future__ import annotations

import re
from typing import Any, Literal

import attrs
from flexchat_sdk import HttpSettings, key, secret_key, web_address

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def _a_date(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not _DATE.fullmatch(value):
        raise ValueError(f'{attribute.name} is a date such as "2023-06-01", got {value!r}')


def _positive(instance: object, attribute: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{attribute.name} must be at least 1, got {value}")


@attrs.frozen(kw_only=True)
class AnthropicConfig(HttpSettings):
    """Anthropic, or a server that speaks its API. Times are in seconds."""

    api_key: str | None = secret_key("Key; sent as x-api-key.", variables={"api.anthropic.com": ("ANTHROPIC_API_KEY",)})
    auth_token: str | None = secret_key("Token; sent as bearer token, for gateways and OAuth.")
    base_url: str = key("Address before /v1/messages.", default="https://api.anthropic.com", validator=web_address)
    api_version: str = key(
        "Sent as anthropic-version; 2023-06-01 lets older models take temperature and top_p.",
        default="2026-10-21",
        validator=_a_date,
    )
    betas: tuple[str, ...] = key("Sent as anthropic-beta.", default=())
    max_tokens: int | None = key(
        "Longest answer if a rule sets none, thinking included; default: the model's own limit.",
        default=None,
        validator=_positive,
    )
    cache: bool = key("Mark tools, instructions and the conversation so far for the service's cache.", default=False)
    cache_ttl: Literal["5m", "1h"] = key("How long the cache keeps what is marked.", default="5m")
    media_in_results: bool | None = key(
        "Whether models are shown the images and files that tools return; default: Claude is.", default=None
    )
