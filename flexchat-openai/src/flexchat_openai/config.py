"""What an llms entry with ``provider = "openai"`` may say."""

from __future__ import annotations

from typing import Literal

import attrs
from flexchat.provider import HttpSettings, key, secret_key, web_address


@attrs.frozen(kw_only=True)
class OpenAIConfig(HttpSettings):
    """OpenAI, or a server that speaks its API. Times are in seconds."""

    api_key: str | None = secret_key("Key; may be absent for a server of your own.")
    base_url: str = key(
        "Address up to and without /chat/completions.", default="https://api.openai.com/v1", validator=web_address
    )
    api: Literal["auto", "chat", "responses"] = key(
        "Chat Completions or Responses; auto: by model at api.openai.com, chat elsewhere.", default="auto"
    )
    organization: str | None = key("Sent as OpenAI-Organization.", default=None)
    project: str | None = key("Sent as OpenAI-Project.", default=None)
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = key(
        "How the limit is called; auto: max_completion_tokens at api.openai.com and for its models that reason, "
        "max_tokens elsewhere.",
        default="auto",
    )
    system_role: Literal["system", "developer"] = key("Role of instructions.", default="system")
    stream_usage: bool = key("Ask for token counts in streams; some old servers refuse that.", default=True)
    parallel_tool_calls: bool | None = key(
        "Whether one answer may hold several calls; default: the server's default.", default=None
    )
    think_tags: bool = key(
        "Text between <think> and </think> at the start of an answer is reasoning; for local models.", default=False
    )
    tools_with_format: bool | None = key(
        "Whether tools and a response_format go in one request; default: only at OpenAI and Azure.",
        default=None,
    )
