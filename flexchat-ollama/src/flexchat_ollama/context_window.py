"""The context window: ``num_ctx``, and warnings that it is too small.

Ollama silently drops the oldest messages that do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from flexchat_sdk import Message, ToolMessage, UserMessage

from .models import ModelFacts

# An estimate, on the safe side: English has about 4 to 4.5 bytes a token, JSON and code about 3.5.
_BYTES_PER_TOKEN = 3.5
# What the server counts for an image. Source: server/prompt.go, imageNumTokens.
_TOKENS_PER_MEDIUM = 768
_FULL = 0.9


def chosen_num_ctx(setting: int | None, limit: int, facts: ModelFacts) -> int | None:
    """Choose the ``num_ctx`` to send; None leaves it to the server.

    Constant for a model, because a different value makes the server reload the model.

    Args:
        setting: The configured value, which takes precedence.
        limit: Maximum for models without a value in the configuration or the Modelfile.
    """
    if setting is not None:
        return setting
    if facts.is_remote:
        return None
    return facts.num_ctx or min(facts.context_length or limit, limit)


def estimated_tokens(size: int, messages: Sequence[Message]) -> float:
    """Return about how many tokens a request has.

    Args:
        size: Bytes of its messages and tools.
    """
    media = [part for message in messages if isinstance(message, UserMessage | ToolMessage) for part in message.media]
    in_base64 = sum([4 * len(part.data or b"") / 3 for part in media])
    return (size - in_base64) / _BYTES_PER_TOKEN + _TOKENS_PER_MEDIUM * len(media)


def estimate_warning(tokens: float, num_ctx: int | None) -> str | None:
    """Build a warning for a request that may not fit; None if it fits."""
    if num_ctx is None or tokens <= _FULL * num_ctx:
        return None
    return (
        f"the request has about {round(tokens)} tokens and num_ctx is {num_ctx}: Ollama silently leaves out the oldest "
        f"messages that do not fit; raise num_ctx, or set truncate = false to make that an error"
    )


def measured_warning(input_tokens: int | None, num_ctx: int | None) -> str | None:
    """Build a warning for an answer whose prompt nearly filled the window; None otherwise."""
    if num_ctx is None or input_tokens is None or input_tokens <= _FULL * num_ctx:
        return None
    return (
        f"the model read {input_tokens} tokens and num_ctx is {num_ctx}: "
        f"the oldest messages may have been left out; raise num_ctx"
    )
