"""Settings of an llms entry with ``provider = "gemini"``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from flexchat_sdk import HttpSettings, key, secret_key, web_address


def _no_query(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if "?" in value or "#" in value:
        raise ValueError(f"{attribute.name} must end before '?' or '#': keys do not belong into an address")


@attrs.frozen(kw_only=True)
class GeminiConfig(HttpSettings):
    """The Gemini API, or Vertex AI. Times are in seconds."""

    api_key: str | None = secret_key(
        "Key of the Gemini API; sent as x-goog-api-key.",
        variables={"generativelanguage.googleapis.com": ("GEMINI_API_KEY", "GOOGLE_API_KEY")},
    )
    access_token: str | None = secret_key(
        "OAuth access token, for Vertex AI; sent as bearer token.",
        variables={"*aiplatform.googleapis.com": ("GOOGLE_ACCESS_TOKEN",)},
    )
    base_url: str = key(
        "Address before the version.",
        default="https://generativelanguage.googleapis.com",
        validator=[web_address, _no_query],
    )
    api_version: str = key("v1beta, v1 or v1beta1; left out if base_url ends with one.", default="v1beta")
    path: str = key(
        "Between version and models; for Vertex AI projects/P/locations/L/publishers/google.",
        default="",
        converter=lambda value: value.strip("/") if isinstance(value, str) else value,
    )
    schema_field: Literal["auto", "parametersJsonSchema", "parameters"] = key(
        "Field for a tool's parameters; auto: parametersJsonSchema, and parameters once a service does not know that.",
        default="auto",
    )
    safety_settings: tuple[Mapping[str, Any], ...] = key("Sent as safetySettings, unread.", default=())
    media_in_results: bool | None = key(
        "Whether models are shown the images and files that tools return; default: Gemini's are.", default=None
    )
