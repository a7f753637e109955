"""What an llms entry with ``provider = "openai"`` may say."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any, Literal

import attrs


def _key(help: str, **rest: Any) -> Any:
    return attrs.field(metadata={"help": help, "secret": rest.pop("secret", False)}, **rest)


def _positive(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not 0 < value < float("inf"):
        raise ValueError(f"{attribute.name} must be more than 0 seconds, got {value:g}")


def _web_address(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if not value.startswith(("http://", "https://")):
        raise ValueError(f"{attribute.name} must start with http:// or https://")
    try:
        parts = urllib.parse.urlsplit(value)
        usable = bool(parts.hostname) and parts.port != 0 and not any(c.isspace() for c in value)
    except ValueError:  # brackets that do not match, a port beyond 65535
        usable = False
    if not usable:
        raise ValueError(f"{attribute.name} is no address of a server")


def _sendable(instance: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value and not (value.isascii() and value.isprintable()):
        raise ValueError(f"{attribute.name} contains a line break or a character no key has: copy it again")


def _stripped(value: str | None) -> str | None:
    # Keys come out of files and environments with a line break behind them.
    return value.strip() or None if isinstance(value, str) else value


@attrs.frozen(kw_only=True)
class OpenAIConfig:
    """OpenAI, or a server that speaks its Chat Completions API. Times are in seconds."""

    api_key: str | None = _key(
        "Key; may be absent for a server of your own.",
        default=None,
        converter=_stripped,
        validator=_sendable,
        repr=False,
        secret=True,
    )
    base_url: str = _key(
        "Address up to and without /chat/completions.", default="https://api.openai.com/v1", validator=_web_address
    )
    organization: str | None = _key("Sent as OpenAI-Organization.", default=None)
    project: str | None = _key("Sent as OpenAI-Project.", default=None)
    timeout_s: float = _key("For a whole answer.", default=120.0, validator=_positive)
    connect_timeout_s: float = _key("For a connection.", default=5.0, validator=_positive)
    first_byte_timeout_s: float = _key(
        "For the first piece of a streamed answer; models that think first may need minutes.",
        default=60.0,
        validator=_positive,
    )
    idle_timeout_s: float = _key("Between two pieces of a streamed answer.", default=30.0, validator=_positive)
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = _key(
        "How the limit is called; auto: max_completion_tokens at api.openai.com, max_tokens elsewhere.",
        default="auto",
    )
    system_role: Literal["system", "developer"] = _key("Role of instructions.", default="system")
    stream_usage: bool = _key("Ask for token counts in streams; some old servers refuse that.", default=True)
    parallel_tool_calls: bool | None = _key(
        "Whether one answer may hold several calls; absent: the server's default.", default=None
    )
    extra_body: Mapping[str, Any] = _key("Merged into every request, unread.", factory=dict)
    extra_headers: Mapping[str, str] = _key("Sent with every request.", factory=dict, repr=False)
