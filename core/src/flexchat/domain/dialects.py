"""What of JSON Schema a provider takes, and what became of a schema on the way to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs


@attrs.frozen(kw_only=True)
class SchemaDialect:
    """What one provider, in one mode, takes of JSON Schema.

    Attributes:
        name: "openai.strict".
    """

    name: str


@attrs.frozen(kw_only=True)
class SchemaNote:
    """One thing that was done to a schema, or keeps it from being sent.

    Attributes:
        severity: "error" it cannot be sent; "warning" some of its meaning is lost; "info" rewritten without loss.
        pointer: Where, as a JSON pointer into the original.
        keyword: What it is about.
        message: One sentence; of an error it says what to write instead.
    """

    severity: Literal["error", "warning", "info"]
    pointer: str
    keyword: str
    message: str


@attrs.frozen(kw_only=True)
class RewrittenSchema:
    """A schema in the words of one dialect.

    Attributes:
        schema: What is sent; None where a note is an error.
    """

    schema: Mapping[str, Any] | None
    notes: tuple[SchemaNote, ...] = ()
