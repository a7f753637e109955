"""The provider "rehearsal": no model, only words.

plan.py cuts a message into requests and chooses a tool for each; fill_arguments.py finds its arguments by their schema,
among what values.py finds in the text. compose_answer.py says what the tools answered, passages.py quotes documents.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RehearsalConfig:
    """An llms entry with provider = "rehearsal": it has no settings."""
