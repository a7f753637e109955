"""The provider "rehearsal": answers by word matching, without a model.

plan.py splits a message into requests, selects a tool for each, and assigns values that values.py extracts from the
text to the tool's parameters. provider.py summarizes results and quotes documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from flexchat.plugin import ToolDefinition


@attrs.frozen(kw_only=True)
class RehearsalConfig:
    """An llms entry with provider = "rehearsal"; it has no settings."""


def encode_tools(tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
    """Encode each tool as ``{"type": "function", "function": {name, description, parameters}}``, schema unchanged."""
    functions = ({"name": t.name, "description": t.description, "parameters": dict(t.parameters)} for t in tools)
    return [{"type": "function", "function": function} for function in functions]
