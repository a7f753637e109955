"""Settings of the provider, and constants of its model."""

from __future__ import annotations

import attrs

MODEL = "all-MiniLM-L6-v2"
DIMENSIONS = 384
MAX_TOKENS = 256
"""Tokens the model reads, begin and end among them: ``max_seq_length`` of sentence-transformers/all-MiniLM-L6-v2."""


@attrs.frozen(kw_only=True)
class MiniLMConfig:
    """An llms entry with provider = "minilm"; it needs no settings."""
