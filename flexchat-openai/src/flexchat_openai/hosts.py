"""What a server's address alone reveals, and media in the terms of both APIs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from flexchat_sdk import Base64, MediaPart, UserMessage, short_id, utf8

OPENAI_HOST = "api.openai.com"

COMBINING_HOSTS = (OPENAI_HOST, ".openai.azure.com")
"""Hosts that accept tools and a response_format in one request. Elsewhere the tools are often lost: llama.cpp and vLLM
force the whole answer into the format's grammar, which allows no calls (tried with llama.cpp); Groq answers 400."""


NO_USER_BEHIND_RESULTS = ("mistral.ai",)
"""Hosts that refuse a user's message right behind tools' results, with 400 "Unexpected role 'user' after role 'tool'"
(code 3230; github.com/charmbracelet/crush/issues/279)."""

NEEDS_REASONING = (
    ".deepseek.com",
    ".moonshot.ai",
    ".moonshot.cn",
    ".xiaomimimo.com",  # platform.xiaomimimo.com/docs/en-US/usage-guide/passing-back-reasoning_content
    ".siliconflow.cn",  # code 20015, github.com/agentscope-ai/QwenPaw/issues/433
    ".siliconflow.com",
)
"""Hosts whose models, while they think, refuse answers without their thought, such as another service's: 400 "The
reasoning_content in the thinking mode must be passed back to the API", "reasoning_content is missing in assistant tool
call message". A blank one is accepted, an empty one not by all (github.com/NousResearch/hermes-agent/pull/17341)."""

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Source: OpenAI's page on images and vision, "Image input requirements"."""


AUDIO = {"audio/wav": "wav", "audio/mpeg": "mp3"}
"""Formats of sounds in Chat Completions. Source: the API's reference, ChatCompletionContentPartInputAudio."""

PDF = "application/pdf"

# Source: developers.openai.com/api/docs/guides/images-vision ("Image input requirements": 50 MB and 500 images of a
# request), pdf-files (50 MB), audio (WAV and MP3), November 2026. Animated GIFs are refused.
MAX_TOTAL_BYTES = 50_000_000 * 3 // 4
MAX_COUNT = 500
MEDIA_SOURCE = "https://developers.openai.com/api/docs/guides/images-vision"


def file_name(part: MediaPart) -> str:
    """Name a file for sending: the service recognizes a PDF by its suffix."""
    name = (part.name or "").rpartition("/")[2] or "document"
    return name if part.mime_type != "application/pdf" or name.lower().endswith(".pdf") else f"{name}.pdf"


def data_url(part: MediaPart) -> str | Base64 | None:
    """Return the address of a file: its own, or one that contains the data."""
    return part.url if part.data is None else Base64(part.data, f"data:{part.mime_type};base64,")


def user_content(message: UserMessage, text_type: str, encode: Callable[[MediaPart], Any]) -> str | list[Any]:
    """Return the content of a user's message: its text, or the text and its media as parts."""
    if not message.media:
        return message.content
    text = [{"type": text_type, "text": message.content}] if message.content else []
    return [*text, *map(encode, message.media)]


def is_openai(origin: str) -> bool:
    """Return whether this is OpenAI itself."""
    return origin.partition("://")[2] == OPENAI_HOST


def own_id_at(origin: str) -> Callable[[str], str]:
    """Return the function that converts our ids for this server: Mistral takes nine letters and digits."""
    return _nine_letters if origin.endswith("mistral.ai") else short_id


def _nine_letters(call_id: str) -> str:
    return hashlib.sha256(utf8(call_id)).hexdigest()[:9]
