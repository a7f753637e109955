"""A JSON Schema in the words of a provider's dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..domain import RewrittenSchema, SchemaDialect


def rewrite(schema: Mapping[str, Any], dialect: SchemaDialect) -> RewrittenSchema:
    """Return schema as the dialect can say it, and what became of it. Leaves its input alone."""
    return RewrittenSchema(schema=schema)
