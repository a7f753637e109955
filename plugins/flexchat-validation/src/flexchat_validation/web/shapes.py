"""JSON Schemas that several operations share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flexchat.host import NOT_BLANK

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
SAID: Schema = {"type": "string", "pattern": NOT_BLANK}
NULLABLE_TEXT: Schema = {"type": ["string", "null"]}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
SWITCH: Schema = {"type": "boolean"}
TABLE: Schema = {"type": "object"}
TEXTS: Schema = {"type": "array", "items": TEXT}


def listed(item: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


def record(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    """Return the schema of an object in an answer: these keys, and others as they come."""
    return {"type": "object", "properties": {**required, **optional}, "required": [*required]}


def body_schema(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    """Create the schema of a request's body, which allows these keys and no others."""
    return {**record(required, **optional), "additionalProperties": False}


STATUS = record(
    {
        "model_id": TEXT,
        "tested": SWITCH,
        "validated": SWITCH,
        "test_count": COUNT,
        "success_count": COUNT,
        "errors": COUNT,
        "rate": {"type": ["number", "null"]},
        "low": NUMBER,
        "high": NUMBER,
        "verdict": {"enum": ["validated", "not_validated", "undecided"]},
        "more": {"type": ["integer", "null"]},
        "stale": SWITCH,
        "stale_reasons": TEXTS,
        "last_tested": NULLABLE_TEXT,
    }
)
