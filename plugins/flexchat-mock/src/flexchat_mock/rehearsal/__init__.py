"""The provider "rehearsal": answers by word matching, without a model.

plan.py splits a message into requests and selects a tool for each; fill_arguments.py assigns values that values.py
extracts from the text to the tool's parameters. compose_answer.py summarizes results, passages.py quotes documents.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RehearsalConfig:
    """An llms entry with provider = "rehearsal"; it has no settings."""
