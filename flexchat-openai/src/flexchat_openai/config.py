"""Settings of an llms entry with ``provider = "openai"``."""

from __future__ import annotations

from typing import Literal

import attrs
from flexchat_sdk import HttpSettings, key, secret_key, web_address


@attrs.frozen(kw_only=True)
class OpenAIConfig(HttpSettings):
    """OpenAI, or a server that speaks its API. Times are in seconds."""

    api_key: str | None = secret_key(
        "API key; your own server may not need one.", variables={"api.openai.com": ("OPENAI_API_KEY",)}
    )
    base_url: str = key(
        "URL up to, but not including, /chat/completions.", default="https://api.openai.com/v1", validator=web_address
    )
    api: Literal["auto", "chat", "responses"] = key(
        "Chat Completions or Responses; auto: depends on the model at api.openai.com, chat elsewhere.", default="auto"
    )
    organization: str | None = key("Sent as OpenAI-Organization.", default=None)
    project: str | None = key("Sent as OpenAI-Project.", default=None)
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = key(
        "Field for the token limit; auto: max_completion_tokens at api.openai.com and for OpenAI's reasoning models, "
        "max_tokens elsewhere.",
        default="auto",
    )
    system_role: Literal["system", "developer"] = key("Role for instructions.", default="system")
    stream_usage: bool = key("Request token counts in streams; some old servers refuse this.", default=True)
    parallel_tool_calls: bool | None = key(
        "Whether one answer may contain several tool calls; default: the server's.", default=None
    )
    think_tags: bool | Literal["closing"] = key(
        'Text between <think> and </think> at the start of an answer is reasoning; "closing": also before a lone '
        "</think>; for local models.",
        default=False,
    )
    read_text_calls: bool = key(
        "Whether tool calls that a model writes as text are read as calls; for servers without a parser for the model.",
        default=False,
    )
    needs_reasoning: bool | None = key(
        "Whether the server refuses answers sent back without reasoning_content; default: at hosts known to.",
        default=None,
    )
    tools_with_format: bool | None = key(
        "Whether to send tools and a response_format in one request; default: only to OpenAI and Azure.", default=None
    )
    media_in_results: bool | None = key(
        "Whether models are shown the images and files that tools return; default: OpenAI's models that can see are.",
        default=None,
    )
